"""Search of very many queries at once: labels lie in cells of near ones, and a query looks into the nearest cells.

Exact search makes Q L products. Here a query is compared with the C centres and with the labels of P cells, C + 2 P L /
C products in place of L, and queries that look into the same cell are compared with its labels by one matrix product.
It is the inverted file of Jegou et al. (2011), with a whole batch in place of one query, and with each label in the two
cells that it is nearest to. P is chosen on some of the queries, of which exact search says what they should find.

Cells are small. What is left of the labels near a trained document, once its true ones are taken out, is scattered, and
what is scattered over large cells is mostly in few of many small ones. Their centres are spherical k-means of the
labels in two levels, of which the first has a root of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from longtail.data.sparse import CSR, offsets_of
from longtail.search.exact import Exact, as_whole, finite
from longtail.search.int8 import has_whole_products, in_8_bits
from longtail.threads import side_by_side
from longtail.topk import FloatArray, IntArray, TopK, rank

RECALL = 0.9  # of the labels that exact search finds
_MANY, _MANY_ON_GPU = 10**10, 10**13  # pairs of a query and a label, of which more take exact search minutes
_SAMPLE = 256  # queries that say how many cells are to be looked into
_LABELS = 32  # a cell, before each is in two of them
_COPIES = 2  # cells that a label lies in
_LEARNED_FROM = 16  # labels a cell of the first level, of which its centres are learned
_ROUNDS = 3  # of k-means
_MOST = 0.5  # of the products of exact search, which is faster than more of them in cells
_FIRST = 8  # cells of a query that say what the others must beat
_EXACT = 2048  # centres, of which more are compared with in 8 bits, where that is fast
_ENTRY = 3  # numbers of 4 bytes that a label of a query's first cells takes: its id and its score
_COMPARED = 8192  # labels with which a query is compared where they are very many, for a plan
_HELD = 2**25  # cells and labels of a block of queries, or centres of a block of vectors


class Looked(NamedTuple):
    """How a search was made.

    Attributes:
        cells: C.
        probes: P, cells that each query looked into.
        recall: share of what exact search finds for a sample of the queries, in [0, 1], that lies in those cells.
        share: of the Q L products of exact search that were made.
    """

    cells: int
    probes: int
    recall: float
    share: float


@dataclass(frozen=True, slots=True)
class Cells:
    """Labels in cells.

    Attributes:
        table: (L, D) their vectors.
        centres: (C, D) unit vectors.
        order: (2 L,) the labels, cell by cell, ascending in each; (L,) where there is one cell.
        starts: (C + 1,) where each cell begins in it.
    """

    table: Tensor
    centres: Tensor
    order: Tensor
    starts: IntArray

    @classmethod
    def of(cls, table: Tensor, generator: np.random.Generator) -> Cells:
        """Put labels into cells.

        Args:
            table: (L, D) their vectors, of any length, L at least 1.
            generator: draws the first centres, and the labels that those of the first level are learned from.
        """
        first = math.ceil(math.sqrt(len(table)))
        some = torch.from_numpy(np.sort(generator.permutation(len(table))[: _LEARNED_FROM * first])).to(table.device)
        coarse = _best(table, _k_means(table[some], first, generator), 1)[:, 0]
        groups = torch.split(coarse.argsort(stable=True), torch.bincount(coarse).tolist())
        centres = torch.cat([_k_means(table[group], cells_of(len(group)), generator) for group in groups if len(group)])
        of_labels = _best(table, centres, min(_COPIES, len(centres)))  # (L, 2)
        sizes = torch.bincount(of_labels.flatten(), minlength=len(centres))
        starts = offsets_of(sizes[sizes > 0].cpu().numpy())
        order = of_labels.flatten().argsort(stable=True) // of_labels.shape[1]
        return cls(table, centres[sizes > 0], order, starts)

    @property
    def places(self) -> IntArray:
        """(L, 2) where in the order each label is."""
        return self.order.argsort(stable=True).view(len(self.table), -1).cpu().numpy()

    def probes_for(self, queries: Tensor, found: IntArray, recall: float) -> Looked:
        """The least number of cells that hold a share of what some queries are to find.

        Args:
            queries: (q, D).
            found: (q, k) labels, -1 for none.
            recall: the share, in [0, 1].
        """
        ranking = _best(queries, self.centres, len(self.centres)).cpu().numpy()  # (q, C), as a search has it
        before, sizes = ranking.argsort(axis=1), np.diff(self.starts)
        cells = np.repeat(np.arange(len(sizes)), sizes)[self.places][found]  # (q, k, 2)
        first = np.take_along_axis(before[:, None], cells, axis=2).min(2)[found >= 0]  # cells before a label's
        probes = 1 + (int(np.sort(first)[math.ceil(recall * len(first)) - 1]) if len(first) else 0)
        reached = float((first < probes).mean()) if len(first) else 1.0
        products = len(sizes) + float(sizes[ranking[:, :probes]].sum(1).mean())
        return Looked(len(sizes), probes, reached, products / len(self.table))

    def search(self, queries: Tensor, k: int, probes: int, *, exclude: CSR | None = None) -> TopK:
        """The k best labels of each of (Q, D) queries in its nearest cells, without those of the (Q, L) pairs."""
        size = max(1, _HELD // max(probes, _ENTRY * _FIRST * k))
        blocks = [slice(at, at + size) for at in range(0, max(1, len(queries)), size)]

        def search(rows: slice) -> TopK:
            return self._block(queries[rows], k, probes, None if exclude is None else exclude[rows])

        return TopK.stacked(side_by_side(search, blocks, self.table.device))

    def _block(self, queries: Tensor, k: int, probes: int, exclude: CSR | None) -> TopK:
        """The same for as many queries as can be held at once.

        The nearest cells come first: of the others only those are ranked that have a label above the k-th best so far.
        """
        nearest = _best(queries, self.centres, probes)  # (q, P)
        hidden = None if exclude is None else _Hidden(exclude, self.places, nearest.device)
        first, others = nearest[:, :_FIRST], nearest[:, _FIRST:]
        ids = torch.full((first.numel(), k), -1, device=nearest.device)
        scores = torch.full((first.numel(), k), -torch.inf, device=nearest.device)
        for pairs, _, labels, tile in self._tiles(queries, first, hidden):
            top = tile.topk(min(k, len(labels)), sorted=False)
            ids[:, : tile.shape[1]].index_copy_(0, pairs, labels[top.indices])
            scores[:, : tile.shape[1]].index_copy_(0, pairs, top.values)
        shape = (len(queries), first.shape[1] * k)
        high = scores.view(shape).topk(min(_COPIES, first.shape[1]) * k, sorted=False)
        best = _once(ids.view(shape).gather(1, high.indices).cpu().numpy(), high.values.cpu().numpy(), k)
        floor = torch.from_numpy(best.scores[:, -1]).to(nearest.device)
        found = [(first[:0, 0], first[:0, 0], scores[:0, 0])]  # queries, labels, scores
        for _, some, labels, tile in self._tiles(queries, others, hidden):
            above = (tile.amax(1) > floor.index_select(0, some)).nonzero()[:, 0]
            rows, places = some.index_select(0, above), min(k, len(labels))
            score, column = (of.flatten() for of in tile.index_select(0, above).topk(places, sorted=False))
            above = (score > floor.index_select(0, rows).repeat_interleave(places)).nonzero()[:, 0]
            label = labels.index_select(0, column.index_select(0, above))
            found.append((rows.index_select(0, above // places), label, score.index_select(0, above)))
        more, of_more = _in_rows(*(torch.cat(of) for of in zip(*found, strict=True)), shape=(len(queries), _COPIES * k))
        return _once(np.concatenate([best.ids, more], axis=1), np.concatenate([best.scores, of_more], axis=1), k)

    def _tiles(
        self, queries: Tensor, cells: Tensor, hidden: _Hidden | None
    ) -> Iterator[tuple[Tensor, Tensor, Tensor, Tensor]]:
        """Cell by cell: the places of n queries in (q, p) cells, the queries, m labels, and their (n, m) scores."""
        cell, pairs = cells.flatten().sort(stable=True)
        there, counts = torch.unique_consecutive(cell, return_counts=True)
        for one, places in zip(there.tolist(), torch.split(pairs, counts.tolist()), strict=True):
            of_cell = slice(self.starts[one], self.starts[one + 1])
            rows, labels = places // cells.shape[1], self.order[of_cell]
            tile = queries.index_select(0, rows) @ self.table.index_select(0, labels).T
            if hidden is not None:
                hidden.hide(tile, rows, of_cell)
            yield places, rows, labels, tile


def _k_means(vectors: Tensor, count: int, generator: np.random.Generator) -> Tensor:
    """(C, D) centres of some vectors, C at most as many as these, by spherical k-means."""
    units = torch.nn.functional.normalize(vectors)
    centres = units[torch.from_numpy(generator.permutation(len(units))[:count]).to(units.device)].clone()
    for _ in range(_ROUNDS):
        sums = torch.zeros_like(centres).index_add_(0, _best(units, centres, 1)[:, 0], units)
        centres = torch.where(sums.any(1, keepdim=True), torch.nn.functional.normalize(sums), centres)
    return centres


def _in_rows(rows: Tensor, labels: Tensor, scores: Tensor, *, shape: tuple[int, int]) -> tuple[IntArray, FloatArray]:
    """Of n labels, with their queries and scores, the best of each query in its row; the rest is -1 and -inf."""
    order = (rows * 2**32 - as_whole(scores)).argsort(stable=True)  # one sort of whole numbers takes a sixth of two
    row, label, score = (of.index_select(0, order).cpu().numpy() for of in (rows, labels, scores))
    place = np.arange(len(row)) - np.searchsorted(row, row)
    kept = place < shape[1]
    in_rows, of_rows = np.full(shape, -1), np.full(shape, -np.inf, np.float32)
    in_rows[row[kept], place[kept]], of_rows[row[kept], place[kept]] = label[kept], score[kept]
    return in_rows, of_rows


def _once(ids: IntArray, scores: FloatArray, k: int) -> TopK:
    """The k best of (q, n) labels, of which one may be there twice."""
    by_label = ids.argsort(axis=1)
    ids, scores = np.take_along_axis(ids, by_label, 1), np.take_along_axis(scores, by_label, 1)
    ids[:, 1:][ids[:, 1:] == ids[:, :-1]] = -1
    return rank(ids, scores, k)


class _Hidden:
    """Pairs that are not to be found, by the places of their label.

    Args:
        exclude: (q, L) pairs.
        places: (L, 2) of the labels.
        device: where scores are.
    """

    def __init__(self, exclude: CSR, places: IntArray, device: torch.device) -> None:
        pairs = places[exclude.indices].ravel()
        shape = (exclude.shape[0], places.size)
        moved = CSR((np.ones(len(pairs), bool), pairs, exclude.indptr * places.shape[1]), shape=shape).tocsc()
        self._starts, self._rows = moved.indptr, torch.from_numpy(moved.indices.astype(np.int64)).to(device)
        self._places = torch.from_numpy(np.repeat(np.arange(places.size), np.diff(moved.indptr))).to(device)
        self._at = torch.full((int(exclude.shape[0]),), -1, device=device)
        self._rising = torch.arange(len(self._at), device=device)

    def hide(self, scores: Tensor, rows: Tensor, places: slice) -> None:
        """Make the scores of those pairs -inf, in place.

        Args:
            scores: (n, m) of n queries and m labels.
            rows: (n,) which queries.
            places: of the labels.
        """
        pairs = slice(self._starts[places.start], self._starts[places.stop])
        self._at.index_copy_(0, rows, self._rising[: len(rows)])
        at = self._at.index_select(0, self._rows[pairs])
        there = (at >= 0).nonzero()[:, 0]
        flat = at.index_select(0, there) * scores.shape[1] + self._places[pairs].index_select(0, there) - places.start
        scores.view(-1).index_fill_(0, flat, -torch.inf)
        self._at.index_fill_(0, rows, -1)


def pays(queries: int, labels: int, device: torch.device) -> bool:
    """Whether the search of so many queries among so many labels is long enough to look into cells only."""
    return queries * labels > (_MANY if device.type == "cpu" else _MANY_ON_GPU)


def cells_of(labels: int) -> int:
    """How many cells so many labels are put into."""
    return max(1, round(labels / _LABELS))


def products(queries: int, labels: int, device: torch.device) -> float:
    """How many inner products a search by `Near` makes, those that put labels into cells among them, for a plan.

    Each query is compared with a twentieth of the labels, and with no more than some thousands: for the hard negatives
    of `unidec` after four epochs it was 6,700 of 200,000, 7,700 of 400,000 and 5,700 of 1,350,000 labels.
    """
    if not pays(queries, labels, device):
        return queries * labels
    count = cells_of(labels)
    return queries * (count + min(labels / 20, _COMPARED)) + labels * (count + math.sqrt(labels))


class Near:
    """The labels nearest to queries, nearly all of them; most, where exact search takes minutes, by cells made once.

    Args:
        table: (L, D) float32, finite, L at least 1.
        device: where the products are computed.
        generator: draws what cells are learned from; then each search, as if the first, the queries that it tries.
    """

    def __init__(self, table: FloatArray, *, device: torch.device, generator: np.random.Generator) -> None:
        self._exact, self._generator = Exact(table, device=device), generator

    @cached_property
    def _cells(self) -> Cells:
        return Cells.of(self._exact.table, self._generator)

    def search(
        self, queries: FloatArray, k: int, *, exclude: CSR | None = None, recall: float = RECALL
    ) -> tuple[TopK, Looked | None]:
        """The k labels with the largest inner product with each query.

        Args:
            queries: (Q, D) float32, finite.
            k: labels of a query; where fewer are found, the rest is padded with -1 and -inf.
            exclude: (Q, L) pairs that are never found.
            recall: share of what exact search finds that is to lie in the cells looked into, in (0, 1].

        Returns:
            What is found, and how it was looked for; None where exact search is no matter of minutes: `Exact.nearly`
            finds it, as where more than half of the products would have to be made.
        """
        exact, device = self._exact, self._exact.device
        if not pays(len(queries), len(exact.table), device):
            return exact.nearly(queries, k, exclude=exclude), None
        asked, cells = finite("queries", queries, device), self._cells
        rows = np.sort(deepcopy(self._generator).permutation(len(queries))[:_SAMPLE])
        truth = exact.search(queries[rows], k, exclude=None if exclude is None else exclude[rows])
        looked = cells.probes_for(asked[torch.from_numpy(rows).to(device)], truth.ids, recall)
        if looked.share > _MOST:
            every = len(cells.centres)
            return exact.nearly(queries, k, exclude=exclude), Looked(every, every, 1.0, 1.0)
        return cells.search(asked, k, looked.probes, exclude=exclude), looked


def _best(vectors: Tensor, centres: Tensor, count: int) -> Tensor:
    """(n, count) the centres with the largest inner products with each vector.

    Of very many centres 8 bits say that nearly as well, where products in 8 bits are fast.
    """
    coarse = len(centres) > _EXACT and vectors.device.type == "cpu" and has_whole_products()
    wide, step = (in_8_bits(centres, one_scale=True) if coarse else centres).T, max(1, _HELD // len(centres))
    multiply, kind = (torch._int_mm, torch.int32) if coarse else (torch.mm, vectors.dtype)  # noqa: SLF001
    # made once: to touch memory that is new to a process takes longer than the products
    room = torch.empty(min(step, len(vectors)) * len(centres), dtype=kind, device=vectors.device)
    found = []
    for at in range(0, max(1, len(vectors)), step):
        some = vectors[at : at + step]
        scores = room[: len(some) * len(centres)].view(len(some), len(centres))
        multiply(in_8_bits(some, one_scale=False) if coarse else some, wide, out=scores)
        found.append(scores.topk(count).indices)
    return torch.cat(found)
