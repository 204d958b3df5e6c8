"""Losses over all labels against textbook versions on a dense (B, L) matrix, with torch's own gradients."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from longtail.data.sparse import csr
from longtail.losses.full.chunked import binary_cross_entropy, decoupled_softmax, sup_con
from longtail.losses.full.targets import SparseTargets

B, L, D = 13, 1009, 17


def textbook_binary(scores: Tensor, targets: Tensor, mask: Tensor) -> Tensor:
    return F.binary_cross_entropy_with_logits(scores, targets, reduction="none")[mask].sum() / len(scores)


def textbook_softmax(scores: Tensor, targets: Tensor, mask: Tensor, *, decoupled: bool, temperature: float) -> Tensor:
    scores = (scores / temperature).masked_fill(~mask, -torch.inf)
    weights = targets * mask
    negatives = scores.masked_fill(targets > 0, -torch.inf).logsumexp(1, keepdim=True)
    norms = torch.logaddexp(scores, negatives) if decoupled else scores.logsumexp(1, keepdim=True)
    losses = torch.where(weights > 0, weights * (norms - scores), 0).sum(1)
    some = weights.sum(1) > 0
    return (losses[some] / weights.sum(1)[some]).mean()


LOSSES: dict[str, tuple[Callable[..., Tensor], Callable[..., Tensor]]] = {
    "binary_cross_entropy": (binary_cross_entropy, textbook_binary),
    "sup_con": (
        partial(sup_con, temperature=0.5),
        partial(textbook_softmax, decoupled=False, temperature=0.5),
    ),
    "decoupled_softmax": (
        partial(decoupled_softmax, temperature=0.5),
        partial(textbook_softmax, decoupled=True, temperature=0.5),
    ),
}
every_loss = pytest.mark.parametrize(("loss", "textbook"), LOSSES.values(), ids=LOSSES)


def matrix(dense: Tensor) -> Any:
    rows, columns = dense.nonzero(as_tuple=True)
    shape = (len(dense), dense.shape[1])
    return csr(rows.numpy(), columns.numpy(), shape, dense[rows, columns].float().numpy())


def problem(dtype: torch.dtype, seed: int = 0) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Documents, labels, soft and hard targets, a mask; document 2 has no label, document 3 sees nothing."""
    generator = torch.Generator().manual_seed(seed)
    x, table = (torch.randn(n, D, generator=generator, dtype=torch.float64) / 2 for n in (B, L))
    chance = torch.rand(B, L, generator=generator)
    targets = torch.where(chance < 0.005, 1.0, torch.where(chance < 0.01, 0.25, 0.0)).to(dtype)
    mask = torch.rand(B, L, generator=generator) < 0.97
    targets[0, [0, L - 1]] = 1.0
    mask[0, [0, L - 1]] = torch.tensor([True, False])  # a positive that is masked
    targets[2] = 0
    mask[3] = False
    return x.to(dtype), table.to(dtype), targets, mask


def known(targets: Tensor, mask: Tensor) -> SparseTargets:
    return SparseTargets.of(matrix(targets), matrix(~mask), torch.arange(len(targets)))


@every_loss
@pytest.mark.parametrize("chunk", [1, 100, 1009, 5000, None])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 2e-5)])
def test_value_and_gradients_are_those_of_a_dense_matrix(loss, textbook, chunk, dtype, tolerance):
    x, table, targets, mask = problem(dtype)
    x.requires_grad_(), table.requires_grad_()
    value = loss(x, table, known(targets, mask), chunk=chunk)
    expected = textbook(x @ table.T, targets, mask)
    torch.testing.assert_close(value, expected, rtol=tolerance, atol=tolerance)
    for ours, theirs in zip(*(torch.autograd.grad(3 * v, (x, table)) for v in (value, expected)), strict=True):
        assert theirs.abs().max() > 0
        torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=tolerance * float(theirs.abs().max()))


@every_loss
def test_one_side_alone_gets_its_gradient(loss, textbook):
    x, table, targets, mask = problem(torch.float64)
    for leaf in (x, table):
        leaf.requires_grad_()
        expected = torch.autograd.grad(textbook(x @ table.T, targets, mask), leaf)
        torch.testing.assert_close(torch.autograd.grad(loss(x, table, known(targets, mask)), leaf), expected)
        leaf.requires_grad_(False)


@every_loss
def test_a_last_column_of_ones_makes_a_bias(loss, textbook):
    x, table, targets, mask = problem(torch.float64)
    bias = torch.linspace(-3, 3, L, dtype=torch.float64, requires_grad=True)
    value = loss(F.pad(x, (0, 1), value=1.0), torch.cat([table, bias[:, None]], 1), known(targets, mask), chunk=100)
    expected = textbook(x @ table.T + bias, targets, mask)
    torch.testing.assert_close(value, expected)
    torch.testing.assert_close(torch.autograd.grad(value, bias), torch.autograd.grad(expected, bias))


