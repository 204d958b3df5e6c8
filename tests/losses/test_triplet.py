from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor

from longtail.losses.base import Loss
from longtail.losses.triplet import triplet

Check = Callable[[Loss, Loss], None]


def naive(
    scores: Tensor,
    targets: Tensor,
    mask: Tensor,
    *,
    margin: float = 0.3,
    positives: int | None = None,
    negatives: int = 10,
    temperature: float = 0.1,
    satisfied: str = "excluded",
) -> Tensor:
    rows = []
    for i in range(len(scores)):
        seen = [j for j in range(scores.shape[1]) if mask[i, j]]
        pulled = sorted((j for j in seen if targets[i, j] > 0), key=lambda j: scores[i, j].item())[:positives]
        pushed = sorted((j for j in seen if targets[i, j] == 0), key=lambda j: -scores[i, j].item())[:negatives]
        if not pulled:
            continue
        row = scores.new_zeros(())
        for p in pulled:
            hinges = [torch.relu(scores[i, n] - scores[i, p] + margin) for n in pushed]
            kept = scores.new_tensor(1.0 if satisfied == "included" else 0.0)
            weights = [
                torch.exp(scores[i, n] / temperature) if hinge > 0 else kept
                for n, hinge in zip(pushed, hinges, strict=True)
            ]
            if sum(hinge > 0 for hinge in hinges):
                row = row + targets[i, p] * sum(w * h for w, h in zip(weights, hinges, strict=True)) / sum(weights)
        rows.append(row / sum(targets[i, p] for p in pulled))
    return torch.stack(rows).mean()


@pytest.mark.parametrize("satisfied", ["excluded", "included"])
@pytest.mark.parametrize("positives", [None, 1, 3])
@pytest.mark.parametrize("negatives", [1, 5, 10, 100])
def test_equals_the_formula(agree: Check, satisfied: str, positives: int | None, negatives: int) -> None:
    options = {"satisfied": satisfied, "positives": positives, "negatives": negatives}
    agree(partial(triplet, **options), partial(naive, **options))


@pytest.mark.parametrize(("margin", "temperature"), [(0.2, 1.0), (0.7, 0.05)])
def test_margin_and_temperature(agree: Check, margin: float, temperature: float) -> None:
    agree(
        partial(triplet, margin=margin, temperature=temperature),
        partial(naive, margin=margin, temperature=temperature),
    )


# Row 0: positive 0.5, negatives 0.4 (violates by 0.2) and 0.1 (keeps the margin). Row 1: two positives 0.0 and 0.9,
# negative 0.3 (violates the first by 0.6). Row 2: no positive.
SCORES = torch.tensor([[0.5, 0.4, 0.1], [0.0, 0.9, 0.3], [0.7, 0.8, 0.9]])
TARGETS = torch.tensor([[1.0, 0.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 0.0]])
EVERYTHING = torch.ones(3, 3, dtype=torch.bool)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, (0.2 + (0.6 + 0) / 2) / 2),
        ({"satisfied": "included"}, (0.2 * math.exp(4) / (math.exp(4) + 1) + (0.6 + 0) / 2) / 2),
        ({"positives": 1}, (0.2 + 0.6) / 2),
        ({"positives": 1, "margin": 0.0}, (0 + 0.3) / 2),
        ({"negatives": 1, "satisfied": "included"}, (0.2 + (0.6 + 0) / 2) / 2),
    ],
)
def test_by_hand(options: dict[str, object], expected: float) -> None:
    loss: Loss = partial(triplet, **options)
    assert loss(SCORES, TARGETS, EVERYTHING).item() == pytest.approx(expected, rel=1e-6)


def test_a_masked_negative_is_not_the_hardest() -> None:
    mask = EVERYTHING.clone()
    mask[0, 1] = False  # the only violator of row 0
    assert triplet(SCORES, TARGETS, mask, negatives=1).item() == pytest.approx((0 + 0.3) / 2, rel=1e-6)


def test_a_true_label_is_never_a_negative() -> None:
    scores = torch.tensor([[0.1, 0.9]], requires_grad=True)
    triplet(scores, torch.tensor([[1.0, 0.1]]), torch.ones(1, 2, dtype=torch.bool)).backward()
    assert (scores.grad == 0).all()
