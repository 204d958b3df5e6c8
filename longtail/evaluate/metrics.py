"""Metrics of ranked labels: P, nDCG, PSP, PSnDCG, R and coverage at any k.

All of them are sums over the *true pairs* (document, relevant label) of a test set, and depend on a ranking only
through the place that it gives to each pair. So the places are looked up once, and each metric is a line of arithmetic
on them. ``docs/metrics.md`` works every definition out by hand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from longtail.data.sparse import CSR, row_of_entry
from longtail.errors import BadInput
from longtail.topk import Float64Array, IntArray, TopK

_BLOCK = 2**22  # places compared at once


@dataclass(frozen=True, slots=True)
class Placed:
    """The E true pairs of n test documents, sorted by document, each with its place in a ranking.

    Attributes:
        n: documents, those without labels included.
        L: labels.
        rows: (E,) int64 in [0, n), the document of each pair.
        labels: (E,) int64 in [0, L), its label.
        places: (E,) float64, 0 for the best place; inf where the ranking does not hold the label.
    """

    n: int
    L: int
    rows: IntArray
    labels: IntArray
    places: Float64Array

    @property
    def relevant(self) -> IntArray:
        """(n,) int64: true labels of each document."""
        return np.bincount(self.rows, minlength=self.n)

    def hits(self, k: int) -> Float64Array:
        """(E,) float64: 1 where the pair is among its document's first k, else 0."""
        return (self.places < k).astype(np.float64)

    def per_document(self, values: Float64Array) -> Float64Array:
        """(n,) float64: sums of (E,) values over each document's pairs."""
        return np.bincount(self.rows, values, minlength=self.n).astype(np.float64, copy=False)


@dataclass(frozen=True, slots=True)
class Ratio:
    """A metric before the last division: 100 sum(gained) / sum(possible) over documents, or over labels for coverage.

    Attributes:
        gained: (n,) float64, not negative, what each document adds to the numerator.
        possible: (n,) float64, not negative, what it adds to the denominator.
        unit: what the n entries stand for, and so what a bootstrap resamples.
    """

    gained: Float64Array
    possible: Float64Array
    unit: Literal["document", "label"] = "document"

    @property
    def value(self) -> float:
        """The metric, in percent; 0 where nothing was possible."""
        return float(percent(self.gained.sum(), self.possible.sum()))

    @property
    def each(self) -> Float64Array:
        """(n,) the metric of each document (or label) alone, in percent; 0 where nothing was possible."""
        return percent(self.gained, self.possible)


def percent(gained: Float64Array, possible: Float64Array | IntArray) -> Float64Array:
    """100 gained / possible, entry by entry, and 0 where nothing was possible."""
    return 100 * _divide(gained, possible)


