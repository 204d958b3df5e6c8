"""Reading a table by rows: values and gradients are those of dense torch, and gradients hold the rows read, no more."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from longtail.data.sparse import csr
from longtail.modules.classifiers import FreeVectors
from longtail.modules.table import Table, load_module_state, module_state, unit
from longtail.search.exact import Exact
from longtail.text.bag import BagTokenizer
from longtail.text.ragged import Ragged
from longtail.text.tokens import BagTokens, PaddedTokens
from longtail.train.optimizer import AdamW

V, D = 11, 5


def bags(seed: int, lengths: Sequence[int] = (3, 0, 7, 1, 2)) -> BagTokens:
    """Bags of distinct features out of V, float64 weights; the second bag is empty."""
    rng = np.random.default_rng(seed)
    ids = [np.zeros(0, np.int64), *(rng.permutation(V)[:length] for length in lengths)]
    table = Ragged(
        np.concatenate(ids).astype(np.int32),
        np.cumsum([0, *lengths], dtype=np.int64),
        rng.normal(size=sum(lengths)).astype(np.float32),
    )
    tokens = BagTokenizer((), np.zeros(0, np.float32), 0).batch(table, np.arange(len(lengths)))
    arrays = (getattr(tokens, name) for name in tokens.__slots__)
    return BagTokens(*(a.double() if a.is_floating_point() else a for a in arrays))


def table(seed: int = 0) -> Table:
    return Table(torch.randn(V, D, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)))


def dense_bag_sum(table: Tensor, tokens: BagTokens) -> Tensor:
    """The matrix of weights times the table, with loops."""
    matrix = torch.zeros(len(tokens), len(table), dtype=table.dtype)
    for bag in range(len(tokens)):
        for at in range(int(tokens.offsets[bag]), int(tokens.offsets[bag + 1])):
            matrix[bag, tokens.ids[at]] += tokens.weights[at]
    return matrix @ table


def some_loss(x: Tensor) -> Tensor:
    """Another weight for each place, and not linear."""
    return (x.sin() * torch.arange(1, x.numel() + 1, dtype=x.dtype).view_as(x)).sum()


def both_gradients(fast: Callable[[Table], Tensor], dense: Callable[[Tensor], Tensor]) -> tuple[Tensor, Tensor]:
    """Compare values; return the sparse and the dense gradient."""
    sparse_table, dense_table = table(), table().weight
    fast_value, dense_value = fast(sparse_table), dense(dense_table)
    torch.testing.assert_close(fast_value, dense_value, rtol=1e-12, atol=1e-12)
    some_loss(fast_value).backward()
    some_loss(dense_value).backward()
    assert sparse_table.weight.grad is not None
    assert dense_table.grad is not None
    return sparse_table.weight.grad, dense_table.grad


def test_bag_sum_by_hand() -> None:
    """Features are worth 10, 20 and 30; the bags hold 2 x the first and 1 x the last, nothing, and 3 x the last."""
    tokens = BagTokens(
        ids=torch.tensor([0, 2, 2]),
        offsets=torch.tensor([0, 2, 2, 3]),
        weights=torch.tensor([2.0, 1.0, 3.0]),
    )
    values = Table(torch.tensor([[10.0], [20.0], [30.0]]))
    out = values.bag_sum(tokens)
    assert out.tolist() == [[50.0], [0.0], [90.0]]
    out.backward(torch.tensor([[1.0], [100.0], [10000.0]]))
    assert values.weight.grad is not None
    assert values.weight.grad.coalesce().indices().tolist() == [[0, 2]]
    assert values.weight.grad.to_dense().tolist() == [[2.0], [0.0], [30001.0]]


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_bag_sum_is_a_matrix_product(seed: int) -> None:
    tokens = bags(seed)
    sparse, dense = both_gradients(lambda t: t.bag_sum(tokens), lambda t: dense_bag_sum(t, tokens))
    assert sparse.is_sparse
    torch.testing.assert_close(sparse.to_dense(), dense, rtol=1e-12, atol=1e-12)


def test_rows_is_indexing() -> None:
    ids = torch.tensor([1, 4, 10])
    sparse, dense = both_gradients(lambda t: t.rows(ids), lambda t: t[ids])
    assert sparse.is_sparse
    torch.testing.assert_close(sparse.to_dense(), dense, rtol=0, atol=0)


def test_gradients_hold_each_row_that_was_read_once_and_in_order() -> None:
    """Uncoalesced by its flag (autograd drops it), but not in fact: the optimiser need not sort."""
    tokens, ids = bags(0), torch.tensor([1, 4, 10])
    for read, expected in ((lambda t: t.bag_sum(tokens), tokens.ids.unique()), (lambda t: t.rows(ids), ids)):
        parameter = table()
        some_loss(read(parameter)).backward()
        assert parameter.weight.grad is not None
        assert torch.equal(parameter.weight.grad._indices()[0], expected)


def test_sequences_are_indexing_and_padding_reads_no_row() -> None:
    """Padding has the id 0, which is the most frequent word, and here one that no text has."""
    tokens = PaddedTokens(
        torch.tensor([[3, 7, 3], [10, 0, 0], [0, 0, 0]]),
        torch.tensor([[True, True, True], [True, False, False], [False, False, False]]),
    )
    sparse, dense = both_gradients(lambda t: t.sequences(tokens), lambda t: t[tokens.ids] * tokens.mask[:, :, None])
    torch.testing.assert_close(sparse.to_dense(), dense, rtol=0, atol=0)
    assert sparse._indices().tolist() == [[3, 7, 10]]
    nothing = PaddedTokens(tokens.ids[2:], tokens.mask[2:])
    parameter = table()
    out = parameter.sequences(nothing)
    assert not out.any()
    out.sum().backward()
    assert parameter.weight.grad is not None
    assert parameter.weight.grad._nnz() == 0
    assert Table(torch.zeros(0, D)).sequences(nothing).shape == (1, 3, D)


def test_a_word_that_no_text_of_a_batch_has_stays_where_it_is() -> None:
    parameter, ids = Table(torch.ones(V, D)), torch.tensor([[0, 4], [5, 0]])
    optimizer = AdamW(parameter.parameters(), 0.1)
    before = parameter.weight.detach().clone()
    for mask, moved in (([[1, 1], [1, 0]], [0, 4, 5]), ([[0, 1], [1, 0]], [4, 5]), ([[0, 0], [0, 0]], [])):
        optimizer.zero_grad()
        some_loss(parameter.sequences(PaddedTokens(ids, torch.tensor(mask, dtype=torch.bool)))).backward()
        optimizer.step()
        now = parameter.weight.detach().clone()
        assert (now != before).any(1).nonzero()[:, 0].tolist() == moved
        before = now


def test_one_table_read_from_two_sides_has_the_sum_of_both_gradients() -> None:
    """As documents and labels do; some features occur on both sides, some on one."""
    left, right, ids = bags(3), bags(4, (2, 2, 0, 1)), torch.tensor([0, 5, 6, 7])
    sparse, dense = both_gradients(
        lambda t: unit(t.bag_sum(left)) @ (t.bag_sum(right) + t.rows(ids)).T,
        lambda t: normalize(dense_bag_sum(t, left)) @ (dense_bag_sum(t, right) + t[ids]).T,
    )
    torch.testing.assert_close(sparse.to_dense(), dense, rtol=1e-10, atol=1e-10)
    indices = sparse._indices()[0]
    assert (indices.diff() > 0).all()


def test_no_bags_and_no_rows() -> None:
    parameter = table()
    empty = bags(0, ())
    assert parameter.bag_sum(empty).shape == (0, D)
    all_empty = bags(0, (0, 0))
    out = parameter.bag_sum(all_empty)
    assert out.tolist() == [[0.0] * D] * 2
    (out.sum() + parameter.rows(torch.zeros(0, dtype=torch.int64)).sum()).backward()
    assert parameter.weight.grad is not None
    assert parameter.weight.grad._nnz() == 0


def test_without_gradients_the_numbers_are_the_same() -> None:
    parameter, tokens = table(), bags(0)
    with_gradient = parameter.bag_sum(tokens)
    units = unit(with_gradient)
    with torch.no_grad():
        torch.testing.assert_close(parameter.bag_sum(tokens), with_gradient.detach(), rtol=0, atol=0)
        torch.testing.assert_close(unit(with_gradient), units.detach(), rtol=0, atol=0)
    assert with_gradient.requires_grad
    assert units.requires_grad


def test_blocks_are_all_rows_in_order_and_what_is_written_into_them_is_written_into_the_table() -> None:
    read = table()
    found = list(read.blocks(4))
    assert [(part.start, part.stop) for part, _ in found] == [(0, 4), (4, 8), (8, 11)]
    assert torch.equal(torch.cat([rows for _, rows in found]), read.weight)
    assert not any(rows.requires_grad for _, rows in found)
    for part, rows in read.blocks(4):
        rows.fill_(part.start)
    assert read.weight[:, 0].tolist() == [0.0] * 4 + [4.0] * 4 + [8.0] * 3
    assert [part for part, _ in read.blocks()] == [slice(0, V)]
    assert list(Table(torch.zeros(0, D)).blocks()) == []


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_table_is_exported_and_searched_as_float32(dtype: torch.dtype) -> None:
    made = Table(table().weight.detach().to(dtype))
    assert (len(made), made.width) == (V, D)
    exported = made.export()
    assert exported.dtype == np.float32
    np.testing.assert_array_equal(exported, made.weight.detach().float())
    queries = np.random.default_rng(1).normal(size=(3, D)).astype(np.float32)
    hidden = csr(np.array([0, 1, 2]), np.argmax(queries @ exported.T, 1), (3, V))
    for exclude in (None, hidden):
        found, expected = made.search(queries, 4, exclude=exclude), Exact(exported).search(queries, 4, exclude=exclude)
        np.testing.assert_array_equal(found.ids, expected.ids)
        np.testing.assert_array_equal(found.scores, expected.scores)
    assert not (made.search(queries, 1, exclude=hidden).ids == made.search(queries, 1).ids).any()


class Nested(nn.Module):
    """Tables at two depths, beside parameters with the names that such have."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = FreeVectors(np.zeros((2, 3), np.float32))
        self.bank = Table(torch.zeros(4, 1))
        self.linear = nn.Linear(2, 2)


