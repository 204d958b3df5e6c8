"""The cross-entropy of true labels among the candidates of documents, by which a fusion is learned."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from longtail.search.fusion import Candidates, features_of
from longtail.topk import BoolArray, Float64Array, IntArray

_DECAY = 1e-6  # of the weights: where a fusion makes no error, they would grow without end
_FEW = 100  # documents: of fewer, the weights are over the first three features


@dataclass(frozen=True, slots=True)
class CrossEntropy:
    """The mean over n documents of the cross-entropy of their true labels, by S + 1 rows of F weights, and its slopes.

    What weights depend on is the frequency of a label alone, and there are far fewer frequencies than pairs of a
    document and a candidate. So what is summed over pairs is summed for each frequency first. What is left to a linear
    algebra library is small: of a long and thin product, or a dot product, its threads make more than they save.

    Attributes:
        n: documents, some of which may have no true candidate.
        scores: (S + 1, E) float64, of E pairs of the d documents that have one; the last ones are 1.
        truth: (E,) bool.
        shares: (E,) of a document's entropy that its true labels have.
        first: (d,) the first pair of each document.
        document: (E,) that of each pair.
        totals: (d,) the weight of each document.
        levels: (U,) the frequencies that labels have.
        at: (E,) that of each pair.
        features: (F, U) what weights are of.
    """

    n: int
    scores: Float64Array
    truth: BoolArray
    shares: Float64Array
    first: IntArray
    document: IntArray
    totals: Float64Array
    levels: IntArray
    at: IntArray
    features: Float64Array

    @classmethod
    def of(cls, candidates: Candidates, frequency: IntArray, worth: Float64Array | None) -> CrossEntropy:
        """Of candidates, with labels that are worth more or less, or the same."""
        found = (candidates.ids >= 0) & candidates.truth.any(1, keepdims=True)
        rows, labels, truth = found.nonzero()[0], candidates.ids[found], candidates.truth[found]
        shares = truth / candidates.truth.sum(1)[rows]
        scores = np.concatenate([candidates.scores[:, found], np.ones((1, len(rows)))])
        first = np.flatnonzero(np.diff(rows, prepend=-1))
        document, totals = np.repeat(np.arange(len(first)), np.diff(first, append=len(rows))), np.ones(len(first))
        if worth is not None:
            shares *= worth[labels]
            shares *= len(first) / shares.sum()
            totals = np.add.reduceat(shares, first)
        levels, at = np.unique(frequency[labels], return_inverse=True)
        features = features_of(levels)[: None if len(first) >= _FEW else 3]
        return cls(len(found), scores, truth, shares, first, document, totals, levels, at, features)

    def loss(self, weights: Float64Array) -> tuple[float, Float64Array]:
        """Its value, with a little decay, and its gradient."""
        surprise, p = self._chances(weights)
        value = float(np.sum(self.shares * surprise)) / self.n + _DECAY * float(np.sum(weights**2))
        excess = self.totals[self.document] * p - self.shares
        slopes = np.stack([self._by_level(excess * scores) for scores in self.scores]) @ self.features.T  # (S + 1, F)
        gradient: Float64Array = slopes.ravel() / self.n + 2 * _DECAY * weights
        return value, gradient

    def curvature(self, weights: Float64Array) -> Float64Array:
        """Its second derivatives, (W, W)."""
        from scipy import sparse  # noqa: PLC0415  (half a second that whoever only predicts need not wait)

        expected = self._chances(weights)[1] * self.scores
        rows, shape = np.append(self.first, len(self.document)), (len(self.first), len(self.levels))
        means = [sparse.csr_array((of_score, self.at, rows), shape) @ self.features.T for of_score in expected]
        mean = np.concatenate(means, axis=1)  # (d, W), W = (S + 1) F
        S, F = len(self.scores), len(self.features)
        spread = -((mean * self.totals[:, None]).T @ mean).reshape(S, F, S, F)
        total = self.totals[self.document]
        for i, j in itertools.combinations_with_replacement(range(S), 2):
            block = (self.features * self._by_level(total * expected[i] * self.scores[j])) @ self.features.T
            spread[i, :, j] += block
            spread[j, :, i] += block if i != j else 0
        curvature: Float64Array = spread.reshape(S * F, S * F) / self.n + 2 * _DECAY * np.eye(S * F)
        return curvature

    def _chances(self, weights: Float64Array) -> tuple[Float64Array, Float64Array]:
        """-log p and p of each pair among those of its document, (E,)."""
        of_levels = weights.reshape(len(self.scores), -1) @ self.features  # (S + 1, U)
        logits = np.einsum("se,se->e", of_levels[:, self.at], self.scores)
        logits -= np.maximum.reduceat(logits, self.first)[self.document]
        surprise = np.log(np.add.reduceat(np.exp(logits), self.first))[self.document] - logits
        return surprise, np.exp(-surprise)

    def _by_level(self, values: Float64Array) -> Float64Array:
        """The sums over the pairs of labels that are as frequent, (U,)."""
        return np.asarray(np.bincount(self.at, values, len(self.levels)), np.float64)
