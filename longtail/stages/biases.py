"""Where the biases of one-versus-all classifiers start."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from longtail.data.holdout import rows_evenly
from longtail.data.split import Split
from longtail.metrics.propensity import log_odds
from longtail.topk import FloatArray, IntArray
from longtail.train.run import Run

_ROWS = 2048  # that stand for all of them
_LABELS = 8192  # at a time


def some_rows(split: Split) -> IntArray:
    """Rows that stand for all of a split, (n,) int64: 2,048 of them, evenly."""
    return rows_evenly(len(split), _ROWS)


class Start(NamedTuple):
    """Classifiers as they start, and some documents.

    Attributes:
        split: N training rows.
        rows: (n,) int64, some of them, `some_rows`.
        documents: (n, D) their vectors.
        vectors: (L, D) where the classifiers start.
        temperature: t > 0, by which inner products are divided.
    """

    split: Split
    rows: IntArray
    documents: FloatArray
    vectors: FloatArray
    temperature: float

    def biases(self, run: Run) -> FloatArray:
        """The biases with which each label is expected as often as it is true, (L,), in logits.

        ``b_l = log share_l - log mean_i exp(<x_i, w_l> / t)``, the mean over rows of which l is not known: then the
        mean of ``exp(<x_i, w_l> / t + b_l)``, which for a rare label is its mean probability, is its share. Classifiers
        that start at zero so start from `longtail.metrics.propensity.log_odds` alone. From a higher bias, the first
        steps push down what the vectors know of the labels, and a label that is seldom in a pool stays up there.
        """
        if run.plan is not None:
            return self._counted(run)
        bias = log_odds(self.split.targets)  # (L,)
        for part, scores in self._unknown():
            means = scores.logsumexp(1) - np.log(max(1, len(self.rows)))
            bias[part] -= means.where(means.isfinite(), 0).numpy()
        return bias

    def bias(self, run: Run) -> FloatArray:
        """One bias for all, with which a document is expected to have as many labels as documents have; as `biases`.

        ``b = log mean_i |y_i| - log mean_i sum_l exp(<x_i, w_l> / t)``, the sum over the labels that are not known of
        i; 0 where there are none. It leaves what the vectors know of the labels as it is, where `biases` takes from
        each label what its vector has in common with all documents.
        """
        if run.plan is not None:
            return self._counted(run)
        parts = [scores.logsumexp(0) for _, scores in self._unknown()]  # (n,) each
        expected = torch.stack(parts).logsumexp((0, 1)) - np.log(len(self.rows))
        bias = float(np.log(self.split.targets.sum() / len(self.split)) - expected)
        return np.full(len(self.vectors), bias if np.isfinite(bias) else 0.0, np.float32)

    def _counted(self, run: Run) -> FloatArray:
        run.counted("biases", len(self.rows), *self.vectors.shape)
        return np.zeros(len(self.vectors), np.float32)

    def _unknown(self) -> Iterator[tuple[slice, Tensor]]:
        """Some labels at a time and the scores (C, n) of the rows, divided by t; -inf where a label is known of one."""
        pairs = self.split.known[self.rows].T.tocsr()  # (L, n)
        x = torch.from_numpy(self.documents).T / self.temperature  # (D, n)
        for start in range(0, len(self.vectors), _LABELS):
            part = slice(start, start + _LABELS)
            scores = torch.from_numpy(self.vectors[part]) @ x  # (C, n)
            scores.numpy()[pairs[part].nonzero()] = -np.inf
            yield part, scores
