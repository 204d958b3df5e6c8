"""Rows of a table that is cut: each belongs to one shard, which computes with it for all others."""

from __future__ import annotations

import warnings

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from longtail.shards.rows import RowsHere
from longtail.shards.shard import Shard, added, here
from longtail.text.tokens import BagTokens

with warnings.catch_warnings():  # of what is left to PyTorch 2.11: it is to be said that gradients are not checked
    warnings.simplefilter("ignore")
    if not torch.sparse.check_sparse_tensor_invariants.is_enabled():  # type: ignore[no-untyped-call]
        torch.sparse.check_sparse_tensor_invariants.disable()  # type: ignore[no-untyped-call]


def rows_of_owners(weight: Tensor, cut: RowsHere, ids: Tensor) -> Tensor:
    """Some rows of a table, each from who owns it; see `longtail.modules.table.Table.rows`.

    Args:
        weight: the rows that are here, (m, D).
        cut: which these are.
        ids: (U,) int64, ascending, each once.
    """
    shard = _working()
    asked = shard.gathers_same(ids)  # by shard, what it reads
    part = cut.part(shard.index)
    wanted = [some[some % cut.count == shard.index] // cut.count for some in asked]
    own = weight.detach()[part]
    owner = ids % cut.count
    of = [(owner == index).nonzero()[:, 0] for index in range(cut.count)]
    came = shard.exchange([own.index_select(0, some) for some in wanted], [len(some) for some in of])
    found = weight.new_empty(len(ids), weight.shape[1])
    for some, rows in zip(of, came, strict=True):
        found[some] = rows
    if not (torch.is_grad_enabled() and weight.requires_grad):
        return found

    def back(gradients: list[Tensor]) -> None:
        (gradient,) = gradients
        of_readers = shard.exchange([gradient[some] for some in of], [len(some) for some in wanted])
        rows, at = torch.unique(torch.cat(wanted), return_inverse=True)
        total = gradient.new_zeros(len(rows), gradient.shape[1]).index_add_(0, at, torch.cat(of_readers))
        _add_gradient(weight, rows + part.start, total)

    return shard.leaves([found], back)[0]


def bag_sums_of_owners(weight: Tensor, cut: RowsHere, tokens: BagTokens) -> Tensor:
    """Each bag's weighted sum of rows, of partial sums by who owns them; see `longtail.modules.table.Table.bag_sum`.

    Args:
        weight: the rows that are here, (m, D).
        cut: which these are.
        tokens: the shard's own bags.
    """
    shard = _working()
    every = [_unpacked(packed) for packed in shard.gather(_packed(tokens))]
    sizes = [len(some) for some in every]
    part, bags = cut.part(shard.index), _owned(every[0].followed_by(*every[1:]), cut.count, shard.index)
    sums = weighted_sums(weight.detach()[part], bags.ids, bags.offsets, bags.weights)
    found = added(shard.exchange(torch.split(sums, sizes), [len(tokens)] * cut.count))
    if not (torch.is_grad_enabled() and weight.requires_grad):
        return found

    def back(gradients: list[Tensor]) -> None:
        features, offsets, of, weights = bags.by_feature()
        rows = weighted_sums(torch.cat(shard.gather(gradients[0], sizes)), of, offsets, weights)
        _add_gradient(weight, features + part.start, rows)

    return shard.leaves([found], back)[0]


def weighted_sums(table: Tensor, ids: Tensor, offsets: Tensor, weights: Tensor) -> Tensor:
    """(B, D) weighted sums of rows of (n, D); bag b holds ``ids[offsets[b]:offsets[b + 1]]``."""
    return F.embedding_bag(ids, table, offsets, mode="sum", per_sample_weights=weights, include_last_offset=True)


def row_gradient(rows: Tensor, values: Tensor, shape: torch.Size) -> Tensor:
    """The sparse gradient of a table: ``values`` (U, D) at the distinct ascending ``rows`` (U,)."""
    return torch.sparse_coo_tensor(rows[None], values, shape, is_coalesced=True, check_invariants=False)


def _working() -> Shard:
    shard = here()
    assert shard is not None, "a table is cut within steps only"
    return shard


def _add_gradient(weight: Tensor, rows: Tensor, values: Tensor) -> None:
    gradient = row_gradient(rows, values, weight.shape)
    weight.grad = gradient if weight.grad is None else weight.grad + gradient


def _owned(bags: BagTokens, count: int, index: int) -> BagTokens:
    """The same bags with only the rows of one shard, by their places among its rows."""
    kept = bags.ids % count == index
    before, some = F.pad(kept.cumsum(0), (1, 0)), kept.nonzero()[:, 0]  # (F + 1,), (F',)
    return BagTokens(bags.ids[some].long() // count, before[bags.offsets], bags.weights[some])


def _packed(tokens: BagTokens) -> Tensor:
    """Bags as (n,) int32, to be sent: how many there are, how long each is, ids, and weights."""
    numbers = torch.cat([tokens.offsets.new_tensor([len(tokens)]), tokens.offsets.diff(), tokens.ids]).int()
    return torch.cat([numbers, tokens.weights.view(torch.int32)])


def _unpacked(packed: Tensor) -> BagTokens:
    """The bags again; ids stay int32, of which half as much is read where those of one shard are looked for."""
    count = int(packed[0])
    offsets = F.pad(packed[1 : 1 + count].long().cumsum(0), (1, 0))
    ids, weights = packed[1 + count :].chunk(2) if len(packed) > 1 + count else (packed[:0], packed[:0])
    return BagTokens(ids, offsets, weights.contiguous().view(torch.float32))
