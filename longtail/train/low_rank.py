"""Sparse separators in few numbers: the low-rank scores that are nearest to theirs."""

from __future__ import annotations

import numpy as np
import torch

from longtail.data.sparse import CSR
from longtail.topk import FloatArray

_AT_ONCE = 256  # separators whose weights are made dense at a time
_TURNS, _FURTHER = 4, 32  # of the subspace iteration by which directions of scores are found, and directions beside


def low_rank(x: CSR, separators: CSR, rank: int) -> tuple[FloatArray, FloatArray]:
    """A table of features and vectors of labels, whose inner products are nearly the scores <x, w> + b.

    Of all scores of this rank, besides a constant of each label, they have the least mean square of differences over
    some documents (Eckart and Young, 1936): for S = X W^T with the means taken off and its first right singular
    vectors V, a document is x W^T V, which is a sum of rows of a table, and a label its row of V. What random
    projections of as many numbers lose of such scores, this keeps (docs/explanation/methods/unidec.md).

    Args:
        x: (n, F + 1) features of documents, the last of which is 1 for all.
        separators: (C, F + 1) of labels, the last weight their bias.
        rank: R, at least 1; fewer numbers than these are 0 where documents or labels are fewer.

    Returns:
        (F, R) the table, and (C, R + 1) the vectors, with a bias.
    """
    words, weights = x[:, :-1], separators[:, :-1]
    scores = np.empty((x.shape[0], len(separators.indptr) - 1), np.float32)  # S, (n, C)
    for start in range(0, scores.shape[1], _AT_ONCE):
        some = slice(start, start + _AT_ONCE)
        scores[:, some] = words @ weights[some].toarray().T
    means = scores.mean(0) if len(scores) else np.zeros(scores.shape[1], np.float32)
    directions = np.zeros((scores.shape[1], rank), np.float32)  # V
    if found := min(rank + _FURTHER, *scores.shape):
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(0)
            *_, v = torch.svd_lowrank(torch.from_numpy(scores - means), q=found, niter=_TURNS)
        directions[:, : min(rank, found)] = v[:, :rank].numpy()
    table = np.asarray(weights.T @ directions, np.float32)
    bias = separators[:, [-1]].toarray() + (means - directions @ (directions.T @ means))[:, None]
    return table, np.concatenate([directions, bias], axis=1).astype(np.float32)
