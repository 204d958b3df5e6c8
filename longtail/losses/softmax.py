"""Softmax losses over a pool: how probable is a positive among the labels in sight?

Notation: s scores, t temperature, w targets times mask. A target between 0 and 1 makes its pair a positive of that
weight. Scores are cosines as a rule; the default temperature is for those.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from longtail.losses.base import Loss
from longtail.losses.pairs import Pairs, hide, positive_pairs, with_gradient
from longtail.shards.shard import everyones, here


def info_nce(scores: Tensor, targets: Tensor, mask: Tensor, *, temperature: float = 0.05) -> Tensor:
    """Cross-entropy of each positive pair against the whole pool; every pair is one example.

    ``sum_ip w_ip (log sum_l exp(s_il / t) - s_ip / t) / sum_ip w_ip``, l over all seen labels of the row. With one
    positive a row this is plain cross-entropy. With several, the other positives stay in the denominator, and a row
    with many positives counts more than a row with one; `sup_con` gives both the same say.

    Args:
        scores: (B, P), any range.
        targets: (B, P) in [0, 1].
        mask: (B, P) bool, False where unknown.
        temperature: t > 0.

    Returns:
        () float32, divided by the sum of the positives' targets; 0 where there are none.

    Van den Oord et al., 2018, eq. 4, as used by DPR (Karpukhin et al., 2020, eq. 2), where a batch has one positive
    a row; the mean over pairs is the extension to several.
    """
    pairs = positive_pairs(targets, mask)
    shares = pairs.weights / pairs.weights.sum()  # (E,)
    return with_gradient(scores, *_cross_entropy(scores, mask, pairs, shares, temperature))


def sup_con(scores: Tensor, targets: Tensor, mask: Tensor, *, temperature: float = 0.05) -> Tensor:
    """Cross-entropy against the whole pool, averaged over the positives of a row, then over rows.

    ``mean_i sum_p w_ip (log sum_l exp(s_il / t) - s_ip / t) / sum_p w_ip``, l over all seen labels of the row, other
    positives included: the positives share a probability of 1, which bounds how far each can go.

    Args:
        scores: (B, P), any range.
        targets: (B, P) in [0, 1].
        mask: (B, P) bool, False where unknown.
        temperature: t > 0.

    Returns:
        () float32, divided by the number of rows that have a positive; 0 where there is none.

    Khosla et al., 2020, eq. 2; the thesis, section 2.4, L_SupCon. The thesis sums over rows; here it is the mean.
    """
    pairs = positive_pairs(targets, mask)
    return with_gradient(scores, *_cross_entropy(scores, mask, pairs, pairs.shares(), temperature))


def decoupled_softmax(scores: Tensor, targets: Tensor, mask: Tensor, *, temperature: float = 0.05) -> Tensor:
    """Cross-entropy of each positive against the negatives alone, averaged over a row's positives, then over rows.

    ``mean_i sum_p w_ip (log (exp(s_ip / t) + sum_n exp(s_in / t)) - s_ip / t) / sum_p w_ip``, n over the seen labels
    of the row whose target is 0: positives do not compete with each other. A row without a negative has loss 0.

    Args:
        scores: (B, P), any range.
        targets: (B, P) in [0, 1]; any target above 0 is out of the denominator.
        mask: (B, P) bool, False where unknown.
        temperature: t > 0.

    Returns:
        () float32, divided by the number of rows that have a positive; 0 where there is none.

    Gupta et al., 2024 (DEXML), decoupled softmax; the thesis, section 2.4, L_DecoupledSoftmax. DEXML's code samples
    one positive a row and step; here all pooled positives are used, the expectation of that. The thesis sums over
    rows; here it is the mean.
    """
    pairs = positive_pairs(targets, mask)
    return with_gradient(scores, *_cross_entropy(scores, mask, pairs, pairs.shares(), temperature, decoupled=True))


def symmetric(loss: Loss, scores: Tensor, targets: Tensor, mask: Tensor, *, mix: float = 0.5) -> Tensor:
    """A loss from documents to labels, mixed with the same loss from labels to documents.

    ``mix * loss(s, w) + (1 - mix) * loss(s^T, w^T)``. In the second term every pooled label is a row and the batch's
    documents are its pool; a loss that is defined by positives leaves out labels without any. Bind options of the
    loss with `functools.partial`; `functools.partial(symmetric, loss)` is again a `Loss`.

    Args:
        loss: which loss.
        scores: (B, P), any range.
        targets: (B, P) in [0, 1].
        mask: (B, P) bool, False where unknown.
        mix: the share of the first term, in [0, 1].

    Returns:
        () float32; each term divided as the loss says.

    The thesis, section 2.3.2 (lambda_D, 0.5 throughout).
    """
    shard = here()
    if shard is None:
        return mix * loss(scores, targets, mask) + (1 - mix) * loss(scores.T, targets.T, mask.T)
    start = sum(shard.lengths(len(scores))[: shard.index])
    own = slice(start, start + len(scores))
    (every,) = everyones(scores)  # a label's documents are those of the whole batch, in every shard
    others = (torch.cat(shard.gather(rows)).T for rows in (targets, mask))
    return mix * loss(every[own], targets, mask) + (1 - mix) * loss(every.T, *others)


@torch.no_grad()
def _cross_entropy(
    scores: Tensor, mask: Tensor, pairs: Pairs, shares: Tensor, temperature: float, *, decoupled: bool = False
) -> tuple[Tensor, Tensor]:
    """Sum over the positives of share * -log p, (), and its gradient, (B, P).

    Args:
        scores: (B, P).
        mask: (B, P) bool.
        pairs: E positives.
        shares: (E,) what each counts.
        temperature: above 0.
        decoupled: a positive competes with the negatives alone, else with every label seen.
    """
    pool = hide(scores, mask)  # (B, P)
    positives = pool[pairs.rows, pairs.columns]  # (E,)
    if decoupled:
        pool[pairs.rows, pairs.columns] = torch.finfo(pool.dtype).min
    tops = pool.amax(1, keepdim=True)  # (B, 1)
    totals = pool.sub_(tops).div_(temperature).exp_().sum(1)  # (B,)
    losses = (tops[pairs.rows, 0] - positives) / temperature + totals.log()[pairs.rows]  # (E,)
    slopes = shares.to(pool.dtype) / temperature
    if decoupled:
        slopes = slopes * losses.sigmoid()
        losses = -logsigmoid(-losses)
    gradient = pool.mul_((pairs.totals(slopes) / totals)[:, None])  # (B, P)
    gradient.index_put_((pairs.rows, pairs.columns), -slopes, accumulate=True)
    return (shares * losses).sum(), gradient
