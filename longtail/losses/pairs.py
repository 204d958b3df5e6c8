"""What the losses share: the positive pairs of a pool, and values whose gradient is known along with them.

A pool has millions of pairs and a few thousand positives. So every loss here goes once over the pool, in one buffer
that ends as the gradient, and treats the positives as a short list. Built from differentiable steps, the same losses
write five to ten such buffers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


@dataclass(frozen=True, slots=True)
class Pairs:
    """The E positive pairs of a pool: seen (mask) and with a target above 0, in row order.

    Attributes:
        rows: (E,) int64 in [0, B).
        columns: (E,) int64 in [0, P).
        weights: (E,) targets in (0, 1].
        height: rows of the pool, B.
    """

    rows: Tensor
    columns: Tensor
    weights: Tensor
    height: int

    def take(self, which: Tensor) -> Pairs:
        """Some of the pairs."""
        return Pairs(self.rows[which], self.columns[which], self.weights[which], self.height)

    def totals(self, values: Tensor) -> Tensor:
        """The sum of (E,) values by row, (B,)."""
        return values.new_zeros(self.height).index_add_(0, self.rows, values)

    def shares(self) -> Tensor:
        """(E,) weights that sum to 1: equal for rows that have a positive, then by target within a row."""
        totals = self.totals(self.weights)
        return self.weights / totals[self.rows] / totals.count_nonzero()


def positive_pairs(targets: Tensor, mask: Tensor) -> Pairs:
    """List the positives of (B, P) targets."""
    rows, columns = (mask & (targets > 0)).nonzero(as_tuple=True)  # (E,)
    return Pairs(rows, columns, targets[rows, columns], len(targets))


def hide(scores: Tensor, keep: Tensor) -> Tensor:
    """A copy of (B, P) scores, widened to float32 or more, with the lowest finite number where ``keep`` is False."""
    scores = scores.detach().to(torch.promote_types(scores.dtype, torch.float32))
    return torch.where(keep, scores, torch.finfo(scores.dtype).min)


def pick(scores: Tensor, pairs: Pairs, columns: Tensor) -> tuple[Tensor, Tensor]:
    """Scores of the pairs, (E,), and of (B, M) columns, in one gather, so that one (B, P) gradient is made."""
    rows = torch.arange(pairs.height, device=columns.device).repeat_interleave(columns.shape[1])
    picked = scores[torch.cat([pairs.rows, rows]), torch.cat([pairs.columns, columns.flatten()])]
    picked = picked.to(torch.promote_types(picked.dtype, torch.float32))
    return picked[: len(pairs.rows)], picked[len(pairs.rows) :].view_as(columns)


class _Known(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, _scores: Tensor, value: Tensor, gradient: Tensor) -> Tensor:
        ctx.save_for_backward(gradient)
        return value

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, None, None]:
        (gradient,) = ctx.saved_tensors
        return gradient * upstream, None, None


def with_gradient(scores: Tensor, value: Tensor, gradient: Tensor) -> Tensor:
    """Return ``value`` (), differentiable (once) in ``scores`` with the (B, P) ``gradient`` given."""
    result: Tensor = _Known.apply(scores, value, gradient)  # type: ignore[no-untyped-call]
    return result
