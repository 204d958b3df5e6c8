"""What holds for every index: each row of the table, ways to tile exact search, and one from outside."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from scipy.special import logit

from longtail.data.sparse import CSR, csr, csr_of_lists
from longtail.errors import BadInput
from longtail.search import INDEXES
from longtail.search.base import Index, IndexKind
from longtail.search.exact import Exact
from longtail.search.tree import Level, Tree, TreeSearch
from longtail.topk import FloatArray, TopK, rank

L, K = 300, 9


class Brute:
    """A toy from outside: a full sort."""

    def __init__(self, rows: Callable, labels: int, _queries: FloatArray) -> None:
        self.table = rows(np.arange(labels))

    def search(self, queries: FloatArray, k: int, *, exclude: CSR | None = None) -> TopK:
        if (
            queries.shape[1] != self.table.shape[1]
            or k < 1
            or (exclude is not None and exclude.shape != (len(queries), len(self.table)))
        ):
            raise BadInput("search", "shapes do not fit", remedy="mend them")
        return textbook(queries, self.table, k, exclude)


def tiled(rows: Callable, labels: int, _queries: FloatArray, **blocks: int) -> Exact:
    return Exact(rows(np.arange(labels)), **blocks)


class Below:
    """A tree in which every cluster is looked at and all are as probable: its ranking is that of inner products.

    Those of vectors a power of two shorter, whose logistic function is not yet flat, are whole numbers again after it.
    """

    def __init__(self, rows: Callable, labels: int, _queries: FloatArray) -> None:
        self.width = rows(np.arange(1)).shape[1]
        links = csr(np.arange(labels) % 7, np.arange(labels), (7, labels))
        tree = Tree((Level(np.zeros((7, self.width + 1), np.float32), 0, links, 7),), 0)
        short = np.pad(rows(np.arange(labels)) / 8192, ((0, 0), (0, 1)))
        self.index = TreeSearch(tree, short, self.width + 1)

    def search(self, queries: FloatArray, k: int, *, exclude: CSR | None = None) -> TopK:
        top = self.index.search(np.pad(queries, ((0, 0), (0, 1)), constant_values=1), k, exclude=exclude)
        return TopK(top.ids, np.where(top.ids < 0, -np.inf, np.round(8192 * logit(2 * top.scores))).astype(np.float32))


OTHERS = {
    "tree": IndexKind(Below, "a tree of which all is looked at"),
    "brute": IndexKind(Brute, "a full sort"),
    "exact, small tiles": IndexKind(partial(tiled, query_block=3, label_block=17), "many tiles"),
    "exact, one group a tile": IndexKind(partial(tiled, query_block=1, label_block=1), "very many tiles"),
}
Build = Callable[[FloatArray], Index]


def textbook(queries: FloatArray, table: FloatArray, k: int, exclude: CSR | None = None) -> TopK:
    scores = queries @ table.T
    if exclude is not None:
        at = exclude.tocoo()
        scores[at.row, at.col] = -np.inf
    return rank(np.broadcast_to(np.arange(len(table)), scores.shape), scores, k)


def whole_numbers(rows: int, width: int, seed: int, most: int = 20) -> FloatArray:
    """Vectors whose dot products are exact in float32; if ``most`` is 2 and they are short, they tie a lot."""
    return np.random.default_rng(seed).integers(-most, most + 1, (rows, width)).astype(np.float32)


def pairs_to_exclude(queries: int, labels: int, table: FloatArray, asked: FloatArray) -> CSR:
    """None, a few or many labels of a query, the best ones first."""
    best = np.argsort(-(asked @ table.T), axis=1)
    return csr_of_lists([best[i, : [0, 3, 40, 0, 1, labels - 2, 12][i % 7]].tolist() for i in range(queries)], labels)


def share_found(found: TopK, expected: TopK) -> float:
    """Of the places that can be filled, how many hold a label that is among the best."""
    there = expected.ids >= 0
    least = np.where(there, expected.scores, np.inf).min(1, keepdims=True)
    return float((found.scores >= least)[there].mean())


@pytest.fixture(params=[*INDEXES, *OTHERS])
def name(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    for other, kind in OTHERS.items():
        monkeypatch.setitem(INDEXES, other, kind)
    if INDEXES[request.param].load is not None and importlib.util.find_spec("faiss") is None:
        pytest.skip("the extra longtail[faiss] is not installed")
    return request.param


@pytest.fixture
def exact(name: str) -> bool:
    return INDEXES[name].load is None


@pytest.fixture
def build(name: str) -> Build:
    """Makes the index over a table, as a caller makes it that knows its name."""
    return lambda table: INDEXES[name].build(table.__getitem__, len(table), whole_numbers(40, table.shape[1], seed=7))


@pytest.mark.parametrize("k", [1, 5, 19, 100, L, L + 1, L + 50])
def test_finds_what_a_full_sort_finds(build: Build, exact: bool, k: int) -> None:
    table, queries = whole_numbers(L, 16, seed=0), whole_numbers(7, 16, seed=1)
    found, expected = build(table).search(queries, k), textbook(queries, table, k)
    if exact:
        np.testing.assert_array_equal(found.ids, expected.ids)
        np.testing.assert_array_equal(found.scores, expected.scores)
    assert share_found(found, expected) >= 0.9


@pytest.mark.parametrize("k", [1, 5, 19, 100, 101, 150])
def test_ties_go_to_the_lower_label(build: Build, exact: bool, k: int) -> None:
    if not exact:
        pytest.skip("of labels that score the same, it may find any")
    table, queries = whole_numbers(101, 5, seed=0, most=2), whole_numbers(7, 5, seed=1, most=2)
    found, expected = build(table).search(queries, k), textbook(queries, table, k)
    np.testing.assert_array_equal(found.ids, expected.ids)
    np.testing.assert_array_equal(found.scores, expected.scores)


@pytest.mark.parametrize("k", [1, K, 100])
def test_excluded_labels_are_never_ranked_and_others_take_their_places(build: Build, exact: bool, k: int) -> None:
    table, queries = whole_numbers(L, 16, seed=0), whole_numbers(14, 16, seed=1)
    exclude = pairs_to_exclude(14, L, table, queries)
    found, expected = build(table).search(queries, k, exclude=exclude), textbook(queries, table, k, exclude)
    assert exclude.nnz > 14
    for ids, hidden in zip(found.ids, np.split(exclude.indices, exclude.indptr[1:-1]), strict=True):
        assert not set(ids.tolist()) & set(hidden.tolist())
    if exact:
        np.testing.assert_array_equal(found.ids, expected.ids)
    assert share_found(found, expected) >= 0.9


def test_excluding_nothing_changes_nothing_and_zeros_count(build: Build) -> None:
    index, queries = build(whole_numbers(L, 16, seed=0)), whole_numbers(7, 16, seed=1)
    free, best = index.search(queries, K), index.search(queries, 1).ids[:, 0]
    np.testing.assert_array_equal(index.search(queries, K, exclude=CSR((7, L))).ids, free.ids)
    stored = csr_of_lists([[i] for i in best.tolist()], L)
    stored.data[:] = 0
    assert (index.search(queries, 1, exclude=stored).ids[:, 0] != best).all()


def test_scores_are_dot_products_in_order_and_no_label_comes_twice(build: Build) -> None:
    table, queries = whole_numbers(L, 16, seed=0), whole_numbers(7, 16, seed=1)
    for exclude in (None, pairs_to_exclude(7, L, table, queries)):
        found = build(table).search(queries, K, exclude=exclude)
        assert found.ids.dtype == np.int64
        assert found.scores.dtype == np.float32
        assert found.ids.shape == found.scores.shape == (7, K)
        there = found.ids >= 0
        assert (there == ~np.isneginf(found.scores)).all()
        np.testing.assert_array_equal(found.scores[there], np.take_along_axis(queries @ table.T, found.ids, 1)[there])
        again = rank(found.ids, found.scores, K)  # ties by the lower id, empty places last
        np.testing.assert_array_equal(found.ids, again.ids)
        assert all(len(set(row[row >= 0])) == (row >= 0).sum() for row in found.ids)


def test_no_queries(build: Build) -> None:
    index = build(whole_numbers(L, 16, seed=0))
    for exclude in (None, CSR((0, L))):
        found = index.search(np.zeros((0, 16), np.float32), 4, exclude=exclude)
        assert found.ids.shape == found.scores.shape == (0, 4)


def test_a_query_does_not_depend_on_its_neighbours(build: Build) -> None:
    table, queries = whole_numbers(L, 16, seed=0), whole_numbers(7, 16, seed=1)
    index, hidden = build(table), pairs_to_exclude(7, L, table, queries)
    for exclude in (None, hidden):
        together = index.search(queries, K, exclude=exclude)
        for i in range(7):
            alone = index.search(queries[i : i + 1], K, exclude=None if exclude is None else exclude[[i]])
            np.testing.assert_array_equal(alone.ids[0], together.ids[i])
            np.testing.assert_array_equal(alone.scores[0], together.scores[i])


def test_inputs_are_left_alone(build: Build) -> None:
    table, queries = whole_numbers(L, 16, seed=0), whole_numbers(5, 16, seed=1)
    exclude = csr_of_lists([[1], [2], [], [3], [4]], L)
    before = exclude.copy()
    table.flags.writeable = queries.flags.writeable = False
    build(table).search(queries, 3, exclude=exclude)
    assert (exclude != before).nnz == 0


@pytest.mark.parametrize(("width", "k", "shape"), [(15, 3, None), (16, 0, None), (16, 3, (2, L)), (16, 3, (3, L + 1))])
def test_what_does_not_fit_is_refused(build: Build, width: int, k: int, shape: tuple[int, int] | None) -> None:
    index = build(whole_numbers(L, 16, seed=0))
    with pytest.raises(BadInput):
        index.search(np.zeros((3, width), np.float32), k, exclude=None if shape is None else CSR(shape))


def test_a_row_says_what_it_is(name: str) -> None:
    assert INDEXES[name].about
    assert not INDEXES[name].about.endswith(".")
