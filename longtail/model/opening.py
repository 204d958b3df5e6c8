"""Opens a saved model of whatever kind."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import torch

from longtail.model.base import Model
from longtail.model.bundle import Bundle
from longtail.model.ensemble import Ensemble, fusion_of
from longtail.model.linear import TREES, Linear
from longtail.model.reranker import WEIGHTS, Reranker


def open_model(folder: Path, *, device: torch.device) -> Model:
    """Open a saved model of whatever kind.

    Args:
        folder: what its ``save`` wrote.
        device: where it is to run.

    Raises:
        BadInput: the folder is no model, or its parts are not those that were saved.
    """
    opened = partial(open_model, device=device)
    if (folder / TREES).is_file():
        return Linear.load(folder)
    if (folder / WEIGHTS).is_file():
        return Reranker.load(folder, device=device, first_stage=opened)
    if fusion_of(folder).is_file():
        return Ensemble.load(folder, device=device, member=opened)
    return Bundle.load(folder, device=device)
