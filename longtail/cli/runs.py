"""``longtail runs`` and ``longtail show``: what run folders say of themselves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from longtail.cli.json_file import JsonFile, console_beside, keep_json
from longtail.cli.run_folder import RunFolder
from longtail.errors import BadInput
from longtail.options import text_of
from longtail.report.run_summary import EVALUATION, HEADLINE, RunSummary, runs_below
from longtail.units import duration, elapsed, printable, size, spark


def runs(
    folder: Annotated[Path, typer.Argument(help="Runs are in it, or in folders below it.")] = Path("runs"),
    json_file: JsonFile = None,
) -> None:
    """List runs: recipe, data, state, epochs and, where they were evaluated, their scores; the newest last."""
    read = [_read(path) for path in runs_below(folder)]
    found = [one for one in read if isinstance(one, RunSummary)]
    found.sort(key=lambda run: run.changed)
    console = console_beside(json_file, highlight=False)
    keep_json(json_file, [run.as_dict() for run in found])
    if found:
        console.print(_table(found, folder))
        if missing := [run for run in found if run.state == "finished" and not run.evaluation]:
            console.print(f"With scores: {_evaluation(missing[-1].folder)}", markup=False, soft_wrap=True)
    else:
        console.print(f"no runs in {folder}", markup=False)
    for error in (one for one in read if isinstance(one, BadInput)):
        Console(stderr=True, highlight=False).print(f"warning: {error}", style="yellow", markup=False, soft_wrap=True)


def _read(path: Path) -> RunSummary | BadInput:
    try:
        return RunSummary.of(path)
    except BadInput as error:
        return error


def _evaluation(run: Path) -> str:
    """What to type for the scores of a run to be kept with it."""
    return f"longtail evaluate {printable(str(run))} --json {printable(str(run / EVALUATION))}"


def _table(found: Sequence[RunSummary], folder: Path) -> Table:
    shown = [name for name in ("P@1", "PSP@1") if any(name in run.headline[1] for run in found)]
    table = Table(box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for header in ("run", "data"):
        table.add_column(header, overflow="fold", min_width=8)
    for header in ("recipe", "state"):
        table.add_column(header, no_wrap=True)
    for header in ("epochs", *shown, "size", "age"):
        table.add_column(header, justify="right", no_wrap=True)
    for run in found:
        _, metrics = run.headline
        name = run.folder.relative_to(folder).as_posix() if run.folder != folder else folder.resolve().name
        scores = [f"{metrics[name]:.2f}" if name in metrics else "" for name in shown]
        cells = [name, Path(run.data).name if run.data else "", run.recipe, run.state, _epochs(run), *scores]
        table.add_row(*(escape(printable(cell)) for cell in (*cells, size(run.bytes), elapsed(run.age))))
    return table


def _epochs(run: RunSummary) -> str:
    """The epochs of its stages, those of runs within it left out."""
    return ", ".join(str(epochs) for stage, epochs in run.epochs.items() if "/" not in stage)


def show(run: RunFolder, json_file: JsonFile = None) -> None:
    """Show a run: what it was asked, how its losses fell, what it took, its model and its evaluation."""
    summary, console = RunSummary.of(run), console_beside(json_file, highlight=False)
    keep_json(json_file, summary.as_dict())
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    for name, value in _lines(summary):
        table.add_row(name, escape(printable(value)))
    console.print(table)
    if not summary.evaluation and summary.state == "finished":
        console.print(f"Next: {_evaluation(run)}", markup=False, soft_wrap=True)
    if summary.state == "stopped":
        console.print(f"Next: longtail resume {printable(str(run))}", markup=False, soft_wrap=True)


def _lines(run: RunSummary) -> Iterator[tuple[str, str]]:
    yield "run", f"{run.recipe}, {run.state}, {elapsed(run.age)} ago"
    yield "data", run.data or "lists"
    yield "arguments", ", ".join(f"{name} {_said(value)}" for name, value in run.arguments.items()) or "the defaults"
    for stage, curves in run.curves.items():
        yield f"stage {stage}", f"{run.epochs[stage]} epochs"
        for name, values in curves.items():
            yield "", f"{name:<12} {values[0]:8.4f} {spark(values)} {values[-1]:.4f}"
    gpu = f", {size(run.cost.peak_gpu_memory)} of GPU memory" if run.cost.peak_gpu_memory else ""
    yield "took", f"{duration(run.cost.seconds)}, {size(run.cost.peak_memory)} of memory{gpu}"
    if run.kinds:
        memory = "and remembers its training documents" if run.remembers else "without a memory of documents"
        yield "model", f"{run.labels:,} labels, ranked by {run.kinds[-1]} of {', '.join(run.kinds)}; {memory}"
    yield "folder", f"{run.folder}, {size(run.bytes)}"
    if run.versions:
        yield "versions", ", ".join(f"{name} {version}" for name, version in run.versions.items())
    if run.evaluation:
        yield "evaluation", f"{run.evaluation['n']:,} test documents"
    for kind, metrics in run.evaluation.get("kinds", {}).items():
        shown = ", ".join(f"{name} {metrics[name]:.2f}" for name in HEADLINE if name in metrics)
        yield "", f"{kind:<12} {shown}"


def _said(value: Any) -> str:
    return "none" if value is None else text_of(value)
