"""What a folder with a model says of itself, of whatever kind it is: its card, and its probabilities."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from longtail import cards
from longtail.arrays import map_arrays, save_model_arrays
from longtail.errors import BadInput
from longtail.files import COPY_AGAIN
from longtail.model.calibration import Calibration, arrays_of, calibrations_of

CARD = "bundle.json"  # what a saved model says of itself, with the hashes of its files
CALIBRATIONS = "calibration.safetensors"  # of the folder of a model that has learned probabilities
FORMAT, OF_TREES, LINEAR = 7, 8, 9  # that are written: a model, one with a tree, one without an encoder (`Linear`)
_FORMATS = (3, 4, 5, 6, FORMAT, OF_TREES, LINEAR)  # that are read
_WITH_LINKER = _FORMATS[2:]  # which have what the fusion of a model with a linker mixes


def save_calibrations(folder: Path, calibrations: Mapping[str, Calibration]) -> None:
    """Write the probabilities of a model into its folder, if it has learned some."""
    if calibrations:
        save_model_arrays(folder / CALIBRATIONS, arrays_of(calibrations))


def load_calibrations(folder: Path) -> dict[str, Calibration]:
    """The probabilities in the folder of a model; none in that of one that has learned none, as before format 7."""
    path = folder / CALIBRATIONS
    return calibrations_of(map_arrays(path)) if path.is_file() else {}


def must_be_trained(run: Path) -> None:
    """Refuse a run folder without a model.

    Raises:
        BadInput: there is none.
    """
    if not (run / "model" / CARD).is_file():
        begun = (run / "run.json").is_file()
        remedy = f"longtail resume {run} goes on with a run that was stopped" if begun else "train one into this folder"
        raise BadInput(run / "model", "expected a trained model, found none", remedy=remedy)


def read_card(folder: Path) -> dict[str, Any]:
    """The card of a saved model, which is, with all its files, as it was saved.

    Raises:
        BadInput: there is none, or another version wrote it, or a file is missing or not the same.
    """
    path = folder / CARD
    if not path.is_file():
        raise BadInput(path, "expected the card of a trained model, found no such file", remedy="train it first")
    card = cards.read_card(path, remedy=COPY_AGAIN, keys=["format"])
    if card["format"] not in (_FORMATS if card.get("links") is None else _WITH_LINKER):
        problem = f"expected format {FORMAT}, found {card['format']}"
        raise BadInput(path, problem, remedy="use the longtail that wrote it")
    return card
