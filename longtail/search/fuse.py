"""One score out of two: how much the encoder and the classifier of a label are to be believed."""

from __future__ import annotations

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
        encoder: (n, C) float32 their scores by the encoder.
        classifier: (n, C) float32 their scores by the classifier.
        truth: (n, C) bool, which of them are relevant.
    """

    ids: IntArray
    encoder: FloatArray
    classifier: FloatArray
    truth: BoolArray

    @classmethod
    def of(
        cls, tops: tuple[TopK, TopK], queries: FloatArray, tables: tuple[FloatArray, FloatArray], truth: CSR
    ) -> Candidates:
        """The labels found by two searches of the same queries, each scored by both.

        Args:
            tops: (n, K1) and (n, K2) ranked labels.
            queries: (n, D).
            tables: (L, D) embeddings of the labels' texts, and (L, D) classifiers.
            truth: (n, L) relevant labels.
        """
        ids = np.sort(np.concatenate([top.ids for top in tops], axis=1), axis=1)
        ids[:, 1:][ids[:, 1:] == ids[:, :-1]] = -1
        encoder, classifier = (_pair_scores(queries, table, ids) for table in tables)
        return cls(ids, encoder, classifier, _is_true(truth, ids))

    def fold(self, i: int) -> Candidates:
        """Every second document, from document ``i`` on."""
        return Candidates(self.ids[i::2], self.encoder[i::2], self.classifier[i::2], self.truth[i::2])


@dataclass(frozen=True, slots=True)
class Fusion:
    """score(x, l) = a_l <x, z_l> + b_l <x, w_l> + c_l: a linear mix whose weights depend on the label's frequency.

    With f the number of training points of label l, each of a, b and c is linear in (1, ln(1 + f), [f = 0]). As the
    weights belong to the label, the fused score is an inner product too: of (x, 1) with (a z + b w, c). One exact or
    approximate search serves it, at the cost of a plain dual encoder. NGAME (Dahiya et al., 2023) fuses with a decision
    tree over the same inputs instead, which needs both searches and a rescoring.

    Attributes:
        weights: (3, 3) float64, rows a, b, c over (1, ln(1 + f), [f = 0]).
        frequency: (L,) int64 training points of each label.
    """

    weights: npt.NDArray[np.float64]
    frequency: IntArray

    def of_labels(self) -> FloatArray:
        """(3, L): a, b and c of each label."""
        return np.asarray(self.weights @ _features(self.frequency), np.float32)

    def __call__(self, candidates: Candidates) -> FloatArray:
        """The fused scores of candidates, (n, C); -inf where there is none."""
        a, b, c = self.of_labels()[:, np.maximum(candidates.ids, 0)]
        fused = a * candidates.encoder + b * candidates.classifier + c
        return np.where(candidates.ids < 0, -np.inf, fused).astype(np.float32)

    def table(self, encoder: FloatArray, classifier: FloatArray) -> FloatArray:
        """The fused label vectors, (L, D + 1), for queries (x, 1).

        Args:
            encoder: (L, D) embeddings z of the labels' texts.
            classifier: (L, D) classifiers w.
        """
        a, b, c = self.of_labels()[..., None]
        return np.concatenate([a * encoder + b * classifier, c], axis=1)


def learn_fusion(candidates: Candidates, frequency: IntArray) -> Fusion:
    """Learn the weights of a fusion on documents that neither scorer was trained on.

    It minimises the softmax cross-entropy of the true labels among a document's candidates, which is convex in the nine
    weights. The learned mix is kept only if, in two-fold cross-validation, its mean of P@1, P@3 and P@5 is at least
    that of the better of its two parts; otherwise that part is the fusion, and the encoder where there is nothing to
    learn from.

    Args:
        candidates: of held-out documents.
        frequency: (L,) int64 training points of each label.
    """
    parts = [Fusion(np.asarray([part, other, (0, 0, 0)], np.float64), frequency) for part, other in (_ONE, _ONE[::-1])]
    even, odd = candidates.fold(0), candidates.fold(1)
    if not (even.truth.any() and odd.truth.any()):
        return parts[0]
    learned = (_precision(_fit(even, frequency), odd) + _precision(_fit(odd, frequency), even)) / 2
    alone = [_precision(part, candidates) for part in parts]
    return _fit(candidates, frequency) if learned >= max(alone) else parts[int(np.argmax(alone))]


_ONE = ((1, 0, 0), (0, 0, 0))  # all the weight on one scorer, none on the other


def _pair_scores(queries: FloatArray, table: FloatArray, ids: IntArray) -> FloatArray:
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
    scores = np.stack([candidates.encoder, candidates.classifier, np.ones_like(candidates.encoder)]).astype(np.float64)
    inputs = (torch.from_numpy(scores)[:, None] * features).flatten(0, 1)  # (9, n, C)
    targets = torch.from_numpy(truth / np.maximum(truth.sum(1, keepdims=True), 1))
    absent = torch.from_numpy(ids < 0)
    weights = torch.tensor([10.0, 0, 0, 10.0, 0, 0, 0, 0, 0], dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([weights], max_iter=200, line_search_fn="strong_wolfe")

    def loss() -> torch.Tensor:
        optimizer.zero_grad()
        logits = torch.einsum("w,wnc->nc", weights, inputs).masked_fill(absent, -1e9)
        value = -(targets * logits.log_softmax(1)).sum() / len(targets) + 1e-6 * weights.square().sum()
        value.backward()  # type: ignore[no-untyped-call]
        return value

    optimizer.step(loss)  # type: ignore[no-untyped-call]
    return Fusion(weights.detach().reshape(3, 3).numpy(), frequency)


def _precision(fusion: Fusion, candidates: Candidates) -> float:
    """The mean of P@1, P@3 and P@5."""
    relevant = np.where(candidates.truth, candidates.ids, -2)
    top = rank(candidates.ids, fusion(candidates), 5).ids
    hits = (top[:, :, None] == relevant[:, None, :]).any(2)  # (n, 5)
    return float(np.mean([hits[:, :k].sum(1).mean() / k for k in (1, 3, 5)]))
