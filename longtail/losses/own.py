"""Scores of each document against labels of its own alone: the pairs that are asked for, and no others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

_NUMBERS = 2**22  # of the pairs' vectors that are held at a time
_AS_FAST = 64  # pairs of a matrix product that take as long as one pair alone


def inner_products(x: Tensor, w: Tensor, places: Tensor | None) -> Tensor:
    """Scores of documents and the labels of a pool.

    Where documents share most of their labels, the scores of all pairs are made, which is faster. Else neither these
    are made nor, for S labels a document, the (B, S, D) vectors of them: the pairs are worked on some thousand at a
    time, in the backward pass again.

    Args:
        x: (B, D) documents.
        w: (P, D) labels.
        places: (B, S) int64 in [-1, P), the labels of each document, -1 for none; None for all of the pool.

    Returns:
        (B, P); or (B, S) with 0 where there is no label.
    """
    if places is None:
        return x @ w.T
    if len(x) * len(w) <= _AS_FAST * places.numel():
        return (x @ w.T).gather(1, places.clamp_min(0)).masked_fill(places < 0, 0)
    return _Own.apply(x, w, places)  # type: ignore[no-any-return, no-untyped-call]


class _Own(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor, places: Tensor) -> Tensor:
        ctx.save_for_backward(x, w, places)
        scores = x.new_zeros(places.shape)
        for at, rows, labels in _pairs(places, x.shape[1]):
            scores[at] = (x[rows] * w[labels]).sum(1)
        return scores

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        x, w, places = ctx.saved_tensors
        dx, dw = torch.zeros_like(x), torch.zeros_like(w)
        for at, rows, labels in _pairs(places, x.shape[1]):
            slopes = gradient[at][:, None]  # (E, 1)
            dx.index_add_(0, rows, slopes * w[labels])
            dw.index_add_(0, labels, slopes * x[rows])
        return dx, dw, None


def _pairs(places: Tensor, width: int) -> Iterator[tuple[tuple[Tensor, Tensor], Tensor, Tensor]]:
    """The pairs that there are, some at a time: where they are in the scores, their documents and their labels."""
    size = max(1, _NUMBERS // max(1, width))
    rows, columns = (places >= 0).nonzero(as_tuple=True)
    for start in range(0, len(rows), size):
        at = rows[start : start + size], columns[start : start + size]
        yield at, at[0], places[at]
