from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from longtail.data.sparse import CSR
from longtail.errors import BadInput
from longtail.search.exact import Exact, _keys, _scores_and_ids
from longtail.topk import FloatArray, TopK, rank

SMALL = {"query_block": 5, "label_block": 48}


def textbook(queries: FloatArray, table: FloatArray, k: int, hidden: np.ndarray | None = None) -> TopK:
    scores = queries @ table.T
    if hidden is not None:
        scores[hidden] = -np.inf
    return rank(np.broadcast_to(np.arange(len(table)), scores.shape), scores, k)


def check(found: TopK, expected: TopK) -> None:
    np.testing.assert_array_equal(found.ids, expected.ids)
    np.testing.assert_array_equal(found.scores, expected.scores)


def whole_numbers(rows: int, width: int, seed: int, most: int = 2) -> FloatArray:
    """Vectors whose dot products are exact in float32, so that equal scores are equal in every order of summing."""
    return np.random.default_rng(seed).integers(-most, most + 1, (rows, width)).astype(np.float32)


def test_by_hand() -> None:
    table = np.array([[1, 0], [0, 1], [1, 0], [-1, 0]])  # labels 0 and 2 are the same
    found = Exact(table).search([[2.0, 1.0], [0.0, 0.0]], 3)
    assert found.ids.tolist() == [[0, 2, 1], [0, 1, 2]]
    assert found.scores.tolist() == [[2, 2, 1], [0, 0, 0]]


@pytest.mark.parametrize("most", [0, 1, 9, 1000])
@pytest.mark.parametrize("k", [1, 3, 16, 47, 200, 997, 1000])
@pytest.mark.parametrize("blocks", [{}, SMALL, {"query_block": 31, "label_block": 997}, {"label_block": 500}])
def test_equals_a_full_sort_with_few_and_with_many_ties(most: int, k: int, blocks: dict[str, int]) -> None:
    table, queries = whole_numbers(997, 7, 0, most), whole_numbers(31, 7, 1, most)
    check(Exact(table, **blocks).search(queries, k), textbook(queries, table, k))


@pytest.mark.parametrize("order", ["ascending", "descending"])
def test_the_best_may_all_lie_in_one_tile(order: str) -> None:
    table = np.arange(997, dtype=np.float32)[:: 1 if order == "ascending" else -1, None]
    queries = np.array([[1.0], [-1.0], [0.0]], np.float32)
    check(Exact(table, **SMALL).search(queries, 61), textbook(queries, table, 61))


def test_real_numbers_agree_to_rounding() -> None:
    generator = np.random.default_rng(0)
    table, queries = generator.normal(size=(5003, 37)), generator.normal(size=(101, 37))
    found = Exact(table, query_block=32, label_block=512).search(queries, 11)  # float64, converted
    expected = textbook(queries, table, 11)
    np.testing.assert_array_equal(found.ids, expected.ids)
    np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-5)


@pytest.mark.parametrize("blocks", [{}, SMALL])
def test_excluded_pairs_are_never_ranked(blocks: dict[str, int]) -> None:
    table, queries = whole_numbers(101, 5, 0), whole_numbers(13, 5, 1)
    hidden = np.random.default_rng(2).random((13, 101)) < 0.4
    hidden[3] = True
    hidden[4] = False
    pairs = CSR(hidden.astype(np.float32))
    pairs.data[::3] = 0  # a stored pair counts, whatever its value
    for k in (4, 60, 101):
        found = Exact(table, **blocks).search(queries, k, exclude=pairs)
        check(found, textbook(queries, table, k, hidden))
        assert (found.ids[3] == -1).all()


def test_an_excluded_label_is_not_scored_zero() -> None:
    found = Exact([[-1.0], [-2.0]]).search([[1.0]], 2, exclude=CSR([[1.0, 0.0]]))
    assert found.ids.tolist() == [[1, -1]]
    assert found.scores.tolist() == [[-2.0, -np.inf]]


def test_a_mapped_table_is_used_where_it_lies(tmp_path: Path) -> None:
    table = whole_numbers(101, 5, 0)
    np.save(tmp_path / "table.npy", table)
    mapped = np.load(tmp_path / "table.npy", mmap_mode="r")
    index = Exact(mapped, **SMALL)
    assert index.table.data_ptr() == mapped.ctypes.data
    queries = whole_numbers(7, 5, 1)
    check(index.search(queries, 9), textbook(queries, table, 9))


