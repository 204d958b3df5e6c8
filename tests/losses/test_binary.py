from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor

from longtail.losses.base import Loss
from longtail.losses.binary import binary_cross_entropy

Check = Callable[[Loss, Loss], None]


def naive(scores: Tensor, targets: Tensor, mask: Tensor, *, mean: bool) -> Tensor:
    total = scores.new_zeros(())
    for i in range(len(scores)):
        row = scores.new_zeros(())
        for j in range(scores.shape[1]):
            if mask[i, j]:
                yes, no = (1 + torch.exp(-scores[i, j])).log(), (1 + torch.exp(scores[i, j])).log()
                row = row + targets[i, j] * yes + (1 - targets[i, j]) * no
        total = total + (row / max(int(mask[i].sum()), 1) if mean else row)
    return total / len(scores)


@pytest.mark.parametrize("over_labels", ["sum", "mean"])
@pytest.mark.parametrize("scale", [1.0, 3.0])
def test_equals_the_formula(agree: Check, over_labels: str, scale: float) -> None:
    agree(
        lambda scores, *rest: binary_cross_entropy(scores * scale, *rest, over_labels=over_labels),
        lambda scores, *rest: naive(scores * scale, *rest, mean=over_labels == "mean"),
    )


SCORES = torch.tensor([[0.0, 0.0], [2.0, -2.0], [0.5, 0.5]])
TARGETS = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 0.5]])
MASK = torch.tensor([[True, True], [True, True], [False, True]])


def test_three_by_two_by_hand() -> None:
    wrong = math.log(1 + math.exp(2))
    half = (math.log(1 + math.exp(-0.5)) + math.log(1 + math.exp(0.5))) / 2
    assert binary_cross_entropy(SCORES, TARGETS, MASK).item() == pytest.approx(
        (2 * math.log(2) + 2 * wrong + half) / 3, rel=1e-6
    )
    assert binary_cross_entropy(SCORES, TARGETS, MASK, over_labels="mean").item() == pytest.approx(
        (math.log(2) + wrong + half) / 3, rel=1e-6
    )


def test_equals_torch() -> None:
    scores = torch.randn(11, 17, generator=torch.Generator().manual_seed(0)) * 9
    targets = torch.rand(11, 17, generator=torch.Generator().manual_seed(1))
    expected = torch.nn.functional.binary_cross_entropy_with_logits(scores, targets)
    value = binary_cross_entropy(scores, targets, torch.ones(11, 17, dtype=torch.bool), over_labels="mean")
    torch.testing.assert_close(value, expected)


def test_a_temperature_divides_the_scores(agree: Check) -> None:
    agree(partial(binary_cross_entropy, temperature=0.5), lambda scores, *rest: binary_cross_entropy(2 * scores, *rest))


@pytest.mark.parametrize("narrow", [torch.float16, torch.bfloat16])
def test_scores_are_widened_before_they_are_divided(narrow: torch.dtype) -> None:
    scores = torch.tensor([[9000.0, -9000.0, 1.5]], dtype=narrow).requires_grad_()
    targets, mask = torch.tensor([[0.0, 1.0, 1.0]]), torch.ones(1, 3, dtype=torch.bool)
    value = binary_cross_entropy(scores, targets, mask, temperature=0.05)
    wide = binary_cross_entropy(scores.detach().float(), targets, mask, temperature=0.05)
    assert value == wide
    assert math.isfinite(wide)
    (gradient,) = torch.autograd.grad(value, scores)
    assert gradient.dtype == narrow
    assert gradient.isfinite().all()
