"""Probabilities of scores: learned from planted ones, shown on fresh documents, and naive twins of the parts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize

from longtail.data.sparse import CSR, csr_of_lists
from longtail.model import calibration as module
from longtail.model.calibration import Calibration, arrays_of, calibrations_of, learn_calibration
from longtail.topk import Float64Array, IntArray, TopK

FREQUENCY = np.array([0, 0, 1, 2, 5, 10, 40, 100, 300, 1000] * 8)
L = len(FREQUENCY)


def logistic(logits: Float64Array) -> Float64Array:
    return 1 / (1 + np.exp(-logits))


def smooth(scores: Float64Array, frequency: IntArray) -> Float64Array:
    """Probabilities of ranked labels: labels without training points are less probable, and so are rivals of a best."""
    return logistic(3 * scores - 2 * scores[:, :1] + 0.4 * np.log1p(frequency) - 1.5 * (frequency == 0) - 1)


def bent(scores: Float64Array, frequency: IntArray) -> Float64Array:
    """As no logistic curve is: flat for what is improbable, steep for what is probable."""
    logits = 2 * scores + 0.3 * np.log1p(frequency) - 2
    return logistic(2.5 * np.logaddexp(0, logits) - 0.5 * np.logaddexp(0, -logits) - 1)


def simulated(chances, n: int, seed: int) -> tuple[TopK, CSR, Float64Array]:
    """Rankings of 20 labels, their truth, and the planted probabilities."""
    generator = np.random.default_rng(seed)
    ids = np.stack([generator.permutation(L)[:20] for _ in range(n)])
    scores = -np.sort(-generator.normal(size=(n, 20)), axis=1).astype(np.float32)
    planted = chances(scores.astype(np.float64), FREQUENCY[ids])
    truth = generator.random((n, 20)) < planted
    return (
        TopK(ids, scores),
        csr_of_lists([np.sort(row[true]) for row, true in zip(ids, truth, strict=True)], L),
        planted,
    )


def learned(chances, n: int = 2000) -> Calibration:
    top, truth, _ = simulated(chances, n, 0)
    found = learn_calibration(top, truth, FREQUENCY)
    assert found is not None
    return found


@pytest.mark.parametrize("chances", [smooth, bent])
def test_planted_probabilities_are_found_on_fresh_documents(chances) -> None:
    calibration = learned(chances)
    low, high, _ = calibration.curve
    assert high / low > 2 if chances is bent else high / low == pytest.approx(1, abs=0.25)
    top, _, planted = simulated(chances, 500, 1)
    found = calibration(top.scores, top.scores, FREQUENCY[top.ids])
    assert found.dtype == np.float32
    assert np.abs(found - planted).mean() < 0.025
    for part in (FREQUENCY[top.ids] == 0, FREQUENCY[top.ids] > 100):
        assert abs(found[part].mean() - planted[part].mean()) < 0.02


@pytest.mark.parametrize("chances", [smooth, bent])
def test_a_threshold_keeps_its_precision_on_fresh_documents(chances) -> None:
    calibration = learned(chances)
    top, truth, _ = simulated(chances, 2000, 1)
    found = calibration(top.scores, top.scores, FREQUENCY[top.ids])
    right = np.take_along_axis(truth.toarray() > 0, top.ids, 1)
    wanted = 0.8
    threshold, precision, recall, _ = calibration.at_precision(wanted)
    chosen = found >= threshold
    assert precision >= wanted
    assert right[chosen].mean() == pytest.approx(precision, abs=0.03)
    assert right[chosen].sum() / truth.nnz == pytest.approx(recall, abs=0.03)


@pytest.mark.parametrize("chances", [smooth, bent])
def test_a_higher_score_is_never_less_probable(chances) -> None:
    calibration = learned(chances, 200)
    scores = np.linspace(5, -5, 200, dtype=np.float32)
    for frequency in (0, 1, 30, 10_000):
        row = calibration(scores[None], scores[None], np.full((1, 200), frequency))[0]
        assert (np.diff(row) <= 0).all()
        assert 0 <= row.min() < row.max() <= 1


def test_new_labels_are_as_probable_as_the_rarest_where_none_of_them_was_right() -> None:
    """Held-out documents that have no new label do not say that new labels are always wrong."""
    top, truth, _ = simulated(lambda scores, _: logistic(2 * scores - 2), 8000, 0)
    truth = csr_of_lists(
        [[label for label in row if FREQUENCY[label]] for row in np.split(truth.indices, truth.indptr[1:-1])], L
    )
    found = learn_calibration(top, truth, FREQUENCY)
    assert found is not None
    scores, first = np.array([[1.0, 0.5]], np.float32), np.array([[1.5]], np.float32)
    new, rarest = (found(scores, first, np.full((1, 2), f)) for f in (0, 1))
    np.testing.assert_allclose(new, rarest, atol=1e-6)
    np.testing.assert_allclose(new, logistic(np.array([[2 - 2.0, 1 - 2]])), atol=0.02)


def test_probabilities_by_hand() -> None:
    """a = 1 + ln(1 + f), b = -1, c = 0.5, d = -1, e = -2 where f = 0; a below 0 is 0."""
    weights = np.array([[1.0, 1, 0], [-1, 0, 0], [0.5, 0, 0], [-1, 0, 0], [0, 0, -2]])
    calibration = Calibration(weights, np.zeros((4, 0)))
    scores = np.array([[2, 1, -np.inf], [-np.inf] * 3], np.float32)
    found = calibration(scores, scores, np.array([[0, 3, 0], [0, 0, 0]]))
    expected = [[logistic(2 - 2 + 0.5 - 2.0), logistic(1 + np.log(4) - 2 + 0.5 - 1), 0], [0, 0, 0]]
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    falling = Calibration(np.array([[1.0, -1, 0], *np.zeros((4, 3))]), np.zeros((4, 0)))
    assert falling(scores[:1, :2], scores[:1], np.array([[100, 100]])).tolist() == [[0.5, 0.5]]
    curved = replace(calibration, curve=np.array([0.5, 2, 0.1]))
    p = logistic(np.array([2 - 2 + 0.5 - 2.0, 1 + np.log(4) - 2 + 0.5 - 1]))
    expected = logistic(0.5 * np.log(p) - 2 * np.log(1 - p) + 0.1)
    np.testing.assert_allclose(curved(scores, scores, np.array([[0, 3, 0], [0, 0, 0]]))[0, :2], expected, rtol=1e-6)


def test_scores_below_all_that_were_seen_are_no_more_probable_than_the_lowest() -> None:
    """By hand: b is -1 and c is -2, the best score of a held-out document was 1 or more and the last one -1 or more."""
    calibration = Calibration(np.array([[0.5], [-1], [-2], [-1], [0]]), np.zeros((4, 0)))
    calibration = replace(calibration, lowest=np.array([1.0, -1]))
    scores = np.array([[-3, -4], [2, 1]], np.float32)
    logits = [[-1.5 - 1 + 2 - np.sqrt(4), -2 - 1 + 2 - np.sqrt(5)], [1 - 2 - 2, 0.5 - 2 - 2 - 1]]
    found = calibration(scores, scores, np.zeros((2, 2), np.int64))
    np.testing.assert_allclose(found, logistic(np.array(logits)), rtol=1e-6)


def test_the_least_first_scores_of_the_documents_are_learned() -> None:
    top, truth, _ = simulated(smooth, 40, 0)
    found = learn_calibration(top, truth, FREQUENCY)
    assert found is not None
    np.testing.assert_allclose(found.lowest, module._rivals(top.scores, found.softness.item()).min(0))
    low, frequency = np.full((1, 5), -10, np.float32), np.full((1, 5), 40)
    without = replace(found, lowest=np.array([-np.inf, found.lowest[1]]))
    assert found(low, low, frequency).max() < without(low, low, frequency).max()


def of_pairs(truth, weights) -> module._Pairs:
    """Pairs of which only these are read."""
    none = np.zeros(len(truth))
    return module._Pairs(none.astype(int), none.astype(np.float32), np.stack([none] * 2, 1), none, truth, weights)


@pytest.mark.parametrize("seed", range(4))
def test_weights_within_bounds_are_those_that_another_method_finds(seed: int) -> None:
    """L-BFGS-B, to the end; some bounds hold, others do not, and one weight does not decay."""
    generator = np.random.default_rng(seed)
    inputs, v = generator.normal(size=(6, 300)), generator.random(300)
    inputs[0] = 1
    truth = generator.random(300) < logistic(np.array([-1, 2, -1, 0.5, -0.5, 0]) @ inputs)
    decay, towards = np.array([0, 1, 1, 1, 1, 0.1]), np.array([0, 1, 0, 0, 0, 0.0])
    least, most = np.full(6, -np.inf), np.full(6, np.inf)
    least[[2, 3]], most[[4, 5]] = 0, -0.1
    begin = np.clip(np.zeros(6), least, most)
    found = module._fitted(inputs, of_pairs(truth, v), begin, decay=decay, towards=towards, least=least, most=most)

    def loss(w):
        z = w @ inputs
        slope = inputs @ (v * (logistic(z) - truth)) + decay * (w - towards)
        return np.sum(v * (np.logaddexp(0, z) - z * truth)) + np.sum(decay * (w - towards) ** 2) / 2, slope

    bounds = [*zip(least, most, strict=True)]
    expected = minimize(loss, begin, jac=True, method="L-BFGS-B", bounds=bounds, options={"ftol": 1e-15, "gtol": 1e-9})
    np.testing.assert_allclose(found, expected.x, atol=1e-5)
    assert found[2] == 0


def test_the_curve_has_the_least_log_loss_of_its_kind() -> None:
    """Its gradient, pair by pair, is 0, but where u or v is held at 0."""
    generator = np.random.default_rng(0)
    logits, weights = 2 * generator.normal(size=900), generator.random(900)
    truth = generator.random(900) < logistic(0.3 * logits + 0.6 * np.maximum(logits, 0))
    found = module._curve(logits, of_pairs(truth, weights))
    assert found[1] > found[0] > 0
    gradient = module._DECAY * (found - [1, 1, 0]) * [1, 1, 0]
    for z, right, weight in zip(logits, truth, weights, strict=True):
        p = logistic(z)
        parts = np.array([np.log(p), -np.log(1 - p), 1])
        gradient = gradient + weight * (logistic(found @ parts) - right) * parts
    assert np.abs(gradient).max() < 0.01  # of a sum over 900 pairs
    upside_down = module._curve(logits, of_pairs(logits < 0, weights))
    assert upside_down[:2].tolist() == [0, 0], "a higher score is never less probable"


def test_what_thresholds_kept_is_counted_with_loops_on_each_fifth() -> None:
    top, truth, _ = simulated(smooth, 300, 3)
    found = learn_calibration(top, truth, FREQUENCY)
    assert found is not None
    dense, chances = truth.toarray() > 0, np.zeros(top.ids.shape)
    pairs = module._Pairs.of(top, truth, FREQUENCY, found.softness.item())
    for i in range(5):
        one = replace(module._learned(pairs.where(pairs.documents % 5 != i), found), softness=found.softness)
        fifth = slice(i, None, 5)
        chances[fifth] = one(top.scores[fifth], top.scores[fifth], FREQUENCY[top.ids[fifth]])
    assert found.kept.shape[1] > 50
    for threshold, precision, recall, _ in found.kept.T:
        hits = given = 0
        for i, row in enumerate(top.ids):
            for j, label in enumerate(row):
                given += chances[i, j] >= np.float32(threshold)
                hits += chances[i, j] >= np.float32(threshold) and dense[i, label]
        assert given >= 100  # of fewer, a share of 0.9 is known to 6 points at best
        assert (precision, recall) == (pytest.approx(hits / given), pytest.approx(hits / truth.nnz))


@pytest.mark.parametrize(
    "truth", [[[]] * 6, [[0, 1]] * 6, [[0], *[[]] * 4, [0]]], ids=["none right", "all right", "one fold"]
)
def test_nothing_is_learned_where_there_is_nothing_to_learn_from(truth) -> None:
    top = TopK(np.tile([0, 1], (6, 1)), np.tile(np.array([1, 0.5], np.float32), (6, 1)))
    assert learn_calibration(top, csr_of_lists(truth, 2), np.array([1, 2])) is None


def test_a_few_documents_that_a_score_tells_apart_give_finite_weights() -> None:
    """Without decay they would grow without end; empty places are no pairs."""
    ids = np.tile([0, 1, -1], (4, 1))
    top = TopK(ids, np.tile(np.array([1, 0.5, -np.inf], np.float32), (4, 1)))
    found = learn_calibration(top, csr_of_lists([[0]] * 4, 2), np.array([1, 1]))
    assert found is not None
    assert np.isfinite(found.weights).all()
    row = found(top.scores[:1], top.scores[:1], np.ones((1, 3), np.int64))[0]
    assert row[0] > 0.8
    assert row[1] < 0.2
    assert row[2] == 0
    assert found.kept.shape == (4, 0)


def test_arrays_and_back() -> None:
    one = learned(bent, 200)
    back = calibrations_of(arrays_of({"first-encoder": one, "fused": one}))
    assert list(back) == ["first-encoder", "fused"]
    assert one.softness > 0
    for name in ("weights", "kept", "softness", "curve", "lowest"):
        np.testing.assert_array_equal(getattr(back["fused"], name), getattr(one, name))


def ahead(scores: Float64Array, frequency: IntArray) -> Float64Array:
    """The best label is right far more often than one just behind it, as a line through s and t cannot say."""
    return logistic(2.5 - 2 * np.sqrt(scores[:, :1] - scores) - 2)


def crowded(scores: Float64Array, frequency: IntArray) -> Float64Array:
    """One label of each document is right, by the softmax of all: a best one among equals is less probable."""
    shares = np.exp(3 * scores)
    return shares / shares.sum(1, keepdims=True)


@pytest.mark.parametrize("chances", [ahead, crowded])
def test_first_labels_are_as_probable_as_said(chances) -> None:
    """Of 20 labels each, that were drawn so: the mean of what is said of each of the first places is what is right."""
    calibration = learned(chances)
    top, _, planted = simulated(chances, 2000, 1)
    found = calibration(top.scores, top.scores, FREQUENCY[top.ids])
    np.testing.assert_allclose(found[:, :5].mean(0), planted[:, :5].mean(0), atol=0.02)


def many(scores: Float64Array, frequency: IntArray) -> Float64Array:
    """The number of labels of a document shows where its fifth score is: all are more probable where that is high."""
    return logistic(2 * scores - scores[:, :1] + 3 * scores[:, 4:5] - 3)


def test_documents_of_many_labels_are_told_from_those_of_few() -> None:
    """Without the last of the first scores, what is said of the quarters is 0.1 to 0.24 off."""
    calibration = learned(many)
    top, _, planted = simulated(many, 2000, 1)
    found, last = calibration(top.scores, top.scores, FREQUENCY[top.ids])[:, :5], top.scores[:, 4]
    for documents in (last < np.quantile(last, 0.25), last > np.quantile(last, 0.75)):
        np.testing.assert_allclose(found[documents].mean(0), planted[documents, :5].mean(0), atol=0.03)


def test_a_label_among_equals_is_less_probable_than_one_that_stands_alone() -> None:
    calibration = learned(crowded)
    top, _, planted = simulated(crowded, 2000, 1)
    found, rivals = calibration(top.scores, top.scores, FREQUENCY[top.ids]), top.scores[:, 1] - top.scores[:, 0]
    for documents in (rivals < np.quantile(rivals, 0.25), rivals > np.quantile(rivals, 0.75)):
        np.testing.assert_allclose(
            found[documents, 0].mean(), planted[documents, 0].mean(), atol=0.06
        )  # 0.051 of those alone
    assert np.abs(found[:, 0] - planted[:, 0]).mean() < 0.06  # 0.11 by the best score alone


def test_the_soft_maximum_and_the_last_of_the_first_scores_by_hand() -> None:
    """Of the first five, whatever stands behind them; of fewer where there are no more; of none the lowest."""
    first = np.array([[2, 2, 2, 2, 2, 1], [2, 0, -np.inf, -np.inf, -np.inf, -np.inf], [-np.inf] * 6], np.float32)
    found = module._rivals(first, 0.5)
    np.testing.assert_allclose(found[:2, 0], [2 + 0.5 * np.log(5), 2 + 0.5 * np.log(1 + np.exp(-4))])
    assert found[2].tolist() == [-np.inf, -np.inf]
    assert module._rivals(first, 0.0).tolist() == [[2, 2], [2, 0], [-np.inf, -np.inf]]
    ids = np.tile(np.arange(6), (3, 1))
    assert module._softness(TopK(ids[:2], np.array([[5, 4, 3, 2, 1, 0], [3, 3, 3, 3, 3, 0]], np.float32))) == 0.25
    assert module._softness(TopK(ids, np.where(np.isfinite(first), first, -np.inf))) == 0.0


def test_the_calibration_of_an_earlier_model_says_what_it_said() -> None:
    """It has no softness, no weight of l or the root of what a label is behind, and may have a curve of some places."""
    weights = np.array([[1.0, 1, 0], [-1, 0, 0], [0, 0, -2]])
    arrays = arrays_of({"fused": Calibration(weights, np.zeros((4, 0)))})
    for name in ("softness", "curve", "lowest"):
        del arrays[f"fused.{name}"]
    asked = np.array([[2, 1]], np.float32), np.array([[2.0]]), np.array([[0, 3]])
    found = calibrations_of(arrays)["fused"](*asked)
    np.testing.assert_allclose(found, [[logistic(2 - 2 - 2.0), logistic(1 + np.log(4) - 2)]], rtol=1e-6)
    later = Calibration(np.array([[1.0, 1, 0, 0], [-1, 0, 0, 0], [-2, 0, 0, 0], [0, 0, -2, 0]]), np.zeros((4, 0)))
    later = calibrations_of(arrays_of({"fused": replace(later, lowest=np.array([2.5]))}))["fused"]  # without l
    logits = np.array([[2 - 2.5 - 2 * np.sqrt(0.5) - 2, 1 + np.log(4) - 2.5 - 2 * np.sqrt(1.5)]])
    np.testing.assert_allclose(later(*asked), logistic(logits), rtol=1e-6)
    arrays |= {"fused.logits": np.array([-3.0, 1]), "fused.chances": np.array([0.1, 0.5])}
    places = np.array([-2.0, np.log(4) - 1])
    np.testing.assert_allclose(calibrations_of(arrays)["fused"](*asked)[0], 0.1 + 0.1 * (places + 3), rtol=1e-6)
