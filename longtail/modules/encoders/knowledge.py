"""What a language model knows of words, at the width of a table of features."""

from __future__ import annotations

import numpy as np
import torch

from longtail.modules.table import Table
from longtail.topk import FloatArray, IntArray

_BLOCK = 8_192  # vectors that are worked on at a time


def projected(vectors: FloatArray, width: int) -> FloatArray:
    """Vectors of words on their principal components, about their mean, with a mean length of 1.

    Args:
        vectors: (n, H), in any order; not changed.
        width: D. Where H or n - 1 is less, the numbers behind are 0.

    Returns:
        (n, D) float32, the component of the largest variance first. Zeros where all vectors are the same.
    """
    n, given = vectors.shape
    out = np.zeros((n, width), np.float32)
    if not n:
        return out
    mean = vectors.mean(0, dtype=np.float64)
    blocks = [slice(start, start + _BLOCK) for start in range(0, n, _BLOCK)]
    covariance = np.zeros((given, given))
    for block in blocks:
        centred = vectors[block] - mean
        covariance += centred.T @ centred
    components = np.linalg.eigh(covariance)[1][:, ::-1][:, :width]  # (H, min(D, H)), the largest first
    for block in blocks:
        out[block, : components.shape[1]] = (vectors[block] - mean) @ components
    length = float(np.linalg.norm(out, axis=1).mean(dtype=np.float64))
    return out / np.float32(length) if length > 1e-6 else np.zeros_like(out)


def add_to(table: Table, ids: IntArray, vectors: FloatArray) -> None:
    """Add vectors to some rows of a table.

    Args:
        table: (V, D), changed in place.
        ids: (n,) of rows, ascending, each once.
        vectors: (n, D), of these.
    """
    for part, rows in table.blocks():
        some = slice(*np.searchsorted(ids, (part.start, part.stop)).tolist())
        at = torch.from_numpy(ids[some] - part.start).to(rows.device)
        rows.index_add_(0, at, torch.from_numpy(vectors[some]).to(rows))
