"""Losses over all L labels that never build a (B, L) matrix: a few thousand labels at a time, targets as a list.

Each is the twin of the loss of the same name in `longtail.losses.binary` or `longtail.losses.softmax`, with a pool that
is every label: the same value and the same gradients. The forward pass goes over the labels once, for the value; the
backward pass once more, for the slopes of the scores. Scores, slopes and the gradient of a chunk of label vectors live
in buffers that are used again for the next chunk.

What becomes of the gradient of the (L, D) label vectors is up to the caller. A table that must not have a gradient of
its own size brings an `Update`, and is stepped chunk by chunk in the backward pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import softplus

from longtail.losses.full.labels import Encoded, LabelTable
from longtail.losses.full.parts import Part, Update
from longtail.losses.full.targets import SparseTargets
from longtail.losses.pairs import Pairs

_SCORES = {"cpu": 2**21}  # scores of a chunk: few enough to stay in the cache, enough for two threads to be worth it
_SCORES_ELSEWHERE = 2**27
_DRAWN = 4  # parts of the labels, at least, by which a value is had from some of them


def binary_cross_entropy(
    x: Tensor,
    table: LabelTable | Tensor,
    targets: SparseTargets,
    *,
    temperature: float = 1.0,
    update: Update | None = None,
    value_from: int = 1,
    chunk: int | None = None,
) -> Tensor:
    """Logistic loss of every seen pair, summed over labels, averaged over documents.

    ``mean_i sum_l w_il log(1 + exp(-s_il / t)) + (1 - w_il) log(1 + exp(s_il / t))`` with ``s = x table^T``.

    The value costs a matrix product that the gradients do not need. It can be had from a part of the negatives, drawn
    anew at each call (by torch's generator): its expectation is the same, and the gradients are exact all the same.

    Args:
        x: (B, D) documents.
        table: (L, D) label vectors; widened to float32 by chunks if they are narrower.
        targets: of the B documents.
        temperature: t > 0; 1 for logits.
        update: steps the table in the backward pass; without one, the table gets its (L, D) gradient.
        value_from: the value counts one negative in so many, so many times; 1 counts all of them.
        chunk: labels at a time; by default as many as suit the device.

    Returns:
        () float32, divided by B: a document without positives counts.

    Jain et al., 2023 (Renee), section 3: no (B, L) gradient, and a value that is skipped or sampled.
    """
    part = Part.of(*_widened(x, table, temperature), targets, update)
    with torch.no_grad():
        labels = _Labels.of(part, chunk)
        pairs, scores = labels.positives, labels.of_positives()  # (E,)
        value = (softplus(scores) - pairs.weights * scores).sum()
        parts = _DRAWN * value_from  # so that few labels are not all in one
        some = replace(labels, size=max(1, min(labels.size // value_from, -(-len(part.table) // parts))))
        first = int(torch.randint(value_from, ())) if value_from > 1 else 0
        for block in some.chunks(first, value_from):
            block.scores[block.positives] = torch.finfo(scores.dtype).min
            block.scores[block.hidden] = torch.finfo(scores.dtype).min
            value += value_from * softplus(block.scores).sum()
        slopes = _Slopes(scores.sigmoid() - pairs.weights, torch.sigmoid_)
    return _over_labels(part, value, slopes, labels) / max(len(part.x), 1)


def sup_con(
    x: Tensor,
    table: LabelTable | Tensor,
    targets: SparseTargets,
    *,
    temperature: float = 0.05,
    update: Update | None = None,
    chunk: int | None = None,
) -> Tensor:
    """Cross-entropy against all labels, averaged over the positives of a document, then over documents.

    ``mean_i sum_p w_ip (log sum_l exp(s_il / t) - s_ip / t) / sum_p w_ip`` with ``s = x table^T``.

    Args:
        x: (B, D) documents.
        table: (L, D) label vectors; widened to float32 by chunks if they are narrower.
        targets: of the B documents.
        temperature: t > 0.
        update: steps the table in the backward pass; without one, the table gets its (L, D) gradient.
        chunk: labels at a time; by default as many as suit the device.

    Returns:
        () float32, divided by the number of documents that have a positive; 0 where there is none.

    As `longtail.losses.softmax.sup_con`.
    """
    return _softmax(Part.of(*_widened(x, table, temperature), targets, update), chunk, decoupled=False)


def decoupled_softmax(
    x: Tensor,
    table: LabelTable | Tensor,
    targets: SparseTargets,
    *,
    temperature: float = 0.05,
    update: Update | None = None,
    chunk: int | None = None,
) -> Tensor:
    """Cross-entropy of each positive against the negatives alone, averaged over positives, then over documents.

    ``mean_i sum_p w_ip (log (exp(s_ip / t) + sum_n exp(s_in / t)) - s_ip / t) / sum_p w_ip`` with ``s = x table^T``,
    n over the labels whose target is 0.

    Args:
        x: (B, D) documents.
        table: (L, D) label vectors; widened to float32 by chunks if they are narrower.
        targets: of the B documents.
        temperature: t > 0.
        update: steps the table in the backward pass; without one, the table gets its (L, D) gradient.
        chunk: labels at a time; by default as many as suit the device.

    Returns:
        () float32, divided by the number of documents that have a positive; 0 where there is none.

    Gupta et al., 2024 (DEXML), over all labels; as `longtail.losses.softmax.decoupled_softmax`.
    """
    return _softmax(Part.of(*_widened(x, table, temperature), targets, update), chunk, decoupled=True)


def _softmax(part: Part, chunk: int | None, *, decoupled: bool) -> Tensor:
    """The softmax losses of documents that are divided by the temperature."""
    with torch.no_grad():
        labels = _Labels.of(part, chunk)
        pairs, positives = labels.positives, labels.of_positives()  # (E,)
        shares = part.shares
        norms = part.log_summed(*_log_sums(labels, without_positives=decoupled))  # (B,)
        losses = norms[pairs.rows] - positives
        pulls = shares * losses.sigmoid() if decoupled else shares
        pushes = part.summed(pairs.totals(pulls))  # (B,) what the other labels of a document get, in all
        shift = torch.where(pushes > 0, norms - pushes.log(), torch.inf)
        own = -pulls if decoupled else (positives - shift[pairs.rows]).exp() - pulls

        def others(scores: Tensor) -> Tensor:
            return scores.sub_(shift).exp_()

        value = (shares * (softplus(losses) if decoupled else losses)).sum()
    return _over_labels(part, value, _Slopes(own, others), labels)


def _log_sums(labels: _Labels, *, without_positives: bool) -> tuple[Tensor, Tensor]:
    """(B,) the largest score of the seen labels, with or without the positives, and (B,) sum_l exp(s_l - largest)."""
    x = labels.x
    lowest = torch.finfo(x.dtype).min
    tops, sums = x.new_full((len(x),), lowest), x.new_zeros(len(x))
    for part in labels.chunks():
        part.scores[part.hidden] = lowest
        if without_positives:
            part.scores[part.positives] = lowest
        higher = tops.maximum(part.scores.amax(0))  # (B,)
        sums *= (tops - higher).exp_()
        sums += part.scores.sub_(higher).exp_().sum(0)
        tops = higher
    return tops, sums


@dataclass(frozen=True, slots=True)
class _Slopes:
    """The gradient of a value in the scores: given at the positives, elsewhere a function of the score."""

    positives: Tensor  # (E,)
    others: Callable[[Tensor], Tensor]  # (C, B) scores, in place


class _Chunk(NamedTuple):
    labels: slice
    vectors: Tensor  # (C, D)
    scores: Tensor  # (C, B), in a buffer
    positives: tuple[Tensor, Tensor]  # where they are in the scores
    hidden: tuple[Tensor, Tensor]
    pairs: slice  # the positives among all E


@dataclass(frozen=True, slots=True)
class _Labels:
    """All labels and the documents that are scored against them."""

    x: Tensor  # (B, D), wide
    table: LabelTable  # (L, D)
    positives: Pairs  # wide weights
    targets: SparseTargets
    size: int

    @classmethod
    def of(cls, part: Part, size: int | None) -> _Labels:
        x, targets = part.x, part.targets
        pairs = replace(targets.positives, weights=targets.positives.weights.to(x.dtype))
        size = size or max(1, _SCORES.get(x.device.type, _SCORES_ELSEWHERE) // max(len(x), 1))
        return cls(x.detach(), part.table, pairs, targets, size)

    def of_positives(self) -> Tensor:
        """(E,) scores of the positives."""
        pairs = self.positives
        return (self.x[pairs.rows] * self.table.rows(pairs.columns).to(self.x.dtype)).sum(1)

    def chunks(self, first: int = 0, every: int = 1) -> Iterator[_Chunk]:
        """The labels, ``size`` at a time."""
        L, size = len(self.table), self.size
        edges = torch.arange(0, L + size, size, device=self.x.device)
        pairs, hidden = self.positives, self.targets
        cuts, hidden_cuts = (torch.searchsorted(ids, edges).tolist() for ids in (pairs.columns, hidden.hidden_labels))
        buffer = self.x.new_empty(min(size, L), len(self.x))
        for at, (labels, rows) in islice(enumerate(self.table.blocks(size)), first, None, every):
            vectors = rows.to(self.x.dtype)  # (C, D)
            own, out = slice(cuts[at], cuts[at + 1]), slice(hidden_cuts[at], hidden_cuts[at + 1])
            yield _Chunk(
                labels,
                vectors,
                torch.mm(vectors, self.x.T, out=buffer[: len(vectors)]),  # (C, B)
                (pairs.columns[own] - labels.start, pairs.rows[own]),
                (hidden.hidden_labels[out] - labels.start, hidden.hidden_rows[out]),
                own,
            )


class _OverLabels(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, table: Tensor, value: Tensor, slopes: _Slopes, labels: _Labels, update: Update | None
    ) -> Tensor:
        ctx.save_for_backward(x, table)  # so that a change of either on the way is an error
        ctx.slopes, ctx.labels, ctx.update = slopes, labels, update
        return value

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        _, table = ctx.saved_tensors
        slopes, labels, update = ctx.slopes, ctx.labels, ctx.update
        documents = labels.x * upstream  # (B, D)
        dx = torch.zeros_like(documents)
        dense = torch.empty_like(table, dtype=dx.dtype) if update is None and ctx.needs_input_grad[1] else None
        for part in labels.chunks():
            slope = slopes.others(part.scores)  # (C, B)
            slope[part.positives] = slopes.positives[part.pairs]
            slope[part.hidden] = 0
            dx.addmm_(slope.T, part.vectors)
            if update is not None:
                update(part.labels, part.vectors, slope, documents)
            elif dense is not None:
                torch.mm(slope, documents, out=dense[part.labels])
        return dx * upstream, None if dense is None else dense.to(table.dtype), None, None, None, None


def _widened(x: Tensor, table: LabelTable | Tensor, temperature: float) -> tuple[Tensor, LabelTable]:
    """Documents over the temperature, in the type of all that follows: float32, or float64 where one of both is."""
    table = Encoded(table) if isinstance(table, Tensor) else table
    wide = x.to(torch.promote_types(torch.promote_types(x.dtype, table.weight.dtype), torch.float32))
    return wide / temperature, table


def _over_labels(part: Part, value: Tensor, slopes: _Slopes, labels: _Labels) -> Tensor:
    result: Tensor = _OverLabels.apply(part.x, part.table.weight, value, slopes, labels, part.update)  # type: ignore[no-untyped-call]
    return result if part.scale == 1 else result * part.scale
