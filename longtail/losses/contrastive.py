"""The probabilistic contrastive loss of SiameseXML: a cosine is the logarithm of how probable a pair is."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from longtail.losses.pairs import hide, pick, positive_pairs


def probabilistic_contrastive(
    scores: Tensor, targets: Tensor, mask: Tensor, *, c: float = 0.9, temperature: float = 2 / 3, negatives: int = 2
) -> Tensor:
    """Log-likelihood of the positives and of the hardest negatives of a row, with ``Pr(s) = c exp((s - 1) / t)``.

    ``mean_i sum_p w_ip (-ln Pr(s_ip)) / sum_p w_ip + sum_n -ln(1 - Pr(s_in))``, with w targets times mask, and n the
    ``negatives`` highest seen labels of the row whose target is 0. A positive is pulled with the same force wherever it
    is; a negative is pushed the harder the nearer it is. A score above 1 counts as 1.

    Args:
        scores: (B, P) cosines in [-1, 1].
        targets: (B, P) in [0, 1]; any target above 0 is no negative.
        mask: (B, P) bool, False where unknown.
        c: the probability of a pair whose cosine is 1, in (0, 1).
        temperature: t > 0; the paper has d = 1 / t, at least 1.
        negatives: use this many highest-scored negatives a row; fewer where the row has fewer.

    Returns:
        () float32, divided by the number of rows that have a positive; 0 where there is none.

    Dahiya et al., 2021 (SiameseXML), section 3: the link function and its negative log-likelihood. c, d (1.5) and the
    number of negatives are those of its public code for the encoder. The code averages over all pairs.
    """
    pairs = positive_pairs(targets, mask)
    highest, columns = hide(scores, mask & (targets == 0)).topk(min(negatives, scores.shape[1]))  # (B, M)
    exists = highest != torch.finfo(highest.dtype).min  # (B, M)
    positive, negative = pick(scores, pairs, columns)  # (E,), (B, M)
    pulls = (1 - positive.clamp(max=1)) / temperature - math.log(c)  # (E,)
    probable = c * ((torch.where(exists, negative, 0).clamp(max=1) - 1) / temperature).exp()  # (B, M)
    pushes = torch.where(exists, -torch.log1p(-probable), 0).sum(1)  # (B,)
    shares = pairs.shares().to(pulls.dtype)  # (E,)
    return (shares * pulls).sum() + (pairs.totals(shares) * pushes).sum()
