"""The SoftTop-k loss of DEXML: how surely is a positive among the first k?"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from longtail.losses.pairs import hide, positive_pairs, with_gradient

_HALVINGS, _POLISH = 24, 4  # of the bracket around the threshold, and Newton's steps within it
_FLAT = 1e-2  # of a sum of p (1 - p): a threshold with next to no label near it
_TAIL = 20.0  # logits from a score to a threshold that all but surely takes it in, or leaves it out


def soft_top_k(
    scores: Tensor, targets: Tensor, mask: Tensor, *, temperature: float = 0.05, k: int = 5, alpha: float = 2.0
) -> Tensor:
    """Cross-entropy of the places among the first k that a row's labels share, averaged over positives, then rows.

    ``mean_i sum_p w_ip (-ln p_ip) / sum_p w_ip`` with ``p_il = sigmoid(alpha (s_il / t - theta_i))``, where theta_i is
    the threshold at which the p of a row's seen labels add up to k: a softmax that gives k places and not one. A row
    with no more than k seen labels has room for all, and loss 0.

    Args:
        scores: (B, P), any range.
        targets: (B, P) in [0, 1].
        mask: (B, P) bool, False where unknown.
        temperature: t > 0.
        k: how many places there are.
        alpha: how sharp the threshold is.

    Returns:
        () float32, divided by the number of rows that have a positive; 0 where there is none.

    Gupta et al., 2024 (DEXML), section 3.4; k = 5 and alpha = 2 are those of its public code.
    """
    pairs = positive_pairs(targets, mask)
    slope = alpha / temperature
    with torch.no_grad():
        logits = hide(scores, mask).mul_(slope)  # (B, P), -inf where unknown
        crowded = (mask.sum(1) > k)[:, None]  # (B, 1)
        logits -= _thresholds(logits, mask, crowded, k)
        left_out = (-logits).sigmoid()  # (B, P), 1 - p
        spread = logits.sigmoid() * left_out  # (B, P)
        shares = pairs.shares().to(spread.dtype) * crowded[pairs.rows, 0]  # (E,)
        pulls = shares * left_out[pairs.rows, pairs.columns]  # (E,)
        value = -(shares * logsigmoid(logits[pairs.rows, pairs.columns])).sum()
        lifted = pairs.totals(pulls)[:, None] / spread.sum(1, keepdim=True).clamp(min=torch.finfo(spread.dtype).tiny)
        gradient = spread * lifted  # every label lifts the threshold
        gradient.index_put_((pairs.rows, pairs.columns), -pulls, accumulate=True)
    return with_gradient(scores, value, gradient.mul_(slope))


def _thresholds(logits: Tensor, mask: Tensor, crowded: Tensor, k: int) -> Tensor:
    """(B, 1) the thresholds at which the sigmoids of a row add up to k; 0 for a row that is not crowded."""
    low = torch.where(mask, logits, torch.inf).amin(1, keepdim=True) - _TAIL
    high = torch.where(mask, logits, -torch.inf).amax(1, keepdim=True) + _TAIL
    low, high = torch.where(crowded, low, 0), torch.where(crowded, high, 0)
    found = _solved(_over, logits, low, high, k)
    flat = (crowded & (_spread(logits - found) < _FLAT))[:, 0].nonzero()[:, 0]
    if len(flat):
        found[flat] = _solved(_over_where_flat, logits[flat], low[flat], high[flat], k)
    return found


def _solved(over: Callable[[Tensor, Tensor, int], Tensor], logits: Tensor, low: Tensor, high: Tensor, k: int) -> Tensor:
    """(B, 1) the thresholds between two bounds at which ``over`` is 0."""
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        above = over(logits, middle, k) > 0
        low, high = torch.where(above, middle, low), torch.where(above, high, middle)
    found = (low + high) / 2
    for _ in range(_POLISH):
        spread = _spread(logits - found).clamp_(min=torch.finfo(found.dtype).tiny)
        found = (found + over(logits, found, k) / spread).clamp(low, high)
    return found


def _over(logits: Tensor, threshold: Tensor, k: int) -> Tensor:
    """(B, 1) by how much the sigmoids of a row add up to more than k."""
    return (logits - threshold).sigmoid_().sum(1, keepdim=True) - k


def _over_where_flat(logits: Tensor, threshold: Tensor, k: int) -> Tensor:
    """The same where k labels are so far above all others that a sum near k cannot tell what each lacks of it.

    It is a whole number of labels above the threshold, and what is lacking of these and there of the others.
    """
    below = threshold - logits
    lacking = below.abs().neg_().sigmoid_().copysign_(below).sum(1, keepdim=True)
    return ((below < 0).sum(1, keepdim=True) - k) + lacking  # in this order, so that nothing small is lost


def _spread(apart: Tensor) -> Tensor:
    """(B, 1) the sum of p (1 - p) over the sigmoids of a row."""
    return (apart.sigmoid() * (-apart).sigmoid_()).sum(1, keepdim=True)
