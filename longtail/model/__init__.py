"""Trained models: what ranks labels for texts, is saved to a folder and opened from it, and whose labels may change."""

from pathlib import Path

from longtail.devices import choose_device
from longtail.model.base import Model
from longtail.model.bundle import Bundle
from longtail.model.ensemble import Ensemble
from longtail.model.exports import open_to_answer
from longtail.model.label_set import LabelSet
from longtail.model.opening import open_model
from longtail.model.reranker import Reranker

__all__ = ["Bundle", "Ensemble", "LabelSet", "Model", "Reranker", "load", "open_model"]


def load(run: str | Path, *, device: str = "auto", changes: bool = True, exact: bool = False) -> Model:
    """Open the model of a run folder: as it is now, and as ``longtail predict`` and the server answer with it.

    Args:
        run: the folder that `train` was given as ``--out``.
        device: a torch device, or ``auto`` for a GPU where there is one.
        changes: whether the changes of its labels count (``longtail labels``); False opens what was trained.
        exact: leave aside the approximate indexes that are kept with the model (``longtail index``), and look for
            labels by all numbers of their vectors.

    Raises:
        BadInput: the folder has no trained model, or its files are not those that were saved.
    """
    if not changes:
        return open_to_answer(Path(run) / "model", device=choose_device(device))
    labels = LabelSet(Path(run), device=device, exact=exact)
    labels.close()
    return labels.model
