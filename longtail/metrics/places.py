"""Where a ranking puts each true pair (document, relevant label), and the ratios over documents that metrics are."""

from __future__ import annotations

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
        weights: (E,) float64, what finding each pair is worth: 1, or the inverse propensity of its label.
        best: (E,) float64, the places in a perfect ranking: a document's true labels, those of most weight first.
        ranked: (n, K) int64, the ranking itself; -1 where a place is empty.
    """

    n: int
    L: int
    rows: IntArray
    labels: IntArray
    places: Float64Array
    weights: Float64Array
    best: Float64Array
    ranked: IntArray

    @property
    def perfect(self) -> Placed:
        """The same pairs in a perfect ranking."""
        return replace(self, places=self.best)

    @property
    def relevant(self) -> IntArray:
        """(n,) int64: true labels of each document."""
        return np.bincount(self.rows, minlength=self.n)

    def hits(self, k: int) -> Float64Array:
        """(E,) float64: 1 where the pair is among its document's first k, else 0."""
        return (self.places < k).astype(np.float64)

    def given(self, k: int) -> IntArray:
        """(L,) int64: the documents that have each label among their first k."""
        first = self.ranked[:, :k]
        return np.bincount(first[first >= 0], minlength=self.L)

    def per_document(self, values: Float64Array) -> Float64Array:
        """(n,) float64: sums of (E,) values over each document's pairs."""
        return np.bincount(self.rows, values, minlength=self.n).astype(np.float64, copy=False)

    def weighted(self, inverse_propensity: Float64Array) -> Placed:
        """The same pairs, each worth the inverse propensity of its label.

        Args:
            inverse_propensity: (L,) float64, from `longtail.metrics.propensity`.

        Raises:
            BadInput: it is not (L,).
        """
        if inverse_propensity.shape != (self.L,):
            found = f"expected one weight for each of {self.L} labels, found shape {inverse_propensity.shape}"
            raise BadInput("inverse_propensity", found, remedy="compute it from this data set's training matrix")
        weights = inverse_propensity[self.labels]  # (E,)
        best = np.empty(len(weights))
        best[np.lexsort((-weights, self.rows))] = _positions(self.rows, self.n)
        return replace(self, weights=weights, best=best)


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
    return 100 * divide(gained, possible)


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
    return Placed(n, L, rows, labels, places, weights=np.ones(len(rows)), best=_positions(rows, n), ranked=top.ids)


def _positions(rows: IntArray, n: int) -> Float64Array:
    """(E,) float64: 0, 1, 2, ... within each run of one of the n documents."""
    counts = np.bincount(rows, minlength=n)
    return (np.arange(len(rows)) - (np.cumsum(counts) - counts)[rows]).astype(np.float64)


def divide(gained: Float64Array, possible: Float64Array | IntArray) -> Float64Array:
    """Gained / possible, entry by entry, and 0 where nothing was possible."""
    return np.divide(gained, possible, out=np.zeros(np.shape(gained)), where=np.greater(possible, 0))
