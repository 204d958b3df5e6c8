"""``longtail predict`` with the columns of its input: of Parquet files, part by part, and of a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import typer
from rich.console import Console

from longtail.bulk.job import BATCH, Engine, local, predict_parts
from longtail.bulk.ranker import Ranker
from longtail.bulk.tables import predict_table
from longtail.bulk.with_ray import on_ray
from longtail.errors import BadInput

_PANEL = "Parquet files and tables"
_TABLES = {".csv", ".tsv"}

Inputs: TypeAlias = Annotated[
    list[str] | None,
    typer.Argument(help="Further Parquet files, as a shell makes of --input part-*.parquet.", show_default=False),
]
Text: TypeAlias = Annotated[str, typer.Option("--text", help="The column of the texts.", rich_help_panel=_PANEL)]
Content: TypeAlias = Annotated[
    str | None,
    typer.Option(
        help="The column of longer text; content if left out, where the model reads it.", rich_help_panel=_PANEL
    ),
]
LabelTexts: TypeAlias = Annotated[
    bool, typer.Option("--label-texts", help="Add the texts of labels, beside their uids.", rich_help_panel=_PANEL)
]
Prefix: TypeAlias = Annotated[
    str, typer.Option(help="Of the columns that are added, for example predicted_.", rich_help_panel=_PANEL)
]
SkipNull: TypeAlias = Annotated[
    bool,
    typer.Option("--skip-null", help="Give a text that is null no labels, and go on.", rich_help_panel=_PANEL),
]
Batch: TypeAlias = Annotated[int, typer.Option(help="Rows at a time.", min=1, rich_help_panel=_PANEL)]
EngineName: TypeAlias = Annotated[
    Literal["local", "ray"], typer.Option("--engine", help="What ranks: this process, or Ray.", rich_help_panel=_PANEL)
]
Workers: TypeAlias = Annotated[
    int | None,
    typer.Option(help="Processes of Ray; as many as CPUs are free if left out.", min=1, rich_help_panel=_PANEL),
]


@dataclass(frozen=True)
class Job:
    """What the verb was asked for of Parquet files and tables alone."""

    text: str = "title"
    content: str | None = None
    label_texts: bool = False
    prefix: str = ""
    skip_null: bool = False
    batch: int = BATCH
    engine: Literal["local", "ray"] = "local"
    workers: int | None = None

    def ranker(self, run: Path, **of_model: Any) -> Ranker:
        """The ranker of a run, with what is asked of its model beside."""
        asked = {name: getattr(self, name) for name in ("text", "content", "label_texts", "prefix", "skip_null")}
        return Ranker(run, **asked, **of_model)

    def must_be_none(self, files: Sequence[str], output: str | None) -> None:
        """Refuse what has a meaning for Parquet files alone, where the output is no folder.

        Raises:
            BadInput: it was given, or the output is of no kind that is known.
        """
        if output is not None and Path(output).suffix not in {".jsonl", ".npz"}:
            problem = f"expected a .jsonl, .npz, .csv or .tsv file, or a folder, found {Path(output).name}"
            raise BadInput("output", problem, remedy="name it so")
        of_tables = {"text", "content"} if is_table(files[0]) else set()
        names = [field.name for field in fields(self) if getattr(self, field.name) != field.default]
        if asked := [name for name in names if name not in of_tables]:
            problem = f"expected a folder, as {asked[0].replace('_', '-')} is of Parquet, found {output or 'none'}"
            raise BadInput("output", problem, remedy="name a folder")
        if parquet := [name for name in files if name.endswith(".parquet")]:
            problem = f"expected lines, found Parquet, whose results go into a folder, and not into {output or 'lines'}"
            raise BadInput(parquet[0], problem, remedy="name a folder as the output")
        if len(files) > 1:
            raise BadInput("input", f"expected one file, found {len(files)}", remedy="give one after the other")


def is_table(name: str) -> bool:
    """Whether an input is a table with a header, by its name."""
    return Path(name.removesuffix(".gz")).suffix.lower() in _TABLES


def takes_columns(output: str) -> bool:
    """Whether an output has the columns of the input, too: a table, or a folder of Parquet."""
    return is_folder(output) or Path(output).suffix.lower() in _TABLES


def is_folder(output: str) -> bool:
    """Whether an output names a folder: a URL, a name without an ending, or a folder that is there."""
    return "://" in output or output.endswith("/") or not Path(output).suffix or Path(output).is_dir()


def must_be_without(output: str, **asked: bool) -> None:
    """Refuse what has no meaning for Parquet files and tables.

    Raises:
        BadInput: it was given.
    """
    for name, is_asked in asked.items():
        if is_asked:
            raise BadInput(name, f"has no meaning for the output {output}", remedy="leave it out")


def with_columns(ranker: Ranker, inputs: Sequence[str], output: str, job: Job) -> None:
    """Rank the rows of Parquet files into a folder, and say how fast; or those of a table into another."""
    console = Console(stderr=True, soft_wrap=True)
    if not is_folder(output):
        must_be_without(output, skip_null=job.skip_null, engine=job.engine != "local", workers=job.workers is not None)
        if len(inputs) > 1 or not is_table(inputs[0]):
            problem = f"expected one .csv or .tsv table, as the output is one, found {', '.join(inputs)}"
            raise BadInput("input", problem, remedy="give a table, or name the output .jsonl")
        rows = predict_table(ranker, Path(inputs[0]), Path(output), batch=job.batch)
        console.print(f"{rows:,} texts: {output}", highlight=False, markup=False)
        return
    engine: Engine = local if job.engine == "local" else on_ray(job.workers)
    done = predict_parts(ranker, inputs, output, engine=engine, batch=job.batch, console=console)
    rate = f", {done.texts / done.seconds:,.0f} a second" if done.texts else ""
    console.print(f"{done.texts:,} texts in {done.parts:,} parts{rate}: {output}", highlight=False, markup=False)
