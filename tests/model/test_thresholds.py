"""What thresholds kept: counted with loops, their margins of error on planted draws, and which one is taken."""

from __future__ import annotations

import numpy as np
import pytest

from longtail.errors import BadInput
from longtail.model.calibration import Calibration
from longtail.model.thresholds import Kept, at_most, count_kept, lowest_that_kept, must_be_threshold

KEPT = np.array([[0.1, 0.2, 0.3, 0.4], [0.5, 0.8, 0.7, 0.9], [0.9, 0.7, 0.6, 0.2], [0.05, 0.04, 0.06, 0.03]])


def test_what_thresholds_kept_is_counted_with_loops() -> None:
    generator = np.random.default_rng(0)
    documents = np.repeat(np.arange(60), 5)
    chances = generator.random(300).astype(np.float32)
    right = generator.random(300) < chances
    kept = count_kept(chances, right, documents, 200)
    assert kept[0].tolist() == (np.arange(1, kept.shape[1] + 1) / 200).tolist()
    for threshold, precision, recall, margin in kept.T:
        chosen = [i for i in range(300) if chances[i] >= np.float32(threshold)]
        hits = sum(bool(right[i]) for i in chosen)
        assert len(chosen) >= 100  # of fewer, a share of 0.9 is known to 6 points at best
        assert (precision, recall) == (pytest.approx(hits / len(chosen)), pytest.approx(hits / 200))
        share = hits / len(chosen)
        alike = sum(sum(right[i] - share for i in chosen if documents[i] == d) ** 2 for d in range(60))
        n = len(chosen) / max(1, alike / (len(chosen) * share * (1 - share)))
        wilson = 1.96 / (1 + 1.96**2 / n) * np.sqrt(share * (1 - share) / n + 1.96**2 / (4 * n**2))
        assert margin == pytest.approx(wilson)
    assert np.count_nonzero(chances >= np.float32((kept.shape[1] + 1) / 200)) < 100


def test_all_that_is_right_is_not_known_to_be_always_right() -> None:
    """By hand: 3.84 / (2 (400 + 3.84)) of 400 labels, all of which are right."""
    kept = count_kept(np.ones(400, np.float32), np.ones(400, bool), np.arange(400) // 4, 400)
    np.testing.assert_allclose(kept[1:, -1], [1, 1, 1.96**2 / (2 * (400 + 1.96**2))])
    assert count_kept(np.ones(99, np.float32), np.ones(99, bool), np.arange(99), 99).shape == (4, 0)


def test_a_margin_holds_what_is_true_in_95_of_100_draws() -> None:
    """Labels of one document are right together: as if each was alone, the margin would hold it in 77."""
    generator, inside, alone = np.random.default_rng(0), [], []
    documents = np.repeat(np.arange(200), 10)
    for _ in range(400):
        easy = generator.beta(4.5, 0.5, size=200)[documents]  # 0.9 on average
        right = generator.random(2000) < easy
        _, precision, _, margin = count_kept(np.full(2000, 0.7, np.float32), right, documents, 2000)[:, 0]
        inside.append(abs(precision - 0.9) <= margin)
        alone.append(abs(precision - 0.9) <= 1.96 * np.sqrt(precision * (1 - precision) / 2000))
    assert np.mean(inside) == pytest.approx(0.95, abs=0.025)
    assert np.mean(alone) < 0.8


def test_a_precision_is_kept_by_the_lowest_threshold_that_kept_it() -> None:
    calibration = Calibration(np.zeros((5, 4)), KEPT)
    assert calibration.at_precision(0.7) == (0.2, 0.8, 0.7, 0.04)
    assert calibration.at_precision(0.9).threshold == 0.4
    with pytest.raises(BadInput, match=r"precision: expected what a threshold kept .*, 0\.900 at most, .* found 0\.95"):
        calibration.at_precision(0.95)
    for few in (np.zeros((4, 0)), KEPT[:, :0]):
        with pytest.raises(
            BadInput, match=r"precision: expected at least 100 labels above a threshold .*, found fewer; "
        ):
            lowest_that_kept(few, 0.1)
    for wrong in (0.0, -1.0, 1.01, float("nan")):
        with pytest.raises(BadInput, match="above 0 and at most 1"):
            calibration.at_precision(wrong)


def test_earlier_models_did_not_count_a_margin() -> None:
    kept = lowest_that_kept(KEPT[:3], 0.7)
    assert kept == (0.2, 0.8, 0.7, None)
    assert str(kept) == "threshold 0.2: precision 0.800, recall 0.700"
    assert str(Kept(0.25, 0.9, 0.5, 0.0213)) == "threshold 0.25: precision 0.900 ± 0.021, recall 0.500"


@pytest.mark.parametrize("wrong", [-0.01, 1.01, float("nan"), float("inf")])
def test_a_threshold_that_is_no_probability_is_refused(wrong: float) -> None:
    with pytest.raises(BadInput, match="threshold: expected a probability from 0 to 1"):
        must_be_threshold(wrong)


def test_how_many_labels_a_text_gets() -> None:
    assert (at_most(None, None), at_most(None, 0.5), at_most(3, None), at_most(30, 0.5)) == (5, 20, 3, 30)
