"""Whether what is said to be right in p of all cases is right in p of them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from longtail.data.sparse import CSR, holds
from longtail.metrics.places import divide, percent
from longtail.topk import Float64Array, FloatArray, IntArray, TopK

KS = (1, 5)  # ranked labels of a document that are judged
BINS = 10  # of equal width


class Reliability(NamedTuple):
    """The probabilities of the first k labels of each document, by bins of equal width over [0, 1].

    Attributes:
        labels: (b,) int64, ranked labels in each bin.
        said: (b,) float64, their mean probability; 0 where there are none.
        right: (b,) float64, the share of them that is true; 0 where there are none.
    """

    labels: IntArray
    said: Float64Array
    right: Float64Array

    @classmethod
    def of(cls, top: TopK, probabilities: FloatArray, truth: CSR, k: int) -> Reliability:
        """Count.

        Args:
            top: (n, K) ranked labels of n test documents; an empty place does not count.
            probabilities: (n, K) of these labels.
            truth: (n, L) the relevant labels.
            k: the first k of each document count.
        """
        first, relevant = top.first(k), truth.copy()
        relevant.eliminate_zeros()
        there, right = first.ids >= 0, holds(relevant, first.ids)
        chances = probabilities[:, :k][there].astype(np.float64)
        bins = np.minimum((BINS * chances).astype(np.int64), BINS - 1)
        labels = np.bincount(bins, minlength=BINS)
        said, hits = (np.bincount(bins, of, minlength=BINS).astype(np.float64) for of in (chances, right[there]))
        return cls(labels, divide(said, labels), divide(hits, labels))

    @property
    def error(self) -> float:
        """The expected calibration error, in percentage points (Naeini et al., 2015; Guo et al., 2017, eq. 3)."""
        return float(percent(np.asarray(self.labels @ np.abs(self.said - self.right)), self.labels.sum()))

    def as_dict(self) -> dict[str, Any]:
        """As JSON."""
        return {**{name: getattr(self, name).tolist() for name in self._fields}, "error": self.error}


def calibration_errors(top: TopK, probabilities: FloatArray, truth: CSR) -> dict[str, float]:
    """``{"ECE@1": ..., "ECE@5": ...}`` in percentage points; see `Reliability`."""
    return {f"ECE@{k}": Reliability.of(top, probabilities, truth, k).error for k in KS}
