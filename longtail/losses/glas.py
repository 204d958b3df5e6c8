"""The GLaS regulariser: labels that occur together shall have vectors that point the same way."""

from __future__ import annotations

from torch import Tensor


def glas(vectors: Tensor, related: Tensor) -> Tensor:
    """Mean squared difference between the inner products of label vectors and how often the labels occur together.

    ``1 / P^2 sum_lm (<w_l, w_m> - S_lm)^2``, l and m over the labels of a pool.

    Args:
        vectors: (P, D), as they enter the scores.
        related: (P, P) in [0, 1]: S, the mean of the conditional probabilities in both directions
            (`longtail.data.cooccurrence.related_labels` with ``symmetric``), 1 on the diagonal.

    Returns:
        () in the type of the vectors.

    Guo et al., 2019 (GLaS); the thesis, eq. 1.8. The paper sums over all L^2 pairs; this is the mean over a pool.
    """
    return (vectors @ vectors.T - related).square().mean()
