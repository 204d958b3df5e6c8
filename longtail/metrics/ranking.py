"""Metrics of ranked labels, at any cut-off k: `METRICS` has a row for each.

All of them are sums over the *true pairs* (document, relevant label) of a test set, and depend on a ranking only
through the place that it gives to each pair. So the places are looked up once, and each metric is a line of arithmetic
on them. ``docs/reference/metrics.md`` works every definition out by hand.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass

import numpy as np

from longtail.data.sparse import CSR
from longtail.errors import BadInput
from longtail.metrics.places import Placed, Ratio, divide, place
from longtail.topk import Float64Array, TopK

KS = (1, 3, 5)  # the cut-offs of reports, and of `longtail evaluate` unless others are asked for
COMPARED = (*KS, 10)  # those of a comparison: retrieval is also judged by its first ten (the thesis, Query2Bid)


@dataclass(frozen=True, slots=True)
class Metric:
    """A row of `METRICS`: a metric, and where reports show it beside the full list of `longtail evaluate`.

    Attributes:
        of: places of the true pairs and a cut-off k to the metric.
        about: one line for people.
        macro: whether it belongs to the view of tagging tools, which ``longtail evaluate`` prints when it is asked to.
        weighted: whether it weighs pairs by inverse propensity, without which it is left out.
        table: cut-offs, of `COMPARED`, that have a column in the tables of accuracy.
        differences: those in the table of differences to the baseline.
        summary: those in the summary for a terminal.
        cost: those that are drawn against training time and model size; a page has room for two.
        card: those for which the page says who is best.
        best: what being best means there.
    """

    of: Callable[[Placed, int], Ratio]
    about: str
    macro: bool = False
    weighted: bool = False
    table: Sequence[int] = KS
    differences: Sequence[int] = ()
    summary: Sequence[int] = ()
    cost: Sequence[int] = ()
    card: Sequence[int] = ()
    best: str = ""


def precision(pairs: Placed, k: int) -> Ratio:
    """P@k: hits / k. The mean counts documents without labels, and a place that the ranking leaves empty is a miss."""
    return _mean(pairs.per_document(pairs.hits(k)) / k)


def ndcg(pairs: Placed, k: int) -> Ratio:
    """nDCG@k: sum of 1 / log2(rank + 1) over hits, divided by that sum over the ranks 1 to min(k, |y|).

    y are the labels of a document; without any it is 0.
    """
    return _mean(_discounted(pairs, k, 1.0))


def psp(pairs: Placed, k: int) -> Ratio:
    """PSP@k: sum of the weights of hits over all documents, divided by the sum that a perfect ranking gets.

    The perfect ranking gets the min(k, |y|) largest weights of each document. A ratio of sums, not a mean of ratios
    (Jain et al., 2016, section 4).
    """
    gained, possible = (one.per_document(one.hits(k) * one.weights) for one in (pairs, pairs.perfect))
    return Ratio(gained, possible)


def psndcg(pairs: Placed, k: int) -> Ratio:
    """PSnDCG@k: sum of weight / log2(rank + 1) over hits, divided by the document's nDCG normaliser, over documents.

    The sum over all documents is divided by the sum that the perfect ranking gets, as the tools of the Extreme
    Classification Repository do it.
    """
    gained, possible = (_discounted(one, k, one.weights) for one in (pairs, pairs.perfect))
    return Ratio(gained, possible)


def recall(pairs: Placed, k: int) -> Ratio:
    """R@k: hits / |y|, 0 for a document without labels; the mean counts all documents."""
    return _mean(divide(pairs.per_document(pairs.hits(k)), pairs.relevant))


def coverage(pairs: Placed, k: int) -> Ratio:
    """C@k: share of the distinct labels of the test truth that are a hit for some document (thesis, table 1.4)."""
    occurs = np.bincount(pairs.labels, minlength=pairs.L) > 0
    found = np.bincount(pairs.labels, pairs.hits(k), minlength=pairs.L)[occurs] > 0
    return Ratio(found.astype(np.float64), np.ones(len(found)), "label")


def macro_precision(pairs: Placed, k: int) -> Ratio:
    """macroP@k: the share of the documents given a label (among their first k) that have it, a mean over labels.

    The labels are the distinct ones of the test truth. One that no document is given has 0; labels without test
    documents are left out, also where they are given.
    """
    hits, _, given = _by_label(pairs, k)
    return Ratio(divide(hits, given), np.ones(len(hits)), "label")


def macro_f1(pairs: Placed, k: int) -> Ratio:
    """macroF1@k: 2 hits / (documents given a label + documents that have it), a mean over labels as in macroP@k."""
    hits, relevant, given = _by_label(pairs, k)
    return Ratio(2 * hits / (given + relevant), np.ones(len(hits)), "label")


def micro_f1(pairs: Placed, k: int) -> Ratio:
    """microF1@k: 2 hits / (k labels given + true labels), each summed over all documents; empty places are misses."""
    return Ratio(2 * pairs.per_document(pairs.hits(k)), (k + pairs.relevant).astype(np.float64))


METRICS: dict[str, Metric] = {  # in the order in which they are shown
    "P": Metric(
        precision,
        "precision: hits among the first k, divided by k",
        table=COMPARED,
        differences=(1, 5),
        summary=(1, 5),
        cost=(1,),
        card=(1,),
        best="first is right",
    ),
    "nDCG": Metric(ndcg, "discounted gain: a hit is worth more at a better place", differences=(5,)),
    "PSP": Metric(
        psp,
        "propensity-scored precision: a hit on a rare label is worth more",
        weighted=True,
        differences=(1, 5),
        summary=(1,),
        cost=(1,),
        card=(5,),
        best="tail-weighted",
    ),
    "PSnDCG": Metric(
        psndcg, "propensity-scored nDCG: rare labels and better places are worth more", weighted=True, table=()
    ),
    "R": Metric(
        recall,
        "recall: the share of a document's true labels that are among the first k",
        differences=(5,),
        summary=(5,),
        cost=(5,),
        card=(5,),
        best="true labels found",
    ),
    "C": Metric(
        coverage,
        "coverage: the share of the distinct true labels that are a hit for some document",
        differences=(5,),
        summary=(5,),
        card=(5,),
        best="distinct labels found",
    ),
    "macroP": Metric(
        macro_precision,
        "precision of labels: of the documents given a label, the share that has it, a mean over labels",
        macro=True,
        table=(),
    ),
    "macroF1": Metric(
        macro_f1, "F1 of labels: precision and recall of a label in one, a mean over labels", macro=True, table=()
    ),
    "microF1": Metric(
        micro_f1, "F1 of all pairs: precision and recall of all labels together in one", macro=True, table=()
    ),
}


def columns(shown: Callable[[Metric], Sequence[int]], measured: Container[str]) -> dict[str, Metric]:
    """The columns of a table, ``"P@1"`` and so on, with the metric of each.

    Args:
        shown: the cut-offs of a metric in this table.
        measured: what there is; a metric that needs propensities may be missing.
    """
    names = {f"{name}@{k}": metric for name, metric in METRICS.items() for k in shown(metric)}
    return {name: metric for name, metric in names.items() if name in measured}


def metric_of(name: str) -> Metric:
    """The row of a measured name, as ``"PSP@5"``."""
    return METRICS[name.partition("@")[0]]


def must_be_cut_offs(ks: Sequence[int]) -> None:
    """Refuse cut-offs that mean nothing.

    Raises:
        BadInput: there is none, or one below 1.
    """
    if not ks or min(ks) < 1:
        raise BadInput("k", f"expected cut-offs of at least 1, found {list(ks)}", remedy="give for example 1,3,5")


def score(pairs: Placed, *, ks: Sequence[int] = KS, inverse_propensity: Float64Array | None = None) -> dict[str, Ratio]:
    """Every metric of `METRICS`, document by document.

    Args:
        pairs: places of the true pairs.
        ks: cut-offs, each at least 1; they may exceed the ranking's length.
        inverse_propensity: (L,) weights; metrics that need them are left out without.

    Returns:
        ``{"P@1": ..., "P@3": ..., ...}`` in the order of the table.

    Raises:
        BadInput: no cut-off or one below 1, or weights that are not (L,).
    """
    must_be_cut_offs(ks)
    weighted = inverse_propensity is not None
    pairs = pairs if inverse_propensity is None else pairs.weighted(inverse_propensity)
    rows = {name: metric for name, metric in METRICS.items() if weighted or not metric.weighted}
    return {f"{name}@{k}": metric.of(pairs, k) for name, metric in rows.items() for k in ks}


def metrics_of(
    top: TopK, truth: CSR, *, ks: Sequence[int] = KS, inverse_propensity: Float64Array | None = None
) -> dict[str, float]:
    """The metrics of a ranking, in percent, each at every k. See `longtail.metrics.places.place` and `score`.

    Args:
        top: (n, K) ranked labels of n test documents.
        truth: (n, L) CSR of their relevant labels.
        ks: cut-offs.
        inverse_propensity: (L,) from `longtail.metrics.propensity`; PSP and PSnDCG are left out without it.

    Raises:
        BadInput: as `place` and `score` do.
    """
    scores = score(place(top.first(max(ks, default=1)), truth), ks=ks, inverse_propensity=inverse_propensity)
    return {name: ratio.value for name, ratio in scores.items()}


def _by_label(pairs: Placed, k: int) -> tuple[Float64Array, Float64Array, Float64Array]:
    """Hits, documents that have it, and documents that are given it, of each distinct label of the truth."""
    relevant = np.bincount(pairs.labels, minlength=pairs.L)
    hits = np.bincount(pairs.labels, pairs.hits(k), minlength=pairs.L)
    found = np.stack([hits, relevant, pairs.given(k)])[:, relevant > 0].astype(np.float64)
    return found[0], found[1], found[2]


def _mean(values: Float64Array) -> Ratio:
    return Ratio(values, np.ones_like(values))


def _discounted(pairs: Placed, k: int, weights: Float64Array | float) -> Float64Array:
    """(n,) the discounted gain of each document's hits, divided by its normaliser."""
    gained = pairs.per_document(pairs.hits(k) * weights / np.log2(pairs.places + 2))  # (n,); at place inf it is 0
    ideal = np.concatenate([[0.0], np.cumsum(1 / np.log2(np.arange(k) + 2))])  # (k + 1,)
    return divide(gained, ideal[np.minimum(pairs.relevant, k)])
