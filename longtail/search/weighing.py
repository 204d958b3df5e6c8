"""What the weights of a fusion, and one more scorer, are worth: learned on documents that no scorer was trained on."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from longtail.search.cross_entropy import CrossEntropy
from longtail.search.fusion import FEATURES, Candidates, Fusion, alone, extended
from longtail.topk import Float64Array, FloatArray, IntArray, rank

_TAIL = 0.005  # of hits at the first place, rare labels worth more, that one more scorer may lose
_ADJUSTMENTS = (0.0, 0.01, 0.02, 0.03, 0.045, 0.06, 0.08, 0.1, 0.125, 0.15, 0.175, 0.2, 0.25, 0.3, 0.4, 0.5, 0.7, 1.0)


class Gained(NamedTuple):
    """Means over held-out documents without one more scorer and with it.

    Attributes:
        without: the mean without it.
        with_it: the mean with it.
        error: the standard error of their difference, documents paired.
    """

    without: float
    with_it: float
    error: float

    @classmethod
    def of(cls, without: Float64Array, with_it: Float64Array) -> Gained:
        """Of (n,) what each document adds to the means."""
        error = np.std(with_it - without) / np.sqrt(len(without))
        return cls(float(without.mean()), float(with_it.mean()), float(error))

    @property
    def difference(self) -> float:
        """What is gained by it."""
        return self.with_it - self.without


class Trial(NamedTuple):
    """What held-out documents say of one more scorer, a memory or a cross-encoder, in two-fold cross-validation.

    Attributes:
        weights: (S + 2, F) float64, of the S scorers, the one more and the constant; None where it is not to be kept.
        gain: what counts (as for `learn_fusion`).
        tail: hits at the first place, with labels of the tail worth more; None where labels are worth more or less
            anyway.
    """

    weights: Float64Array | None
    gain: Gained
    tail: Gained | None


def learn_fusion(
    candidates: Candidates, frequency: IntArray, worth: Float64Array | None = None, price: float = 0
) -> Fusion:
    """Learn the weights of a fusion on documents that neither scorer was trained on.

    It minimises the softmax cross-entropy of the true labels among a document's candidates, which is convex in the
    weights. Fewer than 100 documents say too little of how labels of some frequency differ: of so few, the weights are
    over the first three features. Where, in two-fold cross-validation, the mean of P@1, P@3 and P@5 of one scorer is
    higher by more than a standard error, that scorer is the fusion, and the first one is where there is nothing to
    learn from.

    The least cross-entropy is nearly the most precision, so that a small step away from it costs next to none, and one
    towards rare labels gains what they are worth at full rate. So at a price, c(f) is lowered by t ln(1 + f), with the
    largest t of up to 1 that costs no more of that mean: the post-hoc logit adjustment of Menon et al. (2021), with the
    frequency of labels for their prior. What it costs is what the fusion itself expects, by how probable it takes
    labels to be; what is true on some hundred documents would say it with an error that is larger than the price.

    Where labels are worth more or less, so are they in the cross-entropy, and instead of precision counts the worth of
    the hits among the first 1, 3 and 5, divided by what is possible: PSP, where the worth is the inverse propensity.
    Then the mix is the best in cross-validation of those learned with the worth, its square root, and without.

    Where no document has a true label without training points, labels without them weigh as the rarest true one does.

    Args:
        candidates: of held-out documents.
        frequency: (L,) int64 training points of each label.
        worth: (L,) float64 above 0, of a hit on each label; the same for all if left out.
        price: in [0, 1], the most of the mean of P@1, P@3 and P@5 that is given for rare labels; 0 where a worth says
            what they are to have.
    """
    count, candidates = len(candidates.scores), candidates.informative(frequency)
    parts = [Fusion(alone(s, count + 1), frequency) for s in range(count)]
    if not _can_learn(candidates):
        return parts[0]
    best = _best(candidates, frequency, worth)
    of_parts = [_gains(part(candidates), candidates, worth) for part in parts]
    first = int(np.argmax([gains.mean() for gains in of_parts]))
    gained = Gained.of(best.gains, of_parts[first])
    if gained.difference > gained.error:
        return parts[first]
    return _fit(candidates, frequency, best.weighting, price, best.near)


def learn_one_more(
    candidates: Candidates,
    frequency: IntArray,
    worth: Float64Array | None = None,
    price: float = 0,
    *,
    least: float = 0.001,
) -> Trial | None:
    """Learn what one more scorer is worth beside the others; None where there is nothing to learn from.

    It is kept if, in two-fold cross-validation, what counts (as for `learn_fusion`) gains more than so much over the
    fusion without it; where that is of one scorer, also over this as it is. Where what counts is precision, hits at the
    first place with labels of the tail worth more may lose 0.5 points and a standard error at most. All that is before
    either is adjusted for the tail, as what is learned then is.

    Args:
        candidates: of held-out documents; the last scorer is the one more: a memory, or a cross-encoder.
        frequency: (L,) int64 training points of each label.
        worth: (L,) float64 above 0, of a hit on each label; the same for all if left out.
        price: for rare labels, as for `learn_fusion`.
        least: in [0, 1], that it must gain more than; 0.1 points are what a search or a second ranking must be worth.
    """
    candidates = candidates.informative(frequency)
    if not _can_learn(candidates):
        return None
    without = replace(candidates, scores=candidates.scores[:-1])
    plain, best = (_best(one, frequency, worth) for one in (without, candidates))
    before = plain.gains
    if len(without.scores) == 1:
        before = max(before, _gains(without.scores[0], candidates, worth), key=np.mean)
    gain, tail = Gained.of(before, best.gains), None
    kept = gain.difference > least
    if worth is None:
        tail = Gained.of(*(_tail(one.scores, candidates, frequency) for one in (plain, best)))
        kept = kept and tail.difference >= -_TAIL - tail.error
    weights = _fit(candidates, frequency, best.weighting, price, best.near).weights if kept else None
    return Trial(weights, gain, tail)


def _can_learn(candidates: Candidates) -> bool:
    """Whether there is a true label in both folds."""
    return bool(candidates.fold(0).truth.any() and candidates.fold(1).truth.any())


class _Best(NamedTuple):
    """What is gained in cross-validation.

    Attributes:
        gains: (n,) what counts: what each document adds to its mean.
        weighting: (L,) the worth of labels in the cross-entropy with which most is gained; None for the same of all.
        scores: (n, C) of each half of the documents, by what is learned on the other.
        near: (S + 1, F) weights that were learned on a half.
    """

    gains: Float64Array
    weighting: Float64Array | None
    scores: FloatArray
    near: Float64Array


def _best(candidates: Candidates, frequency: IntArray, worth: Float64Array | None) -> _Best:
    """The best in cross-validation of what is learned with labels that are worth more or less."""
    tried: list[_Best] = []
    for weighting in [None] if worth is None else [None, np.sqrt(worth), worth]:
        scores = np.empty(candidates.ids.shape, np.float32)
        near = tried[-1].near if tried else None
        for i in (0, 1):
            learned = _fit(candidates.fold(1 - i), frequency, weighting, near=near)
            scores[i::2], near = learned(candidates.fold(i)), learned.weights
        assert near is not None
        tried.append(_Best(_gains(scores, candidates, worth), weighting, scores, near))
    return max(tried, key=lambda one: one.gains.mean())


def _fit(
    candidates: Candidates,
    frequency: IntArray,
    worth: Float64Array | None = None,
    price: float = 0,
    near: Float64Array | None = None,
) -> Fusion:
    """The weights with the least cross-entropy, by Newton's method: they are few, and it asks for few passes.

    Of the precision that they expect, so much is then given for rare labels, as `learn_fusion` says.

    Args:
        candidates: of held-out documents.
        frequency: (L,) int64 training points of each label.
        worth: (L,) of labels in the cross-entropy.
        price: for rare labels.
        near: (S + 1, F) weights to begin with, of a fusion that is much like it: it takes less time then.
    """
    from scipy.optimize import minimize  # noqa: PLC0415  (half a second that whoever only predicts need not wait)

    asked = CrossEntropy.of(candidates, frequency, worth)
    shape = len(asked.scores), len(asked.features)
    if near is None:
        near = np.zeros(shape)
        near[:-1, 0] = 10  # cosines are to be told apart from the first step on
    start, options = near[:, : shape[1]].ravel(), {"gtol": 1e-6, "initial_trust_radius": 10.0}
    best = minimize(asked.loss, start, jac=True, hess=asked.curvature, method="trust-exact", options=options)
    weights = np.pad(best.x.reshape(shape), ((0, 0), (0, FEATURES - shape[1])))
    weights[-1, 1] -= _adjustment(Fusion(weights, frequency), candidates, price) if price else 0
    return Fusion(extended(weights, asked.levels[asked.at], asked.truth), frequency)


def _adjustment(fusion: Fusion, candidates: Candidates, price: float) -> float:
    """The most t of t ln(1 + f) that can be taken off the scores, if it may cost so much of the expected precision."""
    candidates = candidates.of_documents(np.flatnonzero(candidates.truth.any(1)))
    scores = fusion(candidates)  # (n, C)
    chances = np.exp(scores - scores.max(1, keepdims=True))
    chances *= candidates.truth.sum(1, keepdims=True) / chances.sum(1, keepdims=True)
    right = np.minimum(chances, 1)  # (n, C) how probable each is: the softmax has shares of the true ones
    known = np.log1p(fusion.frequency[candidates.ids]).astype(np.float32)  # for whatever where there is no candidate
    few = min(5, scores.shape[1])

    def expected(t: float) -> float:
        lowered = np.float32(t) * known - scores
        first = np.argpartition(lowered, few - 1, axis=1)[:, :few]
        order = np.take_along_axis(lowered, first, axis=1).argsort(axis=1, kind="stable")
        hits = np.take_along_axis(right, np.take_along_axis(first, order, axis=1), axis=1)
        return float(np.mean([hits[:, :k].sum(1).mean() / k for k in (1, 3, 5)]))

    least = expected(0) - price
    return max(itertools.takewhile(lambda t: expected(t) >= least, _ADJUSTMENTS))


def _gains(scores: FloatArray, candidates: Candidates, worth: Float64Array | None) -> Float64Array:
    """Of (n, C) scores, what each document adds to a mean: P@1, P@3 and P@5, or their shares of what is worth most."""
    relevant = np.where(candidates.truth, candidates.ids, -2)
    top = rank(candidates.ids, scores, 5).ids
    hits = (top[:, :, None] == relevant[:, None, :]).any(2)  # (n, 5)
    if worth is None:
        shares = [hits[:, :k].sum(1) / k for k in (1, 3, 5)]
    else:
        gained = np.where(hits, worth[top], 0)
        possible = -np.sort(-np.where(candidates.truth, worth[candidates.ids], 0), axis=1)
        shares = [gained[:, :k].sum(1) / possible[:, :k].sum(1).mean() for k in (1, 3, 5)]
    gains: Float64Array = np.mean(shares, axis=0)
    return gains


def _tail(scores: FloatArray, candidates: Candidates, frequency: IntArray) -> Float64Array:
    """What each document adds to P@1, true labels worth (f + 1.5)^-0.55, nearly as for PSP@1, in shares of the best."""
    worth = np.where(candidates.ids < 0, 0, (frequency[np.maximum(candidates.ids, 0)] + 1.5) ** -0.55)
    worth = np.where(candidates.truth, worth, 0)
    had: Float64Array = np.take_along_axis(worth, scores.argmax(1)[:, None], axis=1)[:, 0]
    return had / float(worth.max(1).mean())
