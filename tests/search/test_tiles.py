"""Many queries are searched by products in 8 bits: the ranking is that of a full sort, whatever the vectors."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from longtail.data.sparse import CSR, csr_of_lists
from longtail.search import exact, tiles
from longtail.search.exact import Exact
from longtail.search.int8 import LARGE, has_whole_products
from longtail.search.tiles import Tiles, can_tile
from longtail.topk import FloatArray, TopK, rank

LABELS, QUERIES = LARGE + 77, 70
pytestmark = pytest.mark.skipif(not hasattr(torch, "_int_mm"), reason="this PyTorch has no product of 8-bit numbers")


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles of 32 queries and 512 labels, of which neither number is a whole multiple, for every search."""
    monkeypatch.setattr(tiles, "_QUERIES", 32)
    monkeypatch.setattr(tiles, "_LABELS", 512)
    monkeypatch.setattr(exact, "can_tile", lambda *_: True)


@pytest.fixture
def one_by_one(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many pairs are scored one after the other, each time that some are."""
    counts, vecdot = [], torch.linalg.vecdot
    monkeypatch.setattr(torch.linalg, "vecdot", lambda *of: (counts.append(len(of[0])), vecdot(*of))[1])
    return counts


def whole(rows: int, width: int, seed: int, most: int) -> FloatArray:
    return np.random.default_rng(seed).integers(-most, most + 1, (rows, width)).astype(np.float32)


def sorted_whole(scores: FloatArray, k: int) -> TopK:
    return rank(np.broadcast_to(np.arange(scores.shape[1]), scores.shape), scores, k)


def hidden() -> CSR:
    draws = np.random.default_rng(7)
    return csr_of_lists([np.unique(draws.integers(LABELS, size=draws.integers(400))) for _ in range(QUERIES)], LABELS)


@pytest.mark.parametrize("most", [0, 1, 9, 200])
@pytest.mark.parametrize("k", [1, 5, 32])
@pytest.mark.parametrize("exclude", [None, hidden()])
def test_the_ranking_is_that_of_a_full_sort_ties_included(k: int, most: int, exclude: CSR | None) -> None:
    table, asked = whole(LABELS, 21, 0, most), whole(QUERIES, 21, 1, most)
    found = Exact(table).search(asked, k, exclude=exclude)
    scores = asked @ table.T  # exact in float32: every order of summing gives the same
    if exclude is not None:
        scores[exclude.nonzero()] = -np.inf
    expected = sorted_whole(scores, k)
    np.testing.assert_array_equal(found.ids, expected.ids)
    np.testing.assert_array_equal(found.scores, expected.scores)


@pytest.mark.parametrize("spread", [0.0, 3.0, 12.0])
@pytest.mark.parametrize("bias", [False, True])
def test_labels_of_any_length_and_a_bias(spread: float, bias: bool) -> None:
    draws = np.random.default_rng(2)
    table = draws.normal(size=(LABELS, 65)).astype(np.float32)
    table *= np.exp(spread * draws.normal(size=(LABELS, 1))).astype(np.float32)
    asked = draws.normal(size=(QUERIES, 65)).astype(np.float32) / 16
    asked[:, -1] = 1.0 if bias else asked[:, -1]
    asked[3], table[::5] = 0, 0
    found, expected = Exact(table).search(asked, 10), sorted_whole(asked @ table.T, 10)
    np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-4, atol=1e-6 * np.abs(table).max())
    np.testing.assert_array_equal(found.ids, expected.ids)


def test_a_text_of_which_nothing_is_known_is_ranked_by_the_bias() -> None:
    """Its largest number but the last is 0: in steps of that the last one would be endless."""
    table, asked = whole(LABELS, 65, 0, 200), whole(QUERIES, 65, 1, 9)
    asked[::3], asked[:, -1] = 0, 1
    found, expected = Exact(table).search(asked, 10), sorted_whole(asked @ table.T, 10)
    np.testing.assert_array_equal(found.ids, expected.ids)
    np.testing.assert_array_equal(found.scores, expected.scores)


def test_threads_find_the_same(set_threads: Callable[[int], None]) -> None:
    table, asked = (np.random.default_rng(4).normal(size=(n, 64)).astype(np.float32) for n in (LABELS, 200))
    exclude, found = csr_of_lists([[at] for at in range(200)], LABELS), []
    for threads in (1, 3):
        set_threads(threads)
        found.append(Exact(table).search(asked, 10, exclude=exclude))
    np.testing.assert_array_equal(found[0].ids, found[1].ids)
    np.testing.assert_array_equal(found[0].scores, found[1].scores)


@pytest.mark.parametrize("most", [0, LABELS], ids=["all at once", "one by one"])
def test_pairs_that_are_not_ruled_out_are_scored_either_way(
    most: int, one_by_one: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tiles, "_MOST", most)
    table, asked = whole(LABELS, 64, 0, 9), whole(QUERIES, 64, 1, 9)
    exclude = csr_of_lists([[at, at + 1] for at in range(QUERIES)], LABELS)
    found, products = Exact(table).search(asked, 10, exclude=exclude), asked @ table.T
    products[exclude.nonzero()] = -np.inf
    expected = sorted_whole(products, 10)
    np.testing.assert_array_equal(found.ids, expected.ids)
    np.testing.assert_array_equal(found.scores, expected.scores)
    assert bool(one_by_one) == (most > 0)


@pytest.mark.parametrize(("ruled_out", "at_once"), [(0, True), (LABELS - 40, False)], ids=["no label", "most labels"])
def test_a_tile_is_multiplied_as_a_whole_where_8_bits_rule_little_out(
    ruled_out: int, at_once: bool, one_by_one: list[int]
) -> None:
    """Labels that are alike cannot be told apart by 8 bits, and those that point the other way are out at once."""
    draws = np.random.default_rng(5)
    table = (1 + 1e-4 * draws.random((LABELS, 64))).astype(np.float32)
    table[LABELS - ruled_out :] *= -1
    found = Exact(table).search(np.ones((QUERIES, 64)), 5)
    assert (np.isin(found.ids, np.argsort(-table.sum(1))[:8])).all()
    assert bool(one_by_one) != at_once


def test_fewer_labels_than_places_are_left() -> None:
    exclude = csr_of_lists([list(range(3, LABELS))] * QUERIES, LABELS)
    found = Exact(whole(LABELS, 16, 0, 9)).search(whole(QUERIES, 16, 1, 9), 5, exclude=exclude)
    assert (np.sort(found.ids[:, :3], axis=1) == [0, 1, 2]).all()
    assert (found.ids[:, 3:] == -1).all()
    assert np.isneginf(found.scores[:, 3:]).all()


def test_few_pairs_are_scored_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not more where the table has columns of zeros, and texts without features, whatever queries have there."""
    scored = []
    merge = Tiles._merge
    monkeypatch.setattr(Tiles, "_merge", lambda *given: (scored.append(len(given[1])), merge(*given))[1])
    draws = np.random.default_rng(0)
    table, asked = draws.normal(size=(LABELS, 128)), draws.normal(size=(QUERIES, 128))
    asked[5] = 0
    Exact(table).search(asked, 5)
    few = sum(scored)
    assert few < 0.03 * QUERIES * LABELS
    scored.clear()
    unread, there = np.zeros((LABELS, 129)), 9 * draws.normal(size=(QUERIES, 129))
    Exact(np.concatenate([table, unread], axis=1)).search(np.concatenate([asked, there], axis=1), 5)
    assert few <= sum(scored) < 1.1 * few  # the last column of the first table was not rounded


def test_it_is_for_large_searches_on_a_processor_with_instructions_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    table = torch.zeros(16_000, 256)
    assert can_tile(table, 512, 8) == has_whole_products()
    monkeypatch.setattr(tiles, "has_whole_products", lambda: False)
    assert not can_tile(table, 512, 8)
    monkeypatch.setattr(tiles, "has_whole_products", lambda: True)
    assert can_tile(table, 512, 8)
    assert not can_tile(table, 511, 8)
    assert not can_tile(table[:, :64], 512, 8)
    assert not can_tile(table[:-1], 512, 8)  # of 2,000 labels a place
    assert can_tile(table[:-1], 512, 7)
    few = table[: 4 * tiles._LABELS]  # 2,048
    assert can_tile(few, 512, 1)
    assert not can_tile(few[:-1], 512, 1)
