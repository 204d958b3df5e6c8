"""The modules of a model, its transformers among them, and a model that answers by their exports."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import nn

from longtail.model.base import Model
from longtail.model.bundle import Bundle
from longtail.model.ensemble import Ensemble
from longtail.model.opening import open_model
from longtail.model.reranker import Reranker
from longtail.modules.exported import FOLDER, Exportable, encode_by


def open_to_answer(folder: Path, *, device: torch.device) -> Model:
    """Open a saved model, whose transformers on a CPU then encode by their exports, where they have some.

    What trains, or makes a model of others, opens them as they were trained.

    Args:
        folder: what its ``save`` wrote.
        device: where it is to run.

    Raises:
        BadInput: as `open_model`, or an export is not as it was written.
    """
    model = open_model(folder, device=device)
    if device.type == "cpu":
        for encoder in transformers_of(model):
            encode_by(encoder, Path(encoder.name) / FOLDER)
    return model


def transformers_of(model: Model) -> list[Exportable]:
    """The transformers that read texts for a model that was opened, each once; their names are their folders."""
    parts = [part for module in modules_of(model) for part in module.modules()]
    return list(dict.fromkeys(part for part in parts if isinstance(part, Exportable)))


def modules_of(model: object) -> Iterator[nn.Module]:
    """All that has parameters in a model: encoders, and what stands on them; some may come twice."""
    if isinstance(model, Ensemble):
        yield from modules_of(model.first)
        yield from modules_of(model.second)
    elif isinstance(model, Reranker):
        yield from modules_of(model.first_stage)
        yield model.encoder
    elif isinstance(model, Bundle):
        yield model.heads or model.encoder  # heads stand on the encoder
        if model.linked is not None:
            yield from modules_of(model.linked.linker)
            if model.linked.enrichment is not None:
                yield model.linked.enrichment


def keep_exports(folder: Path, other: Path) -> None:
    """Copy the exports of a model to another folder of a model with the same encoders."""
    for path in folder.rglob(FOLDER):
        shutil.copytree(path, other / path.relative_to(folder))
