"""Exact search: every query against every label, in tiles, with the k best kept.

The matrix product is the floor. A plain top-k of its result costs a good part of that again, so a tile is first cut
into groups of labels, and only groups whose best score can still enter a ranking are looked at. A few queries cost
what reading the table costs: for them it is read in 8 bits first (`longtail.search.int8`). For very many, the product
itself is made in 8 bits first, where that is faster (`longtail.search.tiles`). `nearly` leaves it at 8 bits.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from functools import cached_property

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from longtail.data.sparse import CSR, holds
from longtail.errors import BadInput
from longtail.search.base import Rows, check_search
from longtail.search.int8 import FEW, LARGE, Int8Prefilter, can_prefilter
from longtail.search.quantized import can_quantize, search_quantized
from longtail.search.tiles import can_tile, search_in_tiles
from longtail.topk import FloatArray, TopK, rank

GROUP = 16  # labels that share one entry in a tile's table of best scores
CANDIDATES = 2**20  # pairs of a tile that are ranked in one go
LAST_ID = 2**32 - 1


class Exact:
    """All labels, searched exactly by dot product.

    Equal float32 scores are ranked by label id, lower first, whatever the tiles. (Two equal vectors may score apart
    by a rounding, where a matrix product treats the edge of a tile otherwise than its middle.) A search holds a tile of
    scores (64 MB by default on a CPU), up to 100 MB for ranking its best, the queries, and 8 bytes for each of its
    Q * k results. The first search of a few queries on a CPU, or of very many, adds a copy of the table in 8
    bits, which stays.

    Args:
        table: (L, D) label vectors, finite, L below 2^32. float32 is used in place, memory-mapped or not; another
            dtype is converted, once. On an accelerator the table is copied there, once.
        device: where to compute.
        query_block: queries of a tile; by default 512, on an accelerator 2,048.
        label_block: labels of a tile; by default 32,768, on an accelerator 65,536.

    Raises:
        BadInput: a vector holds NaN or infinity.
    """

    def __init__(
        self,
        table: npt.ArrayLike,
        *,
        device: torch.device | str = "cpu",
        query_block: int | None = None,
        label_block: int | None = None,
    ) -> None:
        self.device = torch.device(device)
        on_cpu = self.device.type == "cpu"
        self.query_block = query_block or (512 if on_cpu else 2048)
        self.label_block = label_block or (32768 if on_cpu else 65536)
        self.table = finite("label vectors", table, self.device)

    @cached_property
    def _in_8_bits(self) -> Int8Prefilter:
        """The table in 8 bits, once a search asks for it."""
        return Int8Prefilter(self.table)

    @torch.no_grad()
    def search(self, queries: npt.ArrayLike, k: int, *, exclude: CSR | None = None) -> TopK:
        """Rank the labels of each query.

        Args:
            queries: (Q, D) vectors, finite; Q may be 0. Another dtype than float32 is converted.
            k: places to fill, at least 1; where L is less, the rest is padded with -1 and -inf.
            exclude: (Q, L) pairs that are never ranked: all stored entries, whatever their value.

        Raises:
            BadInput: the width is not the table's, the shape of ``exclude`` is not (Q, L), a query holds NaN or
                infinity, or k is below 1.
        """
        vectors = finite("queries", queries, self.device)
        check_search(vectors.shape, self.table.shape, k, exclude)
        hidden = 0 if exclude is None else int(np.diff(exclude.indptr).max(initial=0))  # of a query, at most
        # Where very many labels may be best, as for a query of zeros, tiles are the faster way for a few queries too.
        if 0 < len(vectors) <= FEW and len(few := self._candidates(vectors, k + hidden)) <= LARGE:
            table = self.table if len(few) == len(self.table) else self.table[few]  # (C, D)
            found = (vectors @ table.T).cpu().numpy()  # (Q, C)
            labels_of = np.broadcast_to(few.cpu().numpy(), found.shape)  # (Q, C)
            if exclude is not None:
                found[holds(exclude, labels_of)] = -np.inf
            return rank(labels_of, found, k)
        if can_tile(self.table, len(vectors), k):
            return search_in_tiles(self.table, self._in_8_bits, vectors, k, exclude)
        best = _keys(torch.full((len(vectors), k), -torch.inf, device=self.device), torch.tensor(LAST_ID))  # (Q, k)
        height, width = min(self.query_block, len(vectors)), min(self.label_block, len(self.table))
        buffer = torch.empty(height * _whole_groups(width), device=self.device)
        for labels in _blocks(len(self.table), self.label_block):  # outside, so that a mapped table is read once
            for rows in _blocks(len(vectors), self.query_block):
                tile = _scores(vectors[rows], self.table[labels], buffer)
                if exclude is not None:
                    hidden = exclude[rows, labels].tocoo()
                    tile[hidden.row, hidden.col] = -torch.inf
                best[rows] = _merge(best[rows], tile, labels.start)
        scores, ids = _scores_and_ids(best)
        return TopK(ids.masked_fill_(scores.isneginf(), -1).cpu().numpy(), scores.cpu().numpy())

    def nearly(self, queries: npt.ArrayLike, k: int, *, exclude: CSR | None = None) -> TopK:
        """What `search` finds, nearly, and with nearly its scores: of a large table on a CPU by 8 bits alone.

        Of the labels that are first some in a thousand are others then (`longtail.search.quantized`): enough for hard
        negatives, which are drawn from what is found, and for labels that are ranked anew.
        """
        if not (np.size(queries) and can_quantize(self.table, k)):
            return self.search(queries, k, exclude=exclude)
        vectors = finite("queries", queries, self.device)
        check_search(vectors.shape, self.table.shape, k, exclude)
        return search_quantized(self.table, self._in_8_bits, vectors, k, exclude)

    def _candidates(self, queries: Tensor, k: int) -> Tensor:
        """Ids of labels that can be best for a few queries, ascending: all where the table has no prefilter."""
        if not can_prefilter(self.table, k):
            return torch.arange(len(self.table), device=self.device)
        return self._in_8_bits.candidates(queries, k)


def exact_over(rows: Rows, labels: int, _queries: FloatArray) -> Exact:
    """An index over the rows of a table, all of which are read."""
    return Exact(rows(np.arange(labels)))


def finite(name: str, vectors: npt.ArrayLike, device: torch.device) -> Tensor:
    """(n, D) float32 vectors on a device, where possible without a copy, once checked."""
    array = np.require(vectors, np.float32, "C")
    if array.ndim != 2:
        raise BadInput(name, f"expected 2 dimensions, found {array.ndim}", remedy="give one row for each vector")
    if array.strides[0] != array.itemsize * array.shape[1]:
        array = array.copy()  # numpy takes one row for contiguous whatever its strides, and a kernel goes by these
    tensor = torch.from_numpy(array) if array.flags.writeable else _read_only(array)
    if not tensor.sum().isfinite():  # one cheap pass; the dear one is for saying where
        bad = np.flatnonzero(~np.isfinite(array).all(1))
        if len(bad):
            problem = f"expected finite numbers, found NaN or infinity in {len(bad)} rows, first in row {bad[0]}"
            raise BadInput(name, problem, remedy="compute these vectors again")
    return tensor.to(device)


def _read_only(array: npt.NDArray[np.float32]) -> Tensor:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The given NumPy array is not writable")  # and nothing here writes to it
        return torch.from_numpy(array)


def _blocks(count: int, size: int) -> Iterator[slice]:
    return (slice(start, min(start + size, count)) for start in range(0, count, size))


def _whole_groups(labels: int) -> int:
    return -(-labels // GROUP) * GROUP


def _scores(queries: Tensor, labels: Tensor, buffer: Tensor) -> Tensor:
    """Scores of (q, D) queries and (n, D) labels in the buffer, (q, n), n rounded up to whole groups by -inf."""
    width = _whole_groups(len(labels))
    tile = buffer[: len(queries) * width].view(len(queries), width)  # (q, n')
    torch.matmul(queries, labels.T, out=tile[:, : len(labels)])
    tile[:, len(labels) :] = -torch.inf
    return tile


def _merge(best: Tensor, tile: Tensor, first_label: int) -> Tensor:
    """The k best keys of ``best`` and of a tile whose labels are all higher than those already in ``best``.

    A group is looked at if its best score is above the k-th best so far (a tie loses, as its label is higher), and
    not below that of k other groups of the tile.

    Args:
        best: (q, k) keys, descending.
        tile: (q, n) scores, n in whole groups; group g holds columns g, g + n / GROUP, and so on.
        first_label: id of the tile's first label.
    """
    k, groups = best.shape[1], tile.shape[1] // GROUP
    tops = tile.view(len(tile), GROUP, groups).amax(1)  # (q, n / GROUP)
    floor = _scores_and_ids(best[:, -1:])[0]  # (q, 1)
    count = _most_above(tops, floor)
    if count > k:
        kth = tops.topk(k).values[:, -1:]  # (q, 1)
        count = _most_above(tops, floor.maximum(kth.nextafter(kth.new_tensor(-torch.inf))))
    if count == 0:
        return best
    chosen = tops.topk(count, sorted=False).indices  # (q, count), each row's groups above its floor among them
    members = torch.arange(0, tile.shape[1], groups, device=tile.device)  # (GROUP,)
    merged = []
    for rows in _blocks(len(tile), max(1, CANDIDATES // (count * GROUP))):
        columns = (chosen[rows, :, None] + members).flatten(1)  # (rows, count * GROUP)
        candidates = _keys(tile[rows].gather(1, columns), columns + first_label)
        merged.append(torch.cat([best[rows], candidates], 1).topk(k).values)
    return torch.cat(merged)


def _most_above(tops: Tensor, floor: Tensor) -> int:
    """The largest number of groups above the floor in any row."""
    return int((tops > floor).sum(1).amax())


def _keys(scores: Tensor, ids: Tensor) -> Tensor:
    """int64 that sort as (score, then lower id): no two are equal, so a top-k of them is never in doubt.

    The upper half is the score as a whole number, the lower half counts down with the id.
    """
    return (as_whole(scores).long() << 32) | (LAST_ID - ids)


def _scores_and_ids(keys: Tensor) -> tuple[Tensor, Tensor]:
    """The inverse of `_keys`."""
    return _flip((keys >> 32).int()).view(torch.float32), LAST_ID - (keys & LAST_ID)


def as_whole(scores: Tensor) -> Tensor:
    """int32 that sort as float32 scores do: their bits, of which those of negative scores are inverted."""
    return _flip((scores + 0.0).view(torch.int32))  # -0.0 becomes 0.0


def _flip(bits: Tensor) -> Tensor:
    return bits ^ ((bits >> 31) & 0x7FFFFFFF)
