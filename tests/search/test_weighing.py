"""What is learned of a fusion on held-out documents: by hand, on simulated scores, and beside naive twins."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from longtail.search import weighing as module
from longtail.search.fusion import Candidates, Fusion, by_frequency
from longtail.search.weighing import learn_fusion
from longtail.topk import Float64Array, FloatArray, IntArray, rank


def precision(scores: FloatArray, candidates: Candidates, k: int = 1) -> float:
    """P@k of scored candidates, with loops."""
    ids = rank(candidates.ids, scores, k).ids
    truth = [set(row[true].tolist()) for row, true in zip(candidates.ids, candidates.truth, strict=True)]
    return sum(label in truth[i] for i, row in enumerate(ids) for label in row.tolist()) / (k * len(ids))


def alone(candidates: Candidates, *, encoder: bool) -> FloatArray:
    scores = candidates.scores[0 if encoder else 1]
    return np.where(candidates.ids < 0, -np.inf, scores).astype(np.float32)


def simulated(
    seed: int, encoder: tuple[float, float], classifier: tuple[float, float], n: int = 400
) -> tuple[Candidates, IntArray]:
    """Candidates of labels of which half have no training points.

    Args:
        seed: of all.
        encoder: how strongly the encoder's score shows what is true, for labels without and with training points.
        classifier: the same for the classifier.
        n: documents, 20 candidates each.
    """
    rng = np.random.default_rng(seed)
    L = 60
    frequency = np.where(np.arange(L) % 2 == 0, 0, rng.integers(1, 50, size=L))
    ids = np.stack([np.sort(rng.permutation(L)[:20]) for _ in range(n)])
    truth = rng.random((n, 20)) < 0.1
    seen = (frequency[ids] > 0).astype(int)
    scores = [0.1 * (np.asarray(shows)[seen] * truth + rng.normal(size=(n, 20))) for shows in (encoder, classifier)]
    return Candidates(ids, np.stack(scores).astype(np.float32), truth), frequency


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    ("encoder", "classifier"),
    [((1, 1), (1, 1)), ((2, 2), (0, 4)), ((3, 0), (0, 3)), ((0, 0), (3, 3)), ((3, 3), (0, 0)), ((0, 0), (0, 0))],
)
def test_what_is_learned_is_as_good_as_the_better_part(
    encoder: tuple[float, float], classifier: tuple[float, float], seed: int
) -> None:
    candidates, frequency = simulated(seed, encoder, classifier)
    learned = learn_fusion(candidates, frequency)(candidates)

    def mean(scores: FloatArray) -> float:
        return float(np.mean([precision(scores, candidates, k) for k in (1, 3, 5)]))

    best = max(mean(alone(candidates, encoder=True)), mean(alone(candidates, encoder=False)))
    assert mean(learned) >= best - 0.005  # less than the standard error of so many documents


def test_two_scores_stay_together_where_chance_alone_speaks_against_it() -> None:
    """By the mean of so few documents, however little one of them is ahead, 13 of these 30 were one score alone."""
    learned = [learn_fusion(*simulated(seed, (1, 1), (3, 3), n=80)).weights for seed in range(30)]
    assert sum(bool(weights[:2].any(1).all()) for weights in learned) >= 20


def test_two_scores_that_know_different_things_do_better_together() -> None:
    """As the sum of two equally good scores does; learned on some documents, shown on others."""
    candidates, frequency = simulated(0, (2, 2), (2, 2), n=800)
    learned, others = learn_fusion(candidates.fold(0), frequency), candidates.fold(1)
    fused = precision(learned(others), others)
    assert fused > 1.1 * max(precision(alone(others, encoder=part), others) for part in (True, False))
    total = others.scores.sum(0)
    assert fused > 0.95 * precision(total, others)


def test_the_weights_follow_the_frequency_of_a_label() -> None:
    """The encoder knows the labels without training points, the classifier the others: no fixed mix does as well."""
    candidates, frequency = simulated(0, (3, 0), (0, 3), n=800)
    learned, others = learn_fusion(candidates.fold(0), frequency), candidates.fold(1)
    a, b, _ = learned.label_weights()
    assert a[frequency == 0].min() > 5 * abs(b[frequency == 0]).max()
    assert b[frequency > 0].mean() > 5 * abs(a[frequency > 0].mean())
    mixes = [
        (mix * others.scores[0] + (1 - mix) * others.scores[1]).astype(np.float32) for mix in np.linspace(0, 1, 21)
    ]
    assert precision(learned(others), others) > 1.1 * max(precision(mix, others) for mix in mixes)


def test_the_weights_tell_labels_of_few_documents_apart_and_those_of_many() -> None:
    """The encoder knows labels with one training point and with thousands, the classifier those in between."""
    rng, points = np.random.default_rng(0), np.array([1, 10, 4000])
    frequency = np.repeat(points, 20)
    ids = np.stack([np.sort(rng.permutation(60)[:20]) for _ in range(1500)])
    truth = rng.random(ids.shape) < 0.1
    by_encoder = frequency[ids] != 10
    scores = [0.1 * (3 * (truth & knows) + rng.normal(size=ids.shape)) for knows in (by_encoder, ~by_encoder)]
    learned = learn_fusion(Candidates(ids, np.stack(scores).astype(np.float32), truth), frequency)
    a, b, _ = by_frequency(learned.weights, points)
    assert (a > 5 * abs(b)).tolist() == [True, False, True]
    assert b[1] > 5 * abs(a[1])


@pytest.mark.parametrize(("documents", "known"), [(99, 3), (100, 5)])
def test_few_documents_say_nothing_of_the_last_features(documents: int, known: int) -> None:
    candidates, frequency = simulated(0, (2, 2), (2, 2), n=documents)
    candidates.truth[:, 0] = True  # each document says something
    weights = module._fit(candidates, frequency).weights
    assert weights.shape == (3, 5)
    assert weights[:, :known].all()
    assert not weights[:, known:].any()


def test_new_labels_weigh_as_the_rarest_where_none_of_them_was_right() -> None:
    """Nothing is said about them by documents that have no new label: they are not learned to be always wrong."""
    candidates, frequency = simulated(0, (3, 3), (1, 1), n=800)
    new = frequency[candidates.ids] == 0
    truth = candidates.truth & ~new
    fusion = learn_fusion(Candidates(candidates.ids, candidates.scores, truth), frequency)
    weights = fusion.label_weights()
    rarest = frequency == frequency[candidates.ids[truth]].min()
    np.testing.assert_array_equal(weights[:, frequency == 0], np.repeat(weights[:, rarest][:, :1], 30, axis=1))
    without = Candidates(np.where(new, -1, candidates.ids), candidates.scores, truth)
    np.testing.assert_array_equal(fusion.weights, learn_fusion(without, frequency).weights)
    others, _ = simulated(1, (3, 3), (1, 1), n=800)
    found = candidates_found(fusion, others)
    assert found[frequency == 0].mean() == pytest.approx(found[frequency > 0].mean(), abs=0.1)


def candidates_found(fusion: Fusion, candidates: Candidates) -> Float64Array:
    """(L,) the share of each label's true documents that rank it among their first three."""
    top = rank(candidates.ids, fusion(candidates), 3).ids
    hits = (candidates.ids[:, :, None] == top[:, None, :]).any(2)
    true, L = candidates.truth, len(fusion.frequency)
    return np.bincount(candidates.ids[true], hits[true], L) / np.bincount(candidates.ids[true], minlength=L)