@every_loss
def test_a_bfloat16_table_is_widened_by_chunks(loss, textbook):
    x, table, targets, mask = problem(torch.float32)
    x.requires_grad_()
    narrow = table.bfloat16().requires_grad_()
    value = loss(x, narrow, known(targets, mask), chunk=100)
    wide = narrow.detach().float().requires_grad_()
    expected = textbook(x @ wide.T, targets, mask)
    assert value.dtype == torch.float32
    torch.testing.assert_close(value, expected, rtol=1e-5, atol=1e-5)
    dx, dtable = torch.autograd.grad(value, (x, narrow))
    dx_wide, dtable_wide = torch.autograd.grad(expected, (x, wide))
    torch.testing.assert_close(dx, dx_wide, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(dtable, dtable_wide.bfloat16(), rtol=1e-2, atol=1e-6)


@every_loss
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_an_update_sees_every_label_once_with_its_gradient(loss, textbook, dtype):
    x, table, targets, mask = problem(torch.float32)
    x.requires_grad_()
    table = table.to(dtype).requires_grad_()
    seen, total = [], torch.zeros(L, D)

    def update(labels, vectors, slopes, documents):
        seen.append((labels.start, labels.stop))
        assert torch.equal(vectors, table[labels].float())
        assert (vectors.data_ptr() == table[labels].data_ptr()) == (dtype == torch.float32)
        total[labels] += slopes @ documents

    (2 * loss(x, table, known(targets, mask), update=update, chunk=250)).backward()
    assert seen == [(0, 250), (250, 500), (500, 750), (750, 1000), (1000, 1009)]
    assert table.grad is None
    wide = table.detach().float().requires_grad_()
    plain = x.detach().requires_grad_()
    (2 * textbook(plain @ wide.T, targets, mask)).backward()
    torch.testing.assert_close(total, wide.grad, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(x.grad, plain.grad, rtol=1e-4, atol=1e-5)


def test_a_table_that_changed_before_the_backward_pass_is_an_error():
    x, table, targets, mask = problem(torch.float32)
    value = binary_cross_entropy(x, table.requires_grad_(), known(targets, mask))
    with torch.no_grad():
        table += 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        value.backward()


def test_a_value_from_some_of_the_negatives_is_right_on_average(monkeypatch):
    x, table, targets, mask = problem(torch.float64)
    x.requires_grad_()
    exact = binary_cross_entropy(x, table, known(targets, mask))
    values = []
    for first in range(4):
        monkeypatch.setattr(torch, "randint", lambda *_, at=first: torch.tensor(at))
        value = binary_cross_entropy(x, table, known(targets, mask), value_from=4, chunk=100)
        torch.testing.assert_close(torch.autograd.grad(value, x), torch.autograd.grad(exact, x, retain_graph=True))
        values.append(value.detach())
    assert len({round(float(value), 3) for value in values}) == 4
    torch.testing.assert_close(torch.stack(values).mean(), exact.detach())


def test_a_value_from_some_of_the_negatives_says_something_where_labels_are_few():
    """They are not all in one part, which would be drawn once in so many times."""
    generator = torch.Generator().manual_seed(0)
    x, table = torch.randn(8, 4, generator=generator), torch.randn(320, 4, generator=generator)
    nothing = known(torch.zeros(8, 320), torch.ones(8, 320, dtype=torch.bool))
    exact = binary_cross_entropy(x, table, nothing)
    values = torch.stack([binary_cross_entropy(x, table, nothing, value_from=8) for _ in range(20)])
    assert (values - exact).abs().max() < 0.5 * exact


class Largest(TorchDispatchMode):
    """Remembers the most numbers of a new tensor that any operation gave back."""

    def __init__(self, known: Tensor) -> None:
        super().__init__()
        self.numbers, self.known = 0, known.untyped_storage().data_ptr()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for tensor in out if isinstance(out, (tuple, list)) else (out,):
            if isinstance(tensor, Tensor) and tensor.untyped_storage().data_ptr() != self.known:
                self.numbers = max(self.numbers, tensor.numel())
        return out


@every_loss
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_nothing_is_ever_as_large_as_all_scores_or_as_the_table(loss, textbook, dtype):
    x, table, targets, mask = problem(torch.float32)
    x.requires_grad_()
    table = table.to(dtype).requires_grad_()
    sparse = known(targets, mask)
    with Largest(table) as largest:
        loss(x, table, sparse, update=lambda *_: None, chunk=130).backward()
    assert len(sparse.positives.rows) * D <= largest.numbers <= 130 * D
    assert min(B * L, L * D) > 5 * 130 * D


def test_sparse_targets_by_hand():
    targets = csr(np.array([0, 0, 1, 2, 2]), np.array([4, 1, 2, 1, 0]), (3, 5), np.array([1, 0.5, 1, 0, 1], np.float32))
    filtered = csr(np.array([0, 1, 2]), np.array([0, 2, 4]), (3, 5))
    found = SparseTargets.of(targets, filtered, torch.tensor([2, 0, 1]))
    assert found.positives.height == 3
    assert found.positives.columns.tolist() == [0, 1, 4]  # the pair of value 0 is none, and (1, 2) is filtered
    assert found.positives.rows.tolist() == [0, 1, 1]
    assert found.positives.weights.tolist() == [1.0, 0.5, 1.0]
    assert found.hidden_labels.tolist() == [0, 2, 4]
    assert found.hidden_rows.tolist() == [1, 2, 0]
    bare = SparseTargets.of(targets, None, torch.tensor([1]))
    assert bare.positives.columns.tolist() == [2]
    assert len(bare.hidden_rows) == len(bare.hidden_labels) == 0
