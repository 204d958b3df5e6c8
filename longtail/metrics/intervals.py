"""How sure a number is: bootstrap intervals of metrics, and of the difference of two systems on the same documents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from longtail.metrics.places import Ratio, percent
from longtail.topk import Float64Array

_BLOCK = 2**21  # draws made at once


@dataclass(frozen=True, slots=True)
class Interval:
    """A value and its 95 % interval, in percent (of a difference: in percentage points)."""

    low: float
    value: float
    high: float

    @property
    def half(self) -> float:
        """Half its width."""
        return (self.high - self.low) / 2

    @property
    def is_sure(self) -> bool:
        """Whether 0 is not in it."""
        return self.low > 0 or self.high < 0


def intervals(
    scores: Mapping[str, Ratio], generator: np.random.Generator, *, resamples: int = 1000
) -> dict[str, Interval]:
    """95 % percentile bootstrap intervals (Efron and Tibshirani, 1993, chapter 13).

    n documents are drawn with replacement, and a metric is computed anew as the ratio of the drawn sums. Coverage is a
    mean over the distinct labels of the test truth, so for it these labels are drawn: a draw of documents holds only
    63 % of them, and a count of distinct labels in it is biased.

    Args:
        scores: metrics as `longtail.metrics.ranking.score` returns them.
        generator: source of the draws; metrics of one unit share them.
        resamples: draws, at least 1.
    """
    drawn = _drawn([scores], generator, resamples)
    return {name: _interval(scores[name].value, values[:, 0]) for name, values in drawn}


def difference(
    first: Mapping[str, Ratio], second: Mapping[str, Ratio], generator: np.random.Generator, *, resamples: int = 1000
) -> dict[str, Interval]:
    """Second minus first, with 95 % intervals: both systems are judged on the same draws (paired bootstrap).

    An interval without 0 in it says that the systems differ on documents like these. It is usually narrower than their
    own intervals suggest, because what is hard for one system is hard for the other.

    Args:
        first: metrics of one system.
        second: the same metrics of another, on the same documents in the same order.
        generator: source of the draws.
        resamples: draws, at least 1.

    Raises:
        ValueError: the metrics are not the same, or were taken on different truths.
    """
    if first.keys() != second.keys():
        raise ValueError(f"metrics {', '.join(first)} and {', '.join(second)} are not the same")
    for name in first:
        if not np.array_equal(first[name].possible, second[name].possible):
            raise ValueError(f"the two {name} were not taken on the same documents with the same truth")
    return change(first, second, generator, resamples=resamples)


def change(
    first: Mapping[str, Ratio], second: Mapping[str, Ratio], generator: np.random.Generator, *, resamples: int = 1000
) -> dict[str, Interval]:
    """Second minus first as `difference`, also of ratios whose denominators are a system's own, as what it gives.

    Args:
        first: metrics of one system.
        second: the same metrics of another, over the same documents in the same order.
        generator: source of the draws.
        resamples: draws, at least 1.
    """
    drawn = _drawn([first, second], generator, resamples)
    return {
        name: _interval(second[name].value - first[name].value, values[:, 1] - values[:, 0]) for name, values in drawn
    }


def _interval(value: float, drawn: Float64Array) -> Interval:
    low, high = np.percentile(drawn, [2.5, 97.5])
    return Interval(float(low), value, float(high))


def _drawn(
    systems: Sequence[Mapping[str, Ratio]], generator: np.random.Generator, resamples: int
) -> Iterator[tuple[str, Float64Array]]:
    """Each metric's name and its values (resamples, systems); one set of draws for all metrics of a unit."""
    found: dict[str, Float64Array] = {}
    for unit in ("document", "label"):
        names = [name for name, ratio in systems[0].items() if ratio.unit == unit]
        if names:
            values = _resample([system[name] for name in names for system in systems], generator, resamples)
            found |= zip(names, np.split(values, len(names), axis=1), strict=True)
    yield from ((name, found[name]) for name in systems[0])


def _resample(ratios: Sequence[Ratio], generator: np.random.Generator, resamples: int) -> Float64Array:
    """(resamples, M) the values of M ratios over the same u units, as matrix products with (resamples, u) counts."""
    gained = np.stack([ratio.gained for ratio in ratios], axis=1)  # (u, M)
    possible = np.stack([ratio.possible for ratio in ratios], axis=1)  # (u, M)
    units = len(gained)
    step = max(1, _BLOCK // max(1, units))
    values = np.empty((resamples, len(ratios)))
    for start in range(0, resamples, step):
        part = values[start : start + step]
        draws = generator.integers(units, size=(len(part), units)) + units * np.arange(len(part))[:, None]
        counts = np.bincount(draws.ravel(), minlength=draws.size).reshape(draws.shape).astype(np.float64)
        part[:] = percent(counts @ gained, counts @ possible)
    return values
