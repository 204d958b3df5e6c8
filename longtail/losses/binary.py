"""The one-versus-all loss: every seen pair of a pool is a yes-or-no question of its own.

A target w between 0 and 1 mixes the two answers: ``w * loss of a positive + (1 - w) * loss of a negative``.
"""

from __future__ import annotations

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
    return with_gradient(logits, *_one_versus_all(logits, targets, mask, over_labels))


@torch.no_grad()
def _one_versus_all(
    logits: Tensor, targets: Tensor, mask: Tensor, over_labels: Literal["sum", "mean"]
) -> tuple[Tensor, Tensor]:
    """The value, (), and its gradient, (B, P).

    Masked pairs are put at the lowest number, where the loss of a negative and its slope are 0. A positive is a
    negative of the opposite score.
    """
    pairs = positive_pairs(targets, mask)
    pool = hide(logits, mask)  # (B, P)
    counts = mask.sum(1).clamp_min(1) if over_labels == "mean" else mask.new_ones(len(mask), dtype=torch.int64)
    shares = 1 / (len(logits) * counts.to(pool.dtype))  # (B,)

    positives = pool[pairs.rows, pairs.columns]  # (E,)
    pool[pairs.rows, pairs.columns] = torch.finfo(pool.dtype).min
    weights = pairs.weights.to(pool.dtype)
    of_positives = weights * softplus(-positives) + (1 - weights) * softplus(positives)
    value = (shares * softplus(pool).sum(1)).sum() + (shares[pairs.rows] * of_positives).sum()
    gradient = pool.sigmoid().mul_(shares[:, None])  # (B, P)
    slopes = (1 - weights) * positives.sigmoid() - weights * (-positives).sigmoid()
    gradient[pairs.rows, pairs.columns] = shares[pairs.rows] * slopes
    return value, gradient
