"""What holds for every loss: each row of the table, one from outside, and each option that changes the algebra."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import softplus

from longtail.data.sparse import csr
from longtail.losses import LOSSES, loss_named
from longtail.losses.base import Loss, LossKind
from longtail.losses.binary import binary_cross_entropy
from longtail.losses.calibration import calibration
from longtail.losses.full.targets import SparseTargets
from longtail.losses.softmax import decoupled_softmax, symmetric
from longtail.losses.triplet import triplet


def over_all_labels(loss: Callable[..., Tensor]) -> Loss:
    """A loss of `longtail.losses.full.chunked` as one of scores: the labels' vectors are the columns of the unity."""

    def matrix(dense: Tensor) -> Any:
        at = dense.nonzero(as_tuple=True)
        return csr(at[0].numpy(), at[1].numpy(), (len(dense), dense.shape[1]), dense[at].numpy())

    def of_scores(scores: Tensor, targets: Tensor, mask: Tensor) -> Tensor:
        sparse = SparseTargets.of(matrix(targets), matrix(~mask), torch.arange(len(scores)))
        seen = scores.masked_fill(~mask, 0)  # any number, as long as it is one: products have no mask
        return loss(seen, torch.eye(scores.shape[1], dtype=scores.dtype), sparse, chunk=3)

    return of_scores


def calibrated(scores: Tensor, targets: Tensor, mask: Tensor, **options: Any) -> Tensor:
    """`calibration` against a document that scores every label 0."""
    return calibration(scores, targets, mask, plain=torch.zeros_like(scores), **options)


def margin_of_pairs(scores: Tensor, targets: Tensor, mask: Tensor, *, temperature: float = 0.5) -> Tensor:
    """A toy from outside: the logistic loss of every seen pair, built from differentiable steps."""
    wide = torch.where(mask, scores, 0).to(torch.promote_types(scores.dtype, torch.float32))
    losses = softplus(wide / temperature) - targets * wide / temperature
    return torch.where(mask, losses, 0).sum(1).mean()


TOY = LossKind(margin_of_pairs, "a toy")
PER_PAIR = {"binary_cross_entropy", "toy"}  # each pair counts, so that a row without a positive does


def rows_of_the_table(*, per_pair: bool) -> dict[str, Loss]:
    """The losses that can be named, and their twins over all labels: with whole values, which training may sample."""
    rows = {name: row for name, row in (LOSSES | {"toy": TOY}).items() if (name in PER_PAIR) == per_pair}
    twins = {name: row.over_all_labels for name, row in rows.items() if row.over_all_labels is not None}
    whole = {f"{name} over all labels": over_all_labels(getattr(twin, "func", twin)) for name, twin in twins.items()}
    return {name: row.function for name, row in rows.items()} | whole


BY_POSITIVES: dict[str, Loss] = rows_of_the_table(per_pair=False) | {
    "triplet, included": partial(triplet, satisfied="included"),
    "triplet, 2 positives": partial(triplet, positives=2, negatives=5, margin=0.2),
    "triplet, all negatives": partial(triplet, negatives=100),
    "calibration": calibrated,
    "calibration, all labels": partial(calibrated, most=None),
}
BY_PAIRS: dict[str, Loss] = rows_of_the_table(per_pair=True) | {
    "binary_cross_entropy, mean": partial(binary_cross_entropy, over_labels="mean"),
}
SYMMETRIC: dict[str, Loss] = {  # here a document without labels is still a negative of every label
    "symmetric": partial(symmetric, decoupled_softmax, mix=0.3),
    "symmetric, triplet": partial(symmetric, triplet),
}


