from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor

from longtail.losses.base import Loss
from longtail.losses.softmax import decoupled_softmax, info_nce, sup_con, symmetric

Check = Callable[[Loss, Loss], None]
EVERYTHING = torch.ones(3, 2, dtype=torch.bool)


def naive_cross_entropy(
    scores: Tensor, targets: Tensor, mask: Tensor, temperature: float, *, decoupled: bool, by_row: bool
) -> Tensor:
    rows, weights = [], []
    for i in range(len(scores)):
        seen = [j for j in range(scores.shape[1]) if mask[i, j]]
        positives = [j for j in seen if targets[i, j] > 0]
        negatives = [j for j in seen if targets[i, j] == 0]
        if not positives:
            continue
        total = scores.new_zeros(())
        for p in positives:
            others = [p, *negatives] if decoupled else seen
            denominator = sum(math.e ** (scores[i, j] / temperature) for j in others)
            total = total - targets[i, p] * (math.e ** (scores[i, p] / temperature) / denominator).log()
        weight = sum(targets[i, p] for p in positives)
        rows.append(total / weight if by_row else total)
        weights.append(torch.ones(()) if by_row else weight)
    return torch.stack(rows).sum() / torch.stack(weights).sum()


@pytest.mark.parametrize("temperature", [0.05, 0.3, 1.0])
@pytest.mark.parametrize(
    ("loss", "options"),
    [
        (info_nce, {"decoupled": False, "by_row": False}),
        (sup_con, {"decoupled": False, "by_row": True}),
        (decoupled_softmax, {"decoupled": True, "by_row": True}),
    ],
)
def test_equals_the_formula(agree: Check, loss: Loss, options: dict[str, bool], temperature: float) -> None:
    agree(partial(loss, temperature=temperature), partial(naive_cross_entropy, temperature=temperature, **options))


def test_symmetric_equals_its_two_terms(agree: Check) -> None:
    decoupled = partial(decoupled_softmax, temperature=0.2)
    naive = partial(naive_cross_entropy, temperature=0.2, decoupled=True, by_row=True)

    def two_terms(scores: Tensor, targets: Tensor, mask: Tensor) -> Tensor:
        return 0.3 * naive(scores, targets, mask) + 0.7 * naive(scores.T, targets.T, mask.T)

    agree(partial(symmetric, decoupled, mix=0.3), two_terms)


@pytest.mark.parametrize("loss", [info_nce, sup_con, decoupled_softmax])
def test_one_positive_a_row_is_torch_cross_entropy(loss: Loss) -> None:
    scores = torch.randn(11, 17, generator=torch.Generator().manual_seed(0))
    classes = torch.arange(11)
    value = loss(scores, torch.eye(11, 17), torch.ones(11, 17, dtype=torch.bool))
    torch.testing.assert_close(value, torch.nn.functional.cross_entropy(scores / 0.05, classes))


# Three documents, two labels, scores whose exponentials are 1, 2, 3 at temperature 1:
# row 0 has label 0, row 1 has both, row 2 has none.
SCORES = torch.tensor([[3.0, 1.0], [2.0, 1.0], [1.0, 1.0]]).log()
TARGETS = torch.tensor([[1.0, 0.0], [1.0, 1.0], [0.0, 0.0]])


@pytest.mark.parametrize(
    ("loss", "expected"),
    [
        # pairs: 3 of 4; 2 of 3; 1 of 3. Each pair once:
        (partial(info_nce, temperature=1.0), -(math.log(3 / 4) + math.log(2 / 3) + math.log(1 / 3)) / 3),
        # each row once:
        (partial(sup_con, temperature=1.0), -(math.log(3 / 4) + (math.log(2 / 3) + math.log(1 / 3)) / 2) / 2),
        # row 1 has no negative:
        (partial(decoupled_softmax, temperature=1.0), -(math.log(3 / 4) + 0) / 2),
        # columns: label 0 has documents 0 and 1 against document 2 (3 of 4, 2 of 3); label 1 has 1 against 0 and 2:
        (
            partial(symmetric, partial(decoupled_softmax, temperature=1.0)),
            -(math.log(3 / 4) / 2 + ((math.log(3 / 4) + math.log(2 / 3)) / 2 + math.log(1 / 3)) / 2) / 2,
        ),
    ],
)
def test_three_by_two_by_hand(loss: Loss, expected: float) -> None:
    assert loss(SCORES, TARGETS, EVERYTHING).item() == pytest.approx(expected, rel=1e-6)


def test_masked_co_positive_leaves_the_denominator() -> None:
    mask = EVERYTHING.clone()
    mask[1, 1] = False
    value = sup_con(SCORES, TARGETS, mask, temperature=1.0)
    assert value.item() == pytest.approx(-math.log(3 / 4) / 2, rel=1e-6)  # row 1 is sure now


def test_soft_targets_weigh_the_positives_of_a_row() -> None:
    targets = torch.tensor([[0.0, 0.0], [0.75, 0.25], [0.0, 0.0]])
    value = sup_con(SCORES, targets, EVERYTHING, temperature=1.0)
    assert value.item() == pytest.approx(-(0.75 * math.log(2 / 3) + 0.25 * math.log(1 / 3)), rel=1e-6)
