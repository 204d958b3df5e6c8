"""Scores of each document against its own labels: against all products, and the losses on them against a mask."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from longtail.losses import LOSSES, loss_named, own
from longtail.losses.own import inner_products


def vectors(dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor]:
    """Five documents and eleven labels; the documents meet 0 to 6 of these, with gaps."""
    generator = torch.Generator().manual_seed(0)
    x, w = (torch.randn(n, 3, generator=generator, dtype=dtype).requires_grad_() for n in (5, 11))
    places = torch.full((5, 6), -1)
    for i, count in enumerate([6, 0, 3, 1, 5]):
        places[i, 6 - count :] = torch.randperm(11, generator=generator)[:count]
    places[0, 2] = -1
    return x, w, places


@pytest.fixture(params=[(1, 0), (7, 0), (2**22, 0), (1, 64)], ids=str)
def at_a_time(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pairs one by one, some, or all at a time, and as entries of a matrix product."""
    for name, number in zip(("_NUMBERS", "_AS_FAST"), request.param, strict=True):
        monkeypatch.setattr(own, name, number)


def test_three_by_two_by_hand() -> None:
    x, w = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]), torch.tensor([[2.0, 3.0], [5.0, 7.0]])
    places = torch.tensor([[0, 1], [1, -1], [-1, 0]])
    assert inner_products(x, w, places).tolist() == [[2, 5], [7, 0], [0, 5]]
    assert inner_products(x, w, None).tolist() == [[2, 5], [3, 7], [5, 12]]


@pytest.mark.usefixtures("at_a_time")
@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_is_that_of_a_pool_in_which_all_other_pairs_are_masked(name: str) -> None:
    x, w, places = vectors()
    there = places >= 0
    generator = torch.Generator().manual_seed(1)
    dense = (torch.rand(5, 11, generator=generator) < 0.4).float() * torch.rand(5, 11, generator=generator)
    targets = dense.gather(1, places.clamp(min=0)) * there
    loss = loss_named(name, temperature=0.7)
    value = loss(inner_products(x, w, places), targets, there)
    found = torch.autograd.grad(value, [x, w])

    seen = torch.zeros(5, 11, dtype=torch.bool)
    for i in range(5):
        for place in places[i].tolist():
            if place >= 0:
                seen[i, place] = True
    textbook = loss(x @ w.T, dense, seen)
    torch.testing.assert_close(value, textbook)
    torch.testing.assert_close(found, torch.autograd.grad(textbook, [x, w]))


@pytest.mark.usefixtures("at_a_time")
def test_gradient_is_the_derivative() -> None:
    x, w, places = vectors()
    assert torch.autograd.gradcheck(lambda x, w: inner_products(x, w, places), (x, w))


def test_nothing_to_meet() -> None:
    x, w, _ = vectors(torch.float32)
    scores = inner_products(x, w, torch.full((5, 2), -1))
    assert scores.tolist() == [[0, 0]] * 5
    assert inner_products(x, w, torch.zeros(5, 0, dtype=torch.int64)).shape == (5, 0)
    gradients = torch.autograd.grad(scores.sum(), [x, w])
    assert all((gradient == 0).all() for gradient in gradients)
