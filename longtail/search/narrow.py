"""Search by inner products of fewer numbers, where vectors are wider than they need be to find what ranks first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch

from longtail.data.sparse import CSR
from longtail.search.exact import Exact
from longtail.topk import Float64Array, FloatArray, IntArray, TopK, rank

KEPT = (0.98, 0.99, 0.995, 0.998, 0.999)  # of the mean square of scores: what is tried, in turn
_LOOKED = 20  # labels that are ranked again, at least
_ROWS = 2**14  # labels that are worked on at a time
_MOST, _PAIRS = 512, 2**15  # queries, and pairs with a label, whose labels are read at once, at most
_BLOCK = 64  # queries whose pairs are scored at once
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


def narrowings(queries: FloatArray, table: FloatArray, kept: Sequence[float] = KEPT) -> Iterator[Narrowing]:
    """The narrowings to the fewest numbers, K, that keep some shares of the scores of some queries, in their order.

    Of all maps to K numbers it has the least mean square of <q, w> - <q', w'> over queries and labels (Eckart and
    Young, 1936, for the table times the root of the queries' second moments). That is at most 1 - kept of the mean
    square of <q, w>. Numbers are alike in size: queries and labels share what a direction is worth, and both are turned
    at random, so that their products in 8 bits are near (`longtail.search.tiles`).

    Args:
        queries: (n, W + 1) of texts as they will be asked about, n at least 1.
        table: (L, W + 1).
        kept: shares, in (0, 1).
    """
    moments, axes = np.linalg.eigh(_products(queries) / len(queries))
    L = len(table)
    lengths = np.sqrt(np.maximum(moments, _LEAST))  # (W,)
    root = (axes * lengths) @ axes.T  # (W, W)
    squares, directions = np.linalg.eigh(root @ _products(table) @ root)
    squares, directions = np.maximum(squares[::-1], _LEAST), directions[:, ::-1]
    shares = np.cumsum(squares) / squares.sum()  # (W,)
    for share in kept:
        count = int(np.searchsorted(shares, share)) + 1  # K
        evenly = (squares[:count] / L) ** 0.25  # mean squares are 1 in queries, and the one in brackets in labels
        turn = np.linalg.qr(np.random.default_rng(0).standard_normal((count, count))).Q
        chosen = directions[:, :count]
        of_queries = (axes / lengths) @ axes.T @ (chosen * evenly) @ turn
        yield Narrowing(_beside_one(of_queries), _beside_one(root @ (chosen / evenly) @ turn))


class Narrowed:
    """Labels that are looked for by narrow vectors, and the first of them ranked by the whole ones.

    Scores are exact, and so is the ranking but for labels that the look leaves out: twice as many as are asked for are
    ranked, 20 at least, and of 40 and more half as many more. It reads as much of a table as the narrowing has numbers,
    and of a large one 8 bits of each.

    Args:
        rows: reads the (L, W + 1) table.
        narrow: what to look by.
        device: where the look runs.
    """

    def __init__(self, rows: Callable[[IntArray | slice], FloatArray], narrow: Narrowing, device: torch.device) -> None:
        self._rows, self._narrow, self._device = rows, narrow, device
        self._made: Exact | None = None

    def search(self, queries: FloatArray, k: int, *, exclude: CSR | None = None) -> TopK:
        """The k best labels of each of (Q, W + 1) queries, without those of the (Q, L) pairs to exclude."""
        further = min(k, max(_LOOKED, k // 2))
        look = self._look().nearly(queries @ self._narrow.queries, max(_LOOKED, k + further), exclude=exclude)
        scores, step = np.empty(look.ids.shape, np.float32), max(1, min(_MOST, _PAIRS // look.k))
        for at in range(0, len(queries), step):
            some = slice(at, at + step)
            scores[some] = self._scores(queries[some], look.ids[some])
        return rank(look.ids, scores, k)

    def _scores(self, queries: FloatArray, ids: IntArray) -> FloatArray:
        """(q, n) the exact scores of n labels of each query, -inf for none, -1."""
        scores = np.full(ids.shape, -np.inf, np.float32)
        if (there := ids >= 0).any():
            some, places = np.unique(np.where(there, ids, ids.max()), return_inverse=True)
            rows, places = self._rows(some), places.reshape(ids.shape)
            for at in range(0, len(queries), _BLOCK):
                block = slice(at, at + _BLOCK)
                scores[block] = np.matmul(rows[places[block]], queries[block, :, None])[:, :, 0]
            scores[~there] = -np.inf
        return scores

    def _look(self) -> Exact:
        if self._made is None:
            parts: list[FloatArray] = []
            start = 0
            while not parts or len(parts[-1]) == _ROWS:
                parts.append(self._rows(slice(start, start + _ROWS)) @ self._narrow.labels)
                start += _ROWS
            self._made = Exact(np.concatenate(parts), device=self._device)
        return self._made


def _products(rows: FloatArray) -> Float64Array:
    """(W, W) the sum of x x' over (n, W + 1) rows (x, 1); doubles of some rows at a time."""
    blocks = (rows[start : start + _ROWS, :-1].astype(np.float64) for start in range(0, len(rows), _ROWS))
    return sum((x.T @ x for x in blocks), start=np.zeros((rows.shape[1] - 1,) * 2))


def _beside_one(of: Float64Array) -> FloatArray:
    """A (W, K) map, and the number behind that as it is."""
    whole = np.zeros((len(of) + 1, of.shape[1] + 1), np.float32)
    whole[:-1, :-1], whole[-1, -1] = of, 1
    return whole
