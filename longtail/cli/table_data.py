"""A table as data: the data set that a run makes of it, and keeps in its own folder."""

from __future__ import annotations

import shlex
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from longtail.cli.data import busy, names_in, warn_of_labels
from longtail.data.dataset import Dataset
from longtail.data.holdout import with_test_split
from longtail.data.io.imports import Columns, import_tables
from longtail.data.io.manifest import FIELDS
from longtail.errors import BadInput
from longtail.model import Model
from longtail.train.progress import DATA

_SHARE = 0.1  # of the rows, which become the test split where no table of test documents is given
_PRECISION = 0.9  # of the labels above the threshold that a user is told of
_PANEL = "A table as data"

Text = Annotated[
    str | None, typer.Option("--text", help="The column of the text: title if left out.", rich_help_panel=_PANEL)
]
Labels = Annotated[
    str | None,
    typer.Option(
        "--labels",
        "--labels-column",
        help="The column of the labels: labels if left out.",
        rich_help_panel=_PANEL,
    ),
]
Separator = Annotated[
    str | None,
    typer.Option(
        help="Between the labels in a cell, for example ';'. Without it a cell is a list, or a JSON list.",
        rich_help_panel=_PANEL,
    ),
]
Test = Annotated[
    Path | None,
    typer.Option(help="A table of test documents; a tenth of the rows if left out.", rich_help_panel=_PANEL),
]
Keep = Annotated[
    str,
    typer.Option(help="Further columns to keep, with commas.", rich_help_panel=_PANEL),
]


@dataclass(frozen=True, slots=True)
class TableOptions:
    """How a table is read; None for what was not given."""

    text: str | None = None
    labels: str | None = None
    separator: str | None = None
    test: Path | None = None
    keep: str = ""


def dataset_of(data: Path, out: Path | None, o: TableOptions) -> Dataset:
    """The data set of a folder, or of a table with its test split.

    Args:
        data: a data set folder, or a table.
        out: of the run, where the data set of a table is kept, in the folder ``data``; None to keep nothing.
        o: how the table is read.

    Raises:
        BadInput: something in the data is not as it must be, or another data set is kept there.
    """
    if data.is_dir() or not (data.suffix or data.exists()):
        if data.is_dir() and o != TableOptions():
            remedy = "leave --text, --labels, --separator, --test and --keep out, or give a .csv, .tsv or .jsonl file"
            raise BadInput(data, "expected a table, found the folder of a data set", remedy=remedy)
        return Dataset.read(data)
    with busy(f"reading {data}"):
        dataset = _imported(data, o)
        warn_of_labels(data, dataset, o.separator)
        if out is None:
            return dataset
        folder = out / DATA
        if not folder.exists():
            dataset.write(folder)
        kept = Dataset.read(folder, fields=(*FIELDS, *names_in(o.keep)))
    if kept.fingerprint() != dataset.fingerprint():
        problem = "expected the data set of this table, found another"
        raise BadInput(folder, problem, remedy="remove it, or choose another folder for the run")
    return Dataset.read(folder) if o.keep else kept  # a run is known by what it may read


def _imported(table: Path, o: TableOptions) -> Dataset:
    columns = Columns(title=o.text or "title", labels=o.labels or "labels")
    name = Path(table.name.removesuffix(".gz")).stem
    keep = names_in(o.keep)
    dataset = import_tables(table, test=o.test, columns=columns, separator=o.separator, keep=keep, name=name)
    if o.test is not None:
        return dataset
    if len(dataset.train) < 2:
        problem = "expected at least 2 rows, one of them to test with, found 1"
        raise BadInput(table, problem, remedy="write more, or give a table of test documents")
    return with_test_split(dataset, max(1, round(_SHARE * len(dataset.train))), seed=0)[0]


def say_what_next(run: Path, model: Model) -> None:
    """What to do with the model of a run, as commands."""
    lines = {
        "predict {}": "ranks labels for each line that you type",
        "predict {} --input FILE --output FILE.jsonl": "for each line of a file; --label-texts, of a .csv to a .csv",
        "serve {}": "answers over HTTP, with a page to try it",
    }
    with suppress(BadInput):  # of a model that has no probabilities, or none so sure
        kept = model.calibration().at_precision(_PRECISION)
        lines[f"predict {{}} --precision {_PRECISION:g}"] = (
            f"labels at least {kept.threshold:.2f} probable: {kept.precision:.0%} of them right on documents held out, "
            f"{kept.recall:.0%} of all found"
        )
    commands = [f"longtail {line.format(shlex.quote(str(run)))}" for line in lines]
    width = max(map(len, commands))
    console = Console(soft_wrap=True, highlight=False, markup=False)
    console.print("Next:")
    for command, about in zip(commands, lines.values(), strict=True):
        console.print(f"  {command:{width}}  # {about}")