def features(f: torch.Tensor) -> torch.Tensor:
    """(5, E) what the weights of labels with f training points depend on."""
    return torch.stack([torch.ones_like(f), f.log1p(), (f == 0).double(), f / (1 + f), f.log1p() ** 2])


def test_what_is_learned_has_the_least_cross_entropy() -> None:
    """Document by document, where some have no true candidate, and some fewer candidates than others."""
    candidates, frequency = simulated(0, (2, 1), (1, 2))
    candidates.ids[::3, 15:] = -1
    candidates.truth[candidates.ids < 0] = False
    candidates.truth[::5] = False
    fusion = learn_fusion(candidates, frequency)
    assert np.count_nonzero(fusion.weights) == fusion.weights.size, "one of the scores alone is no test"

    weights = torch.from_numpy(fusion.weights).requires_grad_()
    total = 1e-6 * weights.square().sum()
    for i, (ids, truth) in enumerate(zip(candidates.ids, candidates.truth, strict=True)):
        if truth.any():
            f = torch.from_numpy(frequency[ids[ids >= 0]]).double()
            a, b, c = weights @ features(f)
            first, second = torch.from_numpy(candidates.scores[:, i, ids >= 0]).double()
            logits = a * first + b * second + c
            total = total - logits.log_softmax(0)[torch.from_numpy(truth[ids >= 0])].mean() / len(candidates.ids)
    (gradient,) = torch.autograd.grad(total, weights)
    assert gradient.abs().max() < 2e-6


