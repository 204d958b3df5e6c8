"""A tree over sparse vectors of labels: cut into near ones again and again, in equal halves or in many parts."""

from __future__ import annotations

from collections import deque

import numpy as np
from scipy import sparse

from longtail.data.sparse import CSR, csr
from longtail.topk import IntArray

_ROUNDS, _SETTLED = 20, 1e-4


def label_tree(
    vectors: CSR, branching: int, leaf: int, *, balanced: bool, generator: np.random.Generator
) -> tuple[IntArray, IntArray]:
    """Cut labels into near ones until no part has more than ``leaf`` of them.

    Each cut is a spherical k-means from random labels, which is settled once the mean similarity of a label to its
    centre rises by less than 1e-4: in two equal halves, as in Parabel (Prabhu et al., 2018), or in up to ``branching``
    parts of any size, as in Bonsai (Khandagale et al., 2020).

    Args:
        vectors: (L, V) rows of unit length, of which none is empty.
        branching: parts of a cut.
        leaf: labels of a part that is not cut any more; so is one whose labels cannot be told apart.
        balanced: whether two parts are of equal size.
        generator: draws the first centres.

    Returns:
        The node above each of M nodes, (M,), -1 for the first, which is the root and all of them; and the node that
        each label is in at last, (L,).
    """
    parents, leaves = [-1], np.zeros(vectors.shape[0], np.int64)
    waiting = deque([np.arange(vectors.shape[0])])
    node = 0
    while waiting:
        labels = waiting.popleft()
        parts = (
            _cut(CSR(vectors[labels]), branching, generator, balanced=balanced) if len(labels) > leaf else labels[:0]
        )
        leaves[labels] = node
        if len(found := np.unique(parts)) > 1:
            parents += [node] * len(found)
            waiting.extend(labels[parts == part] for part in found)
        node += 1
    return np.array(parents, np.int64), leaves


def _cut(z: CSR, parts: int, generator: np.random.Generator, *, balanced: bool) -> IntArray:
    """The part of each of m vectors, (m,)."""
    features, columns = np.unique(z.indices, return_inverse=True)
    z = CSR((z.data, columns, z.indptr), shape=(z.shape[0], len(features)))
    m = z.shape[0]
    parts = min(parts, m)
    centres = z[np.sort(generator.choice(m, parts, replace=False))].toarray()  # (K, F')
    before = -np.inf
    for _ in range(_ROUNDS):
        scores = z @ centres.T  # (m, K)
        if balanced:
            part = np.ones(m, np.int64)
            part[np.argsort(scores[:, 1] - scores[:, 0], kind="stable")[: (m + 1) // 2]] = 0
        else:
            part = scores.argmax(1)
        similarity = float(scores[np.arange(m), part].mean())
        if similarity - before < _SETTLED:
            break
        before = similarity
        sums = (csr(part, np.arange(m), (parts, m)) @ z).toarray()
        lengths = np.linalg.norm(sums, axis=1, keepdims=True)
        centres = np.where(lengths > 0, sums / np.maximum(lengths, 1e-12), centres)
    return part


def unit_rows(matrix: CSR) -> CSR:
    """The rows of a matrix with length 1; empty ones stay so."""
    lengths = np.sqrt(matrix.power(2).sum(1))
    return CSR(sparse.diags_array((1 / np.maximum(lengths, 1e-12)).astype(np.float32)) @ matrix)
