"""One score out of several: how much the encoder and the classifier of a label are to be believed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from longtail.data.sparse import CSR, holds
from longtail.topk import BoolArray, Float64Array, FloatArray, IntArray, TopK, rank

_DECAY = 1e-6  # of the weights: where a fusion makes no error, they would grow without end


@dataclass(frozen=True, slots=True)
class Candidates:
    """Labels that n documents may have, with what is known of each.

    Attributes:
        ids: (n, C) int64 label ids, each once in a row, padded with -1.
        scores: (S, n, C) float32, by each of S scorers.
        truth: (n, C) bool, which of them are relevant.
    """

    ids: IntArray
    scores: FloatArray
    truth: BoolArray

    @classmethod
    def of(
        cls, tops: Sequence[TopK], queries: Sequence[FloatArray], tables: Sequence[FloatArray], truth: CSR
    ) -> Candidates:
        """The labels found by some searches for the same documents, each scored by all S scorers.

        Args:
            tops: of each search, (n, K) ranked labels.
            queries: of each scorer, (n, D).
            tables: of each scorer, (L, D) label vectors.
            truth: (n, L) relevant labels.
        """
        ids = np.sort(np.concatenate([top.ids for top in tops], axis=1), axis=1)
        ids[:, 1:][ids[:, 1:] == ids[:, :-1]] = -1
        scores = [pair_scores(x, table, ids) for x, table in zip(queries, tables, strict=True)]
        return cls(ids, np.stack(scores), holds(truth, ids))

    def coverage(self, ids: IntArray) -> float:
        """The share of some labels of the documents, (n, k) padded with -1, that are candidates."""
        there = (ids[:, :, None] == self.ids[:, None, :]).any(2)[ids >= 0]
        return float(there.mean()) if len(there) else 1.0

    def fold(self, i: int) -> Candidates:
        """Every second document, from document ``i`` on."""
        return Candidates(self.ids[i::2], self.scores[:, i::2], self.truth[i::2])

    def informative(self, frequency: IntArray) -> Candidates:
        """Those that the truth says something about: without new labels, where not one of these is true.

        Documents that were drawn from the training data seldom have a label that no other document has, or never. To
        learn from that how new labels rank would be to learn that they are never right.

        Args:
            frequency: (L,) int64 training points of each label; new labels have none.
        """
        new = (self.ids >= 0) & (frequency[self.ids] == 0)
        return self if (new & self.truth).any() else replace(self, ids=np.where(new, -1, self.ids))

    def beside(self, scores: FloatArray) -> Candidates:
        """The same candidates with the (n, C) scores of one more scorer."""
        return Candidates(self.ids, np.concatenate([self.scores, scores[None]]), self.truth)


@dataclass(frozen=True, slots=True)
class Fusion:
    """score(x, l) = sum over the scorers s of a_sl <x_s, w_sl>, + c_l, with weights that depend on the label.

    With f the number of training points of label l, each of a_1 ... a_S and c is linear in (1, ln(1 + f), [f = 0]). As
    the weights belong to the label, the fused score is an inner product too: of what the scorers read of a document and
    1, with (a_1 w_1, ..., c). One exact or approximate search serves it, at the cost of a plain dual encoder. NGAME
    (Dahiya et al., 2023) fuses with a decision tree over the same inputs instead, which needs both searches and a
    rescoring; UniDEC (the thesis, section 2.3.4) has all a = 1 and c = 0.

    Attributes:
        weights: (S + 1, 3) float64, rows a_1, ..., a_S, c over (1, ln(1 + f), [f = 0]).
        frequency: (L,) int64 training points of each label.
    """

    weights: Float64Array
    frequency: IntArray

    def label_weights(self) -> FloatArray:
        """(S + 1, L): a_1, ..., a_S and c of each label."""
        return np.asarray(self.weights @ features_of(self.frequency), np.float32)

    def __call__(self, candidates: Candidates) -> FloatArray:
        """The fused scores of candidates, (n, C); -inf where there is none."""
        *shares, c = self.label_weights()[:, np.maximum(candidates.ids, 0)]
        fused = sum((a * scores for a, scores in zip(shares, candidates.scores, strict=True)), start=c)
        return np.where(candidates.ids < 0, -np.inf, fused).astype(np.float32)

    def table(self, parts: Sequence[tuple[FloatArray, slice | IntArray]], width: int) -> FloatArray:
        """The fused label vectors, (L, width + 1), for queries (x, 1).

        Args:
            parts: of each scorer, its label vectors (L, D) and the D columns of (x, 1) that it reads.
            width: of x.
        """
        table = np.zeros((len(self.frequency), width + 1), np.float32)
        *shares, table[:, -1] = self.label_weights()
        for a, (vectors, columns) in zip(shares, parts, strict=True):
            table[:, columns] += a[:, None] * vectors
        return table


class Trial(NamedTuple):
    """What held-out documents say of one more scorer, a memory or a cross-encoder, in two-fold cross-validation.

    Attributes:
        weights: (S + 2, 3) float64, of the S scorers, the one more and the constant; None where it is not to be kept.
        gain: what counts (as for `learn_fusion`), without it and with it.
        tail: hits at the first place, with labels of the tail worth more, without and with; None where labels are worth
            more or less anyway.
    """

    weights: Float64Array | None
    gain: tuple[float, float]
    tail: tuple[float, float] | None


def learn_fusion(candidates: Candidates, frequency: IntArray, worth: Float64Array | None = None) -> Fusion:
    """Learn the weights of a fusion on documents that neither scorer was trained on.

    It minimises the softmax cross-entropy of the true labels among a document's candidates, which is convex in the
    weights. The learned mix is kept only if, in two-fold cross-validation, its mean of P@1, P@3 and P@5 is at least
    that of the best of its scorers; otherwise that scorer is the fusion, and the first one where there is nothing to
    learn from.

    Where labels are worth more or less, so are they in the cross-entropy, and instead of precision counts the worth of
    the hits among the first 1, 3 and 5, divided by what is possible: PSP, where the worth is the inverse propensity.
    Then the mix is the best in cross-validation of those learned with the worth, its square root, and without.

    Where no document has a true label without training points, labels without them weigh as the rarest true one does.

    Args:
        candidates: of held-out documents.
        frequency: (L,) int64 training points of each label.
        worth: (L,) float64 above 0, of a hit on each label; the same for all if left out.
    """
    count, candidates = len(candidates.scores), candidates.informative(frequency)
    parts = [Fusion(np.outer(np.arange(count + 1) == s, [1.0, 0, 0]), frequency) for s in range(count)]
    if not _can_learn(candidates):
        return parts[0]
    learned, best = _best(candidates, frequency, worth)
    alone = [_gain(part(candidates), candidates, worth) for part in parts]
    return _fit(candidates, frequency, best) if learned >= max(alone) else parts[int(np.argmax(alone))]


def learn_one_more(candidates: Candidates, frequency: IntArray, worth: Float64Array | None = None) -> Trial | None:
    """Learn what one more scorer is worth beside the others; None where there is nothing to learn from.

    It is kept if, in two-fold cross-validation, what counts (as for `learn_fusion`) gains at least 0.1 points over the
    fusion without it; where that is of one scorer, also over this as it is. Where what counts is precision, hits at the
    first place with labels of the tail worth more may lose 0.5 at most.

    Args:
        candidates: of held-out documents; the last scorer is the one more: a memory, or a cross-encoder.
        frequency: (L,) int64 training points of each label.
        worth: (L,) float64 above 0, of a hit on each label; the same for all if left out.
    """
    candidates = candidates.informative(frequency)
    if not _can_learn(candidates):
        return None
    without = replace(candidates, scores=candidates.scores[:-1])
    (before, plain), (after, best) = (_best(one, frequency, worth) for one in (without, candidates))
    if len(without.scores) == 1:
        before = max(before, _gain(without.scores[0], candidates, worth))
    kept, tail = after >= before + 0.001, None
    if worth is None:
        both = (without, plain), (candidates, best)
        first, second = (_tail(_crossed(one, frequency, weighting), one, frequency) for one, weighting in both)
        kept, tail = kept and second >= first - 0.005, (first, second)
    return Trial(_fit(candidates, frequency, best).weights if kept else None, (before, after), tail)


def _can_learn(candidates: Candidates) -> bool:
    """Whether there is a true label in both folds."""
    return bool(candidates.fold(0).truth.any() and candidates.fold(1).truth.any())


def _best(candidates: Candidates, frequency: IntArray, worth: Float64Array | None) -> tuple[float, Float64Array | None]:
    """What is gained in cross-validation, and the worth of labels in the cross-entropy with which most is."""
    weightings = [None] if worth is None else [None, np.sqrt(worth), worth]
    gains = [_gain(_crossed(candidates, frequency, one), candidates, worth) for one in weightings]
    best = int(np.argmax(gains))
    return gains[best], weightings[best]


def _crossed(candidates: Candidates, frequency: IntArray, worth: Float64Array | None) -> FloatArray:
    """(n, C) scores of each half of the documents by the fusion that is learned on the other half."""
    scores = np.empty(candidates.ids.shape, np.float32)
    for i in (0, 1):
        scores[i::2] = _fit(candidates.fold(1 - i), frequency, worth)(candidates.fold(i))
    return scores


def pair_scores(queries: FloatArray, table: FloatArray, ids: IntArray) -> FloatArray:
    """Inner products of each query with its candidates: (n, C) for queries (n, D), a table (L, D) and ids (n, C)."""
    scores = np.empty(ids.shape, np.float32)
    for at in range(0, len(ids), 256):
        block = table[np.maximum(ids[at : at + 256], 0)]  # (256, C, D)
        scores[at : at + 256] = np.matmul(block, queries[at : at + 256, :, None])[..., 0]
    return scores


def features_of(frequency: IntArray) -> Float64Array:
    """(3, ...) what the weights of labels with f training points depend on: 1, ln(1 + f), [f = 0]."""
    return np.stack([np.ones(frequency.shape), np.log1p(frequency), frequency == 0])


def extended(weights: Float64Array, learned_on: IntArray, right: BoolArray) -> Float64Array:
    """The same weights, with those of new labels, if none was learned on: they weigh as the rarest that was right.

    Args:
        weights: (W, 3) over `features_of`.
        learned_on: (E,) training points of the labels that the weights were learned on.
        right: (E,) bool, whether they were true.
    """
    if (learned_on == 0).any():
        return weights
    as_rarest = weights[:, 1] * np.log1p(learned_on[right].min())
    return np.stack([weights[:, 0], weights[:, 1], as_rarest], axis=1)


def _fit(candidates: Candidates, frequency: IntArray, worth: Float64Array | None = None) -> Fusion:
    """The weights with the least cross-entropy, by Newton's method: they are few, and it asks for few passes."""
    from scipy.optimize import minimize  # noqa: PLC0415  (half a second that whoever only predicts need not wait)

    found = (candidates.ids >= 0) & candidates.truth.any(1, keepdims=True)  # E pairs of d documents
    documents = found.nonzero()[0]
    shares = candidates.truth[found] / candidates.truth.sum(1)[documents]  # (E,)
    scores = np.concatenate([candidates.scores[:, found], np.ones((1, len(documents)))])  # (S + 1, E)
    features = features_of(frequency)[:, candidates.ids[found]]  # (3, E)
    inputs = (scores[:, None] * features).reshape(-1, len(documents))  # (W, E)
    first = np.flatnonzero(np.diff(documents, prepend=-1))  # (d,) pair of each document
    sizes, totals = np.diff(first, append=len(documents)), np.ones(len(first))
    if worth is not None:
        shares *= worth[candidates.ids[found]]
        shares *= len(first) / shares.sum()
        totals = np.add.reduceat(shares, first)  # (d,)
    total = np.repeat(totals, sizes)  # (E,)

    def chances(weights: Float64Array) -> tuple[Float64Array, Float64Array]:
        """-log p and p of each pair among those of its document, (E,)."""
        logits = weights @ inputs
        logits -= np.repeat(np.maximum.reduceat(logits, first), sizes)
        surprise = np.repeat(np.log(np.add.reduceat(np.exp(logits), first)), sizes) - logits
        return surprise, np.exp(-surprise)

    def loss(weights: Float64Array) -> tuple[float, Float64Array]:
        surprise, p = chances(weights)
        value = float(shares @ surprise) / len(found) + _DECAY * float(weights @ weights)
        return value, inputs @ (total * p - shares) / len(found) + 2 * _DECAY * weights

    def curvature(weights: Float64Array) -> Float64Array:
        expected = inputs * chances(weights)[1]  # (W, E)
        means = np.sqrt(totals) * np.add.reduceat(expected, first, axis=1)  # (W, d)
        spread: Float64Array = (total * expected) @ inputs.T - means @ means.T  # (W, W)
        return spread / len(found) + 2 * _DECAY * np.eye(len(inputs))

    start = np.outer([10.0] * (len(scores) - 1) + [0], [1, 0, 0])  # cosines are to be told apart from the first step on
    options = {"gtol": 1e-6, "initial_trust_radius": 10.0}
    best = minimize(loss, start.ravel(), jac=True, hess=curvature, method="trust-exact", options=options)
    learned = extended(best.x.reshape(-1, 3), frequency[candidates.ids[found]], candidates.truth[found])
    return Fusion(learned, frequency)