def two_of_two(rare: int, noise: float) -> tuple[Candidates, IntArray]:
    """400 documents with a frequent label and a rare one, of which both are true, and nine wrong ones of either kind.

    Args:
        rare: training points of the rare labels; the frequent ones have 500.
        noise: of both scores, which are higher by 1 for what is true.
    """
    rng, n = np.random.default_rng(0), 400
    frequency = np.repeat([500, rare], 10)
    truth = np.zeros((n, 20), bool)
    truth[np.arange(n), rng.integers(10, size=n)] = truth[np.arange(n), 10 + rng.integers(10, size=n)] = True
    scores = (truth + noise * rng.normal(size=(2, n, 20))).astype(np.float32)
    return Candidates(np.tile(np.arange(20), (n, 1)), scores, truth), frequency


def test_rare_labels_go_first_where_that_costs_nothing() -> None:
    """Which of two true labels is first is nothing to P@k, and much to the tail."""
    candidates, frequency = two_of_two(rare=3, noise=0)
    learned, plain = learn_fusion(candidates, frequency, price=0.001), learn_fusion(candidates, frequency)
    np.testing.assert_allclose(plain.weights - learned.weights, [[0] * 5, [0] * 5, [0, 1, np.log(4), 0, 0]])
    assert precision(learned(candidates), candidates) == precision(plain(candidates), candidates) == 1
    assert (rank(candidates.ids, learned(candidates), 1).ids >= 10).all()


@pytest.mark.parametrize("price", [0.001, 0.01])
def test_rare_labels_are_given_the_price_and_no_more(price: float) -> None:
    """The most of all that are tried which costs no more of the precision that is expected, found with loops."""
    candidates, frequency = two_of_two(rare=100, noise=1)
    candidates.ids[::7, 13:] = -1
    candidates.truth[candidates.ids < 0] = False
    candidates.truth[::9] = False
    plain = learn_fusion(candidates, frequency)
    scores = plain(candidates).astype(float)

    def mean(t: float) -> float:
        found = []
        for row, truth, ids in zip(scores, candidates.truth, candidates.ids, strict=True):
            if not truth.any():
                continue
            there = row[ids >= 0]
            probable = np.minimum(truth.sum() * np.exp(there) / np.exp(there).sum(), 1)
            order = np.argsort(t * np.log(1 + frequency[ids[ids >= 0]]) - there)
            found.append(np.mean([probable[order[:k]].sum() / k for k in (1, 3, 5)]))
        return float(np.mean(found))

    costs = {t: mean(0) - mean(t) for t in module._ADJUSTMENTS}
    assert list(costs.values()) == sorted(costs.values())
    most = max(t for t, cost in costs.items() if cost <= price)
    assert 0 < most < 1, "a price that is always or never too high is no test"
    taken = plain.weights - learn_fusion(candidates, frequency, price=price).weights
    assert taken[-1, 1] == pytest.approx(most)


@pytest.mark.parametrize("perfect", ["encoder", "classifier"])
def test_noise_beside_a_perfect_score_does_no_harm(perfect: str) -> None:
    candidates, frequency = simulated(0, (0, 0), (0, 0))
    right, noise = candidates.truth.astype(np.float32), candidates.scores[0] * 1000
    scores = (right, noise) if perfect == "encoder" else (noise, right)
    candidates = Candidates(candidates.ids, np.stack(scores), candidates.truth)
    learned = learn_fusion(candidates, frequency)
    assert precision(learned(candidates), candidates) == precision(right, candidates)


@pytest.mark.parametrize(("documents", "better"), [([0, 1, 2], 0), ([1, 2, 3], 1)])
def test_a_mix_that_does_not_carry_over_is_left_for_the_better_part(documents: list[int], better: int) -> None:
    """The encoder is right about even documents and the classifier about odd ones: each fold teaches the wrong part."""
    ids = np.tile(np.arange(2), (3, 1))
    truth = np.tile([True, False], (3, 1))
    encoder = np.array([[1, -1] if document % 2 == 0 else [-1, 1] for document in documents], np.float32)
    learned = learn_fusion(Candidates(ids, np.stack([encoder, -encoder]), truth), np.array([5, 5]))
    expected = np.zeros((3, 5))
    expected[better, 0] = 1
    np.testing.assert_array_equal(learned.weights, expected)


@pytest.mark.parametrize("n", [0, 1, 2, 5])
def test_nothing_to_learn_from_leaves_the_encoder(n: int) -> None:
    ids = np.tile(np.arange(3), (n, 1))
    scores = np.random.default_rng(0).random((2, n, 3)).astype(np.float32)
    truth = np.zeros((n, 3), bool)
    if n == 1:
        truth[:] = True
    learned = learn_fusion(Candidates(ids, scores, truth), np.array([0, 1, 2]))
    np.testing.assert_array_equal(learned.weights, [[1, 0, 0, 0, 0], [0] * 5, [0] * 5])


