"""Vectors of labels that are parameters of their own: the classifiers."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from longtail.models.rows import rows, unit
from longtail.topk import FloatArray


class FreeVectors(nn.Module):
    """One trainable unit vector a label, with row gradients: a step touches the labels of its pool only.

    Args:
        start: (L, D) float32, where the vectors start; for NGAME the embeddings of the labels' texts, so that a label
            without examples keeps what its text says.
    """

    def __init__(self, start: FloatArray) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.from_numpy(start.copy()))

    def forward(self, ids: Tensor) -> Tensor:
        """The vectors of P labels, (P, D) rows of unit length, for ascending ids (P,), each once."""
        return unit(rows(self.table, ids))

    def vectors(self) -> FloatArray:
        """All label vectors, (L, D) float32 rows of unit length."""
        with torch.no_grad():
            return unit(self.table).cpu().numpy()
