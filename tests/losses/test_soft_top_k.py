"""SoftTop-k by hand, and against automatic differentiation."""

from __future__ import annotations

import math

import pytest
import torch

from longtail.losses.soft_top_k import soft_top_k


def test_equal_scores_share_the_places_evenly() -> None:
    """Eight labels and two places: each is among the first two with probability 1/4."""
    scores, targets = torch.zeros(1, 8), torch.eye(1, 8)
    value = soft_top_k(scores, targets, torch.ones(1, 8, dtype=torch.bool), k=2)
    assert value == pytest.approx(math.log(4))
    mask = torch.tensor([[True] * 4 + [False] * 4])
    assert soft_top_k(scores, targets, mask, k=2) == pytest.approx(math.log(2))


def test_a_pool_with_room_for_all_costs_nothing() -> None:
    scores = torch.tensor([[-9.0, 0.0, 9.0]], requires_grad=True)
    value = soft_top_k(scores, torch.tensor([[1.0, 0, 0]]), torch.ones(1, 3, dtype=torch.bool), k=3)
    value.backward()
    assert value == 0
    assert scores.grad is not None
    assert not scores.grad.any()


def test_the_second_of_two_positives_costs_little_where_there_are_two_places() -> None:
    """Under a softmax two positives can have half each at best, which is ln 2."""
    scores, targets = torch.tensor([[1.0, 1.0, -1.0, -1.0]]), torch.tensor([[1.0, 1.0, 0, 0]])
    mask = torch.ones(1, 4, dtype=torch.bool)
    assert soft_top_k(scores, targets, mask, k=2) < 1e-6
    assert soft_top_k(scores, targets, mask, k=1) == pytest.approx(math.log(2))


def test_the_places_add_up() -> None:
    """With the loss of each label in turn, the probabilities are found, and sum to k."""
    scores = torch.randn(1, 30, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    mask = torch.ones(1, 30, dtype=torch.bool)
    each = [soft_top_k(scores, torch.eye(30)[label : label + 1], mask, k=4, temperature=0.3) for label in range(30)]
    assert torch.stack(each).neg().exp().sum() == pytest.approx(4)


@pytest.mark.parametrize("gap", [0.3, 0.6, 0.8, 0.95, 1.5])
def test_where_the_first_labels_are_far_above_all_others_a_threshold_is_between_them(gap: float) -> None:
    """The sum of the probabilities is k at any threshold there, but for what float32 cannot add to k."""
    scores = torch.tensor([[0.95, 0.94, 0.93, 0.92, 0.91, 0.91 - gap, 0.9 - gap, *[0.8 - gap] * 90]])
    targets, mask = torch.eye(97)[5:6], torch.ones(1, 97, dtype=torch.bool)
    found = []
    for kind in (torch.float32, torch.float64):
        x = scores.to(kind).requires_grad_()
        value = soft_top_k(x, targets.to(kind), mask)
        found.append((value.detach().double(), torch.autograd.grad(value, x)[0].double()))
    torch.testing.assert_close(*found, rtol=1e-3, atol=1e-3)
