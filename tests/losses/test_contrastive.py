from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor

from longtail.losses.base import Loss
from longtail.losses.contrastive import probabilistic_contrastive

Check = Callable[[Loss, Loss], None]


def naive(
    scores: Tensor, targets: Tensor, mask: Tensor, *, c: float = 0.9, temperature: float = 1 / 1.5, negatives: int = 2
) -> Tensor:
    rows = []
    for i in range(len(scores)):
        seen = [j for j in range(scores.shape[1]) if mask[i, j]]
        pulled = [j for j in seen if targets[i, j] > 0]
        pushed = sorted((j for j in seen if targets[i, j] == 0), key=lambda j: -scores[i, j].item())[:negatives]
        if not pulled:
            continue
        row = scores.new_zeros(())
        for p in pulled:
            probable = c * torch.exp((scores[i, p] - 1) / temperature)
            row = row - targets[i, p] / sum(targets[i, j] for j in pulled) * torch.log(probable)
        for n in pushed:
            row = row - torch.log(1 - c * torch.exp((scores[i, n] - 1) / temperature))
        rows.append(row)
    return torch.stack(rows).mean()


@pytest.mark.parametrize("options", [{}, {"c": 0.75, "temperature": 1 / 3}, {"negatives": 1}, {"negatives": 100}])
def test_equals_the_formula(agree: Check, options: dict[str, float]) -> None:
    agree(partial(probabilistic_contrastive, **options), partial(naive, **options))


def test_by_hand() -> None:
    scores = torch.tensor([[1.0, 0.5, 0.0, -0.5]])
    targets = torch.tensor([[1.0, 0.0, 0.0, 0.0]])
    value = probabilistic_contrastive(
        scores, targets, torch.ones(1, 4, dtype=torch.bool), c=0.5, temperature=0.5, negatives=2
    )
    expected = -math.log(0.5) - math.log(1 - 0.5 * math.exp(-1)) - math.log(1 - 0.5 * math.exp(-2))
    assert math.isclose(float(value), expected, rel_tol=1e-6)
