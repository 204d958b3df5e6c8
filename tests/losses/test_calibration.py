"""The calibration loss: a case by hand, its textbook version, and what it leaves out."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from longtail.losses.calibration import calibration


def textbook(enriched: Tensor, plain: Tensor, targets: Tensor, mask: Tensor, margin: float, most: int | None) -> Tensor:
    rows = []
    for i in range(len(enriched)):
        if not any(mask[i, j] and targets[i, j] > 0 for j in range(enriched.shape[1])):
            continue
        brackets = []
        for j in range(enriched.shape[1]):
            if mask[i, j]:
                sign = 1 if targets[i, j] > 0 else -1
                brackets.append(sign * (plain[i, j] - enriched[i, j]) + margin)
        largest = sorted(brackets, reverse=True)[:most]
        rows.append(sum(max(value, value * 0) for value in largest) / len(largest))
    return torch.stack(rows).mean()


def test_by_hand() -> None:
    """Row 0 gains 0.1 where it must gain 0.2, and loses nothing where it must lose 0.2; row 1 knows no label."""
    plain = torch.tensor([[0.5, 0.5, 0.5], [0.0, 0.0, 0.0]])
    enriched = torch.tensor([[0.6, 0.5, 0.1], [0.9, 0.9, 0.9]])
    targets = torch.tensor([[1.0, 0, 0], [0, 0, 0]])
    mask = torch.ones(2, 3, dtype=torch.bool)
    assert float(calibration(enriched, targets, mask, plain=plain, margin=0.2)) == pytest.approx((0.1 + 0.2 + 0) / 3)
    assert float(calibration(enriched, targets, mask, plain=plain, margin=0.2, most=1)) == pytest.approx(0.2)
    mask[0, 1] = False
    assert float(calibration(enriched, targets, mask, plain=plain, margin=0.2)) == pytest.approx((0.1 + 0) / 2)


@pytest.mark.parametrize("most", [1, 3, 100, None])
@pytest.mark.parametrize("margin", [0.05, 0.5])
def test_value_and_both_gradients_are_those_of_the_textbook(margin: float, most: int | None) -> None:
    generator = torch.Generator().manual_seed(0)
    scores = torch.rand((2, 11, 17), generator=generator, dtype=torch.float64) * 2 - 1
    targets = (torch.rand((11, 17), generator=generator) < 0.2).float()
    targets[4] = 0
    mask = torch.rand((11, 17), generator=generator) < 0.8
    found, expected = ([part.clone().requires_grad_() for part in scores] for _ in range(2))
    value = calibration(found[0], targets, mask, plain=found[1], margin=margin, most=most)
    truth = textbook(*expected, targets, mask, margin, most)
    torch.testing.assert_close(value, truth)
    value.backward()
    truth.backward()
    for mine, other in zip(found, expected, strict=True):
        torch.testing.assert_close(mine.grad, other.grad)


def test_gradients_lift_the_enriched_score_of_true_labels_and_lower_that_of_wrong_ones() -> None:
    enriched, plain = torch.zeros(1, 4, requires_grad=True), torch.zeros(1, 4, requires_grad=True)
    calibration(enriched, torch.tensor([[1.0, 0, 1, 0]]), torch.ones(1, 4, dtype=torch.bool), plain=plain).backward()
    assert enriched.grad is not None and plain.grad is not None  # noqa: PT018
    assert (enriched.grad.sign() == torch.tensor([[-1.0, 1, -1, 1]])).all()
    assert torch.equal(plain.grad, -enriched.grad)