def each(losses: dict[str, Loss]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("loss", [pytest.param(loss, id=name) for name, loss in losses.items()])


every_loss = each(BY_POSITIVES | BY_PAIRS | SYMMETRIC)


def pool(seed: int = 0, shape: tuple[int, int] = (7, 13)) -> tuple[Tensor, Tensor, Tensor]:
    """Cosine-like float64 scores, soft and hard targets, a mask; row 2 has no positive, row 3 has no negative."""
    generator = torch.Generator().manual_seed(seed)
    scores = torch.rand(shape, generator=generator, dtype=torch.float64) * 2 - 1
    chance = torch.rand(shape, generator=generator)
    targets = torch.where(chance < 0.2, 1.0, torch.where(chance < 0.3, 0.25, 0.0))
    mask = torch.rand(shape, generator=generator) < 0.8
    targets[0, 0], mask[0, 0] = 1.0, True
    targets[1, 1], mask[1, 1] = 1.0, False
    targets[2] = 0.0
    targets[3] = 1.0
    return scores, targets, mask


def with_grad(loss: Loss, scores: Tensor, targets: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    leaf = scores.clone().requires_grad_()
    value = loss(leaf, targets, mask)
    value.backward()
    assert leaf.grad is not None
    return value.detach(), leaf.grad


@every_loss
def test_gradient_is_the_derivative(loss: Loss) -> None:
    scores, targets, mask = pool()
    assert torch.autograd.gradcheck(lambda s: loss(s, targets, mask), (scores.requires_grad_(),))


@every_loss
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_value_is_a_float32_scalar_and_gradient_has_the_dtype_of_scores(loss: Loss, dtype: torch.dtype) -> None:
    scores, targets, mask = pool()
    value, gradient = with_grad(loss, scores.to(dtype), targets, mask)
    assert value.shape == ()
    assert value.dtype == torch.float32
    assert gradient.dtype == dtype
    exact, exact_gradient = with_grad(loss, scores.to(dtype).double(), targets, mask)
    torch.testing.assert_close(value, exact.float(), rtol=1e-5, atol=1e-6)
    rtol = 1e-4 if dtype == torch.float32 else 2e-2
    torch.testing.assert_close(gradient, exact_gradient.to(dtype), rtol=rtol, atol=1e-5)


@every_loss
def test_under_autocast(loss: Loss) -> None:
    left = torch.randn(7, 8, generator=torch.Generator().manual_seed(1), requires_grad=True)
    right = torch.randn(13, 8, generator=torch.Generator().manual_seed(2))
    _, targets, mask = pool()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        value = loss(left @ right.T, targets, mask)
    value.backward()
    assert value.dtype == torch.float32
    assert torch.isfinite(value)
    assert left.grad is not None
    assert torch.isfinite(left.grad).all()


@every_loss
def test_masked_pairs_have_no_influence_and_no_gradient(loss: Loss) -> None:
    scores, targets, mask = pool()
    value, gradient = with_grad(loss, scores, targets, mask)
    assert (gradient[~mask] == 0).all()
    assert gradient.abs().sum() > 0
    for other in (-1e4, 0.0, float("inf"), float("nan")):
        changed = scores.masked_fill(~mask, other)
        changed_targets = torch.where(mask, targets, 1 - targets)
        torch.testing.assert_close(with_grad(loss, changed, changed_targets, mask), (value, gradient), rtol=0, atol=0)


@every_loss
@pytest.mark.parametrize("scale", [1e4, -1e4])
def test_finite_at_large_scores(loss: Loss, scale: float) -> None:
    scores, targets, mask = pool()
    value, gradient = with_grad(loss, scores.sign().float() * scale, targets, mask)
    assert torch.isfinite(value)
    assert torch.isfinite(gradient).all()


@every_loss
def test_a_seen_score_that_is_not_a_number_shows(loss: Loss) -> None:
    for label in (0, 1, 2):  # row 0 has positives and negatives among them
        scores, targets, mask = pool()
        scores[0, label], mask[0, label] = float("nan"), True
        assert torch.isnan(loss(scores, targets, mask))


@every_loss
def test_inputs_are_left_alone(loss: Loss) -> None:
    inputs = pool()
    copies = [tensor.clone() for tensor in inputs]
    with_grad(loss, inputs[0].float(), *inputs[1:])
    loss(*inputs)
    for tensor, copy in zip(inputs, copies, strict=True):
        assert torch.equal(tensor, copy)


@every_loss
def test_order_of_rows_and_columns_does_not_matter(loss: Loss) -> None:
    scores, targets, mask = pool()
    value, gradient = with_grad(loss, scores, targets, mask)
    generator = torch.Generator().manual_seed(3)
    rows, columns = torch.randperm(7, generator=generator), torch.randperm(13, generator=generator)
    moved, moved_gradient = with_grad(loss, *(t[rows][:, columns] for t in (scores, targets, mask)))
    torch.testing.assert_close(moved, value)
    torch.testing.assert_close(moved_gradient, gradient[rows][:, columns])


@each(BY_POSITIVES | BY_PAIRS)
def test_a_batch_given_twice_has_the_same_loss(loss: Loss) -> None:
    inputs = pool()
    torch.testing.assert_close(loss(*(torch.cat([tensor, tensor]) for tensor in inputs)), loss(*inputs))


@each(BY_POSITIVES)
def test_rows_without_a_positive_are_left_out(loss: Loss) -> None:
    scores, targets, mask = pool()
    value, gradient = with_grad(loss, scores, targets, mask)
    assert (gradient[2] == 0).all()
    rest = torch.tensor([i for i in range(7) if i != 2])
    torch.testing.assert_close(loss(scores[rest], targets[rest], mask[rest]), value)


@each(BY_POSITIVES | SYMMETRIC)
def test_no_positive_at_all_is_zero(loss: Loss) -> None:
    scores, targets, mask = pool()
    value, gradient = with_grad(loss, scores, torch.zeros_like(targets), mask)
    assert value == 0
    assert (gradient == 0).all()


@every_loss
def test_a_pool_with_everything_masked_is_zero(loss: Loss) -> None:
    scores, targets, mask = pool()
    value, gradient = with_grad(loss, scores, targets, torch.zeros_like(mask))
    assert value == 0
    assert (gradient == 0).all()


@every_loss
def test_upstream_gradient_scales(loss: Loss) -> None:
    scores, targets, mask = pool()
    _, gradient = with_grad(loss, scores, targets, mask)
    _, tripled = with_grad(lambda *inputs: 3 * loss(*inputs), scores, targets, mask)
    torch.testing.assert_close(tripled, 3 * gradient)


@every_loss
def test_a_better_ranking_costs_less(loss: Loss) -> None:
    targets = torch.eye(5, 11)
    mask = torch.ones(5, 11, dtype=torch.bool)
    right, level, wrong = (loss(scale * (2 * targets - 1), targets, mask) for scale in (1, 0, -1))
    assert right < level < wrong


def test_a_loss_from_outside_is_accepted_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(LOSSES, "toy", TOY)
    scores, targets, mask = pool()
    assert loss_named("toy", temperature=2.0)(scores, targets, mask) == margin_of_pairs(
        scores, targets, mask, temperature=2.0
    )


@pytest.mark.parametrize("name", LOSSES)
def test_a_row_says_what_it_is_and_takes_a_temperature(name: str) -> None:
    scores, targets, mask = pool()
    cold, warm = (loss_named(name, temperature=t)(scores, targets, mask) for t in (0.1, 1.0))
    assert cold != warm
    assert LOSSES[name].about
    assert not LOSSES[name].about.endswith(".")


@pytest.mark.parametrize("name", [name for name, row in LOSSES.items() if row.learnable])
def test_a_temperature_that_can_be_learned_divides_scores_and_does_nothing_else(name: str) -> None:
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(5, 9, generator=generator)
    targets = (torch.rand(5, 9, generator=generator) < 0.3).float()
    mask = torch.rand(5, 9, generator=generator) < 0.9
    inside = loss_named(name, temperature=0.3)(scores, targets, mask)
    outside = loss_named(name, temperature=1.0)(scores / 0.3, targets, mask)
    torch.testing.assert_close(inside, outside)
    level = loss_named(name, temperature=0.3)(scores + 7, targets, mask)
    torch.testing.assert_close(inside, level, rtol=1e-4, atol=1e-4)
