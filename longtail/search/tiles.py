"""Exact search of many queries by products in 8 bits: what these rule out is not looked at again.

A tile of scores is made of whole numbers, several times as fast as in float32 on a processor with instructions for
that, with the most that each score can be (`longtail.search.int8`). Only pairs whose bound is above the k-th best so
far are scored exactly, so that nothing is lost. Where 8 bits rule little out, as of wide vectors, a tile is multiplied
in float32 after all.
"""

from __future__ import annotations

import torch
from torch import Tensor

from longtail.data.sparse import CSR
from longtail.search.int8 import Int8Prefilter, can_prefilter, has_whole_products
from longtail.threads import side_by_side
from longtail.topk import TopK

_QUERIES, _LABELS = 512, 4096  # of a tile, which stays in the cache
_GROUP = 16  # labels that share a bound
_PAIRS = 2**12  # that are scored exactly in one go, whose rows stay in the cache
_MOST = 12  # multiplications one pair after the other, for each pair of a tile: of more, the whole product is faster
_MANY, _WIDE = 512, 128  # queries and columns, from which on this is faster
_A_PLACE = 2000  # labels for each of the k places, of which fewer leave too many pairs to score exactly


def can_tile(table: Tensor, queries: int, k: int) -> bool:
    """Whether this is the faster way."""
    large = queries >= _MANY and table.shape[1] >= _WIDE and len(table) >= max(4 * _LABELS, _A_PLACE * k)
    return large and can_prefilter(table, k) and has_whole_products()


def search_in_tiles(table: Tensor, prefilter: Int8Prefilter, queries: Tensor, k: int, exclude: CSR | None) -> TopK:
    """The k best labels of each of (Q, D) queries: each thread searches for as many at a time as a tile has.

    Args:
        table: (L, D) vectors of the labels.
        prefilter: of the table.
        queries: at least one.
        k: labels of each.
        exclude: (Q, L) pairs that are never found.
    """

    @torch.no_grad()
    def search(at: int) -> TopK:
        rows = slice(at, at + _QUERIES)
        return Tiles(table, prefilter, queries[rows], k, None if exclude is None else exclude[rows]).search()

    return TopK.stacked(side_by_side(search, range(0, len(queries), _QUERIES), table.device))


class Tiles:
    """A search of q queries, as many as a tile has at most, among all labels, tile by tile.

    Args:
        table: (L, D) vectors of the labels.
        prefilter: of the table.
        queries: (q, D).
        k: labels of each.
        exclude: (q, L) pairs that are never found.
    """

    def __init__(self, table: Tensor, prefilter: Int8Prefilter, queries: Tensor, k: int, exclude: CSR | None) -> None:
        self._table, self._queries, self._exclude, self._prefilter = table, queries, exclude, prefilter
        self._whole = prefilter.whole(queries)
        self._ids = torch.full((len(queries), k), -1)
        self._scores = torch.full((len(queries), k), -torch.inf)
        self._numbers = torch.empty(len(queries) * _LABELS, dtype=torch.int32)
        self._bounds = torch.empty(len(queries) * _LABELS)

    def search(self) -> TopK:
        """The k best labels of each query: higher scores first, of equal ones the lower id first."""
        for label in range(0, len(self._table), _LABELS):
            self._tile(slice(label, min(label + _LABELS, len(self._table))))
        return TopK(self._ids.numpy(), self._scores.numpy())

    def _tile(self, labels: slice) -> None:
        """Let the labels of a tile in that are better than the k-th best of a query so far."""
        height, width = len(self._queries), labels.stop - labels.start
        whole = -(-width // _GROUP) * _GROUP
        most = self._bounds[: height * whole].view(height, whole)
        most[:, width:] = -torch.inf
        slack = self._prefilter.most(self._whole, labels, self._numbers, most[:, :width])
        if self._exclude is not None:
            hidden = self._exclude[:, labels].tocoo()
            most[hidden.row, hidden.col] = -torch.inf
        tops = most.view(height, _GROUP, -1).amax(1)  # (q, n / GROUP)
        floor = self._scores[:, -1:] / self._whole.step  # (q, 1); of equal scores the lower id is there already
        if labels.start == 0:
            floor = self._first(labels, most[:, :width], tops, slack)
        query, group = (tops <= floor).logical_not_().nonzero(as_tuple=True)  # what overflowed is looked at, too
        columns = group[:, None] + torch.arange(0, whole, tops.shape[1])  # (pairs, GROUP)
        above = (most[query[:, None], columns] <= floor[query]).logical_not_()
        pairs = (query[:, None] * whole + columns)[above].sort().values
        if len(pairs):
            self._merge(pairs // whole, pairs % whole, labels)

    def _first(self, labels: slice, most: Tensor, tops: Tensor, slack: Tensor) -> Tensor:
        """(q, 1) less than the k best of the first tile have, in the steps of a query.

        As many groups have a label with more than the least of the k best bounds of groups, without what that may be
        too large by. Where k is a good part of all groups, that says little, and exact products are made.
        """
        k = self._scores.shape[1]
        if tops.shape[1] >= _GROUP * k:
            least = tops.topk(k).values[:, -1:] - slack
        else:
            scores = self._queries @ self._table[labels].T
            kth = scores.masked_fill_(most.isneginf(), -torch.inf).topk(k).values[:, -1:]
            least = kth / self._whole.step - slack
        endless = {"nan": -torch.inf, "posinf": -torch.inf, "neginf": -torch.inf}  # all are looked at
        return least.nextafter(least.new_tensor(-torch.inf)).nan_to_num_(**endless)

    def _merge(self, query: Tensor, column: Tensor, labels: slice) -> None:
        """Score pairs exactly, and keep the best of them: queries, and their columns of a tile, in ascending order."""
        k = self._scores.shape[1]
        scores = self._scored(query, column, self._table[labels])
        place = torch.arange(len(query)) - torch.searchsorted(query, query)
        shape = (len(self._queries), k + int(place.max()) + 1)
        ids, found = torch.full(shape, -1), torch.full(shape, -torch.inf)
        ids[:, :k], found[:, :k] = self._ids, self._scores
        ids[query, k + place], found[query, k + place] = column + labels.start, scores
        order = found.sort(dim=1, descending=True, stable=True).indices[:, :k]  # ids ascend where scores are equal
        self._ids, self._scores = ids.gather(1, order), found.gather(1, order)

    def _scored(self, query: Tensor, column: Tensor, table: Tensor) -> Tensor:
        """The exact scores of pairs of a tile: one after the other, or, of many, out of the whole tile's product."""
        if len(query) * table.shape[1] > _MOST * len(self._queries) * len(table):
            return (self._queries @ table.T)[query, column]
        blocks = zip(torch.split(query, _PAIRS), torch.split(column, _PAIRS), strict=True)
        rows_of = ((self._queries.index_select(0, q), table.index_select(0, one)) for q, one in blocks)
        return torch.cat([torch.linalg.vecdot(*of) for of in rows_of])
