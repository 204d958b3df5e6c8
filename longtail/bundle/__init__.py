"""Trained models: what ranks labels for texts, is saved to a folder and opened from it."""

from pathlib import Path

import torch

from longtail.bundle.bundle import Bundle
from longtail.bundle.model import Model
from longtail.bundle.pair import Pair, open_model
from longtail.errors import BadInput

__all__ = ["Bundle", "Model", "Pair", "choose_device", "load", "open_model"]


def load(run: str | Path, *, device: str = "auto") -> Model:
    """Open the model of a run folder.

    Args:
        run: the folder that `train` was given as ``--out``.
        device: a torch device, or ``auto`` for a GPU where there is one.
    """
    return open_model(Path(run) / "model", device=choose_device(device))


def choose_device(name: str) -> torch.device:
    """The torch device of a name; ``auto`` is a GPU where there is one, else the CPU."""
    try:
        device = torch.device(("cuda" if torch.cuda.is_available() else "cpu") if name == "auto" else name)
    except RuntimeError:
        raise BadInput("--device", f"expected cpu, cuda or auto, found {name}", remedy="give one of those") from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise BadInput("--device", f"expected a GPU for {name}, found none", remedy="give --device cpu")
    return device
