"""``longtail offline``: what records say of a run, before it goes live."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from longtail.cli.evaluate import cut_offs
from longtail.cli.json_file import JsonFile, console_beside, keep_json
from longtail.cli.report_file import Report, must_take_page, write_page
from longtail.cli.run_folder import Device, OtherData, RunFolder, data_of
from longtail.model import load
from longtail.report.offline import AT_MOST, CANNOT, KS, Asked, Figure, Offline, judge_offline
from longtail.report.offline_page import page_of_offline
from longtail.units import printable


def offline(
    run: RunFolder,
    against: Annotated[Path | None, typer.Option(help="Another run, the control, to put beside it.")] = None,
    at_most: Annotated[int, typer.Option(help="Labels that a query is given, as by predict.")] = AT_MOST,
    threshold: Annotated[float | None, typer.Option(help="Give only labels that are at least so probable.")] = None,
    judged: Annotated[Path | None, typer.Option(help="A table of grades: query, keyword, grade.")] = None,
    log: Annotated[
        Path | None,
        typer.Option(help="A table of what was shown: query, keyword, propensity; impressions, clicks, event."),
    ] = None,
    attributes: Annotated[
        Path | None,
        typer.Option(help="A table of keyword and attributes, as brand, which are columns of the queries, too."),
    ] = None,
    weight: Annotated[
        str | None, typer.Option(help="A column of the queries that says how often each counts: impressions.")
    ] = None,
    k: Annotated[str, typer.Option(help="Cut-offs, with commas.")] = ",".join(map(str, KS)),
    data: OtherData = None,
    json_file: JsonFile = None,
    report: Report = None,
    device: Device = "auto",
) -> None:
    """Judge a run by records before it goes live: recall, density, coverage, what is new, judged, clicked.

    Queries are the test documents, keywords the labels. Tables are .csv, .tsv, .jsonl or .parquet files, which name
    queries and keywords by their uid or their text (docs/guides/evaluate.md).
    """
    console = console_beside(json_file)
    must_take_page(report)
    asked = Asked(
        ks=cut_offs(k),
        at_most=at_most,
        threshold=threshold,
        weight=weight,
        judged=judged,
        log=log,
        attributes=attributes,
    )
    model = load(run, device=device, changes=False)
    control = None if against is None else (against, load(against, device=device, changes=False))
    found = judge_offline(run, model, data_of(run, data), asked, control=control)
    console.print(_table(found))
    for line in _about(found):
        console.print(line, highlight=False, markup=False)
    keep_json(json_file, found.as_dict())
    if report is not None:
        write_page(report, page_of_offline(found), console)


def _table(found: Offline) -> Table:
    """Figures down, the run and the control across."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 0, 0, 1))
    table.add_column(overflow="fold")
    for header in ("run", *(["control", "difference"] if found.control else [])):
        table.add_column(header, justify="right", no_wrap=True)
    for section, figures in groupby(found.figures, lambda figure: figure.section):
        table.add_row(f"[bold]{section}[/]")
        for one in figures:
            table.add_row(f"  {escape(printable(one.name))}", *_cells(one))
        table.add_section()
    return table


def _cells(one: Figure) -> Iterator[str]:
    decimals = 2 if one.percent else 4
    for it in (one.run, one.control):
        if it is not None:
            yield f"{it.value:,.{decimals}f} ±{it.half:.{decimals}f}"
    if one.difference is not None:
        said = f"{one.difference.value:+,.{decimals}f} ±{one.difference.half:.{decimals}f}"
        yield f"[bold]{said}[/]" if one.difference.is_sure else said


def _about(found: Offline) -> list[str]:
    units = "Percent, but for what is a query, a search or a grade; ± is half the width of the 95 % interval."
    return [printable(f"{found.about} {units}"), *map(printable, found.notes), CANNOT]
