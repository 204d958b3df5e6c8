"""A few queries are prefiltered in 8 bits: the ranking is that of a full search, whatever the vectors."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from longtail.data.sparse import csr_of_lists
from longtail.search import int8
from longtail.search.exact import Exact
from longtail.search.int8 import FEW, LARGE, Int8Prefilter, can_prefilter
from longtail.topk import FloatArray, rank

LABELS = LARGE + 77


def real(rows: int, width: int, seed: int) -> FloatArray:
    return np.random.default_rng(seed).normal(size=(rows, width)).astype(np.float32)


def whole(rows: int, width: int, seed: int, most: int) -> FloatArray:
    return np.random.default_rng(seed).integers(-most, most + 1, (rows, width)).astype(np.float32)


@pytest.mark.parametrize("queries", range(1, FEW + 1))
@pytest.mark.parametrize("most", [0, 1, 9, 200])
@pytest.mark.parametrize("k", [1, 5, LABELS // 16])
def test_the_ranking_is_that_of_a_full_sort_ties_included(k: int, most: int, queries: int) -> None:
    table, asked = whole(LABELS, 21, 0, most), whole(queries, 21, 1, most)
    found = Exact(table).search(asked, k)
    scores = asked @ table.T  # exact in float32: every order of summing gives the same
    expected = rank(np.broadcast_to(np.arange(LABELS), scores.shape), scores, k)
    np.testing.assert_array_equal(found.ids, expected.ids)
    np.testing.assert_array_equal(found.scores, expected.scores)


@pytest.mark.parametrize("queries", [1, FEW])
@pytest.mark.parametrize("k", [1, 5, LABELS // 16, LABELS])
def test_pairs_that_are_hidden_are_prefiltered_too(k: int, queries: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A linker hides nodes with the text of the document: each text then cost a look at the whole table."""
    asks: list[int] = []
    candidates = Int8Prefilter.candidates

    def asked(self: Int8Prefilter, queries: torch.Tensor, k: int) -> torch.Tensor:
        asks.append(k)
        return candidates(self, queries, k)

    monkeypatch.setattr(Int8Prefilter, "candidates", asked)
    table, vectors = whole(LABELS, 21, 0, 9), whole(queries, 21, 1, 9)
    scores = vectors @ table.T
    best = np.argsort(-scores, axis=1)  # of each query, some of those that would be found are hidden
    exclude = csr_of_lists([row[: (i + 3) % 8].tolist() for i, row in enumerate(best)], LABELS)
    scores[exclude.nonzero()] = -np.inf
    found = Exact(table).search(vectors, k, exclude=exclude)
    expected = rank(np.broadcast_to(np.arange(LABELS), scores.shape), scores, k)
    np.testing.assert_array_equal(found.ids, expected.ids)
    np.testing.assert_array_equal(found.scores, expected.scores)
    assert bool(asks) == (k < LABELS // 16)  # with those that are hidden, more than a sixteenth


@pytest.mark.parametrize("width", [1, 15, 16, 256, 513])
@pytest.mark.parametrize("spread", [0.0, 3.0, 12.0])
def test_one_query_finds_what_many_find(width: int, spread: float) -> None:
    lengths = np.exp(spread * real(LABELS, 1, 5)).astype(np.float32)  # some labels are far longer than others
    table, queries = real(LABELS, width, 2) * lengths, real(40, width, 3)
    index = Exact(table)
    together = index.search(queries, 10)
    for i in range(len(queries)):
        alone = index.search(queries[i : i + 1], 10)
        np.testing.assert_array_equal(alone.ids[0], together.ids[i])
        np.testing.assert_allclose(alone.scores[0], together.scores[i], rtol=1e-4, atol=1e-4 * lengths.max())


@pytest.mark.parametrize("whole_products", [False, True])
@pytest.mark.parametrize("bias", [0.0, 1.0])
@pytest.mark.parametrize("k", [1, 5, 20])
def test_the_candidates_are_few_and_hold_the_best(k: int, bias: float, whole_products: bool) -> None:
    """Also where the last number of a query is a 1 for a bias, beside which the others are small."""
    table, queries = torch.from_numpy(real(LABELS, 257, 0)), torch.from_numpy(real(30, 257, 1))
    if bias:
        queries *= 1 / 16
        queries[:, -1] = bias
    prefilter, counts = Int8Prefilter(table, whole=whole_products), []
    for i in range(len(queries)):
        query = queries[i : i + 1]
        found = prefilter.candidates(query, k)
        assert set((query @ table.T).topk(k).indices[0].tolist()) <= set(found.tolist())
        counts.append(len(found))
    assert np.median(counts) < 3 * k + 20


def test_rows_that_one_number_rules_lose_nothing() -> None:
    """Eight bits of such a row say nothing of its other numbers, which here decide."""
    table = real(LABELS, 64, 0)
    table[:, 0] = 1e4
    query = np.concatenate([[0.0], real(1, 63, 1)[0]]).astype(np.float32)[None]
    best = np.argsort(-(table @ query[0]), kind="stable")[:10]
    assert Exact(table).search(query, 10).ids[0].tolist() == best.tolist()


def test_a_query_of_zeros_and_labels_of_zeros() -> None:
    table = real(LABELS, 32, 0)
    table[::2] = 0
    assert Exact(table).search(np.zeros((1, 32)), 4).ids.tolist() == [[0, 1, 2, 3]]
    assert Exact(0 * table).search(real(1, 32, 1), 4).ids.tolist() == [[0, 1, 2, 3]]


@pytest.mark.parametrize("whole_products", [False, True])
def test_products_that_overflow_are_candidates(whole_products: bool) -> None:
    table = torch.from_numpy(1e30 * real(LABELS, 8, 0))
    assert len(Int8Prefilter(table, whole=whole_products).candidates(1e30 * torch.ones(1, 8), 3)) == LABELS


@pytest.mark.parametrize("whole_products", [False, True])
@pytest.mark.parametrize("seed", range(20))
def test_the_candidates_hold_the_best_whatever_the_vectors(seed: int, whole_products: bool) -> None:
    """Numbers of very different size, in columns, in labels and in queries, and many that are 0."""
    width, k = 2 + 13 * seed, 1 + seed
    sizes, lengths = (np.exp(4 * real(n, 1, seed + i)) for i, n in enumerate((width, LABELS)))
    table = (real(LABELS, width, seed) * sizes.T * lengths * (real(LABELS, width, seed + 2) > -1)).astype(np.float32)
    queries = (real(10, width, seed + 3) / sizes.T * (real(10, width, seed + 4) > 0)).astype(np.float32)
    prefilter = Int8Prefilter(torch.from_numpy(table), whole=whole_products)
    for query in queries:
        found = prefilter.candidates(torch.from_numpy(query[None]), k)
        scores = table.astype(np.float64) @ query.astype(np.float64)
        assert set(np.argsort(-scores, kind="stable")[:k].tolist()) <= set(found.tolist())


def test_what_is_prefiltered() -> None:
    known = hasattr(torch, "_weight_int8pack_mm")
    assert not can_prefilter(torch.zeros(LARGE - 1, 4), 1)
    assert can_prefilter(torch.zeros(LARGE, 4), 1) == can_prefilter(torch.zeros(LARGE, 4), LARGE // 16) == known
    assert not can_prefilter(torch.zeros(LARGE, 4), LARGE // 16 + 1)
    assert not can_prefilter(torch.zeros(LARGE, 1), 1)


@pytest.mark.parametrize(("labels", "k"), [(1, 3), (5, 5), (100, 7), (LARGE - 1, 30), (LARGE, LARGE // 2)])
def test_tables_that_are_not_prefiltered(labels: int, k: int) -> None:
    table, asked = whole(labels, 9, 0, 3), whole(FEW, 9, 1, 3)
    found, scores = Exact(table).search(asked, k), asked @ table.T
    expected = rank(np.broadcast_to(np.arange(labels), scores.shape), scores, k)
    np.testing.assert_array_equal(found.ids, expected.ids)
    np.testing.assert_array_equal(found.scores, expected.scores)


def test_a_table_that_is_read_in_blocks_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    table = torch.from_numpy(real(LABELS, 64, 0))
    made = Int8Prefilter(table)
    monkeypatch.setattr(int8, "_BLOCK", 500)
    blocks = Int8Prefilter(table)
    for name in ("_rows", "_scale", "_error", "_length"):
        assert torch.equal(getattr(made, name), getattr(blocks, name))
