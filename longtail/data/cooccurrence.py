"""Which labels occur together: how strongly labels are related by the documents that they share."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from longtail.data.sparse import CSR, csr, row_blocks, row_of_entry, stacked
from longtail.topk import FloatArray, IntArray

Strength: TypeAlias = Callable[[FloatArray, FloatArray, FloatArray], FloatArray]
"""Counts G_lm of pairs of labels, and the frequencies G_ll and G_mm of their two sides -> a number in [0, 1]."""


def conditional(together: FloatArray, own: FloatArray, _other: FloatArray, *, prior: float = 0.0) -> FloatArray:
    """G_lm / (G_ll + c): how probable is label m where label l is. Thesis, eq. 1.5, which has no c.

    Without one, a label that one document has comes with every other label of that document for certain. The prior
    count c is of documents that have l alone; c = z^2 gives the lower end of Wilson's interval of z standard
    deviations for a pair that was never seen apart.
    """
    shares: FloatArray = together / (own + np.float32(prior))
    return shares


def symmetric(together: FloatArray, own: FloatArray, other: FloatArray) -> FloatArray:
    """S_lm = (G_lm / G_ll + G_lm / G_mm) / 2: the mean of both directions. Thesis, eq. 1.9; GLaS (Guo et al., 2019)."""
    mean: FloatArray = np.float32(0.5) * (together / own + together / other)
    return mean


def related_labels(targets: CSR, labels: IntArray, *, threshold: float, strength: Strength = conditional) -> CSR:
    """How strongly labels are related to all labels, by the documents that they share.

    With G_lm the number of documents that have both l and m, the entry of (l, m) is the strength where that is above
    the threshold, and absent elsewhere. A label is related to itself by 1, whatever the strength says, also where no
    document has it.

    The rows are made in blocks, so that the memory is that of the result and of two copies of the label matrix: G
    itself, with its many small entries, is never held.

    Args:
        targets: (N, L) labels of the original training documents, by pattern.
        labels: (n,) int64 in [0, L), the rows wanted.
        threshold: delta, at least 0 and below 1.
        strength: `conditional` (thesis, eq. 1.6) or `symmetric` (eq. 1.9).

    Returns:
        (n, L) CSR in (0, 1].
    """
    ones = pattern(targets)
    by_label = ones.T.tocsr()  # (L, N)
    frequency = np.diff(by_label.indptr).astype(np.float32)
    parts = [csr(np.zeros(0, np.int64), np.zeros(0, np.int64), (0, targets.shape[1]))]
    for block in row_blocks((by_label @ np.diff(targets.indptr))[labels]):
        chosen = labels[block]
        counts = by_label[chosen] @ ones  # (n', L)
        row = row_of_entry(counts)
        values = strength(counts.data, frequency[chosen][row], frequency[counts.indices])
        kept = (values > threshold) & (counts.indices != chosen[row])
        rows, columns = np.append(row[kept], np.arange(len(chosen))), np.append(counts.indices[kept], chosen)
        values = np.append(values[kept], np.ones(len(chosen), np.float32))
        parts.append(csr(rows, columns, (len(chosen), targets.shape[1]), values))
    return stacked(parts)


def pattern(targets: CSR) -> CSR:
    """The matrix with all its stored entries as ones."""
    return CSR((np.ones(targets.nnz, np.float32), targets.indices, targets.indptr), shape=targets.shape)
