"""A loss over all labels whose documents and labels are cut between shards is that of the whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from longtail.data.sparse import csr
from longtail.losses.full.chunked import binary_cross_entropy, decoupled_softmax, sup_con
from longtail.losses.full.targets import SparseTargets
from longtail.losses.softmax import decoupled_softmax as over_pool
from longtail.losses.softmax import symmetric
from longtail.modules.table import Table
from longtail.ranks import Ranks
from longtail.shards.rows import RowsHere
from longtail.shards.shard import Shard, Shards
from longtail.train.in_backward import SGDInBackward

B, L, D = 10, 23, 5
RNG = np.random.default_rng(0)
HIDDEN = RNG.random((B, L)) < 0.05
TRUE = csr(*np.nonzero((RNG.random((B, L)) < 0.15) | np.eye(B, L, dtype=bool) & ~HIDDEN), (B, L))
FILTERED = csr(*np.nonzero(HIDDEN), (B, L))
X, W = (torch.randn(n, D, generator=torch.Generator().manual_seed(n)) for n in (B, L))


def targets_of(rows: Tensor) -> SparseTargets:
    return SparseTargets.of(TRUE, FILTERED, rows)


def stepped(table: Table) -> SGDInBackward:
    return SGDInBackward(torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0), table, 0.5, momentum=0.5)


def in_shards(count: int, work: Callable[[Shard, Tensor], tuple[Tensor, Any]]) -> tuple[float, Tensor, list[Any]]:
    """The value, the gradient of the documents, and what else the shards give.

    Args:
        count: of shards.
        work: gives a loss of a shard's documents, and something else.
    """

    def of(shard: Shard) -> tuple[float, Tensor, Any]:
        rows = torch.arange(B)[shard.part.of(B)]
        x = X[rows].clone().requires_grad_()
        loss, other = work(shard, x)
        loss = loss * len(rows) / B
        shard.backward(loss)
        assert x.grad is not None
        return loss.item(), x.grad, other() if callable(other) else other

    found = Shards(count, Ranks()).step(of)
    return sum(one[0] for one in found), torch.cat([one[1] for one in found]), [one[2] for one in found]


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("loss", [binary_cross_entropy, sup_con, decoupled_softmax])
def test_a_table_that_is_stepped_in_the_backward_pass(loss: Callable[..., Tensor], count: int) -> None:
    whole, x = Table(W.clone()), X.clone().requires_grad_()
    value = loss(x, whole, targets_of(torch.arange(B)), update=stepped(whole), chunk=4)
    value.backward()

    table, cut = Table(W.clone()), RowsHere(L, count, range(count))
    order = torch.cat([cut.ids(index) for index in range(count)])
    table.weight.data, table.rows_here = table.weight.data[order], cut
    update = stepped(table)

    def work(shard: Shard, own: Tensor) -> tuple[Tensor, None]:
        rows = torch.arange(B)[shard.part.of(B)]
        return loss(own, table, targets_of(rows), update=update, chunk=4), None

    found, gradient, _ = in_shards(count, work)
    assert found == pytest.approx(value.item(), rel=1e-5)
    torch.testing.assert_close(gradient, x.grad, rtol=1e-4, atol=1e-5)
    after = torch.empty_like(W)
    after[order] = table.weight.detach()
    assert not torch.equal(after, W)
    torch.testing.assert_close(after, whole.weight.detach(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("loss", [binary_cross_entropy, sup_con, decoupled_softmax])
def test_labels_that_each_shard_has_encoded_a_part_of(loss: Callable[..., Tensor], count: int) -> None:
    x, z = X.clone().requires_grad_(), W.clone().requires_grad_()
    value = loss(x, z, targets_of(torch.arange(B)))
    value.backward()

    def work(shard: Shard, own: Tensor) -> tuple[Tensor, Callable[[], Tensor | None]]:
        some = W[shard.part.of(L)].clone().requires_grad_()
        rows = torch.arange(B)[shard.part.of(B)]
        return loss(own, some, targets_of(rows)), lambda: some.grad

    found, gradient, of_labels = in_shards(count, work)
    assert found == pytest.approx(value.item(), rel=1e-5)
    torch.testing.assert_close(gradient, x.grad, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(torch.cat(of_labels), z.grad, rtol=1e-4, atol=1e-5)


def test_a_loss_in_both_directions_sees_the_documents_of_all_shards() -> None:
    true, seen = torch.from_numpy(TRUE.toarray()), torch.from_numpy(FILTERED.toarray() == 0)
    x = X.clone().requires_grad_()
    value = symmetric(over_pool, x @ W.T, true, seen, mix=0.3)
    value.backward()

    def work(shard: Shard, own: Tensor) -> tuple[Tensor, None]:
        rows = shard.part.of(B)
        return symmetric(over_pool, own @ W.T, true[rows], seen[rows], mix=0.3), None

    assert (true.bool() & seen).any(1).all(), "a mean over rows with a label is one over all rows"
    found, gradient, _ = in_shards(3, work)
    assert found == pytest.approx(value.item(), rel=1e-5)
    torch.testing.assert_close(gradient, x.grad, rtol=1e-4, atol=1e-6)
