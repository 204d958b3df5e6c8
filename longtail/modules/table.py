"""Reading a large table by rows, with gradients that hold just those rows.

`rows` and `bag_sum` give the table a sparse gradient of distinct ascending rows, so that the optimiser neither
sorts nor adds up, and nothing touches a row that the batch did not read.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor
from torch.autograd.function import once_differentiable

from longtail.text.tokens import BagTokens


def _row_gradient(rows: Tensor, values: Tensor, shape: torch.Size) -> Tensor:
    """The sparse gradient of a table: ``values`` (U, D) at the distinct ascending ``rows`` (U,)."""
    return torch.sparse_coo_tensor(rows[None], values, shape, is_coalesced=True, check_invariants=False)


class _Rows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, table: Tensor, ids: Tensor) -> Tensor:
        ctx.save_for_backward(ids)
        ctx.shape = table.shape
        return table.index_select(0, ids)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (ids,) = ctx.saved_tensors
        return _row_gradient(ids, gradient, ctx.shape), None


class _BagSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, table: Tensor, tokens: BagTokens) -> Tensor:
        ctx.tokens, ctx.shape = tokens, table.shape
        return _weighted_sums(table, tokens.ids, tokens.offsets, tokens.weights)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        features, offsets, bags, weights = ctx.tokens.by_feature()
        sums = _weighted_sums(gradient.contiguous(), bags, offsets, weights)
        return _row_gradient(features, sums, ctx.shape), None


def _weighted_sums(table: Tensor, ids: Tensor, offsets: Tensor, weights: Tensor) -> Tensor:
    return F.embedding_bag(ids, table, offsets, mode="sum", per_sample_weights=weights, include_last_offset=True)


class _Unit(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        units, norms = _units(x)
        ctx.save_for_backward(units, norms)
        return units

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        units: Tensor
        norms: Tensor
        units, norms = ctx.saved_tensors
        along = (gradient * units).sum(1, keepdim=True)
        return torch.addcmul(gradient, units, along, value=-1) / norms


def _units(x: Tensor) -> tuple[Tensor, Tensor]:
    norms: Tensor = torch.linalg.vector_norm(x, dim=1, keepdim=True)
    norms.masked_fill_(norms == 0, 1)
    return x / norms, norms


def unit(x: Tensor) -> Tensor:
    """Rows of unit length: x / |x|, and a zero row as it is.

    It is `torch.nn.functional.normalize` with a backward pass of three operations, and with the gradient of a zero row
    passed on as if its length were 1 (there it is divided by 1e-12, after which Adam cannot move the row again).

    Args:
        x: (B, D).

    Returns:
        (B, D).
    """
    if not torch.is_grad_enabled():  # a function with a gradient takes longer to enter than a short text to encode
        return _units(x)[0]
    return _Unit.apply(x)  # type: ignore[no-any-return, no-untyped-call]


def rows(table: Tensor, ids: Tensor) -> Tensor:
    """``table[ids]`` for distinct ascending ids.

    Args:
        table: (V, D) parameter.
        ids: (U,) int64, ascending, each once (as `longtail.batches.Batch.label_ids` is).

    Returns:
        (U, D).
    """
    return _Rows.apply(table, ids)  # type: ignore[no-any-return, no-untyped-call]


def bag_sum(table: Tensor, tokens: BagTokens) -> Tensor:
    """Each bag's weighted sum of table rows: out[b] = sum over the features f of bag b of weight[b, f] table[f].

    The backward pass is the same kernel over the transposed bags.

    Args:
        table: (V, D) parameter.
        tokens: B bags.

    Returns:
        (B, D); zeros for an empty bag.
    """
    if not torch.is_grad_enabled():
        return _weighted_sums(table, tokens.ids, tokens.offsets, tokens.weights)
    return _BagSum.apply(table, tokens)  # type: ignore[no-any-return, no-untyped-call]
