"""What the verbs on runs share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from longtail.errors import BadInput
from longtail.model import Model
from longtail.train.log import LOG, Log
from longtail.train.progress import DATA, settings_of
from longtail.train.run import Run

RunFolder = Annotated[Path, typer.Argument(help="A run folder, as given to train as --out.", show_default=False)]
NewFolder = Annotated[Path, typer.Option(help="The run folder to make.", show_default=False)]
OtherData = Annotated[Path | None, typer.Option(help="A data set folder; the run's own if left out.")]
Device = Annotated[str, typer.Option(help="cpu, cuda, or auto.")]


def data_of(run: Path, data: Path | None) -> Path:
    """The data set folder of a run, unless another is given: its own, or the one that it was trained on."""
    trained_on = settings_of(run)["data"]
    if data is None and trained_on is None:
        raise BadInput(run, "the run was made from lists, so it names no data set", remedy="give --data")
    own = run / DATA  # wherever the run has been moved to
    return data or (own if own.is_dir() else Path(trained_on))


def run_in(
    folder: Path | None,
    *,
    dry: bool = False,
    interval: float = 120.0,
    cache: Path | None = None,
    threads: int | None = None,
) -> Run:
    """A run that shows in a terminal how it goes on; see `longtail.train.run.Run`."""
    log = Log(None if folder is None or dry else folder / LOG, Console())
    return Run(folder, log, interval=interval, dry=dry, cache=cache, threads=threads)


def say_done(run: Run, model: Model) -> None:
    """Where the model of a run is."""
    run.log.say(f"The model is in {run.folder}; it ranks by its {model.kinds[-1]} score.")