def test_a_state_from_when_tables_were_plain_parameters_is_loaded() -> None:
    made = Nested()
    state = {name: torch.full_like(tensor, at) for at, (name, tensor) in enumerate(made.state_dict().items(), 1)}
    assert list(state) == ["inner.table.weight", "bank.weight", "linear.weight", "linear.bias"]
    old = {{"inner.table.weight": "inner.table", "bank.weight": "bank"}.get(name, name): state[name] for name in state}
    assert module_state(made).keys() == old.keys()
    for given in (state, old):
        loaded = Nested()
        load_module_state(loaded, given)
        assert all(torch.equal(tensor, state[name]) for name, tensor in loaded.state_dict().items())
    with pytest.raises(RuntimeError, match="Missing key"):
        load_module_state(made, {name: tensor for name, tensor in old.items() if name != "bank"})


def test_unit_is_normalize() -> None:
    x = torch.randn(7, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    y = x.detach().clone().requires_grad_()
    some_loss(unit(x)).backward()
    some_loss(normalize(y)).backward()
    assert x.grad is not None
    assert y.grad is not None
    torch.testing.assert_close(unit(x), normalize(y), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(x.grad, y.grad, rtol=1e-12, atol=1e-12)
    assert torch.autograd.gradcheck(unit, (x,))


def test_unit_of_a_zero_row_is_zero_and_passes_its_gradient_on() -> None:
    x = torch.tensor([[0.0, 0.0], [3.0, 4.0]], requires_grad=True)
    y = unit(x)
    torch.testing.assert_close(y, torch.tensor([[0.0, 0.0], [0.6, 0.8]]))
    y.backward(torch.tensor([[7.0, -2.0], [3.0, 4.0]]))
    assert x.grad is not None
    assert x.grad[0].tolist() == [7.0, -2.0]
    torch.testing.assert_close(x.grad[1], torch.zeros(2), rtol=0, atol=1e-6)  # along the row itself: no way to go


@pytest.mark.parametrize("length", [1e-12, 1e12])
def test_unit_of_tiny_and_of_huge_rows(length: float) -> None:
    x = torch.tensor([[0.6, 0.8]]) * length
    torch.testing.assert_close(unit(x), torch.tensor([[0.6, 0.8]]))
