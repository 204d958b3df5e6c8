"""What records say of recommendations before anyone sees them: given, new, judged, contradicting, clicked.

A recommendation is a pair of a query (a test document) and a keyword (a label). Every figure is a ratio of sums over
queries, or over labels, so that queries can be weighed, and that a bootstrap has intervals for all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from longtail.data.sparse import CSR, csr, row_of_entry
from longtail.metrics.places import Ratio, divide
from longtail.topk import BoolArray, Float64Array, FloatArray, IntArray, TopK


@dataclass(frozen=True, slots=True)
class Judged:
    """E pairs of a query and a label that somebody has graded.

    Attributes:
        rows: (E,) int64, the queries.
        labels: (E,) int64.
        grades: E names, as "good", or numbers.
        values: (E,) float64, the numbers, larger is better; None where grades are names.
    """

    rows: IntArray
    labels: IntArray
    grades: Sequence[str]
    values: Float64Array | None


@dataclass(frozen=True, slots=True)
class Logged:
    """E entries of a log, each a query and a label that was shown, or a query alone where none was.

    Attributes:
        rows: (E,) int64, the queries.
        labels: (E,) int64, -1 where none was shown, or one that the model does not know.
        propensity: (E,) float64 in (0, 1], how probable it was that the label is shown, for whoever logged.
        impressions: (E,) float64, how often it was shown.
        clicks: (E,) float64.
        searches: (n,) float64, searches of each query.
    """

    rows: IntArray
    labels: IntArray
    propensity: Float64Array
    impressions: Float64Array
    clicks: Float64Array
    searches: Float64Array


def recommended(top: TopK, labels: int, at_most: int, chances: FloatArray | None = None, least: float = 0.0) -> CSR:
    """The labels that each query is given, (n, L) CSR of ones.

    Args:
        top: (n, K) ranked labels.
        labels: L.
        at_most: labels of a query.
        chances: (n, K) probabilities of the ranked labels; None where all of them are given.
        least: probability of a label that is given.
    """
    ids = top.ids[:, :at_most]
    there = ids >= 0
    if chances is not None:
        there &= chances[:, :at_most] >= least
    return csr(np.nonzero(there)[0], ids[there], (len(top), labels))


def given(pairs: CSR) -> dict[str, Ratio]:
    """How much is recommended: labels a query (filtered density), and the queries and labels that are covered."""
    n, L = pairs.shape
    counts, of_label = np.diff(pairs.indptr), np.bincount(pairs.indices, minlength=L)
    return {
        "labels a query": _ratio(counts, np.ones(n)),
        "queries covered": _ratio(counts > 0, np.ones(n)),
        "labels covered": Ratio((of_label > 0).astype(np.float64), np.ones(L), "label"),
    }


def against(pairs: CSR, control: CSR, truth: CSR) -> dict[str, Ratio]:
    """What is recommended and the control does not, (n, L) each: new pairs, those that are true, queries newly covered.

    The truth has a value above 0 where a label is right.
    """
    n = pairs.shape[0]
    counts, before = np.diff(pairs.indptr), np.diff(control.indptr)
    new, lost = _apart(pairs, control), _apart(control, pairs)
    return {
        "new": _ratio(_per_row(new, n), counts),
        "new and right": _ratio(_per_row(new[_true(truth, *new.T)], n), _per_row(new, n)),
        "lost": _ratio(_per_row(lost, n), before),
        "lost and right": _ratio(_per_row(lost[_true(truth, *lost.T)], n), _per_row(lost, n)),
        "queries newly covered": _ratio((counts > 0) & (before == 0), np.ones(n)),
    }


def judged(top: TopK, pairs: CSR, of: Judged) -> dict[str, Ratio]:
    """What a judge says of recommendations: how many were judged, the share of each grade, and whether orders agree.

    Where grades are numbers, there is their mean, too, and the *agreement*: of the pairs of labels of a query with
    different grades, the share that the ranking has in the judge's order. A label that is not ranked comes after all
    that are; of two of these, half a pair agrees.

    Args:
        top: (n, K) ranked labels, as many as there are.
        pairs: (n, L) those that are recommended.
        of: what was judged; a pair once.
    """
    n = pairs.shape[0]
    shown = _true(pairs, of.rows, of.labels)
    count = np.bincount(of.rows[shown], minlength=n)
    found = {"judged": _ratio(count, np.diff(pairs.indptr))}
    names = np.array(list(of.grades))
    for grade in _ordered(of):
        found[f"grade {grade}"] = _ratio(np.bincount(of.rows[shown & (names == grade)], minlength=n), count)
    if of.values is not None:
        found["mean grade"] = _ratio(np.bincount(of.rows[shown], of.values[shown], minlength=n), count)
        found["agreement"] = _agreement(_places(top, of.rows, of.labels), of.values, of.rows, n)
    return found


def contradicted(pairs: CSR, documents: Sequence[frozenset[str]], labels: Sequence[frozenset[str]]) -> Ratio:
    """The share of recommendations that contradict the query in an attribute, as its brand: the bad match rate.

    A label contradicts a query where both have values of the attribute, and none in common. Recommendations to queries
    without a value are left out; a label without one contradicts nothing.

    Args:
        pairs: (n, L) those that are recommended.
        documents: n sets of values.
        labels: L sets of values.
    """
    n, rows = pairs.shape[0], row_of_entry(pairs)
    has = np.array([bool(values) for values in documents])[rows]
    wrong = np.array(
        [
            bool(documents[i] and labels[j] and documents[i].isdisjoint(labels[j]))
            for i, j in zip(rows.tolist(), pairs.indices.tolist(), strict=True)
        ],
        bool,
    )
    return _ratio(np.bincount(rows[wrong], minlength=n), np.bincount(rows[has], minlength=n))


def replayed(pairs: CSR, log: Logged) -> dict[str, Ratio]:
    """What would be shown and clicked under the recommendations, by inverse propensity scoring of a log.

    An entry counts where its label is recommended, 1 / propensity times: so often was what it stands for not shown.
    Impressions and clicks a search are sums over entries, divided by searches (Horvitz and Thompson, 1952; Bottou et
    al., 2013, section 4); the click-through rate is the ratio of both sums.

    Args:
        pairs: (n, L) those that are recommended.
        log: of some of the n queries.
    """
    weights = divide(matches(pairs, log).astype(np.float64), log.propensity)
    return _yields(log, weights)


def as_logged(log: Logged) -> dict[str, Ratio]:
    """What was shown and clicked in the log itself."""
    return _yields(log, np.ones(len(log.rows)))


def matches(pairs: CSR, log: Logged) -> BoolArray:
    """(E,) which entries of a log have a label that is recommended."""
    return _true(pairs, log.rows, log.labels)


def effective(pairs: CSR, log: Logged) -> float:
    """How many entries of equal weight would say as much as those that count: (sum w)² / sum w² (Kong, 1992)."""
    weights = 1 / log.propensity[matches(pairs, log)]
    return float(weights.sum() ** 2 / (weights**2).sum()) if len(weights) else 0.0


def weighed(ratios: Mapping[str, Ratio], weights: Float64Array) -> dict[str, Ratio]:
    """The same with each query counted so many times; figures of labels stay as they are.

    Args:
        ratios: over n queries, or over labels.
        weights: (n,) at least 0, as impressions.
    """
    return {
        name: replace(ratio, gained=ratio.gained * weights, possible=ratio.possible * weights)
        if ratio.unit == "document"
        else ratio
        for name, ratio in ratios.items()
    }


def _yields(log: Logged, weights: Float64Array) -> dict[str, Ratio]:
    n = len(log.searches)
    shown, clicked = (np.bincount(log.rows, weights * of, minlength=n) for of in (log.impressions, log.clicks))
    return {
        "impressions a search": _ratio(shown, log.searches),
        "clicks a search": _ratio(clicked, log.searches),
        "click-through rate": _ratio(clicked, shown),
    }


def _ratio(gained: IntArray | BoolArray | Float64Array, possible: IntArray | Float64Array) -> Ratio:
    return Ratio(np.asarray(gained, np.float64), np.asarray(possible, np.float64))


def _per_row(pairs: IntArray, n: int) -> IntArray:
    return np.bincount(pairs[:, 0], minlength=n)


def _apart(these: CSR, others: CSR) -> IntArray:
    """(E, 2) the pairs of a matrix that another one has not."""
    pairs = np.stack([row_of_entry(these), these.indices], axis=1).astype(np.int64)
    return pairs[~_true(others, pairs[:, 0], pairs[:, 1])]


def _true(matrix: CSR, rows: IntArray, columns: IntArray) -> BoolArray:
    """(E,) which pairs have a value above 0; a column of -1 is none."""
    width = matrix.shape[1]
    there = np.unique((row_of_entry(matrix) * width + matrix.indices)[matrix.data > 0])
    found: BoolArray = np.isin(rows * width + columns, there) & (columns >= 0)
    return found


def _places(top: TopK, rows: IntArray, labels: IntArray) -> Float64Array:
    """(E,) the place of each label in the ranking of its query; inf where it is not ranked."""
    at = top.ids[rows] == labels[:, None]
    return np.where(at.any(axis=1), at.argmax(axis=1), np.inf)


def _agreement(places: Float64Array, values: Float64Array, rows: IntArray, n: int) -> Ratio:
    order = np.argsort(rows, kind="stable")
    starts = np.searchsorted(rows[order], np.arange(n + 1))
    gained, possible = np.zeros(n), np.zeros(n)
    for i in np.flatnonzero(np.diff(starts) > 1).tolist():
        of = order[starts[i] : starts[i + 1]]
        better = values[of][:, None] > values[of]
        before, same = places[of][:, None] < places[of], places[of][:, None] == places[of]
        gained[i], possible[i] = (better * (before + 0.5 * same)).sum(), better.sum()
    return Ratio(gained, possible)


def _ordered(of: Judged) -> list[str]:
    """The grades, the best first where they are numbers, else those of most pairs."""
    if of.values is not None:
        return list(dict.fromkeys(of.grades[i] for i in np.argsort(-of.values, kind="stable").tolist()))
    names, counts = np.unique(list(of.grades), return_counts=True)
    return [str(names[i]) for i in np.argsort(-counts, kind="stable").tolist()]
