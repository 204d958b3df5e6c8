"""The triplet loss of NGAME, OAK and RAMEN: a positive must score higher than the hardest negatives, by a margin."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from longtail.losses.pairs import Pairs, hide, pick, positive_pairs


def triplet(
    scores: Tensor,
    targets: Tensor,
    mask: Tensor,
    *,
    margin: float = 0.3,
    positives: int | None = None,
    negatives: int = 10,
    temperature: float = 0.1,
    satisfied: Literal["excluded", "included"] = "excluded",
) -> Tensor:
    """Hinge of each positive against the hardest negatives of its row, where harder negatives weigh more.

    ``mean_i sum_p w_ip sum_n a_pn [s_in - s_ip + margin]_+ / sum_p w_ip``, with s scores, w targets times mask, n the
    hardest (highest) seen labels of the row whose target is 0, and ``a_pn`` a softmax of ``s_in / temperature`` over
    n. The gradient goes through the softmax too, as in NGAME's code.

    A negative that keeps the margin has no loss. "excluded" leaves it out of the softmax, so that the weights of the
    violators sum to 1 (OAK's code). "included" keeps it with weight e^0 (NGAME's code): it then takes weight from the
    violators, most where those score below 0. "excluded" is the default, as a violator should not count less because
    another negative is already in place.

    NGAME's encoder stage is the default. Its classifier stage is ``margin=0.2, positives=3, negatives=5``, weighed by
    hinge instead of by score: over the violators of one positive that is the same softmax, as the two differ by a
    constant there.

    Args:
        scores: (B, P), cosines in [-1, 1] as a rule.
        targets: (B, P) in [0, 1]; a target between makes a positive of that weight, and no label above 0 is a negative.
        mask: (B, P) bool, False where unknown.
        margin: by how much a positive must score higher.
        positives: use this many lowest-scored positives a row; None uses all that are in the pool.
        negatives: use this many highest-scored negatives a row; fewer where the row has fewer.
        temperature: of the softmax, above 0.
        satisfied: what happens to the negatives that keep the margin; see above.

    Returns:
        () float32, divided by the number of rows that have a positive; a row without a negative has loss 0.

    Dahiya et al., 2023 (NGAME), section 3; OAK, eq. 1 and 3; RAMEN, section 3.1. Departures: NGAME samples one
    positive a row and ignores the others that the pool happens to hold, here they are averaged; and its code divides
    by ``negatives`` too, which only scales the loss.
    """
    pairs = positive_pairs(targets, mask)
    if positives is not None:
        pairs = _lowest(pairs, scores, positives)
    highest, columns = hide(scores, mask & (targets == 0)).topk(min(negatives, scores.shape[1]))  # (B, M)
    exists = highest != torch.finfo(highest.dtype).min  # (B, M)

    positive, negative = pick(scores, pairs, columns)  # (E,), (B, M)
    gaps = negative[pairs.rows] - positive[:, None] + margin  # (E, M)
    violates = exists[pairs.rows] & ~(gaps <= 0)  # a gap that is not a number must show
    logits = torch.where(violates, negative[pairs.rows] / temperature, 0)
    weighed = violates if satisfied == "excluded" else exists[pairs.rows]
    weights = logits.masked_fill(~weighed, torch.finfo(logits.dtype).min).softmax(1)  # (E, M)
    return (pairs.shares() * (weights * torch.where(violates, gaps, 0)).sum(1)).sum()


@torch.no_grad()
def _lowest(pairs: Pairs, scores: Tensor, count: int) -> Pairs:
    """The ``count`` lowest-scored positives of each row."""
    order = scores[pairs.rows, pairs.columns].argsort()
    order = order[pairs.rows[order].argsort(stable=True)]  # by row, then by score
    sizes = pairs.rows.bincount(minlength=pairs.height)  # (B,)
    starts = sizes.cumsum(0) - sizes
    ranks = torch.arange(len(order), device=order.device) - starts[pairs.rows]  # pairs are in row order
    return pairs.take(order[ranks < count])