def _gain(scores: FloatArray, candidates: Candidates, worth: Float64Array | None) -> float:
    """Of (n, C) scores: the mean of P@1, P@3 and P@5, or of their shares of what is worth most."""
    relevant = np.where(candidates.truth, candidates.ids, -2)
    top = rank(candidates.ids, scores, 5).ids
    hits = (top[:, :, None] == relevant[:, None, :]).any(2)  # (n, 5)
    if worth is None:
        return float(np.mean([hits[:, :k].sum(1).mean() / k for k in (1, 3, 5)]))
    gained = np.where(hits, worth[top], 0)
    possible = -np.sort(-np.where(candidates.truth, worth[candidates.ids], 0), axis=1)
    return float(np.mean([gained[:, :k].sum() / possible[:, :k].sum() for k in (1, 3, 5)]))


def _tail(scores: FloatArray, candidates: Candidates, frequency: IntArray) -> float:
    """P@1 with true labels worth (f + 1.5)^-0.55, nearly as for PSP@1, in shares of the best that can be had."""
    worth = np.where(candidates.ids < 0, 0, (frequency[np.maximum(candidates.ids, 0)] + 1.5) ** -0.55)
    worth = np.where(candidates.truth, worth, 0)
    had = np.take_along_axis(worth, scores.argmax(1)[:, None], axis=1)
    return float(had.sum() / worth.max(1).sum())
