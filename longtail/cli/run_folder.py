"""What the verbs on a trained run share."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from longtail.errors import BadInput
from longtail.model import Model
from longtail.train.run import Run

RunFolder = Annotated[Path, typer.Argument(help="A run folder, as given to train as --out.", show_default=False)]


def data_of(run: Path, settings: Mapping[str, Any], data: Path | None) -> Path:
    """The data set folder of a run, unless another is given."""
    if data is None and settings["data"] is None:
        raise BadInput(run, "the run was made from lists, so it names no data set", remedy="give --data")
    return data or Path(settings["data"])


def say_done(run: Run, model: Model) -> None:
    """Where the model of a run is, and what to do next."""
    run.log.say(f"The model is in {run.folder}; it ranks by its {model.kinds[-1]} score.")
    run.log.say(f"Next: longtail evaluate {run.folder}")
