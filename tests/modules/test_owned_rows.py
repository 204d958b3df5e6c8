"""A table that is cut between shards reads and learns as a whole one."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from longtail.modules.table import Table
from longtail.ranks import Ranks
from longtail.shards.rows import RowsHere
from longtail.shards.shard import Shard, Shards
from longtail.text.tokens import BagTokens

LENGTH, WIDTH = 11, 3
START = torch.randn(LENGTH, WIDTH, generator=torch.Generator().manual_seed(1))


def gradient_in_shards(
    count: int, work: Callable[[Table, Shard], tuple[Tensor, Tensor]]
) -> tuple[Tensor, list[Tensor]]:
    """The (n, D) gradient of a cut table, and what each shard has read of it.

    Args:
        count: of shards.
        work: gives what a shard reads, and its loss.
    """
    table, cut = Table(START.clone()), RowsHere(LENGTH, count, range(count))
    order = torch.cat([cut.ids(index) for index in range(count)])
    table.weight.data, table.rows_here = table.weight.data[order], cut

    def of(shard: Shard) -> Tensor:
        read, loss = work(table, shard)
        shard.backward(loss)
        return read.detach()

    found = Shards(count, Ranks()).step(of)
    assert len(table) == LENGTH
    assert table.weight.grad is not None
    gradient = torch.zeros(LENGTH, WIDTH)
    gradient[order] = table.weight.grad.to_dense()
    return gradient, found


def bags(lists: list[list[int]]) -> BagTokens:
    ids = torch.tensor([row for some in lists for row in some], dtype=torch.int64)
    offsets = torch.tensor([0, *(len(some) for some in lists)]).cumsum(0)
    return BagTokens(ids, offsets, 0.5 + 0.25 * ids.float())


@pytest.mark.parametrize("count", [1, 2, 3])
def test_rows_of_several_readers(count: int) -> None:
    ids = [torch.tensor([0, 3, 4, 9]), torch.tensor([3, 10]), torch.tensor([], dtype=torch.int64)]
    whole = Table(START.clone())
    expected = [whole.rows(some) for some in ids[:count]]
    torch.cat([rows.sin() for rows in expected]).sum().backward()

    def work(table: Table, shard: Shard) -> tuple[Tensor, Tensor]:
        rows = table.rows(ids[shard.index])
        return rows, rows.sin().sum()

    gradient, found = gradient_in_shards(count, work)
    for rows, right in zip(found, expected, strict=True):
        assert torch.equal(rows, right)
    torch.testing.assert_close(gradient, whole.weight.grad.to_dense())


@pytest.mark.parametrize("count", [1, 2, 3])
def test_sums_of_bags_that_are_read_twice(count: int) -> None:
    lists = [[[0, 2, 3], [], [10, 3]], [[5]], [[]]]
    whole = Table(START.clone())
    expected = [whole.bag_sum(bags(some)) for some in lists[:count]]
    (torch.cat([sums.sin() for sums in expected]).sum() + 2 * whole.bag_sum(bags(lists[0])).sum() * count).backward()

    def work(table: Table, shard: Shard) -> tuple[Tensor, Tensor]:
        sums = table.bag_sum(bags(lists[shard.index]))
        return sums, sums.sin().sum() + 2 * table.bag_sum(bags(lists[0])).sum()

    gradient, found = gradient_in_shards(count, work)
    for sums, right in zip(found, expected, strict=True):
        torch.testing.assert_close(sums, right)
    torch.testing.assert_close(gradient, whole.weight.grad.to_dense())


def test_nothing_is_kept_for_a_gradient_that_nobody_wants() -> None:
    def work(table: Table, _shard: Shard) -> tuple[Tensor, Tensor]:
        with torch.no_grad():
            read = table.rows(torch.tensor([1, 2]))
            assert not read.requires_grad
            assert not table.bag_sum(bags([[1, 2]])).requires_grad
        return read, table.rows(torch.tensor([4])).sum()

    gradient, _ = gradient_in_shards(2, work)
    assert gradient.count_nonzero(1).nonzero()[:, 0].tolist() == [4]
