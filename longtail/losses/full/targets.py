"""Targets over all L labels as a list: what the losses over all labels read in place of (B, P) matrices."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from longtail.data.sparse import CSR, gather
from longtail.losses.pairs import Pairs
from longtail.topk import FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class SparseTargets:
    """What is known of B documents among all L labels: pairs in the order of their labels.

    Attributes:
        positives: E pairs; ``columns`` are labels in [0, L), ascending.
        hidden_rows: (M,) int64 documents of the pairs that have no influence and no gradient.
        hidden_labels: (M,) int64 their labels, ascending.
    """

    positives: Pairs
    hidden_rows: Tensor
    hidden_labels: Tensor

    @classmethod
    def of(cls, targets: CSR, filtered: CSR | None, rows: Tensor) -> SparseTargets:
        """The pairs of some documents.

        Args:
            targets: (N, L) true pairs, values in [0, 1].
            filtered: (N, L) pairs without influence, whatever they are in the truth; None for none.
            rows: (B,) int64 in [0, N); the result is on its device.
        """
        which = rows.cpu().numpy()
        row, label, weight = _entries(targets, which)
        hidden_row, hidden_label, _ = _entries(CSR(targets.shape) if filtered is None else filtered, which)
        L = targets.shape[1]
        keep = (weight > 0) & ~np.isin(row * L + label, hidden_row * L + hidden_label)
        arrays = (row[keep], label[keep], weight[keep], hidden_row, hidden_label)
        pairs_of, labels, weights, hidden_rows, hidden_labels = (
            torch.from_numpy(array).to(rows.device) for array in arrays
        )
        return cls(Pairs(pairs_of, labels, weights, len(which)), hidden_rows, hidden_labels)


def _entries(matrix: CSR, rows: IntArray) -> tuple[IntArray, IntArray, FloatArray]:
    """Row number, label and value of each entry of some rows, in the order of labels."""
    positions, counts = gather(matrix.indptr, rows)
    order = np.argsort(matrix.indices[positions], kind="stable")
    positions = positions[order]
    row = np.repeat(np.arange(len(rows), dtype=np.int64), counts)[order]
    return row, matrix.indices[positions].astype(np.int64), matrix.data[positions]
