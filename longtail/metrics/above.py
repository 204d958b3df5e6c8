"""What labels are worth that are given for their probability, and not for their place in a ranking."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from longtail.data.sparse import CSR
from longtail.metrics.intervals import Interval, intervals
from longtail.metrics.offline import recommended
from longtail.metrics.places import Ratio, percent
from longtail.topk import FloatArray, TopK


@dataclass(frozen=True, slots=True)
class Above:
    """The labels of n test documents that are at least so probable.

    Attributes:
        threshold: the least probability of a label that is given, in [0, 1].
        labels: given to a document, on average.
        documents: that are given one, in percent.
        metrics: ``precision``, the share of what is given that is true; ``recall``, the share of what is true that is
            given; and ``F1``, the harmonic mean of both. In percent, over all pairs of a document and a label
            (micro-averaged), with 95 % intervals over documents.
    """

    threshold: float
    labels: float
    documents: float
    metrics: Mapping[str, Interval]

    def as_dict(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)

    def __str__(self) -> str:
        metrics = ", ".join(f"{name} {it.value:.2f} ±{it.half:.2f}" for name, it in self.metrics.items())
        given = f"{self.labels:.2f} labels a document, and {self.documents:.2f} % of documents have one"
        return f"Labels at least {self.threshold:g} probable: {metrics} (95 %); {given}."


def above(top: TopK, probabilities: FloatArray, truth: CSR, threshold: float) -> Above:
    """Give the ranked labels that are at least so probable, and judge them.

    Args:
        top: (n, K) ranked labels of n test documents, of which an empty place is never given.
        probabilities: (n, K) of these labels.
        truth: (n, L) the relevant labels.
        threshold: in [0, 1].
    """
    relevant = truth > 0
    given = recommended(top, truth.shape[1], top.k, probabilities, threshold)  # (n, L)
    counts = (np.diff(pairs.indptr).astype(np.float64) for pairs in (given.multiply(relevant), given, relevant))
    right, labels, true = counts  # (n,) each
    ratios = {"precision": Ratio(right, labels), "recall": Ratio(right, true), "F1": Ratio(2 * right, labels + true)}
    some = percent(np.asarray((labels > 0).sum(), np.float64), np.asarray(len(labels)))
    return Above(threshold, float(labels.mean()), float(some), intervals(ratios, np.random.default_rng(0)))
