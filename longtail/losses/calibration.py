"""The calibration loss of OAK: a document that knows more must score its labels better than the document alone."""

from __future__ import annotations

import torch
from torch import Tensor

from longtail.losses.pairs import hide


def calibration(
    enriched: Tensor, targets: Tensor, mask: Tensor, *, plain: Tensor, margin: float = 0.05, most: int | None = 10
) -> Tensor:
    """Hinge on the pairs where the enriched score is not better than the plain one, by a margin.

    ``mean_i mean_l [d_il (p_il - e_il) + margin]_+``, with e enriched and p plain scores, d = 1 for a true pair and -1
    for any other, l the ``most`` labels of the row where the bracket is largest. A true label must score higher by the
    margin once the document is enriched, a wrong one lower. A row without a true pair is left out: what is not known
    of its labels would count as wrong.

    Args:
        enriched: (B, P), cosines in [-1, 1] as a rule.
        targets: (B, P) in [0, 1]; a target above 0 is a true pair.
        mask: (B, P) bool, False where unknown.
        plain: (B, P) scores of the same pairs without enrichment.
        margin: by how much the enriched score must be better.
        most: use this many most violating labels a row; None uses all.

    Returns:
        () float32, divided by the number of rows that have a true pair; a row is divided by its labels used.

    OAK, eq. 6; eq. 6 takes all pairs of a batch, its code the 10 most violating labels of each row, as here.
    """
    wide = torch.promote_types(enriched.dtype, torch.float32)
    direction = torch.where(targets > 0, 1.0, -1.0).to(wide)  # (B, P)
    with torch.no_grad():
        gaps = direction * (plain.to(wide) - enriched.to(wide))
        count = gaps.shape[1] if most is None else min(most, gaps.shape[1])
        known = (mask & (targets > 0)).any(1, keepdim=True)  # (B, 1)
        largest, columns = hide(gaps, mask & known).topk(count)  # (B, M)
    counts = largest != torch.finfo(largest.dtype).min  # (B, M)
    e, p, d = (scores.gather(1, columns).to(wide) for scores in (enriched, plain, direction))  # (B, M)
    violations = torch.where(counts, torch.relu(d * (p - e) + margin), 0)
    rows = counts.sum(1)
    return (violations.sum(1) / rows.clamp(min=1)).sum() / (rows > 0).sum().clamp(min=1)