N_OF = np.repeat([1000, 0, 30], [2, 2, 60])  # training points: of two frequent labels, two unseen ones, many others


def divided(seed: int, n: int = 600) -> Candidates:
    """Documents with a true label of each kind: the frequent one shows best; each of the others is rarely true."""
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(n):
        groups = [rng.permutation([0, 1]), rng.permutation([2, 3]), 4 + rng.permutation(60)[:6]]
        labels = np.concatenate(groups)
        truth = np.concatenate([np.arange(len(group)) == 0 for group in groups])
        shows = np.repeat([3.0, 1.2, 1.2], [2, 2, 6])
        order = np.argsort(labels)
        scores = shows * truth + rng.normal(size=(2, 10))
        rows.append((labels[order], 0.1 * scores[:, order], truth[order]))
    ids, scores, truth = (np.stack(part) for part in zip(*rows, strict=True))
    return Candidates(ids, scores.transpose(1, 0, 2).astype(np.float32), truth)


def worths(candidates: Candidates) -> dict[str, Float64Array | None]:
    counts = np.bincount(candidates.ids[candidates.truth], minlength=len(N_OF))
    return {"precision": None, "tail": 1 + 20 * (N_OF + 1.5) ** -0.55, "coverage": 1 / np.maximum(counts, 1)}


def share_found(fusion: Fusion, candidates: Candidates, worth: Float64Array | None) -> float:
    """What the hits among the first 1, 3 and 5 are worth, of what is possible, with loops."""
    worth = np.ones(len(N_OF)) if worth is None else worth
    top, shares = rank(candidates.ids, fusion(candidates), 5).ids, []
    for k in (1, 3, 5):
        gained = possible = 0.0
        for i, row in enumerate(candidates.ids):
            true = row[candidates.truth[i]]
            gained += sum(worth[label] for label in top[i, :k] if label in true)
            possible += sum(sorted((worth[label] for label in true), reverse=True)[:k])
        shares.append(gained / possible)
    return float(np.mean(shares))


def test_each_preference_is_best_at_what_it_prefers() -> None:
    candidates, others = divided(0), divided(1)
    known = worths(candidates)
    fusions = {name: learn_fusion(candidates, N_OF, worth) for name, worth in known.items()}
    for name, worth in known.items():
        found = {other: share_found(fusion, others, worth) for other, fusion in fusions.items()}
        assert max(found, key=lambda other: found[other]) == name, found
        assert sorted(found.values())[-2] < found[name] - 0.01, found


def test_the_gain_of_a_preference_is_what_loops_find() -> None:
    candidates = divided(2, 40)
    for worth in worths(candidates).values():
        fusion = learn_fusion(candidates, N_OF, worth)
        if worth is None:  # where k divides, whatever is possible
            expected = np.mean([precision(fusion(candidates), candidates, k) for k in (1, 3, 5)])
        else:
            expected = share_found(fusion, candidates, worth)
        assert module._gains(fusion(candidates), candidates, worth).mean() == pytest.approx(expected)


def test_what_is_learned_with_a_worth_has_the_least_weighted_cross_entropy() -> None:
    candidates, worth = divided(0, 150), np.random.default_rng(3).uniform(0.5, 5, len(N_OF))
    candidates.truth[::5] = False
    fitted = module._fit(candidates, N_OF, worth)
    weights = torch.from_numpy(fitted.weights).requires_grad_()
    losses, share = [], 0.0
    for i, (ids, truth) in enumerate(zip(candidates.ids, candidates.truth, strict=True)):
        if truth.any():
            f = torch.from_numpy(N_OF[ids]).double()
            *parts, c = weights @ features(f)
            scores = torch.from_numpy(candidates.scores[:, i]).double()
            log_chances = (sum(a * s for a, s in zip(parts, scores, strict=True)) + c).log_softmax(0)
            of = torch.from_numpy(worth[ids[truth]]) / truth.sum()
            losses.append(-(of * log_chances[torch.from_numpy(truth)]).sum())
            share += float(of.sum())
    total = sum(losses) * len(losses) / share / len(candidates.ids) + 1e-6 * weights.square().sum()
    (gradient,) = torch.autograd.grad(total, weights)
    assert gradient.abs().max() < 2e-6


def test_the_same_worth_for_all_is_what_is_learned_without() -> None:
    candidates = divided(0, 150)
    one, other = (module._fit(candidates, N_OF, worth) for worth in (None, np.full(len(N_OF), 7.0)))
    np.testing.assert_allclose(one.weights, other.weights, rtol=1e-4, atol=1e-4)
