"""Vectors of words at the width of a table: principal components about the mean, and a sum in place."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from longtail.modules.encoders import knowledge
from longtail.modules.encoders.knowledge import add_to, projected
from longtail.modules.table import Table


def naive(vectors: np.ndarray, width: int) -> np.ndarray:
    """Inner products of the vectors about their mean, of the rank of the width, for a mean length of 1."""
    centred = vectors.astype(np.float64) - vectors.mean(0, dtype=np.float64)
    u, s, _ = np.linalg.svd(centred, full_matrices=False)
    kept = (u * s)[:, :width]
    kept /= np.linalg.norm(kept, axis=1).mean()
    return kept @ kept.T


@pytest.mark.parametrize("shape", [(40, 12), (5, 12), (1000, 3)])
@pytest.mark.parametrize("width", [1, 4, 20])
def test_principal_components_against_singular_vectors(
    shape: tuple[int, int], width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(knowledge, "_BLOCK", 7)
    vectors = (3 + np.random.default_rng(0).standard_normal(shape) * np.arange(1, shape[1] + 1)).astype(np.float32)
    found = projected(vectors, width)
    assert found.shape == (shape[0], width)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found @ found.T, naive(vectors, width), atol=1e-5)
    variances = found.var(0)
    assert (variances[:-1] >= variances[1:] - 1e-6).all()  # the largest first


@pytest.mark.parametrize("n", [0, 1, 3])
def test_what_does_not_differ_says_nothing(n: int) -> None:
    assert not projected(np.full((n, 4), 0.3, np.float32), 2).any()


def test_rows_are_added_to_and_the_others_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    start = torch.randn(9, 3, generator=torch.Generator().manual_seed(0))
    table, ids = Table(start.clone()), np.array([0, 3, 4, 8])
    blocks = Table.blocks
    monkeypatch.setattr(Table, "blocks", lambda self: blocks(self, 4))
    vectors = np.arange(12, dtype=np.float32).reshape(4, 3)
    add_to(table, ids, vectors)
    expected = start.numpy()
    for row, vector in zip(ids, vectors, strict=True):
        expected[row] += vector
    np.testing.assert_array_equal(table.export(), expected)
