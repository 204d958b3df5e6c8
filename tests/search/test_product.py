"""The product of two scores: by the textbook, and over a shortlist."""

from __future__ import annotations

import numpy as np
import pytest

from longtail.data.sparse import csr_of_lists
from longtail.search import product
from longtail.search.exact import Exact
from longtail.search.product import Product

Q, L, D = 5, 31, 6


def units(rows: int, seed: int) -> np.ndarray:
    made = np.random.default_rng(seed).standard_normal((rows, D)).astype(np.float32)
    return made / np.linalg.norm(made, axis=1, keepdims=True)


X, Z, W = units(Q, 0), units(L, 1), units(L, 2)


def test_it_ranks_by_the_product_of_what_is_above_zero() -> None:
    scores = np.maximum(X @ Z.T, 0) * np.maximum(X @ W.T, 0)
    top = Product(Exact(W), Z).search(X, 4)
    np.testing.assert_allclose(top.scores, -np.sort(-scores, axis=1)[:, :4], atol=1e-6)
    np.testing.assert_allclose(np.take_along_axis(scores, top.ids, 1), top.scores, atol=1e-6)


def test_excluded_pairs_are_never_ranked_and_missing_places_are_padded() -> None:
    first = Product(Exact(W), Z).search(X, 1).ids
    exclude = csr_of_lists(first.tolist(), L)
    top = Product(Exact(W), Z).search(X, L + 2, exclude=exclude)
    assert not (top.ids == first).any()
    assert (top.ids[:, -3:] == -1).all()
    assert (np.sort(top.ids[:, :-3], axis=1) >= 0).all()


@pytest.mark.parametrize("shortlist", [1, 3])
def test_only_the_shortlist_of_the_classifiers_is_looked_at(shortlist: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(product, "SHORTLIST", shortlist)
    best = np.argsort(-(X @ W.T), axis=1)
    for k in (1, 2):
        seen = best[:, : max(k, shortlist)]
        top = Product(Exact(W), Z).search(X, k)
        assert all(set(row) <= set(allowed) for row, allowed in zip(top.ids.tolist(), seen.tolist(), strict=True))
