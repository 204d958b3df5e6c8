"""Balanced spherical 2-means, applied again and again: groups of near vectors, of equal size."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from longtail.search.exact import finite
from longtail.topk import BoolArray, FloatArray, IntArray

_ROWS_AT_ONCE = 65_536
_ROUNDS = 20  # of one cut, at most


def balanced_clusters(
    vectors: FloatArray, size: int, *, generator: np.random.Generator, device: torch.device
) -> IntArray:
    """Halve a set of vectors into near and balanced parts until no part has more than ``size`` of them.

    Each cut is a spherical 2-means whose halves are kept equal: rows are sorted by the difference of their similarities
    to the two centres and cut in the middle; a centre is the normalised mean of its half; a cut is settled once the
    mean similarity of a row to its centre rises by less than 1e-4. Source: NGAME (Dahiya et al., 2023), whose batches
    are such clusters; the balanced cut is that of Parabel (Prabhu et al., 2018).

    Args:
        vectors: (N, D) float32, rows of unit length; may be memory-mapped. Half of them are copied at most.
        size: the most vectors of a cluster.
        generator: draws the first centres.
        device: where the products are computed.

    Returns:
        (N,) int64 the cluster of each vector, in [0, 2^depth) with depth = ceil(log2(N / size)); sizes differ by at
        most one.
    """
    n = len(vectors)
    parts = np.arange(n, dtype=np.int64)[None]  # (S, m) rows of each part; -1 pads the parts that have one row less
    for _ in range(max(0, math.ceil(math.log2(max(n, 1) / size)))):
        step = max(1, _ROWS_AT_ONCE // parts.shape[1])
        halves = [_halves(vectors, parts[at : at + step], generator, device) for at in range(0, len(parts), step)]
        parts = np.concatenate(halves)
    clusters = np.empty(n, np.int64)
    owner, place = np.nonzero(parts >= 0)
    clusters[parts[owner, place]] = owner
    return clusters


def _halves(vectors: FloatArray, parts: IntArray, generator: np.random.Generator, device: torch.device) -> IntArray:
    """Cut each of S parts (S, m) in two: (2 S, ceil(m / 2)), padded with -1."""
    there, x = torch.from_numpy(parts >= 0).to(device), _vectors_of(vectors, parts).to(device)
    sizes = there.sum(1)
    firsts = torch.from_numpy(generator.random((len(parts), 2))).to(device)
    first = (firsts[:, 0] * sizes).long()
    second = (first + 1 + (firsts[:, 1] * (sizes - 1)).long()) % sizes
    centres = x[torch.arange(len(parts), device=device)[:, None], torch.stack([first, second], 1)]  # (S, 2, D)
    left, before = there, -math.inf
    for _ in range(_ROUNDS):
        left, similarity = _assign(x, centres, there, sizes)
        if similarity - before < 1e-4:
            break
        before = similarity
        centres = torch.stack([_mean(x, left), _mean(x, there & ~left)], 1)
    return _rows_of_halves(parts, left.cpu().numpy())


def _vectors_of(vectors: FloatArray, parts: IntArray) -> Tensor:
    """(S, m, D) the vectors of each part, zeros where it is padded; those of a part that has all are not copied."""
    if parts.shape == (1, len(vectors)):
        return finite("vectors", vectors, torch.device("cpu"))[None]
    x = torch.from_numpy(vectors[np.maximum(parts, 0)])
    return x.mul_(torch.from_numpy(parts >= 0)[..., None])


def _assign(x: Tensor, centres: Tensor, there: Tensor, sizes: Tensor) -> tuple[Tensor, float]:
    """The rows of each part nearest to its first centre, half of them, and the mean similarity to the own centre."""
    scores = torch.bmm(x, centres.transpose(1, 2))  # (S, m, 2)
    margin = (scores[..., 0] - scores[..., 1]).masked_fill(~there, -math.inf)
    place = margin.argsort(dim=1, descending=True, stable=True).argsort(1)
    left = (place < (sizes[:, None] + 1) // 2) & there
    own = torch.where(left, scores[..., 0], scores[..., 1])
    return left, float((own * there).sum() / there.sum())


def _mean(x: Tensor, chosen: Tensor) -> Tensor:
    """The normalised mean of the chosen rows of each part, (S, D)."""
    return torch.nn.functional.normalize(torch.bmm(chosen[:, None].to(x.dtype), x)[:, 0], dim=1)


def _rows_of_halves(parts: IntArray, left: BoolArray) -> IntArray:
    """The two halves of each part, one after the other, as rows padded with -1."""
    width = (parts.shape[1] + 1) // 2
    halves = np.full((2 * len(parts), width), -1, np.int64)
    for side, chosen in enumerate((left, (parts >= 0) & ~left)):
        owner, place = np.nonzero(chosen)
        rank = np.arange(len(owner)) - np.searchsorted(owner, owner)
        halves[2 * owner + side, rank] = parts[owner, place]
    return halves


def cuts(n: int, size: int) -> float:
    """How often each of n vectors is a part of what `balanced_clusters` cuts in two."""
    return max(1.0, math.log2(max(n, 1) / size))
