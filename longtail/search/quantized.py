"""Search by products in 8 bits alone: nearly the best labels, in half to four fifths of the time.

Exact search by 8 bits (`longtail.search.tiles`) scores again what these do not rule out. Here the scores are those of 8
bits (scalar quantisation of queries and labels, each with a scale of its own), and a row of them is cut into groups of
labels, of which only those with the highest scores are looked into. Where a processor has no fast products of 8 bits,
the same whole numbers are multiplied in float32. So what is found for a query depends on neither the processor, nor the
threads, nor the queries beside it.
"""

from __future__ import annotations

import torch
from torch import Tensor

from longtail.data.sparse import CSR
from longtail.search.int8 import Int8Prefilter, can_prefilter
from longtail.threads import side_by_side
from longtail.topk import TopK

_QUERIES, _LABELS = 256, 2**15  # whose scores are held
_TILE = 2048  # labels, of as many queries, whose scores are made in one go, and stay in the cache while groups are made
_GROUP = 64  # labels of a tile of which the best one speaks
_WIDE, _LARGE = 128, 2**14  # columns and labels, from which on this is faster


def can_quantize(table: Tensor, k: int) -> bool:
    """Whether this is for the k best labels of a table; it does not go by the queries, which find the same alone."""
    return table.shape[1] >= _WIDE and len(table) >= max(_LARGE, _GROUP * k) and can_prefilter(table, k)


def search_quantized(table: Tensor, prefilter: Int8Prefilter, queries: Tensor, k: int, exclude: CSR | None) -> TopK:
    """The k labels of each query with the largest products in 8 bits; the rest is padded with -1 and -inf.

    Args:
        table: (L, D) vectors of the labels.
        prefilter: of the table.
        queries: (Q, D), Q at least 1.
        k: labels of each.
        exclude: (Q, L) pairs that are never found.
    """

    @torch.no_grad()
    def search(at: int) -> TopK:
        rows = slice(at, at + _QUERIES)
        hidden = None if exclude is None else exclude[rows]
        return _search(len(table), prefilter, queries[rows], k, hidden)

    return TopK.stacked(side_by_side(search, range(0, len(queries), _QUERIES), table.device))


def _search(labels: int, prefilter: Int8Prefilter, queries: Tensor, k: int, exclude: CSR | None) -> TopK:
    """The same for as many queries as scores are held of."""
    whole, height, groups = prefilter.whole(queries), len(queries), _TILE // _GROUP
    at_once = min(_LABELS, _QUERIES // height * _TILE)  # labels: whole tiles, the more the fewer queries there are
    numbers, room = torch.empty(height * at_once, dtype=torch.int32), torch.empty(height * _LABELS)
    best: list[tuple[Tensor, Tensor]] = []  # scores and ids, (q, k) of each block of labels
    for start in range(0, labels, _LABELS):
        end = min(start + _LABELS, labels)
        tiles = -(-(end - start) // _TILE)
        scores = room[: height * tiles * _TILE].view(height, -1)
        scores[:, end - start :] = -torch.inf
        tops = torch.empty(height, tiles, groups)
        for first in range(start, end, at_once):
            some = slice(first, min(first + at_once, end))
            columns = slice(some.start - start, some.stop - start)
            prefilter.scores(whole, some, numbers, scores[:, columns])
            if exclude is not None:
                hidden = exclude[:, some].tocoo()
                scores[hidden.row, columns.start + hidden.col] = -torch.inf
            of_tiles = slice(columns.start // _TILE, -(-columns.stop // _TILE))
            tops[:, of_tiles] = scores.view(height, tiles, _GROUP, groups)[:, of_tiles].amax(2)
        high = tops.flatten(1).topk(min(k, tiles * groups), sorted=False).indices
        members = (high // groups * _TILE + high % groups)[:, :, None] + torch.arange(0, _TILE, groups)  # (q, k, GROUP)
        top = scores.gather(1, members.flatten(1)).topk(min(k, members[0].numel()), sorted=False)
        best.append((top.values, members.flatten(1).gather(1, top.indices) + start))
    found, ids = (torch.cat(of, dim=1) for of in zip(*best, strict=True))
    order = found.topk(k)
    ids = ids.gather(1, order.indices).masked_fill_(order.values.isneginf(), -1)
    return TopK(ids.numpy(), (order.values * whole.step).numpy())
