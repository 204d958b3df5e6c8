"""What one training step sees."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from longtail.data.sparse import CSR, gather
from longtail.data.tokens import Tokens
from longtail.topk import FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class Batch:
    """B documents and the pool of P labels that they are scored against.

    Attributes:
        rows: (B,) int64 in [0, N), each once.
        documents: the tokens of those documents.
        label_ids: (P,) int64 in [0, L), ascending, each once.
        labels: the tokens of those labels, each encoded once however many rows share it; None where labels have
            vectors of their own.
        targets: (B, P) float32 in [0, 1]: every true pair inside the pool, sampled or not.
        mask: (B, P) bool, False on filtered pairs: no reward and no penalty.
    """

    rows: Tensor
    documents: Tokens
    label_ids: Tensor
    labels: Tokens | None
    targets: Tensor
    mask: Tensor

    def to(self, device: torch.device) -> Batch:
        """The same batch on a device."""
        return Batch(
            self.rows.to(device),
            self.documents.to(device),
            self.label_ids.to(device),
            None if self.labels is None else self.labels.to(device),
            self.targets.to(device),
            self.mask.to(device),
        )


def entries_in_pool(matrix: CSR, rows: IntArray, label_ids: IntArray) -> FloatArray:
    """The dense (B, P) part of a matrix: some of its rows and some of its columns.

    Args:
        matrix: (N, L).
        rows: (B,) int64 in [0, N).
        label_ids: (P,) int64 in [0, L), ascending, each once.
    """
    dense = np.zeros((len(rows), len(label_ids)), np.float32)
    if not len(label_ids):
        return dense
    positions, counts = gather(matrix.indptr, rows)
    labels = matrix.indices[positions]
    at = np.minimum(np.searchsorted(label_ids, labels), len(label_ids) - 1)
    inside = label_ids[at] == labels
    dense[np.repeat(np.arange(len(rows)), counts)[inside], at[inside]] = matrix.data[positions[inside]]
    return dense
