"""The dense part of a label matrix that a batch sees: by hand, then against loops."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from longtail.batches.batch import Batch, entries_in_pool
from longtail.data.sparse import CSR, csr
from longtail.text.tokens import VectorTokens


def named(rows: int, columns: int, absent: tuple[tuple[int, int], ...] = ()) -> CSR:
    """Entry (r, c) is 0.rc: its value names its row and its column. Some entries are absent."""
    at = [(r, c) for r in range(rows) for c in range(columns) if (r, c) not in absent]
    r, c = (np.asarray(places, np.int64) for places in zip(*at, strict=True))
    return csr(r, c, (rows, columns), (r * 0.1 + c * 0.01).astype(np.float32))


@pytest.mark.parametrize(
    ("rows", "labels", "expected"),
    [
        ([1, 2, 3], [1, 2], [[0.11, 0.12], [0.21, 0.22], [0.31, 0.32]]),
        ([3, 1, 2], [2, 4], [[0.32, 0.34], [0.12, 0.14], [0.22, 0.24]]),
        ([4, 4, 1], [0, 5], [[0.40, 0.45], [0.40, 0.45], [0.10, 0.15]]),
    ],
)
def test_three_rows_and_two_labels_by_hand(rows: list[int], labels: list[int], expected: list[list[float]]) -> None:
    part = entries_in_pool(named(5, 6), np.asarray(rows), np.asarray(labels))
    assert part.dtype == np.float32
    np.testing.assert_allclose(part, expected, rtol=1e-6)


def test_absent_entries_are_zero_by_hand() -> None:
    matrix = named(5, 6, absent=((1, 1), (2, 0), (2, 1), (2, 2), (2, 3), (2, 4), (2, 5), (3, 2), (3, 5)))
    part = entries_in_pool(matrix, np.array([1, 2, 3]), np.array([1, 2]))
    np.testing.assert_allclose(part, [[0, 0.12], [0, 0], [0.31, 0]], rtol=1e-6)
    np.testing.assert_allclose(entries_in_pool(matrix, np.array([3]), np.array([5])), [[0]])


@pytest.mark.parametrize("seed", range(5))
def test_against_loops(seed: int) -> None:
    rng = np.random.default_rng(seed)
    N, L = 17, 23
    dense = rng.random((N, L)).astype(np.float32) * (rng.random((N, L)) < 0.2)
    dense[3] = 0
    matrix = csr(*np.nonzero(dense), (N, L), dense[np.nonzero(dense)])
    rows, labels = rng.integers(N, size=7), np.sort(rng.permutation(L)[:11])
    expected = [[dense[row, label] for label in labels] for row in rows]
    np.testing.assert_array_equal(entries_in_pool(matrix, rows, labels), expected)


def test_no_labels_and_no_rows() -> None:
    none = np.zeros(0, np.int64)
    assert entries_in_pool(named(5, 6), np.array([0, 1]), none).shape == (2, 0)
    assert entries_in_pool(named(5, 6), none, np.array([0, 1])).shape == (0, 2)


def test_a_batch_goes_to_a_device_whole() -> None:
    batch = Batch(
        rows=torch.tensor([0]),
        documents=VectorTokens(torch.ones(1, 2)),
        label_ids=torch.tensor([3, 4, 5]),
        labels=None,
        targets=torch.zeros(1, 3),
        mask=torch.ones(1, 3, dtype=torch.bool),
    )
    moved = batch.to(torch.device("meta"))
    assert {moved.rows.device.type, moved.label_ids.device.type, moved.documents.values.device.type} == {"meta"}
    assert {moved.targets.device.type, moved.mask.device.type} == {"meta"}
    assert moved.labels is None
    assert moved.mask.shape == (1, 3)
