"""Trained models: what ranks labels for texts, is saved to a folder and opened from it."""

from pathlib import Path

from longtail.devices import choose_device
from longtail.model.base import Model
from longtail.model.bundle import Bundle
from longtail.model.ensemble import Pair, open_model

__all__ = ["Bundle", "Model", "Pair", "load", "open_model"]


def load(run: str | Path, *, device: str = "auto") -> Model:
    """Open the model of a run folder.

    Args:
        run: the folder that `train` was given as ``--out``.
        device: a torch device, or ``auto`` for a GPU where there is one.
    """
    return open_model(Path(run) / "model", device=choose_device(device))
