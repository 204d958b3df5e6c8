"""The numbers of a report: every method judged on the same test documents, its seeds taken together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from longtail.data.dataset import Dataset
from longtail.data.sparse import CSR
from longtail.data.split import Split
from longtail.metrics.bins import Bins, by_bin, label_bins
from longtail.metrics.intervals import Interval, difference, intervals
from longtail.metrics.places import Ratio, place
from longtail.metrics.propensity import inverse_propensity
from longtail.metrics.ranking import COMPARED, KS, score
from longtail.model.evaluation import must_have_test
from longtail.report.outcome import Outcome
from longtail.topk import Float64Array


@dataclass(frozen=True, slots=True)
class Judge:
    """What all methods are judged by.

    Attributes:
        train: (N, L) labels of the original training documents.
        test: the split that all are judged on.
        weights: (L,) inverse propensities, or None where the data set has no constants.
        bins: of the labels, by training frequency.
    """

    train: CSR
    test: Split
    weights: Float64Array | None
    bins: Bins

    @classmethod
    def of(cls, dataset: Dataset) -> Judge:
        """The judge of a data set.

        Raises:
            BadInput: there is no test split.
        """
        targets, constants = dataset.train.targets, dataset.propensity
        weights = None if constants is None else inverse_propensity(targets, constants.A, constants.B)
        return cls(targets, must_have_test(dataset), weights, label_bins(targets))


@dataclass(frozen=True, slots=True)
class Row:
    """A method over the seeds that are done.

    Attributes:
        recipe: or peer, or ``ensemble``.
        arguments: that it was given; the others have their defaults.
        outcomes: one a seed.
        headline: the score kind that predictions use.
        scores: metrics by score kind, means over the seeds document by document.
        by_seed: values of each seed, in percent, by score kind and metric.
        bins: P@k and R@k by bin, means over the seeds, by score kind.
    """

    recipe: str
    arguments: Mapping[str, Any]
    outcomes: Sequence[Outcome]
    headline: str
    scores: Mapping[str, Mapping[str, Ratio]]
    by_seed: Mapping[str, Mapping[str, list[float]]]
    bins: Mapping[str, Mapping[str, Float64Array]]


def judged(recipe: str, arguments: Mapping[str, Any], outcomes: Sequence[Outcome], judge: Judge) -> Row:
    """Judge a method.

    Args:
        recipe: of the method.
        arguments: that it was given.
        outcomes: one a seed, at least one; where a run lacks a kind that another has, as it kept no memory, what it
            predicts with takes its place.
        judge: what it is judged by.
    """
    truth, outcomes = judge.test.targets, _with_the_same_kinds(outcomes)
    scores, by_seed, bins = {}, {}, {}
    for kind in outcomes[0].tops:
        places = [place(found.tops[kind], truth) for found in outcomes]
        of_seed = [score(pairs, ks=COMPARED, inverse_propensity=judge.weights) for pairs in places]
        of_bin = [by_bin(pairs, judge.bins, ks=KS) for pairs in places]
        scores[kind] = {name: _mean([one[name] for one in of_seed]) for name in of_seed[0]}
        by_seed[kind] = {name: [one[name].value for one in of_seed] for name in of_seed[0]}
        bins[kind] = {name: np.mean([one[name] for one in of_bin], axis=0) for name in of_bin[0]}
    return Row(recipe, arguments, outcomes, list(scores)[-1], scores, by_seed, bins)


def _with_the_same_kinds(outcomes: Sequence[Outcome]) -> list[Outcome]:
    kinds = max((list(found.tops) for found in outcomes), key=len)
    same = []
    for found in outcomes:
        best = list(found.tops)[-1]
        of = {kind: kind if kind in found.tops else best for kind in kinds}
        tops = {kind: found.tops[own] for kind, own in of.items()}
        milliseconds = {kind: found.milliseconds[own] for kind, own in of.items() if own in found.milliseconds}
        same.append(replace(found, tops=tops, milliseconds=milliseconds))
    return same


def _mean(ratios: Sequence[Ratio]) -> Ratio:
    """The mean over seeds: what was possible is the same for all of them."""
    gained = np.mean([ratio.gained for ratio in ratios], axis=0)
    return Ratio(gained, ratios[0].possible, ratios[0].unit)


def as_json(row: Row) -> dict[str, Any]:
    """A row of ``results.json``."""
    return {
        "recipe": row.recipe,
        "arguments": dict(row.arguments),
        "headline": row.headline,
        "kinds": {kind: _metrics(row, kind) for kind in row.scores},
        "bins": {kind: {name: values.tolist() for name, values in of.items()} for kind, of in row.bins.items()},
        "batch": row.outcomes[0].batch,
        "pool": row.outcomes[0].pool,
        "runs": [
            {
                "seed": found.seed,
                "command": found.command,
                "seconds": found.cost.seconds,
                "peak_memory": found.cost.peak_memory,
                "peak_gpu_memory": found.cost.peak_gpu_memory,
                "model_bytes": found.model_bytes,
                "milliseconds_a_text": dict(found.milliseconds),
                "latency": None if found.latency is None else dict(zip(("p50", "p99"), found.latency, strict=True)),
                "versions": found.settings["versions"],
            }
            for found in row.outcomes
        ],
    }


def _metrics(row: Row, kind: str) -> dict[str, Any]:
    drawn = intervals(row.scores[kind], np.random.default_rng(0))
    return {name: _interval(it) | {"seeds": row.by_seed[kind][name]} for name, it in drawn.items()}


def _interval(it: Interval) -> dict[str, Any]:
    return {"mean": it.value, "low": it.low, "high": it.high}


def differences(baseline: Row, other: Row) -> dict[str, Any]:
    """The other's headline metrics minus the baseline's, with paired 95 % intervals over test documents."""
    before, after = (row.scores[row.headline] for row in (baseline, other))
    return {name: _interval(it) for name, it in difference(before, after, np.random.default_rng(0)).items()}
