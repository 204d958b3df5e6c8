"""Separators: against a general minimiser of the same sum, with all documents held and with those that matter."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize

from longtail.data.sparse import CSR, csr
from longtail.topk import AnyArray
from longtail.train import squared_hinge as module
from longtail.train.squared_hinge import Separators

N, F, C = 120, 30, 6


def documents(seed: int = 0) -> CSR:
    """(N, F + 1) sparse rows of unit length, and a 1."""
    generator = np.random.default_rng(seed)
    words = generator.random((N, F)) * (generator.random((N, F)) < 0.2)
    words[:, 0] += 0.1  # a word that all have
    words /= np.linalg.norm(words, axis=1, keepdims=True)
    return CSR(np.concatenate([words, np.ones((N, 1))], 1).astype(np.float32))


def pairs(seed: int) -> tuple[CSR, CSR]:
    """(C, N) documents of labels, from one to many, and documents that are ignored."""
    generator = np.random.default_rng(seed)
    own = [generator.choice(N, size, replace=False) for size in (1, 2, 3, 10, 40, N // 2)]
    left = [np.setdiff1d(generator.choice(N, 4), some) for some in own]
    found = []
    for lists in (own, left):
        rows = np.repeat(np.arange(C), [len(some) for some in lists])
        found.append(csr(rows, np.concatenate(lists), (C, N)))
    return found[0], found[1]


def minimised(x: AnyArray, y: AnyArray, cost: AnyArray) -> AnyArray:
    """The separator of one label, by L-BFGS over its weights in double precision."""

    def value(w: AnyArray) -> tuple[float, AnyArray]:
        slack = np.maximum(0, 1 - y * (x @ w))
        return 0.5 * w @ w + cost @ slack**2, w - 2 * x.T @ (cost * y * slack)

    found: AnyArray = optimize.minimize(value, np.zeros(x.shape[1]), jac=True, options={"maxiter": 500, "gtol": 1e-8}).x
    return found


def naive(x: CSR, own: CSR, left: CSR, cost: float) -> AnyArray:
    """(C, F + 1), label by label."""
    dense = x.toarray().astype(np.float64)
    y, costs = np.where(own.toarray() > 0, 1.0, -1.0), np.where(left.toarray() > 0, 0.0, cost)
    return np.stack([minimised(dense, y[label], costs[label]) for label in range(C)])


@pytest.mark.parametrize("cost", [1.0, 10.0])
def test_all_documents_of_all_labels(cost: float) -> None:
    x, (own, left) = documents(), pairs(1)
    found = Separators(x, cost, 0.0).of(own, left).toarray()
    np.testing.assert_allclose(found, naive(x, own, left, cost), atol=0.01)


@pytest.mark.parametrize("held", [0, 20, 512])
def test_the_documents_that_matter_say_nearly_the_same(held: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With all of their inner products held, or some, or none."""
    small = {"_FEW": 10, "_VERY_FEW": held, "_MORE": 4, "_HELD": 2000, "_SCORED": 3 * N, "_LEFT_OUT": 1e-3}
    for name, value in small.items():
        monkeypatch.setattr(module, name, value)
    x, (own, left) = documents(), pairs(1)
    found = Separators(x, 1.0, 0.0).of(own, left).toarray()
    np.testing.assert_allclose(found, naive(x, own, left, 1.0), atol=0.03)


def test_one_round_is_not_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"_FEW": 10, "_MORE": 4, "_ROUNDS": 1}.items():
        monkeypatch.setattr(module, name, value)
    x, (own, left) = documents(), pairs(1)
    assert np.abs(Separators(x, 1.0, 0.0).of(own, left).toarray() - naive(x, own, left, 1.0)).max() > 0.1


@pytest.mark.parametrize("few", [10, 2048])
def test_small_weights_are_left_out_but_for_the_bias(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FEW", few)
    x, (own, left) = documents(), pairs(2)
    whole, some = (Separators(x, 1.0, least).of(own, left).toarray() for least in (0.0, 0.2))
    kept = np.abs(whole) >= 0.2
    kept[:, -1] = True
    assert 0 < kept.sum() < np.count_nonzero(whole)
    if few > N:
        np.testing.assert_allclose(some, np.where(kept, whole, 0), atol=1e-6)
    assert (np.abs(some[:, :-1][some[:, :-1] != 0]) >= 0.2).all()
    assert (some[:, -1] != 0).all()


def test_a_document_that_is_ignored_changes_nothing() -> None:
    x, (own, left) = documents(), pairs(3)
    found = Separators(x, 1.0, 0.0).of(own, left)
    changed = x.tolil()
    changed[left[[0]].indices, 5] = 7
    np.testing.assert_allclose(Separators(CSR(changed), 1.0, 0.0).of(own, left)[[0]].toarray(), found[[0]].toarray())
