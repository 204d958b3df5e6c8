"""Search of very many queries at once: labels lie in cells of near ones, and a query looks into the nearest cells.

Exact search makes Q L products. Here a query is compared with the C centres and with the labels of P cells, C + P L / C
products in place of L, and queries that look into the same cell are compared with its labels by one matrix product. It
is the inverted file of Jegou et al. (2011), with a whole batch in place of one query. Cells are spherical k-means of
the labels; P is chosen on some of the queries, of which exact search says what they should find.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from longtail.data.sparse import CSR
from longtail.search.exact import Exact, finite
from longtail.topk import FloatArray, IntArray, TopK, rank

RECALL = 0.9  # of the labels that exact search finds
_MANY, _MANY_ON_GPU = 10**10, 10**13  # pairs of a query and a label, of which more take exact search minutes
_SAMPLE = 256  # queries that say how many cells are to be looked into
_PER_ROOT = 2  # cells are so many times the root of the labels
_LEARNED_FROM = 32  # labels a cell, of which the centres are learned
_ROUNDS = 6  # of k-means
_MOST = 0.5  # of the products of exact search, which is faster than more of them in cells
_FIRST = 8  # cells of a query that say what the others must beat
_ROWS = 8192  # compared with all centres at once
_HELD = 2**24  # labels that a block of queries finds in its cells


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
        order: (L,) the labels, cell by cell, ascending in each.
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
            generator: draws the first centres, and the labels that centres are learned from.
        """
        count = cells_of(len(table))
        some = torch.from_numpy(np.sort(generator.permutation(len(table))[: _LEARNED_FROM * count])).to(table.device)
        units = torch.nn.functional.normalize(table[some])
        centres = units[torch.from_numpy(generator.permutation(len(units))[:count]).to(table.device)].clone()
        for _ in range(_ROUNDS):
            sums = torch.zeros_like(centres).index_add_(0, _nearest(units, centres), units)
            centres = torch.where(sums.any(1, keepdim=True), torch.nn.functional.normalize(sums), centres)
        cell = _nearest(table, centres)
        sizes = torch.bincount(cell, minlength=count)
        starts = np.concatenate([[0], np.cumsum(sizes[sizes > 0].cpu().numpy())])
        return cls(table, centres[sizes > 0], cell.argsort(stable=True), starts)

    def probes_for(self, queries: Tensor, found: IntArray, recall: float) -> tuple[int, float]:
        """The least number of cells that hold a share of what some queries are to find, and the share that they hold.

        Args:
            queries: (q, D).
            found: (q, k) labels, -1 for none.
            recall: the share, in [0, 1].
        """
        ranking = (queries @ self.centres.T).argsort(dim=1, descending=True, stable=True)
        place = torch.empty_like(ranking).scatter_(
            1, ranking, torch.arange(len(self.centres), device=ranking.device).expand_as(ranking)
        )
        cell = np.empty(len(self.table), np.int64)
        cell[self.order.cpu().numpy()] = np.repeat(np.arange(len(self.centres)), np.diff(self.starts))
        places = np.take_along_axis(place.cpu().numpy(), cell[found], axis=1)[found >= 0]  # cells before a label's
        if not len(places):
            return 1, 1.0
        probes = 1 + int(np.sort(places)[int(np.ceil(recall * len(places))) - 1])
        return probes, float((places < probes).mean())

    def search(self, queries: Tensor, k: int, probes: int, *, exclude: CSR | None = None) -> TopK:
        """The k best labels of each of (Q, D) queries in its nearest cells, without those of the (Q, L) pairs."""
        found, size = [], max(1, _HELD // (probes * k))
        for at in range(0, max(1, len(queries)), size):
            rows = slice(at, at + size)
            found.append(self._block(queries[rows], k, probes, None if exclude is None else exclude[rows]))
        return TopK(np.concatenate([top.ids for top in found]), np.concatenate([top.scores for top in found]))

    def _block(self, queries: Tensor, k: int, probes: int, exclude: CSR | None) -> TopK:
        """The same for queries whose k best labels of each cell are held at once.

        The nearest cells come first: of the others only those are ranked that have a label above the k-th best so far.
        """
        nearest = _best(queries, self.centres, probes)  # (q, P)
        scores = torch.full((*nearest.shape, k), -torch.inf, device=nearest.device)
        ids = torch.full(scores.shape, -1, device=nearest.device)
        hidden = None if exclude is None else _Hidden(exclude, self.order)
        floor = torch.full((len(queries),), -torch.inf, device=nearest.device)
        for part in (slice(_FIRST), slice(_FIRST, probes)):
            width, first = nearest[:, part].shape[1], part.start or 0
            cell, pairs = nearest[:, part].flatten().sort(stable=True)
            bounds = torch.searchsorted(cell, torch.arange(len(self.centres) + 1, device=cell.device)).tolist()
            for one in torch.unique(cell).tolist():
                some, places = pairs[bounds[one] : bounds[one + 1]], slice(self.starts[one], self.starts[one + 1])
                rows, labels = some // width, self.order[places]
                tile = queries[rows] @ self.table[labels].T
                if hidden is not None:
                    hidden.hide(tile, rows, places)
                high = (tile.amax(1) > floor[rows]).nonzero()[:, 0]
                best = tile[high].topk(min(k, len(labels)), sorted=False)
                query, place, found = rows[high], some[high] % width + first, best.values.shape[1]
                scores[query, place, :found], ids[query, place, :found] = best.values, labels[best.indices]
            top = scores.flatten(1).topk(k)
            floor = top.values[:, -1]
        return rank(ids.flatten(1).gather(1, top.indices).cpu().numpy(), top.values.cpu().numpy(), k)


class _Hidden:
    """Pairs that are not to be found, by the place of their label.

    Args:
        exclude: (q, L) pairs.
        order: (L,) the labels by place.
    """

    def __init__(self, exclude: CSR, order: Tensor) -> None:
        place = np.empty(len(order), np.int64)
        place[order.cpu().numpy()] = np.arange(len(order))
        moved = CSR((np.ones(exclude.nnz, bool), place[exclude.indices], exclude.indptr), shape=exclude.shape).tocsc()
        self._starts, self._rows = moved.indptr, torch.from_numpy(moved.indices.astype(np.int64)).to(order.device)
        self._at = torch.full((int(exclude.shape[0]),), -1, device=order.device)

    def hide(self, scores: Tensor, rows: Tensor, places: slice) -> None:
        """Make the scores of those pairs -inf, in place.

        Args:
            scores: (n, m) of n queries and m labels.
            rows: (n,) which queries.
            places: of the labels.
        """
        bounds = self._starts[places.start : places.stop + 1]
        hidden = self._rows[bounds[0] : bounds[-1]]
        column = torch.from_numpy(np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))).to(scores.device)
        self._at[rows] = torch.arange(len(rows), device=rows.device)
        at = self._at[hidden]
        scores[at[at >= 0], column[at >= 0]] = -torch.inf
        self._at[rows] = -1


