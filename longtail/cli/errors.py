"""``longtail errors``: where a trained run errs, and which annotations it doubts."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from longtail.cli.json_file import JsonFile, console_beside, keep_json
from longtail.cli.report_file import must_take_page, write_page
from longtail.cli.run_folder import Device, OtherData, RunFolder, data_of
from longtail.data.dataset import Dataset
from longtail.ending import at_the_end
from longtail.model import load
from longtail.report.errors import FILES, Errors, errors_of_run
from longtail.report.errors_page import page_of_errors, whom
from longtail.units import printable

_SHOWN = 5  # confusions in a terminal


def errors(
    run: RunFolder,
    out: Annotated[Path, typer.Option(help="The folder of the report; with --folds, the same command goes on there.")],
    data: OtherData = None,
    k: Annotated[int, typer.Option(help="Labels of a document among which one counts as found.", min=1)] = 5,
    folds: Annotated[
        int | None,
        typer.Option(
            help="Train so many times more, each without a part of the training documents, and judge the annotations "
            "of all of them; without it, of those that the run held out.",
            min=2,
        ),
    ] = None,
    most: Annotated[int, typer.Option(help="Rows of a table, at most; of annotations, of each kind.", min=1)] = 1000,
    json_file: JsonFile = None,
    device: Device = "auto",
) -> None:
    """Show where a trained run errs, and which labels of documents are likely wrong or missing.

    Writes report.html, and tables for a spreadsheet: confusions.csv (a label that is missed, and what stands in its
    place), never-found.csv, found-too-often.csv and annotations.csv (docs/guides/errors.md).

    Annotations are judged by a model that has not seen the document. The run itself has not seen the test documents,
    and those that it held out of training.
    """
    console = console_beside(json_file)
    must_take_page(out)
    model = load(run, device=device, changes=False)
    dataset = Dataset.read(data_of(run, data))
    with at_the_end(lambda: None if folds is None else "the same command goes on with what is left"):
        found = errors_of_run(run, model, dataset, k=k, most=most, folds=folds, out=out, console=console)
    found.write_tables(out)
    for table in _tables(found):
        console.print(table)
    counts = found.counts
    console.print(
        f"{counts['never_found']:,} of {found.labels:,} labels with test documents are never found, and "
        f"{counts['found_too_often']:,} are found too often.\n"
        f"{counts['wrong']:,} labels of documents are likely wrong, and {counts['missing']:,} are likely missing. "
        f"{whom(found.asked)}",
        highlight=False,
        markup=False,
    )
    keep_json(json_file, asdict(found))
    write_page(out, page_of_errors(found), console)
    console.print(f"Tables: {', '.join(str(out / name) for name in FILES.values())}", highlight=False, markup=False)


def _tables(found: Errors) -> list[Table]:
    """What fits into a terminal: bins, and the first confusions."""
    bins = Table(box=SIMPLE_HEAD, pad_edge=False)
    header = ("bin", "labels", "test pairs", f"R@{found.k}", "never found")
    for i, name in enumerate(header):
        bins.add_column(name, justify="left" if i == 0 else "right")
    for row in found.by_frequency:
        never = f"{row['never_found']:,} of {row['tested_labels']:,}"
        bins.add_row(row["bin"], f"{row['labels']:,}", f"{row['test_pairs']:,}", f"{row[header[3]]:.2f}", never)
    confused = Table(box=SIMPLE_HEAD, pad_edge=False)
    for name in ("missed", "in its place"):
        confused.add_column(name, overflow="fold")
    confused.add_column("documents", justify="right", no_wrap=True)
    for row in found.tables["confusions"][:_SHOWN]:
        texts = (escape(printable(row[name])) for name in ("missed_text", "predicted_text"))
        confused.add_row(*texts, f"{row['documents']:,} of {row['missed_test_documents']:,}")
    return [bins, confused]