def place(top: TopK, truth: CSR) -> Placed:
    """Look up the place of every true pair in a ranking.

    Args:
        top: (n, K) ranked labels. The search has left the pairs of a filter file out of it; nothing is filtered here.
        truth: (n, L) CSR, array or matrix. A stored value above 0 marks a relevant label, whatever its size.

    Raises:
        BadInput: no document has a label, or the ranking and the truth disagree about documents or labels.
    """
    n, L = truth.shape
    if len(top) != n:
        raise BadInput("truth", f"{n} documents, and rankings of {len(top)}", remedy="rank and judge the same test set")
    if top.ids.max(initial=-1) >= L:
        found = f"{L} labels, and label {top.ids.max()} was ranked"
        raise BadInput("truth", found, remedy="judge with the labels that the model was trained on")
    pairs = (row_of_entry(truth) * L + truth.indices)[truth.data > 0]
    if len(pairs) == 0:
        raise BadInput("truth", f"none of {n} documents has a label", remedy="give a test set with labels")
    rows, labels = np.divmod(np.unique(pairs), L)  # (E,) each
    places = np.full(len(rows), np.inf)
    step = max(1, _BLOCK // max(1, top.k))
    for start in range(0, len(rows), step):
        part = slice(start, start + step)
        pair, at = np.nonzero(top.ids[rows[part]] == labels[part, None])
        places[start + pair] = at
    return Placed(n, L, rows, labels, places)


def score(
    pairs: Placed, *, ks: Sequence[int] = (1, 3, 5), inverse_propensity: Float64Array | None = None
) -> dict[str, Ratio]:
    """Every metric, document by document.

    With y the labels of a document, q the inverse propensities, and the first k places of its ranking:

    - P: hits / k. The mean counts documents without labels, and a place that the ranking leaves empty is a miss.
    - nDCG: sum of 1 / log2(rank + 1) over hits, divided by that sum over the ranks 1 to min(k, |y|); 0 if y is empty.
    - PSP: sum of q over hits, summed over documents, divided by the sum that a perfect ranking gets: the min(k, |y|)
      largest q of each y. A ratio of sums, not a mean of ratios (Jain et al., 2016, section 4).
    - PSnDCG: sum of q / log2(rank + 1) over hits, divided by the document's nDCG normaliser, summed over documents,
      divided by the sum that the perfect ranking gets, as the tools of the Extreme Classification Repository do it.
    - R: hits / |y|, 0 if y is empty; the mean counts all documents.
    - C, coverage: share of the distinct labels of the test truth that are a hit for at least one document (thesis,
      table 1.4).

    Args:
        pairs: places of the true pairs.
        ks: cut-offs, each at least 1; they may exceed the ranking's length.
        inverse_propensity: (L,) weights; PSP and PSnDCG are left out without them.

    Returns:
        ``{"P@1": ..., "P@3": ..., ...}`` in the order above.

    Raises:
        BadInput: no cut-off or one below 1, or weights that are not (L,).
    """
    if not ks or min(ks) < 1:
        raise BadInput("k", f"expected cut-offs of at least 1, found {list(ks)}", remedy="give for example 1,3,5")
    metrics: dict[str, Callable[[int], Ratio]] = {"P": lambda k: _mean(pairs.per_document(pairs.hits(k)) / k)}
    metrics["nDCG"] = lambda k: _mean(_ndcg(pairs, k))
    if inverse_propensity is not None:
        if inverse_propensity.shape != (pairs.L,):
            found = f"expected one weight for each of {pairs.L} labels, found shape {inverse_propensity.shape}"
            raise BadInput("inverse_propensity", found, remedy="compute it from this data set's training matrix")
        q = inverse_propensity[pairs.labels]  # (E,)
        best = _perfect(pairs, q)
        metrics["PSP"] = lambda k: Ratio(pairs.per_document(pairs.hits(k) * q), best.per_document(best.hits(k) * q))
        metrics["PSnDCG"] = lambda k: Ratio(_ndcg(pairs, k, q), _ndcg(best, k, q))
    metrics["R"] = lambda k: _mean(_divide(pairs.per_document(pairs.hits(k)), pairs.relevant))
    metrics["C"] = lambda k: _coverage(pairs, k)
    return {f"{name}@{k}": metric(k) for name, metric in metrics.items() for k in ks}


def evaluate(
    top: TopK, truth: CSR, *, ks: Sequence[int] = (1, 3, 5), inverse_propensity: Float64Array | None = None
) -> dict[str, float]:
    """The metrics of a ranking, in percent: P, nDCG, PSP, PSnDCG, R, C, each at every k. See `place` and `score`.

    Args:
        top: (n, K) ranked labels of n test documents.
        truth: (n, L) CSR of their relevant labels.
        ks: cut-offs.
        inverse_propensity: (L,) from `longtail.evaluate.propensity`; PSP and PSnDCG are left out without it.

    Raises:
        BadInput: as `place` and `score` do.
    """
    scores = score(place(top.first(max(ks, default=1)), truth), ks=ks, inverse_propensity=inverse_propensity)
    return {name: ratio.value for name, ratio in scores.items()}


def _divide(gained: Float64Array, possible: Float64Array | IntArray) -> Float64Array:
    return np.divide(gained, possible, out=np.zeros(np.shape(gained)), where=np.greater(possible, 0))


def _mean(values: Float64Array) -> Ratio:
    return Ratio(values, np.ones_like(values))


def _ndcg(pairs: Placed, k: int, q: Float64Array | float = 1.0) -> Float64Array:
    discounted = pairs.per_document(pairs.hits(k) * q / np.log2(pairs.places + 2))  # (n,); at place inf it is 0
    ideal = np.concatenate([[0.0], np.cumsum(1 / np.log2(np.arange(k) + 2))])  # (k + 1,)
    return _divide(discounted, ideal[np.minimum(pairs.relevant, k)])


def _perfect(pairs: Placed, q: Float64Array) -> Placed:
    """The same pairs, ranked by their weights."""
    order = np.lexsort((-q, pairs.rows))
    first = np.cumsum(pairs.relevant) - pairs.relevant
    places = np.empty(len(q))
    places[order] = np.arange(len(q)) - first[pairs.rows]
    return replace(pairs, places=places)


def _coverage(pairs: Placed, k: int) -> Ratio:
    occurs = np.bincount(pairs.labels, minlength=pairs.L) > 0
    found = np.bincount(pairs.labels, pairs.hits(k), minlength=pairs.L)[occurs] > 0
    return Ratio(found.astype(np.float64), np.ones(len(found)), "label")
