"""Which labels occur together: the soft targets that Gandalf and GLaS derive from the label matrix."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from longtail.data.sparse import CSR, csr, heaviest, row_blocks, row_of_entry, stacked
from longtail.topk import FloatArray, IntArray
from longtail.transforms.walk import walk

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
    ones = _pattern(targets)
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


def label_walk(targets: CSR, *, restart: float = 0.8, keep: int = 10, documents: int = 64) -> CSR:
    """Where a random walk with restart from each label is found: the heaviest labels, by shares of its visits.

    A hop goes from a label to one of its documents, and on to one of that document's labels. With probability
    ``restart`` it starts at the first label, else at the last one, so that labels are reached which never occur
    together. It is the exact law of the walk (`longtail.transforms.walk.walk`), not a sample of it. Source: ECLARE
    (Mittal et al., 2021), section 3, the graph of GALE, which takes 400 hops at restart 0.8 and the 10 labels visited
    most.

    Args:
        targets: (N, L) labels of the training documents, by pattern.
        restart: in (0, 1].
        keep: labels that are kept of each label, itself among them as a rule.
        documents: the heaviest documents of a label that the walk is followed through; more frequent labels lose some.

    Returns:
        (L, L) float32, columns ascending; a label without documents has an empty row.
    """
    shares = _pattern(targets)
    visits = walk(shares.T.tocsr(), restart=restart, keep=documents, beam=documents)  # (L, N)
    counts = np.diff(shares.indptr)
    shares.data /= np.repeat(counts, counts)
    parts = [csr(np.zeros(0, np.int64), np.zeros(0, np.int64), (0, targets.shape[1]))]
    parts += [heaviest((visits[rows] @ shares).tocsr(), keep) for rows in row_blocks((visits != 0) @ counts)]
    found = stacked(parts)
    found.sort_indices()
    return found


def walked_labels(targets: CSR, labels: IntArray, *, threshold: float) -> CSR:
    """`related_labels` by random walk: visits of l's walk to m over its visits to l, at most 1, above the threshold.

    On the first hop this is the conditional probability of m given l, with documents weighed by 1 / their labels, so
    that the targets are of the same kind as those of eq. 1.6. The thesis says only that the graph is a random walk's.

    Args:
        targets: (N, L) labels of the original training documents, by pattern.
        labels: (n,) int64 in [0, L), the rows wanted.
        threshold: at least 0 and below 1.

    Returns:
        (n, L) CSR in (0, 1]; 1 for each label itself.
    """
    visits = label_walk(targets, keep=50)
    own = visits.diagonal()[labels]
    visits = visits[labels]
    row = row_of_entry(visits)
    values = np.minimum(visits.data / np.maximum(own[row], np.finfo(np.float32).tiny), 1)
    kept = (values > threshold) & (visits.indices != labels[row])
    rows, columns = np.append(row[kept], np.arange(len(labels))), np.append(visits.indices[kept], labels)
    return csr(rows, columns, visits.shape, np.append(values[kept], np.ones(len(labels), np.float32)))


def _pattern(targets: CSR) -> CSR:
    """The matrix with all its stored entries as ones."""
    return CSR((np.ones(targets.nnz, np.float32), targets.indices, targets.indptr), shape=targets.shape)
