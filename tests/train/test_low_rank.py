"""Separators in few numbers: exact where they are few, and else the nearest that so few numbers can be."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from longtail.data.sparse import CSR
from longtail.topk import AnyArray
from longtail.train.low_rank import low_rank

N, F, C = 200, 50, 30


def documents() -> CSR:
    """(N, F + 1) sparse rows, and a 1."""
    generator = np.random.default_rng(0)
    words = generator.random((N, F)) * (generator.random((N, F)) < 0.2)
    return CSR(np.concatenate([words, np.ones((N, 1))], 1).astype(np.float32))


def separators(rank: int) -> CSR:
    """(C, F + 1) of some rank, whose biases are anything."""
    generator = np.random.default_rng(1)
    words = generator.normal(size=(C, rank)) @ generator.normal(size=(rank, F))
    return CSR(np.concatenate([words, generator.normal(size=(C, 1)) - 3], 1).astype(np.float32))


def scored(x: CSR, table: AnyArray, vectors: AnyArray) -> AnyArray:
    return np.append(x[:, :-1] @ table, np.ones((x.shape[0], 1)), 1) @ vectors.T


def test_separators_of_few_dimensions_are_told_exactly_also_of_other_documents() -> None:
    x, w = documents(), separators(4)
    table, vectors = low_rank(CSR(x[:100]), w, 4)
    assert table.shape == (F, 4)
    assert vectors.shape == (C, 5)
    np.testing.assert_allclose(scored(x, table, vectors), (x @ w.T).toarray(), atol=1e-3)


@pytest.mark.parametrize("rank", [3, 10])
def test_of_all_scores_of_a_rank_and_a_constant_a_label_none_is_nearer(rank: int) -> None:
    x, w = documents(), separators(20)
    whole = (x @ w.T).toarray()
    means = whole.mean(0)
    u, sizes, v = np.linalg.svd(whole - means, full_matrices=False)
    best = u[:, :rank] * sizes[:rank] @ v[:rank] + means
    found = scored(x, *low_rank(x, w, rank))
    assert ((found - whole) ** 2).sum() <= 1.01 * ((best - whole) ** 2).sum()


def test_numbers_that_nothing_needs_are_zero_and_labels_without_documents_keep_their_bias() -> None:
    x, w = documents(), separators(2)
    table, vectors = low_rank(x, w, 40)
    np.testing.assert_allclose(scored(x, table, vectors), (x @ w.T).toarray(), atol=1e-3)
    assert not table[:, C:].any()
    table, vectors = low_rank(CSR(x[:0]), w, 4)
    assert not table.any()
    np.testing.assert_allclose(vectors, np.append(np.zeros((C, 4)), w[:, [-1]].toarray(), 1))
    assert low_rank(x, CSR(w[:0]), 4)[1].shape == (0, 5)


def test_the_same_every_time_without_a_change_to_what_others_draw() -> None:
    x, w = documents(), separators(20)
    torch.manual_seed(3)
    first, before = low_rank(x, w, 5), torch.random.get_rng_state()
    torch.manual_seed(3)
    torch.rand(10)
    second = low_rank(x, w, 5)
    assert all(np.array_equal(one, other) for one, other in zip(first, second, strict=True))
    torch.manual_seed(3)
    assert torch.equal(torch.random.get_rng_state(), before)
