"""What holds for every index: one row here for each, built over the same table."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from longtail.search.base import Index
from longtail.search.exact import Exact
from longtail.topk import FloatArray, TopK, rank

Build = Callable[[FloatArray], Index]
BUILDS: dict[str, Build] = {
    "Exact": Exact,
    "Exact, small tiles": partial(Exact, query_block=3, label_block=17),
    "Exact, one group a tile": partial(Exact, query_block=1, label_block=1),
}
every_index = pytest.mark.parametrize("build", [pytest.param(build, id=name) for name, build in BUILDS.items()])


def textbook(queries: FloatArray, table: FloatArray, k: int) -> TopK:
    scores = queries @ table.T
    return rank(np.broadcast_to(np.arange(len(table)), scores.shape), scores, k)


def whole_numbers(rows: int, width: int, seed: int) -> FloatArray:
    """Vectors whose dot products are exact in float32, and tie a lot."""
    return np.random.default_rng(seed).integers(-2, 3, (rows, width)).astype(np.float32)


@every_index
@pytest.mark.parametrize("k", [1, 5, 19, 100, 101, 150])
def test_finds_what_a_full_sort_finds(build: Build, k: int) -> None:
    table, queries = whole_numbers(101, 5, seed=0), whole_numbers(7, 5, seed=1)
    found, expected = build(table).search(queries, k), textbook(queries, table, k)
    np.testing.assert_array_equal(found.ids, expected.ids)
    np.testing.assert_array_equal(found.scores, expected.scores)


@every_index
def test_types_and_padding(build: Build) -> None:
    found = build(whole_numbers(3, 2, seed=0)).search(whole_numbers(2, 2, seed=1), 5)
    assert found.ids.dtype == np.int64
    assert found.scores.dtype == np.float32
    assert (found.ids[:, 3:] == -1).all()
    assert np.isneginf(found.scores[:, 3:]).all()
    assert (np.sort(found.ids[:, :3]) == [0, 1, 2]).all()


@every_index
def test_no_queries(build: Build) -> None:
    found = build(whole_numbers(3, 2, seed=0)).search(np.zeros((0, 2), np.float32), 4)
    assert found.ids.shape == found.scores.shape == (0, 4)


@every_index
def test_a_query_does_not_depend_on_its_neighbours(build: Build) -> None:
    index, queries = build(whole_numbers(101, 5, seed=0)), whole_numbers(7, 5, seed=1)
    together = index.search(queries, 9)
    for i in range(7):
        alone = index.search(queries[i : i + 1], 9)
        np.testing.assert_array_equal(alone.ids[0], together.ids[i])
        np.testing.assert_array_equal(alone.scores[0], together.scores[i])


@every_index
def test_inputs_are_left_alone(build: Build) -> None:
    table, queries = whole_numbers(11, 3, seed=0), whole_numbers(5, 3, seed=1)
    table.flags.writeable = queries.flags.writeable = False
    build(table).search(queries, 3)
