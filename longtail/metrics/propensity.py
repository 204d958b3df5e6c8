"""How often a label occurs in training, and the weight that the propensity model gives to finding it."""

from __future__ import annotations

import math

import numpy as np

from longtail.data.sparse import CSR
from longtail.errors import BadInput
from longtail.topk import Float64Array, FloatArray, IntArray


def label_frequency(targets: CSR) -> IntArray:
    """(L,) int64: the rows that hold each label, by pattern: a stored value counts once if it is above 0."""
    return np.bincount(targets.indices[targets.data > 0], minlength=targets.shape[1]).astype(np.int64)


def inverse_propensity(targets: CSR, A: float, B: float) -> Float64Array:
    """The weight 1 / p_l of each label: 1 + C (N_l + B)^-A with C = (ln N - 1) (B + 1)^A.

    Source: Jain, Prabhu and Varma, 2016, section 4, eq. 3. The constants belong to a data set and are never defaulted.

    Args:
        targets: (N, L) labels of the original training documents, by pattern. Rows that a method adds (label texts,
            augmented data) must not be in it: they would change N and every N_l, and no published number would compare.
        A: at least 0; published values are 0.5, 0.55 and 0.6.
        B: above 0; published values are 0.4, 1.5 and 2.6.

    Returns:
        (L,) float64, at least 1; largest for labels that were never seen.

    Raises:
        BadInput: A or B is out of range, or N < 3, where the model has no meaning (ln N - 1 is negative).
    """
    rows = targets.shape[0]
    if not (math.isfinite(A) and math.isfinite(B) and A >= 0 and B > 0):
        found = f"expected A >= 0 and B > 0, found A = {A:g} and B = {B:g}"
        raise BadInput("propensity", found, remedy="give those of published results, as 0.55 and 1.5")
    if rows < 3:
        raise BadInput("propensity", f"expected at least 3 training rows, found {rows}", remedy="leave out the PSP")
    C = (math.log(rows) - 1) * (B + 1) ** A
    weights: Float64Array = 1 + C * (label_frequency(targets) + float(B)) ** -A  # (L,)
    return weights


def log_odds(targets: CSR) -> FloatArray:
    """The logarithm of the share of documents that have a label, (L,) float32: where a one-versus-all bias starts.

    A soft target counts as what it is.

    A pool holds few of a label's negatives, and a label that no pool holds keeps its start. From 0, that start is the
    highest score of all.

    Args:
        targets: (N, L).
    """
    shares: FloatArray = np.log((targets.sum(0) + 0.5) / targets.shape[0]).astype(np.float32)
    return shares
