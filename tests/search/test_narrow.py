"""Inner products of fewer numbers."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from longtail.data.sparse import csr
from longtail.search.exact import Exact
from longtail.search.narrow import Narrowed, narrowings


def with_last(vectors, last):
    return np.concatenate([vectors, np.broadcast_to(last, (len(vectors),))[:, None]], axis=1).astype(np.float32)


@pytest.fixture
def drawn():
    """Queries that are long in some directions, labels in others, and constants."""
    generator = np.random.default_rng(0)
    queries = generator.normal(size=(400, 24)) * np.linspace(0.1, 2, 24)
    table = generator.normal(size=(300, 24)) * np.linspace(2, 0.1, 24) ** 2
    return with_last(queries, 1), with_last(table, generator.normal(size=300))


def error(queries, table, narrow):
    exact, near = queries @ table.T, (queries @ narrow.queries) @ (table @ narrow.labels).T
    return ((exact - near) ** 2).sum() / ((queries[:, :-1] @ table[:, :-1].T) ** 2).sum()


@pytest.mark.parametrize("kept", [0.6, 0.9, 0.997])
def test_no_more_is_lost_than_was_allowed_and_one_number_less_would_lose_more(drawn, kept):
    queries, table = drawn
    (narrow,) = narrowings(queries, table, [kept])
    assert error(queries, table, narrow) <= 1 - kept + 1e-5
    fewer = narrow._replace(queries=np.delete(narrow.queries, -2, 1), labels=np.delete(narrow.labels, -2, 1))
    assert error(queries, table, fewer) > 1 - kept


def test_it_is_the_best_that_as_few_numbers_can_do(drawn):
    """The naive twin: the singular values of all scores say how much any map to so few numbers must lose."""
    queries, table = drawn
    (narrow,) = narrowings(queries, table, [0.9])
    K = narrow.queries.shape[1] - 1
    squares = np.linalg.svd(queries[:, :-1] @ table[:, :-1].T, compute_uv=False) ** 2
    np.testing.assert_allclose(error(queries, table, narrow), squares[K:].sum() / squares.sum(), rtol=1e-3)
    axes = np.linalg.svd(table[:, :-1], full_matrices=False)[2][:K]  # the ablation: what queries are is left out
    blind = np.zeros_like(narrow.queries)
    blind[:-1, :-1], blind[-1, -1] = axes.T, 1
    assert error(queries, table, narrow._replace(queries=blind, labels=blind)) > 1.4 * error(queries, table, narrow)


def test_many_rows_are_summed_up_some_at_a_time(drawn, monkeypatch):
    (whole,) = narrowings(*drawn, [0.9])
    monkeypatch.setattr("longtail.search.narrow._ROWS", 7)
    (parts,) = narrowings(*drawn, [0.9])
    np.testing.assert_allclose(parts.queries @ parts.labels.T, whole.queries @ whole.labels.T, atol=1e-5)


def test_what_no_query_has_costs_nothing_and_constants_stay(drawn):
    queries, table = drawn
    queries[:, 5:-1] = 0
    (narrow,) = narrowings(queries, table, [0.9999])
    assert narrow.queries.shape[1] - 1 <= 5
    np.testing.assert_allclose((table @ narrow.labels)[:, -1], table[:, -1])
    np.testing.assert_array_equal((queries @ narrow.queries)[:, -1], 1)


def test_what_is_found_by_few_numbers_is_ranked_by_all(drawn, monkeypatch):
    queries, table = drawn
    exact, exclude = Exact(table).search(queries, 5), csr(np.array([0]), np.array([7]), (400, 300))
    for looked, share in ((100, 1.0), (10, 0.9)):
        monkeypatch.setattr("longtail.search.narrow._LOOKED", looked)
        monkeypatch.setattr("longtail.search.narrow._ROWS", 128)
        (narrow,) = narrowings(queries, table, [0.99])
        index = Narrowed(lambda ids: table[ids], narrow, torch.device("cpu"))
        found = index.search(queries, 5)
        same = found.ids == exact.ids
        assert same.mean() >= share - 0.02
        np.testing.assert_allclose(found.scores[same], exact.scores[same], atol=1e-4)
        assert 7 not in index.search(queries, 300, exclude=exclude).ids[0]
    whole = index.search(queries[:1], 400)  # more than there are: padded, as any index does
    assert (whole.ids[0, :300] == Exact(table).search(queries[:1], 300).ids[0]).all()
    assert (whole.ids[0, 300:] == -1).all()


def test_numbers_are_alike_in_size_so_that_8_bits_hold_them():
    """Where a few directions hold most of every score, these took most of the 8 bits of a label, and of no query's."""
    generator = np.random.default_rng(0)
    scales = 0.95 ** np.arange(64)
    queries, table = (with_last(generator.normal(size=(500, 64)) * scales, 1) for _ in range(2))
    (narrow,) = narrowings(queries, table, [0.9999])
    x, w = (queries @ narrow.queries)[:, :-1], (table @ narrow.labels)[:, :-1]
    assert x.shape[1] > 20
    assert 0.5 < np.sqrt((x**2).mean() / (w**2).mean()) < 2, "constants are as large beside the one as beside the other"
    for side in (x, w):
        sizes = np.sqrt((side**2).mean(0))
        assert sizes.max() < 4 * sizes.min()
        steps = np.abs(side).max(1, keepdims=True) / 127  # a row in 8 bits
        lost = ((np.round(side / steps) * steps - side) ** 2).sum() / (side**2).sum()
        assert lost < 1e-3
