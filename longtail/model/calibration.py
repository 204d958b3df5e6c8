"""How probable it is that a label with some score is right: learned on documents that no stage was trained on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from longtail.data.sparse import CSR, holds
from longtail.model.thresholds import DEPTH, Kept, count_kept, lowest_that_kept
from longtail.search.fusion import by_frequency, extended, features_of
from longtail.topk import AnyArray, BoolArray, Float64Array, FloatArray, IntArray, TopK

RIVALS = 5  # first labels of a document, whose scores say how probable each of them is
_FOLDS = 5  # of held-out documents, each judged by what was learned on the others
_DECAY = 1.0  # of the weights of standardised inputs: where all of one side is right, they would grow without end
_LOGISTIC = (1.0, 1.0, 0.0)  # u, v and w with which the curve is the logistic one
_LEARNED = np.array([[1, 1, 1, 0]] * 3 + [[1, 0, 0, 0], [1, 1, 1, 1]], bool)  # of the weights; the others are 0
_FALLS, _CONSTANT = 9, 10  # places among these: of d, as who is further behind is not more probable; of e over 1
_STEPS, _HALVINGS = 100, 30  # of Newton's method, and of each of its steps, at most
_SETTLED = 1e-10  # share of the loss: a step that gains less is the last one


@dataclass(frozen=True, slots=True)
class Calibration:
    """The probabilities of one score kind.

    A label with f training points and score s has the logit a s + b t + c l + d sqrt(t - s) + e, where a, b, c and e
    are linear in (1, ln(1 + f), [f = 0]), and e in f / (1 + f), too, as the weights of a fusion are, which tells one
    training point from several; d is a number, at most 0. t is the soft maximum of the document's first scores, m
    ln(sum of exp(s_i / m)) over i up to `RIVALS`: a best label that stands alone is more probable than one among
    equals. l is the last of these scores, high where many labels are right. Both are at least the lowest of all
    held-out documents, or b, by which labels are less probable beside better ones, would make those of a text without a
    known word, whose scores are all low, more probable. With p the logistic function of the logit (Platt, 1999), the
    probability is that of u ln(p) - v ln(1 - p) + w (beta calibration, Kull et al., 2017), u and v at least 0: what is
    said may be steeper than logistic for what is probable, and flatter for what is not. For one document and one f, a
    higher score is never less probable.

    Attributes:
        weights: (5, 4) float64, rows a to e over (1, ln(1 + f), [f = 0], f / (1 + f)); earlier models have (5, 3).
        kept: (4, T) float64: thresholds, ascending, and the precision, recall and margin (`Kept`) that each had on
            documents that it was not learned on (five-fold cross-fitting over the held-out documents); earlier models
            have (3, T), without the margin.
        softness: (1,) float64, m: a quarter of what the first labels are behind the best one, on average over the
            held-out documents; 0 for the maximum itself, which earlier models have.
        curve: (3,) float64, u, v and w.
        lowest: (2,) float64, the least t and l of the held-out documents; earlier models have (1,), of t, or -inf.
        logits: (G,) float64, ascending: earlier models may have a curve of isotonic regression, known there.
        chances: (G,) float64 in (0, 1), not decreasing: the probabilities there, interpolated between them.
    """

    weights: Float64Array
    kept: Float64Array
    softness: Float64Array = field(default_factory=partial(np.zeros, 1))
    curve: Float64Array = field(default_factory=partial(np.array, _LOGISTIC))
    lowest: Float64Array = field(default_factory=partial(np.full, 1, -np.inf))
    logits: Float64Array = field(default_factory=partial(np.zeros, 0))
    chances: Float64Array = field(default_factory=partial(np.zeros, 0))

    def __call__(self, scores: FloatArray, first: FloatArray | Float64Array, frequency: IntArray) -> FloatArray:
        """Probabilities of ranked labels, (n, K); 0 where there is none.

        Args:
            scores: (n, K) by the score kind; -inf where there is no label.
            first: (n, R) the highest scores that any labels have for each document, best first, of which `RIVALS`
                count; -inf where there are fewer.
            frequency: (n, K) training points of the labels.
        """
        there = np.isfinite(scores)
        rivals = np.where(there[..., None], np.maximum(_rivals(first, self.softness.item()), self.lowest)[:, None], 0)
        logits = _logits(self.weights, np.where(there, scores, 0), rivals, frequency)
        if len(self.logits):
            chances = np.interp(logits, self.logits, self.chances)
        else:
            chances = _logistic(np.tensordot(self.curve, _parts(logits), 1))
        return np.where(there, chances, 0).astype(np.float32)

    def at_precision(self, precision: float) -> Kept:
        """The lowest threshold that kept a precision on held-out documents.

        Args:
            precision: above 0, and at most 1.

        Raises:
            BadInput: it is out of range, no threshold kept it, or too few labels were held out to know.
        """
        return lowest_that_kept(self.kept, precision)


def learn_calibration(top: TopK, truth: CSR, frequency: IntArray) -> Calibration | None:
    """Learn the probabilities of a score kind on documents that it was not trained on.

    Logistic regression on the pairs of documents and labels (of labels that have training points, where no other one is
    true: the others are as probable as the rarest of these), and a curve over its logits. In all of it a pair weighs
    1 / sqrt(place of the label): the first labels are the ones that are looked at, and those behind them are many.

    Args:
        top: (n, K) ranked labels of n held-out documents, of which the first `DEPTH` count.
        truth: (n, L) their relevant labels.
        frequency: (L,) int64 training points of each label.

    Returns:
        None where there is nothing to learn from: the documents but for a fifth of them have no label that was found,
        or no other.
    """
    if not (top.ids >= 0).any():
        return None
    softness = _softness(top)
    pairs = _Pairs.of(top.first(DEPTH), truth, frequency, softness).informative()
    folds = [pairs.documents % _FOLDS == i for i in range(_FOLDS)]
    if any(pairs.truth[~fold].all() or not pairs.truth[~fold].any() for fold in folds):
        return None
    learned, crossed = _learned(pairs), np.zeros(len(pairs.truth), np.float32)
    for fold in folds:
        one, judged = _learned(pairs.where(~fold), learned), pairs.where(fold)
        crossed[fold] = one(judged.scores[:, None], judged.rivals, judged.frequency[:, None])[:, 0]  # t and l are known
    kept = count_kept(crossed, pairs.truth, pairs.documents, int(np.count_nonzero(truth.data > 0)))
    return replace(learned, kept=kept, softness=np.array([softness]))


def arrays_of(calibrations: Mapping[str, Calibration]) -> dict[str, AnyArray]:
    """Calibrations by score kind, as arrays by name."""
    parts = fields(Calibration)
    return {f"{kind}.{part.name}": getattr(one, part.name) for kind, one in calibrations.items() for part in parts}


def calibrations_of(arrays: Mapping[str, AnyArray]) -> dict[str, Calibration]:
    """The calibrations that `arrays_of` made arrays of; in earlier ones there is less, as `Calibration` says."""
    found: dict[str, Calibration] = {}
    for kind in dict.fromkeys(name.rpartition(".")[0] for name in arrays):
        parts = {part.name: f"{kind}.{part.name}" for part in fields(Calibration)}
        one = Calibration(**{part: arrays[name] for part, name in parts.items() if name in arrays})
        missing = np.zeros((5 - len(one.weights), one.weights.shape[1]))  # rows c and d
        found[kind] = replace(one, weights=np.concatenate([one.weights[:2], missing, one.weights[2:]]))
    return found


class _Pairs(NamedTuple):
    """E pairs of a document and a label that was ranked for it, (E,) each, and (E, 2) t and l."""

    documents: IntArray
    scores: FloatArray
    rivals: Float64Array
    frequency: IntArray
    truth: BoolArray
    weights: Float64Array

    @classmethod
    def of(cls, top: TopK, truth: CSR, frequency: IntArray, softness: float) -> _Pairs:
        there = top.ids >= 0
        documents, places = there.nonzero()
        labels, rivals = top.ids[there], _rivals(top.scores, softness)[documents]
        right, weights = holds(truth, top.ids)[there], (1.0 + places) ** -0.5
        return cls(documents, top.scores[there], rivals, frequency[labels], right, weights / weights.mean())

    def informative(self) -> _Pairs:
        """Those that the truth says something about: without new labels, where not one of these is true."""
        new = self.frequency == 0
        return self if (new & self.truth).any() else self.where(~new)

    def where(self, chosen: BoolArray) -> _Pairs:
        """Some of them."""
        return self._replace(**{name: values[chosen] for name, values in self._asdict().items()})


def _rivals(first: FloatArray | Float64Array, softness: float) -> Float64Array:
    """(n, 2) t, m ln(sum of exp(s / m)) of the first scores (m 0: the highest), and l, the last; -inf without any."""
    first = first[:, :RIVALS].astype(np.float64)
    best = softness * np.logaddexp.reduce(first / softness, axis=1) if softness else first.max(1)
    last = np.maximum(np.isfinite(first).sum(1) - 1, 0)[:, None]
    return np.stack([best, np.take_along_axis(first, last, 1)[:, 0]], 1)


def _softness(top: TopK) -> float:
    """A quarter of what the first labels are behind the best one, on average over documents that have so many."""
    first = top.scores[:, :RIVALS].astype(np.float64)
    whole = first[np.isfinite(first).all(1)]
    return float((whole[:, :1] - whole).mean() / 4) if whole.size else 0.0


def _logits(weights: Float64Array, scores: FloatArray, rivals: Float64Array, frequency: IntArray) -> Float64Array:
    """The logits of labels, of any one shape, with weights over what is known of their frequency."""
    a, *others = by_frequency(weights, frequency)
    logits: Float64Array = np.sum([np.maximum(a, 0), *others] * _inputs(scores, rivals), 0)
    return logits


def _inputs(scores: FloatArray, rivals: Float64Array) -> Float64Array:
    """(5, ...) what the weights are of; rivals that are alike are told apart by the root of what they are behind."""
    s, (t, last) = scores.astype(np.float64), np.moveaxis(rivals, -1, 0)
    return np.stack([s, t, last, np.sqrt(np.maximum(t - s, 0)), np.ones(s.shape)])


def _logistic(logits: Float64Array) -> Float64Array:
    chances: Float64Array = 0.5 + 0.5 * np.tanh(logits / 2)  # which does not overflow
    return chances


def _parts(logits: Float64Array) -> Float64Array:
    """(3, ...) ln(p), -ln(1 - p) and 1, with p the logistic function of logits."""
    return np.stack([-np.logaddexp(0, -logits), np.logaddexp(0, logits), np.ones(logits.shape)])


def _learned(pairs: _Pairs, near: Calibration | None = None) -> Calibration:
    """A calibration of some pairs, without what thresholds kept; found sooner from one that it is near to."""
    weights = _weights(pairs, np.zeros((5, 4)) if near is None else near.weights)
    logits = _logits(weights, pairs.scores, pairs.rivals, pairs.frequency)
    return Calibration(weights, np.zeros((4, 0)), curve=_curve(logits, pairs), lowest=pairs.rivals.min(0))


def _weights(pairs: _Pairs, near: Float64Array) -> Float64Array:
    """(5, 4) the weights of logistic regression: with the least log loss, and some decay.

    Args:
        pairs: that they are learned on.
        near: (5, 4) where to begin.
    """
    inputs = _inputs(pairs.scores, pairs.rivals)[:, None] * features_of(pairs.frequency)[:4]
    inputs = inputs[_LEARNED]  # (14, E)
    means, spread = inputs.mean(1), inputs.std(1)
    means[_CONSTANT], spread[spread < 1e-9] = 0, 1
    inputs = (inputs - means[:, None]) / spread[:, None]
    decay, most = np.full(len(inputs), _DECAY), np.full(len(inputs), np.inf)
    decay[_CONSTANT], most[_FALLS] = 0, 0
    begin = near[_LEARNED] * spread
    begin[_CONSTANT] += near[_LEARNED] @ means
    best = _fitted(inputs, pairs, begin, decay=decay, towards=np.zeros(len(inputs)), most=most) / spread
    best[_CONSTANT] -= best @ means
    weights = np.zeros((5, 4))
    weights[_LEARNED] = best
    return extended(weights, pairs.frequency, pairs.truth)


def _curve(logits: Float64Array, pairs: _Pairs) -> Float64Array:
    """(3,) u, v and w of beta calibration with the least log loss, and some decay towards the logistic curve."""
    none = np.array(_LOGISTIC)
    return _fitted(_parts(logits), pairs, none, decay=_DECAY * none, towards=none, least=np.array([0, 0, -np.inf]))


def _fitted(
    inputs: Float64Array,
    pairs: _Pairs,
    begin: Float64Array,
    *,
    decay: Float64Array,
    towards: Float64Array,
    least: Float64Array | float = -np.inf,
    most: Float64Array | float = np.inf,
) -> Float64Array:
    """(P,) weights with the least log loss and decay, within bounds, by projected Newton steps (Bertsekas, 1982).

    SciPy's methods that know bounds use no curvature, but for `trust-constr`, which takes 37 times as long or more
    (docs/explanation/probabilities.md).

    Args:
        inputs: (P, E) of each pair.
        pairs: E, with their truth and what they count.
        begin: (P,) within the bounds.
        decay: (P,) how much each weight is drawn: half of it, times the square of the distance, is added to the loss.
        towards: (P,) what each weight is drawn to.
        least: (P,) lower bounds.
        most: (P,) upper bounds.
    """

    def loss(weights: Float64Array) -> float:
        logits = _mixed(weights, inputs)
        of_pairs = pairs.weights * (np.logaddexp(0, logits) - logits * pairs.truth)
        return float(np.sum(of_pairs) + np.sum(decay * (weights - towards) ** 2) / 2)

    weights, value = begin, loss(begin)
    for _ in range(_STEPS):
        p = _logistic(_mixed(weights, inputs))
        slope = _mixed(pairs.weights * (p - pairs.truth), inputs.T) + decay * (weights - towards)
        free = ~((weights <= least) & (slope > 0) | (weights >= most) & (slope < 0))
        some = inputs[free]
        curvature = (some * (pairs.weights * p * (1 - p))) @ some.T + np.diag(decay[free] + 1e-9)
        step = np.zeros(len(weights))
        step[free] = np.linalg.solve(curvature, slope[free])
        for halvings in range(_HALVINGS):
            after = np.clip(weights - step / 2**halvings, least, most)
            if (less := loss(after)) < value:
                break
        else:
            break
        weights, value, gained = after, less, value - less
        if gained < _SETTLED * value:
            break
    return weights


def _mixed(shares: Float64Array, rows: Float64Array) -> Float64Array:
    """The sum of some rows, each times its share; a product this thin is slower by several threads than by one."""
    mixed: Float64Array = np.einsum("i,ij->j", shares, rows)
    return mixed
