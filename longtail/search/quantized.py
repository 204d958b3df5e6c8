"""Search of very many queries by products in 8 bits alone: nearly the best labels, in about half of the time.

Exact search by 8 bits (`longtail.search.tiles`) scores again what these do not rule out. Here the scores are those of 8
bits (scalar quantisation of queries and labels, each with a scale of its own), and a row of them is cut into groups of
labels, of which only those with the highest scores are looked into. Where a processor has no fast products of 8 bits,
the same whole numbers are multiplied in float32, so that what a model learns by such a search is the same everywhere.
"""

from __future__ import annotations

import torch
from torch import Tensor

from longtail.data.sparse import CSR
from longtail.search.int8 import Int8Prefilter, can_prefilter
from longtail.threads import side_by_side
from longtail.topk import TopK

_QUERIES, _LABELS = 256, 2**15  # whose scores are held
_TILE = 2048  # labels whose scores are made in one go, and stay in the cache while their groups are
_GROUP = 64  # labels of which the best one speaks
_MANY, _WIDE, _LARGE = 512, 128, 2**14  # queries, columns and labels, from which on this is faster


def can_quantize(table: Tensor, queries: int, k: int) -> bool:
    """Whether this is the faster way, or, on a processor without fast products of 8 bits, no slower one."""
    large = queries >= _MANY and table.shape[1] >= _WIDE and len(table) >= max(_LARGE, _GROUP * k)
    return large and can_prefilter(table, k)


def search_quantized(table: Tensor, prefilter: Int8Prefilter, queries: Tensor, k: int, exclude: CSR | None) -> TopK:
    """The k labels of each query with the largest products in 8 bits; the rest is padded with -1 and -inf.

    What is found for a query depends on neither the others nor the number of threads.

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
    held = min(_LABELS, -(-labels // _TILE) * _TILE)
    numbers, room = torch.empty(height * _TILE, dtype=torch.int32), torch.empty(height * held)
    best: list[tuple[Tensor, Tensor]] = []  # scores and ids, (q, k) of each block of labels
    for start in range(0, labels, _LABELS):
        part = slice(start, min(start + _LABELS, labels))
        tiles = -(-(part.stop - start) // _TILE)
        scores = room[: height * tiles * _TILE].view(height, tiles, _TILE)
        tops = torch.empty(height, tiles, groups)
        for tile in range(tiles):
            some = slice(start + tile * _TILE, min(start + (tile + 1) * _TILE, labels))
            width = some.stop - some.start
            scores[:, tile, width:] = -torch.inf
            prefilter.scores(whole, some, numbers, scores[:, tile, :width])
            if exclude is not None:
                hidden = exclude[:, some].tocoo()
                scores[hidden.row, tile, hidden.col] = -torch.inf
            tops[:, tile] = scores[:, tile].view(height, _GROUP, groups).amax(1)
        first = tops.flatten(1).topk(min(k, tiles * groups), sorted=False).indices
        of_tile, of_group = first // groups * _TILE, first % groups
        columns = (of_tile + of_group)[:, :, None] + torch.arange(0, _TILE, groups)  # (q, k, GROUP)
        top = scores.flatten(1).gather(1, columns.flatten(1)).topk(min(k, columns[0].numel()), sorted=False)
        best.append((top.values, columns.flatten(1).gather(1, top.indices) + start))
    found, ids = (torch.cat(of, dim=1) for of in zip(*best, strict=True))
    order = found.topk(k)
    ids = ids.gather(1, order.indices).masked_fill_(order.values.isneginf(), -1)
    return TopK(ids.numpy(), (order.values * whole.step).numpy())
