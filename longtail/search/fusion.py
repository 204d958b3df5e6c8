"""One score out of several: how much the encoder and the classifier of a label are to be believed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from longtail.data.sparse import CSR, holds
from longtail.topk import BoolArray, Float64Array, FloatArray, IntArray, TopK

FEATURES = 5  # of a label's frequency, which `features_of` gives
_AT_ONCE = 8  # documents, the vectors of whose candidates fit into the cache of a processor


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
        most = int((ids >= 0).sum(1).max(initial=0))
        ids = np.sort(ids, axis=1)[:, ids.shape[1] - most :]
        scores = [pair_scores(x, table, ids) for x, table in zip(queries, tables, strict=True)]
        return cls(ids, np.stack(scores), holds(truth, ids))

    def coverage(self, ids: IntArray) -> float:
        """The share of some labels of the documents, (n, k) padded with -1, that are candidates."""
        there = (ids[:, :, None] == self.ids[:, None, :]).any(2)[ids >= 0]
        return float(there.mean()) if len(there) else 1.0

    def fold(self, i: int) -> Candidates:
        """Every second document, from document ``i`` on."""
        return self.of_documents(slice(i, None, 2))

    def of_documents(self, rows: slice | IntArray) -> Candidates:
        """Those of some documents."""
        return Candidates(self.ids[rows], self.scores[:, rows], self.truth[rows])

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

    Each of a_1 ... a_S and c is linear in what `features_of` says of f, the number of training points of label l. As
    the weights belong to the label, the fused score is an inner product too: of what the scorers read of a document and
    1, with (a_1 w_1, ..., c). One exact or approximate search serves it, at the cost of a plain dual encoder. NGAME
    (Dahiya et al., 2023) fuses with a decision tree over the same inputs instead, which needs both searches and a
    rescoring; UniDEC (the thesis, section 2.3.4) has all a = 1 and c = 0.

    Attributes:
        weights: (S + 1, F) float64, rows a_1, ..., a_S, c over the first F of these: all 5, or 3 in earlier models.
        frequency: (L,) int64 training points of each label.
    """

    weights: Float64Array
    frequency: IntArray

    def label_weights(self) -> FloatArray:
        """(S + 1, L): a_1, ..., a_S and c of each label."""
        return np.asarray(by_frequency(self.weights, self.frequency), np.float32)

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


def pair_scores(queries: FloatArray, table: FloatArray, ids: IntArray) -> FloatArray:
    """Inner products of each query with its candidates: (n, C) for queries (n, D), a table (L, D) and ids (n, C)."""
    scores = np.empty(ids.shape, np.float32)
    for at in range(0, len(ids), _AT_ONCE):
        some = slice(at, at + _AT_ONCE)
        scores[some] = np.matmul(table[np.maximum(ids[some], 0)], queries[some, :, None])[..., 0]
    return scores


def features_of(frequency: IntArray) -> Float64Array:
    """(5, ...) what weights depend on, of labels with f points: 1, ln(1 + f), [f = 0], f / (1 + f), ln(1 + f)^2.

    The last two tell one training point from several, and several from many.
    """
    logs = np.log1p(frequency)
    return np.stack([np.ones(frequency.shape), logs, frequency == 0, frequency / (1.0 + frequency), logs * logs])


def alone(scorer: int, rows: int) -> Float64Array:
    """(rows, F) the weights with which one scorer counts, as it is, and no other."""
    weights = np.zeros((rows, FEATURES))
    weights[scorer, 0] = 1
    return weights


def by_frequency(weights: Float64Array, frequency: IntArray) -> Float64Array:
    """(W, ...) what weights over the first F features, (W, F), are for labels with f training points."""
    known: Float64Array = np.tensordot(weights, features_of(frequency)[: weights.shape[1]], 1)
    return known


def extended(weights: Float64Array, learned_on: IntArray, right: BoolArray) -> Float64Array:
    """The same weights, with those of new labels, if none was learned on: they weigh as the rarest that was right.

    Args:
        weights: (W, F) over the first features.
        learned_on: (E,) training points of the labels that the weights were learned on.
        right: (E,) bool, whether they were true.
    """
    if (learned_on == 0).any():
        return weights
    rarest = features_of(learned_on[right].min())[: weights.shape[1]]  # all but 1 and [f = 0] are 0 where f is
    as_rarest = weights[:, 1:] @ rarest[1:]
    return np.concatenate([weights[:, :2], as_rarest[:, None], weights[:, 3:]], axis=1)
