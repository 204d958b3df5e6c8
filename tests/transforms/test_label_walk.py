"""Labels near on a random walk: a chain worked out by hand, and the exact law of the walk."""

from __future__ import annotations

import numpy as np
import pytest

from longtail.data.sparse import CSR, csr, csr_of_lists
from longtail.transforms.label_walk import label_walk, walked_labels

EVERY = np.arange(4)


@pytest.fixture
def targets() -> CSR:
    """Label 0 has four documents, two of them with label 1 and one with label 2; no document has label 3."""
    return csr_of_lists([[0, 1], [0, 1, 2], [0], [0], [2], []], 4)


def naive_walk(targets: CSR, restart: float, hops: int) -> np.ndarray:
    """Sum over hops h of p (1 - p)^(h - 1) P^h, with P from label to document to label."""
    y = (targets.toarray() > 0).astype(np.float64)
    step = (y.T / np.maximum(y.sum(0)[:, None], 1)) @ (y / np.maximum(y.sum(1)[:, None], 1))
    return sum(restart * (1 - restart) ** (h - 1) * np.linalg.matrix_power(step, h) for h in range(1, hops + 1))


def test_walk_by_hand() -> None:
    """From label 0 to its one document, which has label 1 too; label 2 shares a document with label 1 alone."""
    chain = csr_of_lists([[0, 1], [1, 2]], 3)
    once = label_walk(chain, restart=1.0).toarray()
    np.testing.assert_allclose(once, [[1 / 2, 1 / 2, 0], [1 / 4, 1 / 2, 1 / 4], [0, 1 / 2, 1 / 2]], rtol=1e-6)
    often = label_walk(chain, restart=0.8).toarray()
    assert 0.01 < often[0, 2] < 0.05  # two hops away


@pytest.mark.parametrize("restart", [0.8, 0.5])
def test_the_walk_is_its_exact_law(restart: float) -> None:
    rng = np.random.default_rng(7)
    rows, columns = np.nonzero(rng.random((23, 11)) < 0.2)
    targets = csr(rows, columns, (23, 11))
    found = label_walk(targets, restart=restart, keep=11).toarray()
    np.testing.assert_allclose(found, naive_walk(targets, restart, 60), atol=2e-3)
    few = label_walk(targets, restart=restart, keep=3)
    assert np.diff(few.indptr).max() <= 3
    for row, whole in zip(few.toarray(), found, strict=True):
        np.testing.assert_allclose(np.sort(row[row > 0]), np.sort(whole)[len(whole) - (row > 0).sum() :], rtol=1e-6)


def test_walked_targets_are_visits_over_own_visits(targets: CSR) -> None:
    visits = naive_walk(targets, 0.8, 60)
    own = np.where(visits.diagonal() > 0, visits.diagonal(), 1)
    expected = np.minimum(visits / own[:, None], 1) * (visits / own[:, None] > 0.1)
    np.fill_diagonal(expected, 1)
    np.testing.assert_allclose(walked_labels(targets, EVERY, threshold=0.1).toarray(), expected, atol=5e-3)
    some = walked_labels(targets, np.array([3, 1]), threshold=0.1).toarray()
    np.testing.assert_allclose(some, expected[[3, 1]], atol=5e-3)
