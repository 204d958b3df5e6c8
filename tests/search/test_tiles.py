"""Many queries are searched by products in 8 bits: the ranking is that of a full sort, whatever the vectors."""

from __future__ import annotations

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


def test_fewer_labels_than_places_are_left() -> None:
    exclude = csr_of_lists([list(range(3, LABELS))] * QUERIES, LABELS)
    found = Exact(whole(LABELS, 16, 0, 9)).search(whole(QUERIES, 16, 1, 9), 5, exclude=exclude)
    assert (np.sort(found.ids[:, :3], axis=1) == [0, 1, 2]).all()
    assert (found.ids[:, 3:] == -1).all()
    assert np.isneginf(found.scores[:, 3:]).all()


def test_few_pairs_are_scored_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    scored = []
    merge = Tiles._merge
    monkeypatch.setattr(Tiles, "_merge", lambda *given: (scored.append(len(given[2])), merge(*given))[1])
    draws = np.random.default_rng(0)
    Exact(draws.normal(size=(LABELS, 128))).search(draws.normal(size=(QUERIES, 128)), 5)
    assert sum(scored) < 0.03 * QUERIES * LABELS


def test_it_is_for_large_searches_on_a_processor_with_instructions_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    table = torch.zeros(4 * tiles._LABELS, 256)
    assert can_tile(table, 512, 10) == has_whole_products()
    monkeypatch.setattr(tiles, "has_whole_products", lambda: False)
    assert not can_tile(table, 512, 10)
    monkeypatch.setattr(tiles, "has_whole_products", lambda: True)
    assert not can_tile(table, 511, 10)
    assert not can_tile(table, 512, 100)
    assert not can_tile(table[:, :64], 512, 10)
    assert not can_tile(table[:-1], 512, 10)
