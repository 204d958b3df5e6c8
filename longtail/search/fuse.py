"""One score out of several: how much the encoder and the classifier of a label are to be believed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from longtail.data.sparse import CSR, row_of_entry
from longtail.topk import BoolArray, FloatArray, IntArray, TopK, rank


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
        """The labels found by S searches for the same documents, each scored by all.

        Args:
            tops: of each search, (n, K) ranked labels.
            queries: of each search, (n, D).
            tables: of each search, (L, D) label vectors.
            truth: (n, L) relevant labels.
        """
        ids = np.sort(np.concatenate([top.ids for top in tops], axis=1), axis=1)
        ids[:, 1:][ids[:, 1:] == ids[:, :-1]] = -1
        scores = [pair_scores(x, table, ids) for x, table in zip(queries, tables, strict=True)]
        return cls(ids, np.stack(scores), _is_true(truth, ids))

    def fold(self, i: int) -> Candidates:
        """Every second document, from document ``i`` on."""
        return Candidates(self.ids[i::2], self.scores[:, i::2], self.truth[i::2])


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

    weights: npt.NDArray[np.float64]
    frequency: IntArray

    def of_labels(self) -> FloatArray:
        """(S + 1, L): a_1, ..., a_S and c of each label."""
        return np.asarray(self.weights @ _features(self.frequency), np.float32)

    def __call__(self, candidates: Candidates) -> FloatArray:
        """The fused scores of candidates, (n, C); -inf where there is none."""
        *shares, c = self.of_labels()[:, np.maximum(candidates.ids, 0)]
        fused = sum((a * scores for a, scores in zip(shares, candidates.scores, strict=True)), start=c)
        return np.where(candidates.ids < 0, -np.inf, fused).astype(np.float32)

    def table(self, parts: Sequence[tuple[FloatArray, slice | IntArray]], width: int) -> FloatArray:
        """The fused label vectors, (L, width + 1), for queries (x, 1).

        Args:
            parts: of each scorer, its label vectors (L, D) and the D columns of (x, 1) that it reads.
            width: of x.
        """
        table = np.zeros((len(self.frequency), width + 1), np.float32)
        *shares, table[:, -1] = self.of_labels()
        for a, (vectors, columns) in zip(shares, parts, strict=True):
            table[:, columns] += a[:, None] * vectors
        return table


def learn_fusion(candidates: Candidates, frequency: IntArray) -> Fusion:
    """Learn the weights of a fusion on documents that neither scorer was trained on.

    It minimises the softmax cross-entropy of the true labels among a document's candidates, which is convex in the
    weights. The learned mix is kept only if, in two-fold cross-validation, its mean of P@1, P@3 and P@5 is at least
    that of the best of its scorers; otherwise that scorer is the fusion, and the first one where there is nothing to
    learn from.

    Args:
        candidates: of held-out documents.
        frequency: (L,) int64 training points of each label.
    """
    count = len(candidates.scores)
    parts = [Fusion(np.outer(np.arange(count + 1) == s, [1.0, 0, 0]), frequency) for s in range(count)]
    even, odd = candidates.fold(0), candidates.fold(1)
    if not (even.truth.any() and odd.truth.any()):
        return parts[0]
    learned = (_precision(_fit(even, frequency), odd) + _precision(_fit(odd, frequency), even)) / 2
    alone = [_precision(part, candidates) for part in parts]
    return _fit(candidates, frequency) if learned >= max(alone) else parts[int(np.argmax(alone))]


def pair_scores(queries: FloatArray, table: FloatArray, ids: IntArray) -> FloatArray:
    """Inner products of each query with its candidates: (n, C) for queries (n, D), a table (L, D) and ids (n, C)."""
    scores = np.empty(ids.shape, np.float32)
    for at in range(0, len(ids), 256):
        block = table[np.maximum(ids[at : at + 256], 0)]  # (256, C, D)
        scores[at : at + 256] = np.matmul(block, queries[at : at + 256, :, None])[..., 0]
    return scores


def _is_true(truth: CSR, ids: IntArray) -> BoolArray:
    """Which candidates (n, C) are relevant to their document, for truth (n, L)."""
    keys = row_of_entry(truth) * truth.shape[1] + truth.indices
    return np.isin(np.arange(len(ids))[:, None] * truth.shape[1] + ids, keys) & (ids >= 0)


def _features(frequency: IntArray) -> npt.NDArray[np.float64]:
    """(3, L) what the weights of a label depend on: 1, ln(1 + f), [f = 0]."""
    return np.stack([np.ones(len(frequency)), np.log1p(frequency), frequency == 0])


def _fit(candidates: Candidates, frequency: IntArray) -> Fusion:
    ids, truth = candidates.ids, candidates.truth
    features = torch.from_numpy(_features(frequency)[:, np.maximum(ids, 0)])  # (3, n, C)
    scores = np.concatenate([candidates.scores, np.ones_like(candidates.scores[:1])]).astype(np.float64)
    inputs = (torch.from_numpy(scores)[:, None] * features).flatten(0, 1)  # (3 (S + 1), n, C)
    targets = torch.from_numpy(truth / np.maximum(truth.sum(1, keepdims=True), 1))
    absent = torch.from_numpy(ids < 0)
    start = np.outer([10.0] * (len(scores) - 1) + [0], [1, 0, 0])  # cosines are to be told apart from the first step on
    weights = torch.from_numpy(start.ravel()).requires_grad_()
    optimizer = torch.optim.LBFGS([weights], max_iter=200, line_search_fn="strong_wolfe")

    def loss() -> torch.Tensor:
        optimizer.zero_grad()
        logits = torch.einsum("w,wnc->nc", weights, inputs).masked_fill(absent, -1e9)
        value = -(targets * logits.log_softmax(1)).sum() / len(targets) + 1e-6 * weights.square().sum()
        value.backward()  # type: ignore[no-untyped-call]
        return value

    optimizer.step(loss)  # type: ignore[no-untyped-call]
    return Fusion(weights.detach().reshape(-1, 3).numpy(), frequency)


def _precision(fusion: Fusion, candidates: Candidates) -> float:
    """The mean of P@1, P@3 and P@5."""
    relevant = np.where(candidates.truth, candidates.ids, -2)
    top = rank(candidates.ids, fusion(candidates), 5).ids
    hits = (top[:, :, None] == relevant[:, None, :]).any(2)  # (n, 5)
    return float(np.mean([hits[:, :k].sum(1).mean() / k for k in (1, 3, 5)]))