@pytest.mark.parametrize("dtype", [np.float16, np.float64, np.int32, ">f4"])
def test_other_dtypes_are_converted(dtype: str) -> None:
    table, queries = whole_numbers(101, 5, 0), whole_numbers(7, 5, 1)
    check(Exact(table.astype(dtype)).search(queries.astype(dtype), 9), textbook(queries, table, 9))


def test_strided_inputs() -> None:
    table, queries = whole_numbers(202, 10, 0)[::-2, ::2], whole_numbers(5, 7, 1).T
    check(Exact(table).search(queries, 9), textbook(queries, table, 9))


def test_minus_zero_ties_with_zero() -> None:
    table = np.array([[-1.0], [1.0], [0.0]], np.float32)
    found = Exact(table).search(np.array([[0.0], [-0.0]], np.float32), 3)
    assert found.ids.tolist() == [[0, 1, 2], [0, 1, 2]]


def test_keys_sort_as_score_then_lower_id_and_decode() -> None:
    scores = torch.tensor([-torch.inf, -3e38, -1.0, -1e-45, 0.0, 1e-45, 0.5, 3e38, torch.inf]).repeat_interleave(3)
    ids = torch.tensor([2**32 - 1, 7, 0]).repeat(9)
    keys = _keys(scores, ids)
    assert torch.equal(keys.sort().values, keys)
    assert len(keys.unique()) == len(keys)
    decoded, decoded_ids = _scores_and_ids(keys)
    assert torch.equal(decoded, scores)
    assert torch.equal(decoded_ids, ids)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_vector_that_is_not_finite_is_named(bad: float) -> None:
    table = np.zeros((7, 3), np.float32)
    wrong = table.copy()
    wrong[4, 1] = wrong[5, 0] = bad
    with pytest.raises(BadInput, match=r"label vectors: expected finite numbers.*2 rows, first in row 4"):
        Exact(wrong)
    with pytest.raises(BadInput, match=r"queries: expected finite numbers.*2 rows, first in row 4"):
        Exact(table).search(wrong, 1)


def test_large_finite_numbers_are_let_in() -> None:
    table = np.full((7, 1), 3e38, np.float32)  # whose sum overflows
    assert Exact(table).search(np.full((1, 1), 1e-38, np.float32), 2).ids.tolist() == [[0, 1]]


def test_shapes_that_do_not_fit() -> None:
    index = Exact(np.zeros((7, 3), np.float32))
    with pytest.raises(BadInput, match="width 3, found 2"):
        index.search(np.zeros((5, 2), np.float32), 1)
    with pytest.raises(BadInput, match="2 dimensions, found 1"):
        index.search(np.zeros(3, np.float32), 1)
    with pytest.raises(BadInput, match=r"shape \(5, 7\), found \(5, 6\)"):
        index.search(np.zeros((5, 3), np.float32), 1, exclude=CSR((5, 6)))
    with pytest.raises(BadInput, match="at least 1, found 0"):
        index.search(np.zeros((5, 3), np.float32), 0)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_on_a_gpu() -> None:
    table, queries = whole_numbers(997, 7, 0), whole_numbers(31, 7, 1)
    hidden = np.random.default_rng(2).random((31, 997)) < 0.4
    found = Exact(table, device="cuda").search(queries, 47, exclude=CSR(hidden.astype(np.float32)))
    check(found, textbook(queries, table, 47, hidden))


def test_one_query_is_read_by_its_numbers_however_it_lies_in_memory() -> None:
    """Columns of one row that were chosen by an array have strides of their own, which numpy calls contiguous."""
    generator = np.random.default_rng(0)
    table = generator.standard_normal((4000, 129)).astype(np.float32)
    wide = generator.standard_normal((1, 257)).astype(np.float32)
    query = wide[:, np.append(np.arange(128), 256)]
    assert query.flags.c_contiguous
    found = Exact(table).search(query, 5)
    assert found.ids[0].tolist() == np.argsort(-(query @ table.T)[0])[:5].tolist()
    np.testing.assert_array_equal(found.ids, Exact(table).search(query.repeat(9, 0), 5).ids[:1])