def pays(queries: int, labels: int, device: torch.device) -> bool:
    """Whether the search of so many queries among so many labels is long enough to look into cells only."""
    return queries * labels > (_MANY if device.type == "cpu" else _MANY_ON_GPU)


def cells_of(labels: int) -> int:
    """How many cells so many labels are put into."""
    return max(1, min(round(_PER_ROOT * math.sqrt(labels)), labels // 2))


def products(queries: int, labels: int, device: torch.device) -> float:
    """How many inner products a search by `near` makes, those that put labels into cells among them, for a plan.

    A tenth of the labels is compared with each query, as was measured for the hard negatives of `unidec` among 200,000.
    """
    if not pays(queries, labels, device):
        return queries * labels
    count = cells_of(labels)
    return queries * (count + labels / 10) + count * (labels + _ROUNDS * min(labels, _LEARNED_FROM * count))


def near(
    table: FloatArray,
    queries: FloatArray,
    k: int,
    *,
    device: torch.device,
    generator: np.random.Generator,
    exclude: CSR | None = None,
    recall: float = RECALL,
) -> tuple[TopK, Looked | None]:
    """The k labels with the largest inner product with each query; most of them, where exact search takes minutes.

    Args:
        table: (L, D) float32, finite, L at least 1.
        queries: (Q, D) float32, finite.
        k: labels of a query; where fewer are found, the rest is padded with -1 and -inf.
        device: where the products are computed.
        generator: draws what cells are learned from, and the queries that say how many are looked into.
        exclude: (Q, L) pairs that are never found.
        recall: share of what exact search finds that is to lie in the cells looked into, in (0, 1].

    Returns:
        What is found, and how it was looked for; None where exact search is no matter of minutes. Where more than half
        of the products would have to be made, all of them are.
    """
    if not pays(len(queries), len(table), device):
        return Exact(table, device=device).search(queries, k, exclude=exclude), None
    exact, asked = Exact(table, device=device), finite("queries", queries, device)
    cells = Cells.of(exact.table, generator)
    rows = np.sort(generator.permutation(len(queries))[:_SAMPLE])
    truth = exact.search(queries[rows], k, exclude=None if exclude is None else exclude[rows])
    probes, reached = cells.probes_for(asked[torch.from_numpy(rows).to(device)], truth.ids, recall)
    count = len(cells.centres)
    looked = Looked(count, probes, reached, count / len(table) + probes / count)
    if looked.share > _MOST:
        return exact.search(queries, k, exclude=exclude), Looked(count, count, 1.0, 1.0)
    return cells.search(asked, k, probes, exclude=exclude), looked


def _nearest(vectors: Tensor, centres: Tensor) -> Tensor:
    """(n,) the centre with the largest inner product with each vector."""
    return _best(vectors, centres, 1)[:, 0]


def _best(vectors: Tensor, centres: Tensor, count: int) -> Tensor:
    """(n, count) the centres with the largest inner products with each vector."""
    blocks = range(0, max(1, len(vectors)), _ROWS)
    return torch.cat([(vectors[at : at + _ROWS] @ centres.T).topk(count).indices for at in blocks])
