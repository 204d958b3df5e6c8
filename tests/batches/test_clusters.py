"""Balanced clusters: equal sizes, near vectors together, the same for the same seed."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from longtail.batches import clusters
from longtail.batches.clusters import balanced_clusters
from longtail.topk import FloatArray, IntArray

CPU = torch.device("cpu")


def unit(rows: np.ndarray) -> FloatArray:
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def vectors(n: int, seed: int = 0, width: int = 5) -> FloatArray:
    return unit(np.random.default_rng(seed).normal(size=(n, width)))


def cluster(rows: FloatArray, size: int, seed: int = 0) -> IntArray:
    return balanced_clusters(rows, size, generator=np.random.default_rng(seed), device=CPU)


@pytest.mark.parametrize("n", [1, 2, 3, 7, 8, 9, 31, 100])
@pytest.mark.parametrize("size", [1, 2, 3, 8, 1000])
def test_sizes_differ_by_at_most_one_and_keep_the_bound(n: int, size: int) -> None:
    found = cluster(vectors(n), size)
    assert found.dtype == np.int64
    number = 2 ** max(0, math.ceil(math.log2(n / size)))
    sizes = np.bincount(found, minlength=number)
    assert len(found) == n
    assert len(sizes) == number
    assert sizes.max() <= size
    assert sizes.max() - sizes.min() <= 1


def test_no_vectors() -> None:
    assert cluster(vectors(0), 4).tolist() == []


def test_a_vector_alone_is_a_cluster() -> None:
    assert cluster(vectors(1), 1).tolist() == [0]


@pytest.mark.parametrize("seed", range(5))
def test_two_groups_far_apart_are_the_two_halves(seed: int) -> None:
    rng = np.random.default_rng(seed)
    group = rng.permutation(np.repeat([0, 1], 20))
    centres = np.array([[1.0, 0, 0], [-1.0, 0, 0]])
    found = cluster(unit(centres[group] + rng.normal(size=(40, 3)) * 0.2), 20, seed)
    assert len({*zip(group.tolist(), found.tolist(), strict=True)}) == 2


def test_planted_groups_stay_together() -> None:
    """Of 16 groups of 8 near vectors each: almost all pairs of one group share a cluster of 8."""
    rng = np.random.default_rng(0)
    group = rng.permutation(np.repeat(np.arange(16), 8))
    rows = unit(rng.normal(size=(16, 32))[group] + rng.normal(size=(128, 32)) * 0.1)
    found = cluster(rows, 8)
    together = (group[:, None] == group) & ~np.eye(128, dtype=bool)
    share = (found[:, None] == found)[together].mean()
    assert share > 0.75
    by_lot = cluster(vectors(128, seed=1, width=32), 8)
    assert (by_lot[:, None] == by_lot)[together].mean() < 0.15


def test_clusters_of_clusters_are_near() -> None:
    """On a circle, a cluster is an arc or a few: its rows are far nearer than rows drawn by lot."""
    angles = np.random.default_rng(0).random(256) * 2 * np.pi
    rows = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    found = cluster(rows, 16)
    means = [np.linalg.norm(rows[found == i].mean(0)) for i in range(16)]
    assert np.mean(means) > 0.95


def test_the_same_generator_gives_the_same_clusters() -> None:
    rows = vectors(100)
    assert cluster(rows, 8, seed=3).tolist() == cluster(rows, 8, seed=3).tolist()
    assert cluster(rows, 8, seed=3).tolist() != cluster(rows, 8, seed=4).tolist()


def test_equal_vectors_are_cut_all_the_same() -> None:
    assert np.bincount(cluster(np.repeat(vectors(1), 64, axis=0), 8)).tolist() == [8] * 8
    assert np.bincount(cluster(np.zeros((64, 3), np.float32), 8)).tolist() == [8] * 8


def test_parts_that_are_worked_on_one_by_one_have_the_same_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clusters, "_ROWS_AT_ONCE", 40)
    sizes = np.bincount(cluster(vectors(101), 8), minlength=16)
    assert sorted(sizes.tolist()) == [6] * 11 + [7] * 5


def test_vectors_are_left_alone() -> None:
    rows = vectors(30)
    copy = rows.copy()
    cluster(rows, 4)
    np.testing.assert_array_equal(rows, copy)


@pytest.mark.parametrize("n", [16, 101, 4097])
def test_the_first_cut_copies_no_vectors_and_is_that_of_copies(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, whole = vectors(n, width=32), np.arange(n)[None]
    rows.flags.writeable = False  # as those of a mapped file
    found, x = cluster(rows, 8), clusters._vectors_of(rows, whole)
    assert x.data_ptr() == rows.ctypes.data

    def copied(rows: FloatArray, parts: IntArray) -> torch.Tensor:
        x = torch.from_numpy(rows[np.maximum(parts, 0)])
        x[torch.from_numpy(parts < 0)] = 0
        return x

    monkeypatch.setattr(clusters, "_vectors_of", copied)
    np.testing.assert_array_equal(cluster(rows, 8), found)
