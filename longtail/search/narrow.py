"""Inner products of fewer numbers: what a search reads of each label, where vectors are wider than they need be."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from longtail.topk import Float64Array, FloatArray

KEPT = 0.997  # of the mean square of scores
_LEAST = 1e-9  # of a direction that no query has


class Narrowing(NamedTuple):
    """Maps of queries and of labels to fewer numbers, whose inner products are nearly the same.

    The last number of a query is 1 and that of a label its constant; both stay as they are.

    Attributes:
        queries: (W + 1, K + 1) float32.
        labels: (W + 1, K + 1) float32.
    """

    queries: FloatArray
    labels: FloatArray


def narrowing(queries: FloatArray, table: FloatArray, kept: float = KEPT) -> Narrowing:
    """The narrowing to the fewest numbers, K, that keeps most of the scores of some queries.

    Of all maps to K numbers it has the least mean square of <q, w> - <q', w'> over queries and labels (Eckart and
    Young, 1936, for the table times the root of the queries' second moments). That is at most 1 - kept of the mean
    square of <q, w>.

    Args:
        queries: (n, W + 1) of texts as they will be asked about, n at least 1.
        table: (L, W + 1).
        kept: in (0, 1).
    """
    q, w = queries[:, :-1].astype(np.float64), table[:, :-1].astype(np.float64)
    moments, axes = np.linalg.eigh(q.T @ q / len(q))
    lengths = np.sqrt(np.maximum(moments, _LEAST))  # (W,)
    root = (axes * lengths) @ axes.T  # (W, W)
    squares, directions = np.linalg.eigh(root @ (w.T @ w) @ root)
    shares = np.cumsum(squares[::-1]) / squares.sum()  # (W,)
    chosen = directions[:, ::-1][:, : int(np.searchsorted(shares, kept)) + 1]  # (W, K)
    return Narrowing(_beside_one((axes / lengths) @ axes.T @ chosen), _beside_one(root @ chosen))


def _beside_one(of: Float64Array) -> FloatArray:
    """A (W, K) map, and the number behind that as it is."""
    whole = np.zeros((len(of) + 1, of.shape[1] + 1), np.float32)
    whole[:-1, :-1], whole[-1, -1] = of, 1
    return whole
