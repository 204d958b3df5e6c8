"""What the verbs on a trained run share."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from longtail.errors import BadInput

RunFolder = Annotated[Path, typer.Argument(help="A run folder, as given to train as --out.", show_default=False)]


def settings_of(run: Path) -> dict[str, Any]:
    """What ``run.json`` says."""
    path = run / "run.json"
    if not path.is_file():
        raise BadInput(path, "expected the settings of a run, found no such file", remedy="train one with --out")
    settings: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return settings


def data_of(run: Path, settings: Mapping[str, Any], data: Path | None) -> Path:
    """The data set folder of a run, unless another is given."""
    if data is None and settings["data"] is None:
        raise BadInput(run, "the run was made from lists, so it names no data set", remedy="give --data")
    return data or Path(settings["data"])
