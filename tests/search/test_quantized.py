"""Labels are looked for by 8 bits alone: what is found is what these say, and nearly what is best."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from longtail.data.sparse import csr_of_lists
from longtail.search import exact, int8, quantized
from longtail.search.cells import Near
from longtail.search.exact import Exact
from longtail.search.int8 import LARGE
from longtail.search.narrow import Narrowed, narrowings
from longtail.search.quantized import can_quantize
from longtail.topk import FloatArray, rank

LABELS, QUERIES = LARGE + 77, 70
pytestmark = pytest.mark.skipif(not hasattr(torch, "_int_mm"), reason="this PyTorch has no product of 8-bit numbers")


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of 32 queries and 1,024 labels, of which neither number is a whole multiple, for every search."""
    for name, size in (("_QUERIES", 32), ("_LABELS", 1024), ("_TILE", 256), ("_GROUP", 32)):
        monkeypatch.setattr(quantized, name, size)
    monkeypatch.setattr(exact, "can_quantize", lambda *_: True)


def drawn(rows: int, width: int, seed: int) -> FloatArray:
    return np.random.default_rng(seed).standard_normal((rows, width)).astype(np.float32)


def in_8_bits(table: FloatArray) -> FloatArray:
    """Rows as whole numbers up to 127 times a number of each row; the last column as it is."""
    step = np.abs(table[:, :-1]).max(1, keepdims=True) / np.float32(127)
    return np.concatenate([np.round(table[:, :-1] / step) * step, table[:, -1:]], axis=1)


@pytest.mark.parametrize("k", [1, 6, 40])
def test_it_is_a_full_sort_of_products_in_8_bits(k: int) -> None:
    table, asked = drawn(LABELS, 33, 0), drawn(QUERIES, 33, 1)
    hidden = csr_of_lists([np.unique(np.arange(row, LABELS, 3)) for row in range(QUERIES)], LABELS)
    found = Exact(table).nearly(asked, k, exclude=hidden)
    scores = in_8_bits(asked) @ in_8_bits(table).T
    scores[hidden.nonzero()] = -np.inf
    expected = rank(np.broadcast_to(np.arange(LABELS), scores.shape), scores, k)
    assert (found.ids == expected.ids).mean() > 0.999  # of some the order is one of rounding
    np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-5)


def test_it_finds_nearly_all_that_is_best() -> None:
    table, asked = drawn(LABELS, 256, 0), drawn(QUERIES, 256, 1)
    found, best = Exact(table).nearly(asked, 20).ids, Exact(table).search(asked, 20).ids
    assert (found[:, :, None] == best[:, None]).any(2).mean() > 0.98


def test_a_text_of_which_nothing_is_known_is_ranked_by_the_bias() -> None:
    table, asked = drawn(LABELS, 33, 0), np.zeros((QUERIES, 33), np.float32)
    asked[:, -1] = 1
    found = Exact(table).nearly(asked, 5)
    assert (found.ids == np.argsort(-table[:, -1])[:5]).all()
    np.testing.assert_allclose(found.scores, np.broadcast_to(np.sort(table[:, -1])[::-1][:5], (QUERIES, 5)), rtol=1e-6)


def test_fewer_labels_than_places_are_left() -> None:
    hidden = csr_of_lists([np.arange(2, LABELS)] * QUERIES, LABELS)
    found = Exact(drawn(LABELS, 33, 0)).nearly(drawn(QUERIES, 33, 1), 5, exclude=hidden)
    assert (np.sort(found.ids[:, :2], axis=1) == [0, 1]).all()
    assert (found.ids[:, 2:] == -1).all()
    assert np.isneginf(found.scores[:, 2:]).all()


def test_threads_and_other_queries_change_nothing(set_threads: Callable[[int], None]) -> None:
    index, asked = Exact(drawn(LABELS, 65, 0)), drawn(QUERIES, 65, 1)
    set_threads(1)
    alone = index.nearly(asked, 7)
    set_threads(3)
    for found, rows in (
        (index.nearly(asked, 7), slice(None)),
        *((index.nearly(asked[at : at + n], 7), slice(at, at + n)) for at, n in ((40, 30), (40, 9), (40, 1))),
    ):
        assert (found.ids == alone.ids[rows]).all()
        assert (found.scores == alone.scores[rows]).all()


def test_labels_that_are_ranked_anew_have_exact_scores() -> None:
    table, asked = drawn(LABELS, 129, 0), drawn(QUERIES, 129, 1)
    table[:, -1], asked[:, -1] = 0.1 * table[:, -1], 1
    narrow = next(narrowings(asked, table, [0.9999]))
    index = Narrowed(lambda rows: table[rows], narrow, torch.device("cpu"))
    found = index.search(asked, 5)
    best = rank(np.broadcast_to(np.arange(LABELS), (QUERIES, LABELS)), asked @ table.T, 5)
    assert (found.ids == best.ids).mean() > 0.99
    np.testing.assert_allclose(found.scores, best.scores, rtol=1e-4)
    few = [index.search(asked[rows], 30).ids for rows in (slice(0, 1), slice(1, 9), slice(9, None))]
    assert (index.search(asked, 30).ids == np.concatenate(few)).all()  # whatever is asked beside it


def test_hard_negatives_are_those_of_8_bits() -> None:
    table, asked = drawn(LABELS, 64, 0), drawn(QUERIES, 64, 1)
    found, looked = Near(table, device=torch.device("cpu"), generator=np.random.default_rng(0)).search(asked, 6)
    assert looked is None
    assert (found.ids == Exact(table).nearly(asked, 6).ids).all()
    assert (found.scores != Exact(table).search(asked, 6).scores).any()


@pytest.mark.parametrize("of", [65, 1040])
def test_every_processor_finds_the_same(of: int, monkeypatch: pytest.MonkeyPatch) -> None:
    index, asked = Exact(drawn(LABELS, of, 0)), drawn(QUERIES, of, 1)
    found = []
    for fast in (True, False):
        monkeypatch.setattr(int8, "has_whole_products", lambda fast=fast: fast)
        found.append(index.nearly(asked, 7))
    assert (found[0].ids == found[1].ids).all()
    assert (found[0].scores == found[1].scores).all()


def test_it_is_for_large_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    table = torch.zeros(2**14, 128)
    assert can_quantize(table, 256)
    assert not can_quantize(table, 257)  # places of as many groups
    assert not can_quantize(table[:, 1:], 6)
    assert not can_quantize(table[1:], 6)
    small = drawn(50, 8, 0)
    assert (Exact(small).nearly(small, 50).ids == Exact(small).search(small, 50).ids).all()
    assert Exact(table.numpy()).nearly(table[:0].numpy(), 5).ids.shape == (0, 5)
