"""A pool of prime sizes with all that a loss may meet, and the comparison with a textbook version."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from longtail.losses.base import Loss

Check = Callable[[Loss, Loss], None]


@pytest.fixture(params=[0, 1, 2])
def pool(request: pytest.FixtureRequest) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(request.param)
    scores = torch.rand(7, 13, generator=generator, dtype=torch.float64) * 2 - 1
    chance = torch.rand(7, 13, generator=generator)
    targets = torch.where(chance < 0.2, 1.0, torch.where(chance < 0.3, 0.25, 0.0))
    mask = torch.rand(7, 13, generator=generator) < 0.8
    targets[2] = 0
    targets[3] = 1
    mask[4] = False
    return scores, targets, mask


@pytest.fixture
def agree(pool: tuple[Tensor, Tensor, Tensor]) -> Check:
    """Check that two losses have the same value and gradient: to 1e-10 in float64, to 1e-5 of that in float32."""

    def check(fast: Loss, naive: Loss) -> None:
        scores, targets, mask = pool
        results = []
        for loss, dtype in [(naive, torch.float64), (fast, torch.float64), (fast, torch.float32)]:
            leaf = scores.to(dtype).requires_grad_()
            value = loss(leaf, targets.to(dtype), mask)
            (gradient,) = torch.autograd.grad(value, leaf)
            results.append((value.double(), gradient.double()))
        assert results[0][0] > 0
        torch.testing.assert_close(results[1], results[0], rtol=1e-10, atol=1e-10)
        torch.testing.assert_close(results[2], results[0], rtol=1e-5, atol=1e-5)

    return check
