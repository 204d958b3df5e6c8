"""Bootstrap intervals: closed forms, coverage of the truth, pairing, reproducibility."""

from __future__ import annotations

import numpy as np
import pytest

from longtail.data.sparse import csr_of_lists
from longtail.metrics.intervals import difference, intervals
from longtail.metrics.places import Ratio, place
from longtail.metrics.ranking import score
from longtail.topk import TopK


def precision_of(hits: np.ndarray) -> dict[str, Ratio]:
    return {"P@1": Ratio(hits.astype(np.float64), np.ones(len(hits)))}


def test_the_interval_of_a_proportion_is_the_normal_one() -> None:
    hits = np.arange(2000) < 600
    drawn = intervals(precision_of(hits), np.random.default_rng(0), resamples=4000)["P@1"]
    half = 196 * np.sqrt(0.3 * 0.7 / 2000)
    assert drawn.value == pytest.approx(30)
    assert (drawn.high - drawn.low) / 2 == pytest.approx(half, rel=0.06)
    assert (drawn.high + drawn.low) / 2 == pytest.approx(30, abs=0.2)


def test_a_ratio_of_sums_is_resampled_as_one() -> None:
    generator = np.random.default_rng(1)
    possible = generator.uniform(1, 20, 500)
    gained = possible * (generator.random(500) < 0.4)
    drawn = intervals({"PSP@1": Ratio(gained, possible)}, np.random.default_rng(2), resamples=3000)["PSP@1"]
    loop = np.random.default_rng(3)
    values = []
    for _ in range(3000):
        rows = loop.integers(500, size=500)
        values.append(100 * gained[rows].sum() / possible[rows].sum())
    assert [drawn.low, drawn.high] == pytest.approx(np.percentile(values, [2.5, 97.5]), abs=0.5)
    assert drawn.value == pytest.approx(100 * gained.sum() / possible.sum())


def test_intervals_hold_the_true_value_in_about_95_of_100_samples() -> None:
    generator = np.random.default_rng(4)
    held = 0
    for _ in range(400):
        drawn = intervals(precision_of(generator.random(300) < 0.5), generator, resamples=300)["P@1"]
        held += drawn.low <= 50 <= drawn.high
    assert 0.91 <= held / 400 <= 0.98


def test_every_metric_has_an_interval_around_it_and_coverage_draws_labels() -> None:
    generator = np.random.default_rng(5)
    truth = csr_of_lists([generator.choice(40, 3, replace=False).tolist() for _ in range(150)], 40)
    ids = np.argsort(generator.random((150, 40)), axis=1)[:, :5]
    q = generator.uniform(1, 5, 40)
    scores = score(place(TopK(ids, np.zeros((150, 5), np.float32)), truth), inverse_propensity=q)
    drawn = intervals(scores, np.random.default_rng(6))
    assert list(drawn) == list(scores)
    for name, it in drawn.items():
        assert it.low < it.value < it.high, name
        assert it.value == scores[name].value
    share = scores["C@1"].value / 100
    half = 196 * np.sqrt(share * (1 - share) / 40)
    assert (drawn["C@1"].high - drawn["C@1"].low) / 2 == pytest.approx(half, rel=0.15)


@pytest.mark.parametrize("block", [1, 999, 5000])
def test_the_same_generator_gives_the_same_intervals_in_any_blocks(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    scores = precision_of(np.arange(500) % 3 == 0)
    expected = intervals(scores, np.random.default_rng(7))["P@1"]
    monkeypatch.setattr("longtail.metrics.intervals._BLOCK", block)
    assert intervals(scores, np.random.default_rng(7))["P@1"] == expected


def test_a_paired_difference_is_sharper_than_two_intervals() -> None:
    generator = np.random.default_rng(8)
    easy = generator.random(1000) < 0.5  # both find the same half, the second also 3 in 100 of the others
    first, second = precision_of(easy), precision_of(easy | (generator.random(1000) < 0.06))
    apart = intervals(first, generator)["P@1"], intervals(second, generator)["P@1"]
    paired = difference(first, second, generator)["P@1"]
    assert apart[0].high > apart[1].low
    assert 0 < paired.low < paired.value < paired.high
    assert paired.value == pytest.approx(second["P@1"].value - first["P@1"].value)
    swapped = difference(second, first, generator)["P@1"]
    assert swapped.value == -paired.value
    assert swapped.high < 0


def test_a_system_does_not_differ_from_itself() -> None:
    scores = precision_of(np.arange(50) % 2 == 0)
    same = difference(scores, scores, np.random.default_rng(9))["P@1"]
    assert (same.low, same.value, same.high) == (0, 0, 0)


def test_systems_that_cannot_be_paired() -> None:
    first = precision_of(np.ones(5))
    with pytest.raises(ValueError, match="not taken on the same documents"):
        difference(first, precision_of(np.ones(6)), np.random.default_rng(0))
    with pytest.raises(ValueError, match="are not the same"):
        difference(first, {}, np.random.default_rng(0))
