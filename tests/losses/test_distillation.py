"""The distillation loss: a case by hand, its textbook version, and what it leaves out."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from longtail.losses.distillation import distillation


def textbook(scores: Tensor, teacher: Tensor, mask: Tensor, temperature: float) -> Tensor:
    rows = []
    for i in range(len(scores)):
        seen = [j for j in range(scores.shape[1]) if mask[i, j]]
        p = torch.stack([teacher[i, j] for j in seen]).softmax(0)
        q = torch.stack([scores[i, j] / temperature for j in seen]).softmax(0)
        rows.append(sum(p[j] * (p[j].log() - q[j].log()) for j in range(len(seen))))
    return torch.stack(rows).mean()


def test_by_hand() -> None:
    """The teacher is sure by 3 to 1, and the student does not know: 3/4 ln(3/2) + 1/4 ln(1/2)."""
    teacher = torch.tensor([[math.log(3.0), 0.0, 50.0]])
    scores, mask = torch.zeros(1, 3), torch.tensor([[True, True, False]])
    assert float(distillation(scores, mask, teacher=teacher)) == pytest.approx(
        0.75 * math.log(1.5) - 0.25 * math.log(2)
    )
    same = torch.tensor([[0.1 * math.log(3.0), 0.0, -7.0]])
    assert float(distillation(same, mask, teacher=teacher)) == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("temperature", [0.1, 1.0])
def test_value_and_gradient_are_those_of_the_textbook(temperature: float) -> None:
    generator = torch.Generator().manual_seed(0)
    scores = torch.rand(4, 7, generator=generator).double().requires_grad_()
    teacher = 5 * torch.rand(4, 7, generator=generator).double()
    mask = torch.rand(4, 7, generator=generator) < 0.7
    mask[:, 0] = True
    one = distillation(scores, mask, teacher=teacher, temperature=temperature)
    (slope,) = torch.autograd.grad(3 * one, scores)
    other = textbook(scores, teacher, mask, temperature)
    (expected,) = torch.autograd.grad(3 * other, scores)
    torch.testing.assert_close(one, other)
    torch.testing.assert_close(slope, expected)
    assert (slope[~mask] == 0).all()
