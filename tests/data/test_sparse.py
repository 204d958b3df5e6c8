"""The few operations on label matrices, by hand and against loops."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from broken import flipped

from longtail.data.sparse import (
    CSR,
    csr,
    csr_of_lists,
    digest,
    gather,
    heaviest,
    load_csr,
    padded,
    ranked,
    row_of_entry,
    save_csr,
    stacked,
)
from longtail.errors import BadInput


def matrix(seed: int, shape: tuple[int, int] = (13, 7)) -> CSR:
    """Random entries, and rows without any."""
    rng = np.random.default_rng(seed)
    dense = rng.random(shape).astype(np.float32) * (rng.random(shape) < 0.3)
    dense[4] = 0
    rows, columns = np.nonzero(dense)
    return csr(rows, columns, shape, dense[rows, columns])


def test_csr_sorts_pairs_in_any_order() -> None:
    made = csr(np.array([2, 0, 2, 2]), np.array([3, 1, 0, 1]), (3, 4), np.array([0.23, 0.01, 0.20, 0.21], np.float32))
    assert made.indptr.tolist() == [0, 1, 1, 4]
    assert made.indices.tolist() == [1, 0, 1, 3]
    np.testing.assert_array_equal(made.data, np.array([0.01, 0.20, 0.21, 0.23], np.float32))
    assert made.has_canonical_format


def test_csr_keeps_the_largest_value_of_a_pair_given_twice() -> None:
    rows, columns = np.array([1, 1, 0, 1, 1]), np.array([2, 0, 2, 2, 2])
    made = csr(rows, columns, (2, 3), np.array([0.5, 0.4, 0.1, 0.9, 0.7], np.float32))
    np.testing.assert_array_equal(made.toarray(), np.array([[0, 0, 0.1], [0.4, 0, 0.9]], np.float32))
    assert made.nnz == 3


def test_csr_without_values_is_ones_and_may_be_empty() -> None:
    assert csr(np.array([1, 1]), np.array([0, 0]), (2, 2)).toarray().tolist() == [[0, 0], [1, 0]]
    none = np.zeros(0, np.int64)
    assert csr(none, none, (2, 3)).toarray().tolist() == [[0, 0, 0], [0, 0, 0]]
    assert csr(none, none, (0, 3)).shape == (0, 3)


def test_csr_of_lists() -> None:
    made = csr_of_lists([[3, 1], [], [0, 0, 3]], 4)
    assert made.toarray().tolist() == [[0, 1, 0, 1], [0, 0, 0, 0], [1, 0, 0, 1]]
    assert csr_of_lists([], 4).shape == (0, 4)


@pytest.mark.parametrize("seed", [0, 1])
def test_row_of_entry(seed: int) -> None:
    made = matrix(seed)
    assert row_of_entry(made).tolist() == [
        row for row in range(13) for _ in range(made.indptr[row], made.indptr[row + 1])
    ]


@pytest.mark.parametrize("seed", [0, 1])
def test_gather_is_a_loop_over_rows(seed: int) -> None:
    made, rows = matrix(seed), np.random.default_rng(seed).integers(13, size=29)
    positions, counts = gather(made.indptr, rows)
    expected = [list(range(made.indptr[row], made.indptr[row + 1])) for row in rows]
    assert positions.tolist() == [position for row in expected for position in row]
    assert counts.tolist() == [len(row) for row in expected]


def test_gather_nothing() -> None:
    offsets = np.array([0, 2, 2])
    for rows in ([], [1], [1, 1]):
        positions, counts = gather(offsets, np.asarray(rows, np.int64))
        assert positions.tolist() == []
        assert counts.tolist() == [0] * len(rows)


def test_digest_tells_shape_pattern_and_values_apart_and_nothing_else() -> None:
    made = matrix(0)
    same = CSR((made.data, made.indices.astype(np.int32), made.indptr.astype(np.int32)), shape=made.shape)
    assert digest(same) == digest(made)
    wider = CSR((made.data, made.indices, made.indptr), shape=(13, 8))
    moved, other = made.copy(), made.copy()
    moved.indices[:2] = moved.indices[:2][::-1]
    other.data[0] += 1
    assert len({digest(m) for m in (made, wider, moved, other)}) == 4


def test_stacked_is_all_rows_in_order() -> None:
    parts = [matrix(0, (5, 7)), matrix(1, (13, 7)), csr(np.zeros(0, np.int64), np.zeros(0, np.int64), (2, 7))]
    made = stacked(parts)
    np.testing.assert_array_equal(made.toarray(), np.concatenate([part.toarray() for part in parts]))
    assert made.indptr.dtype == made.indices.dtype == np.int64


@pytest.mark.parametrize("k", [1, 2, 3, 100])
def test_the_heaviest_entries_of_each_row(k: int) -> None:
    rng = np.random.default_rng(k)
    dense = (rng.integers(0, 4, (40, 29)) * (rng.random((40, 29)) < rng.random((40, 1)))).astype(np.float32)
    dense[3] = 0
    at = np.nonzero(dense)
    found = heaviest(csr(*at, dense.shape, dense[at]), k).toarray()
    for row, kept in zip(dense, found, strict=True):
        order = np.argsort(-row, kind="stable")[:k]  # of equal ones the first
        expected = np.zeros_like(row)
        expected[order] = row[order]
        np.testing.assert_array_equal(kept, expected)


def test_the_largest_entries_of_each_row_are_ranked_with_ties() -> None:
    top = ranked(CSR(np.array([[0, 3, 1, 3, 2], [0, 0, 0, 0, 5]], np.float32)), 3)
    assert top.ids.tolist() == [[1, 3, 4], [4, -1, -1]]
    assert top.scores.tolist() == [[3, 3, 2], [5, -np.inf, -np.inf]]
    unsorted = CSR((np.array([3, -2, 3, -1, 3], np.float32), np.array([5, 1, 3, 2, 0]), np.array([0, 5, 5])), (2, 6))
    top = ranked(unsorted, 2)
    assert top.ids.tolist() == [[0, 3], [-1, -1]]
    assert top.scores.tolist() == [[3, 3], [-np.inf, -np.inf]]
    assert ranked(unsorted, 4).scores[0].tolist() == [3, 3, 3, -1]


def test_a_saved_matrix_is_the_same_or_is_refused(tmp_path: Path) -> None:
    matrix, draw = csr_of_lists([[0, 2], [], [1]], 4), random.Random(0)
    matrix.data[:] = [0.5, 2, 3]
    save_csr(matrix, tmp_path / "m")
    assert digest(load_csr(tmp_path / "m")) == digest(matrix)
    for file in sorted((tmp_path / "m").iterdir()):
        raw = file.read_bytes()
        for at in range(len(raw)):
            for broken in (raw[:at], flipped(raw, at, draw.randrange(8))):
                file.write_bytes(broken)
                try:
                    assert digest(load_csr(tmp_path / "m")) == digest(matrix)
                except BadInput as refused:
                    assert len(str(refused).splitlines()) == 1  # noqa: PT017
        file.write_bytes(raw)


def test_a_matrix_that_was_saved_without_hashes_is_read(tmp_path: Path) -> None:
    matrix = csr_of_lists([[0, 2], [], [1]], 4)
    save_csr(matrix, tmp_path / "m")
    (tmp_path / "m" / "checksums.json").unlink()
    assert digest(load_csr(tmp_path / "m")) == digest(matrix)


@pytest.mark.parametrize("name", ["data", "indices", "indptr", "shape"])
def test_a_matrix_without_hashes_that_is_none_is_refused(tmp_path: Path, name: str) -> None:
    save_csr(csr_of_lists([[0, 2], [], [1]], 4), tmp_path / "m")
    (tmp_path / "m" / "checksums.json").unlink()
    for content in (b"", b"\x93NUMPY", b"\x93NUMPY\1\0\4\0{'(\n"):
        (tmp_path / "m" / f"{name}.npy").write_bytes(content)
        with pytest.raises(BadInput, match=r"expected an array of numbers, found none .*; remove .*it is then made"):
            load_csr(tmp_path / "m")


def test_rows_are_padded() -> None:
    ids, counts = np.array([5, 6, 7, 8]), np.array([1, 0, 3])
    assert padded(ids, counts).tolist() == [[5, -1, -1], [-1, -1, -1], [6, 7, 8]]
    assert padded(ids, counts, 2).tolist() == [[5, -1], [-1, -1], [6, 7]]
    assert padded(ids[:0], counts[:0], 2).shape == (0, 0)
