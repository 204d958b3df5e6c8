"""The distillation loss: a student's pool of scores is to be what a teacher says of the same labels."""

from __future__ import annotations

import torch
from torch import Tensor

from longtail.losses.pairs import hide, with_gradient


def distillation(scores: Tensor, mask: Tensor, *, teacher: Tensor, temperature: float = 0.1) -> Tensor:
    """The Kullback-Leibler divergence of a student's softmax over the pool from a teacher's, averaged over rows.

    ``mean_i sum_l p_il (log p_il - log q_il)``, with p the softmax of the teacher's row and q that of ``scores / t``,
    over the labels seen. It asks nothing of true pairs, so a row without any counts as the others do.

    Args:
        scores: (B, P), any range; cosines as a rule.
        mask: (B, P) bool, False where unknown; each row has a label that is seen.
        teacher: (B, P) logits.
        temperature: t > 0, of the student's scores.

    Returns:
        () float32, divided by the number of rows.

    Hinton et al., 2015, eq. 1 and section 2, with soft targets at a temperature of 1: those of a fusion are logits that
    were learned on held-out documents, and so are probabilities.
    """
    with torch.no_grad():
        p = hide(teacher, mask).log_softmax(1)
        q = (hide(scores, mask) / temperature).clamp_(min=torch.finfo(p.dtype).min).log_softmax(1)
        value = (p.exp() * (p - q)).sum(1).mean()
        gradient = (q.exp() - p.exp()) / (temperature * len(scores))
    return with_gradient(scores, value, gradient)
