"""One-versus-all losses: every seen pair of a pool is a yes-or-no question of its own.

A target w between 0 and 1 mixes the two answers: ``w * loss of a positive + (1 - w) * loss of a negative``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import softplus

from longtail.losses.pairs import hide, positive_pairs, with_gradient


def binary_cross_entropy(
    scores: Tensor,
    targets: Tensor,
    mask: Tensor,
    *,
    temperature: float = 1.0,
    over_labels: Literal["sum", "mean"] = "sum",
) -> Tensor:
    """Logistic loss of every seen pair, summed over labels, averaged over rows.

    ``mean_i sum_l w_il log(1 + exp(-s_il / t)) + (1 - w_il) log(1 + exp(s_il / t))``, l over the seen labels.

    Args:
        scores: (B, P), any range.
        targets: (B, P) in [0, 1].
        mask: (B, P) bool, False where unknown.
        temperature: t > 0; 1 for logits.
        over_labels: "mean" divides a row by the number of its seen labels.

    Returns:
        () float32, divided by B: a row without positives counts.

    Jain et al., 2023 (Renee), which sums over labels.
    """
    logits = scores.to(torch.promote_types(scores.dtype, torch.float32))
    logits = logits if temperature == 1 else logits / temperature
    return with_gradient(logits, *_one_versus_all(_logistic, logits, targets, mask, over_labels))


def squared_hinge(
    scores: Tensor, targets: Tensor, mask: Tensor, *, over_labels: Literal["sum", "mean"] = "sum"
) -> Tensor:
    """Squared hinge of every seen pair, summed over labels, averaged over rows.

    ``mean_i sum_l w_il [1 - s_il]_+^2 + (1 - w_il) [1 + s_il]_+^2``, l over the seen labels.

    Args:
        scores: (B, P), any range; 1 and -1 are far enough.
        targets: (B, P) in [0, 1].
        mask: (B, P) bool, False where unknown.
        over_labels: "mean" divides a row by the number of its seen labels.

    Returns:
        () float32, divided by B: a row without positives counts.

    Babbar and Schölkopf, 2017 (DiSMEC), section 2, without its regulariser.
    """
    return with_gradient(scores, *_one_versus_all(_hinge, scores, targets, mask, over_labels))


def _logistic(scores: Tensor) -> tuple[Tensor, Tensor]:
    return softplus(scores), scores.sigmoid()


def _hinge(scores: Tensor) -> tuple[Tensor, Tensor]:
    gaps = (1 + scores).clamp_min_(0)
    return gaps.square(), 2 * gaps


@torch.no_grad()
def _one_versus_all(
    negative: Callable[[Tensor], tuple[Tensor, Tensor]],
    scores: Tensor,
    targets: Tensor,
    mask: Tensor,
    over_labels: Literal["sum", "mean"],
) -> tuple[Tensor, Tensor]:
    """The value, (), and its gradient, (B, P).

    ``negative`` gives the loss of negatives at any scores, and its slope; both are 0 at the lowest number, where
    masked pairs are put. A positive is a negative of the opposite score.
    """
    pairs = positive_pairs(targets, mask)
    pool = hide(scores, mask)  # (B, P)
    counts = mask.sum(1).clamp_min(1) if over_labels == "mean" else mask.new_ones(len(mask), dtype=torch.int64)
    shares = 1 / (len(scores) * counts.to(pool.dtype))  # (B,)

    positives = pool[pairs.rows, pairs.columns]  # (E,)
    pool[pairs.rows, pairs.columns] = torch.finfo(pool.dtype).min
    weights = pairs.weights.to(pool.dtype)
    (losses, slopes), (no, no_slope), (yes, yes_slope) = negative(pool), negative(positives), negative(-positives)
    value = (shares * losses.sum(1)).sum() + (shares[pairs.rows] * (weights * yes + (1 - weights) * no)).sum()
    gradient = slopes.mul_(shares[:, None])  # (B, P)
    gradient[pairs.rows, pairs.columns] = shares[pairs.rows] * ((1 - weights) * no_slope - weights * yes_slope)
    return value, gradient
