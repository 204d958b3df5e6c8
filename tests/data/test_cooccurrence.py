"""Soft targets from co-occurrence: a matrix worked out by hand, a naive twin with loops, and blocks of any size."""

from __future__ import annotations

import numpy as np
import pytest

from longtail.data import cooccurrence, sparse
from longtail.data.cooccurrence import conditional, related_labels, symmetric
from longtail.data.sparse import CSR, csr, csr_of_lists

EVERY = np.arange(4)


@pytest.fixture
def targets() -> CSR:
    """Label 0 has four documents, two of them with label 1 and one with label 2; no document has label 3."""
    return csr_of_lists([[0, 1], [0, 1, 2], [0], [0], [2], []], 4)


def naive(targets: CSR, threshold: float, strength: str) -> list[list[float]]:
    """Equations 1.5, 1.6 and 1.9 with loops."""
    y = targets.toarray() > 0
    L = y.shape[1]
    out = [[0.0] * L for _ in range(L)]
    for i in range(L):
        for j in range(L):
            both = sum(bool(row[i] and row[j]) for row in y)
            there = both / max(y[:, i].sum(), 1)
            back = both / max(y[:, j].sum(), 1)
            value = 1.0 if i == j else there if strength == "conditional" else (there + back) / 2
            out[i][j] = value if value > threshold else 0.0
    return out


def test_conditional_by_hand(targets: CSR) -> None:
    expected = [[1, 2 / 4, 1 / 4, 0], [2 / 2, 1, 1 / 2, 0], [1 / 2, 1 / 2, 1, 0], [0, 0, 0, 1]]
    np.testing.assert_allclose(related_labels(targets, EVERY, threshold=0).toarray(), expected, rtol=1e-6)


def test_symmetric_by_hand(targets: CSR) -> None:
    expected = [[1, 3 / 4, 3 / 8, 0], [3 / 4, 1, 1 / 2, 0], [3 / 8, 1 / 2, 1, 0], [0, 0, 0, 1]]
    made = related_labels(targets, EVERY, threshold=0, strength=symmetric)
    np.testing.assert_allclose(made.toarray(), expected, rtol=1e-6)


def test_the_threshold_itself_is_not_above_it(targets: CSR) -> None:
    made = related_labels(targets, EVERY, threshold=0.5).toarray()
    assert made.tolist() == [[1, 0, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]


def test_some_rows_in_any_order(targets: CSR) -> None:
    whole = related_labels(targets, EVERY, threshold=0.1).toarray()
    np.testing.assert_array_equal(related_labels(targets, np.array([3, 0]), threshold=0.1).toarray(), whole[[3, 0]])
    assert related_labels(targets, np.array([], np.int64), threshold=0.1).shape == (0, 4)


def test_stored_relevances_do_not_weigh(targets: CSR) -> None:
    soft = CSR((targets.data * 0.3, targets.indices, targets.indptr), shape=targets.shape)
    assert (related_labels(soft, EVERY, threshold=0) != related_labels(targets, EVERY, threshold=0)).nnz == 0


@pytest.mark.parametrize("products", [1, 37, 2**24])
@pytest.mark.parametrize(("name", "strength"), [("conditional", conditional), ("symmetric", symmetric)])
def test_against_loops_in_blocks_of_any_size(
    products: int, name: str, strength: cooccurrence.Strength, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sparse, "_OPERATIONS", products)
    rng = np.random.default_rng(5)
    rows, columns = np.nonzero(rng.random((31, 13)) < 0.2)
    columns[columns == 7] = 6  # label 7 has no document
    made = related_labels(csr(rows, columns, (31, 13)), np.arange(13), threshold=0.2, strength=strength)
    np.testing.assert_allclose(made.toarray(), naive(csr(rows, columns, (31, 13)), 0.2, name), rtol=1e-6)
    assert made.has_canonical_format
    assert made.indices.dtype == made.indptr.dtype == np.int64
