"""What the verbs on a trained run share."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from longtail.errors import BadInput
from longtail.model import Model
from longtail.train.progress import DATA
from longtail.train.run import Run

RunFolder = Annotated[Path, typer.Argument(help="A run folder, as given to train as --out.", show_default=False)]


def data_of(run: Path, settings: Mapping[str, Any], data: Path | None) -> Path:
    """The data set folder of a run, unless another is given: its own, or the one that it was trained on."""
    if data is None and settings["data"] is None:
        raise BadInput(run, "the run was made from lists, so it names no data set", remedy="give --data")
    own = run / DATA  # wherever the run has been moved to
    return data or (own if own.is_dir() else Path(settings["data"]))


def say_done(run: Run, model: Model) -> None:
    """Where the model of a run is."""
    run.log.say(f"The model is in {run.folder}; it ranks by its {model.kinds[-1]} score.")
