"""The optimiser: dense parameters as torch's AdamW, rows of a table as torch's SparseAdam."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from longtail.modules.table import Table
from longtail.train import optimizer as optimizer_module
from longtail.train.optimizer import AdamW

V, D = 37, 4


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def sparse(ids: Tensor, values: Tensor) -> Tensor:
    return torch.sparse_coo_tensor(ids[None], values, (V, D), check_invariants=True)


def row_gradients(steps: int, rows: int = 9) -> Iterator[tuple[Tensor, Tensor]]:
    """Distinct ascending rows, other ones at each step, and their gradients."""
    for step in range(steps):
        generator = torch.Generator().manual_seed(100 + step)
        yield torch.randperm(V, generator=generator)[:rows].sort().values, numbers(rows, D, seed=step)


@pytest.fixture(params=[1, 4, 512])
def at_once(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Rows that are updated together: one, a number that does not divide theirs, and more than there are."""
    monkeypatch.setattr(optimizer_module, "_ROWS_AT_ONCE", request.param)
    return int(request.param)


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_dense_parameters_are_updated_as_by_torch(weight_decay: float) -> None:
    ours, theirs = ([nn.Parameter(numbers(3, 5)), nn.Parameter(numbers(7))] for _ in range(2))
    settings = {"betas": (0.8, 0.95), "weight_decay": weight_decay}
    optimizers = (
        AdamW(ours, 0.02, epsilon=1e-6, **settings),
        torch.optim.AdamW(theirs, 0.02, eps=1e-6, foreach=False, **settings),
    )
    for step in range(20):
        for parameters, optimizer in zip((ours, theirs), optimizers, strict=True):
            for parameter in parameters:
                parameter.grad = numbers(*parameter.shape, seed=step)
            optimizer.step()
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-6, atol=1e-7)
        assert not torch.equal(mine, numbers(*mine.shape))


def test_rows_are_updated_as_by_torch(at_once: int) -> None:
    ours, theirs = nn.Parameter(numbers(V, D)), nn.Parameter(numbers(V, D))
    optimizers = AdamW([ours], 0.02, epsilon=1e-12), torch.optim.SparseAdam([theirs], 0.02, eps=1e-12)
    for ids, values in row_gradients(8):
        for parameter, optimizer in zip((ours, theirs), optimizers, strict=True):
            parameter.grad = sparse(ids, values.clone())
            optimizer.step()
    torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("row_wise", [False, True])
def test_threads_leave_the_numbers_as_they_are(
    row_wise: bool, monkeypatch: pytest.MonkeyPatch, set_threads: Callable[[int], None]
) -> None:
    monkeypatch.setattr(optimizer_module, "_ROWS_AT_ONCE", 4)
    tables = []
    for threads in (1, 3):
        set_threads(threads)
        tables.append(nn.Parameter(numbers(V, D)))
        optimizer = AdamW(tables[-1:], 0.02, weight_decay=0.1, row_wise=row_wise)
        for ids, values in row_gradients(8):
            tables[-1].grad = sparse(ids, values)
            optimizer.step()
        assert torch.get_num_threads() == threads
    assert torch.equal(*tables)


def test_rows_without_a_gradient_keep_value_and_moments(at_once: int) -> None:
    parameter = nn.Parameter(numbers(V, D))
    optimizer = AdamW([parameter], 0.1, weight_decay=0.5)
    parameter.grad = sparse(torch.arange(V), numbers(V, D, seed=1))
    optimizer.step()
    moments = [optimizer.state[parameter][name] for name in ("exp_avg", "exp_avg_sq")]
    before = [tensor.detach().clone() for tensor in (parameter, *moments)]
    parameter.grad = sparse(torch.tensor([3, 20]), numbers(2, D, seed=2))
    optimizer.step()
    others = torch.tensor([i for i in range(V) if i not in (3, 20)])
    for old, new in zip(before, (parameter, *moments), strict=True):
        assert torch.equal(old[others], new[others])
        assert not (old[[3, 20]] == new[[3, 20]]).any()


def test_all_rows_at_once_are_a_dense_update(at_once: int) -> None:
    """With weight decay, and with epsilon where AdamW has it (SparseAdam's is not corrected for the first steps)."""
    rows, dense = nn.Parameter(numbers(V, D)), nn.Parameter(numbers(V, D))
    optimizers = (
        AdamW([rows], 0.02, weight_decay=0.1, epsilon=0.01),
        AdamW([dense], 0.02, weight_decay=0.1, epsilon=0.01),
    )
    for step in range(5):
        values = numbers(V, D, seed=step)
        for parameter, gradient in ((rows, sparse(torch.arange(V), values)), (dense, values)):
            parameter.grad = gradient.clone()
        for optimizer in optimizers:
            optimizer.step()
    torch.testing.assert_close(rows, dense, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 0, 1], [0, 2, 1]])
def test_a_gradient_whose_rows_are_unsorted_or_repeated_is_summed_first(at_once: int, order: list[int]) -> None:
    sums, parts = nn.Parameter(numbers(V, D)), nn.Parameter(numbers(V, D))
    sums.grad = sparse(torch.tensor([2, 5]), torch.tensor([[5.0] * D, [-1.0] * D]))
    parts.grad = sparse(torch.tensor([2, 2, 5])[order], torch.tensor([[2.0] * D, [3.0] * D, [-1.0] * D])[order])
    for parameter in (sums, parts):
        AdamW([parameter], 0.1).step()
    assert torch.equal(sums, parts)


def test_the_first_step_by_hand() -> None:
    """Both moments are corrected to the gradient and its square, so each weight moves by the learning rate."""
    parameter = nn.Parameter(torch.tensor([[1.0], [2.0], [3.0]]))
    parameter.grad = torch.sparse_coo_tensor([[0, 2]], [[50.0], [-0.2]], (3, 1), check_invariants=True)
    AdamW([parameter], 0.1, weight_decay=0.5).step()
    expected = [[1 * (1 - 0.1 * 0.5) - 0.1], [2.0], [3 * (1 - 0.1 * 0.5) + 0.1]]
    torch.testing.assert_close(parameter.detach(), torch.tensor(expected), rtol=1e-6, atol=0)


def test_values_that_are_not_contiguous() -> None:
    straight, turned = nn.Parameter(numbers(V, D)), nn.Parameter(numbers(V, D))
    ids, values = torch.tensor([1, 6, 8]), numbers(3, D)
    straight.grad, turned.grad = sparse(ids, values), sparse(ids, values.T.contiguous().T)
    for parameter in (straight, turned):
        AdamW([parameter], 0.1).step()
    assert torch.equal(straight, turned)


def test_no_rows_and_no_gradient_change_nothing() -> None:
    empty, without = nn.Parameter(numbers(V, D)), nn.Parameter(numbers(V, D))
    empty.grad = sparse(torch.zeros(0, dtype=torch.int64), torch.zeros(0, D))
    AdamW([empty, without], 0.1, weight_decay=0.5).step()
    assert torch.equal(empty, numbers(V, D))
    assert torch.equal(without, numbers(V, D))


def test_groups_have_their_own_settings() -> None:
    slow, fast = nn.Parameter(torch.zeros(2)), nn.Parameter(torch.zeros(2))
    optimizer = AdamW([{"params": [slow]}, {"params": [fast], "lr": 0.5}], 0.1)
    for parameter in (slow, fast):
        parameter.grad = torch.ones(2)
    optimizer.step()
    torch.testing.assert_close(torch.stack([slow, fast]).detach(), torch.tensor([[-0.1, -0.1], [-0.5, -0.5]]))


def test_the_state_comes_back() -> None:
    """Five steps are bit-equal to two steps, a saved state and three more."""

    def run(parameters: list[nn.Parameter], optimizer: AdamW, steps: range) -> None:
        for step, (ids, values) in enumerate(row_gradients(5)):
            if step in steps:
                parameters[0].grad, parameters[1].grad = sparse(ids, values), numbers(3, seed=step)
                optimizer.step()

    def fresh() -> list[nn.Parameter]:
        return [nn.Parameter(numbers(V, D)), nn.Parameter(numbers(3))]

    through = fresh()
    run(through, AdamW(through, 0.1, weight_decay=0.1), range(5))
    first = fresh()
    optimizer = AdamW(first, 0.1, weight_decay=0.1)
    run(first, optimizer, range(2))
    second = [nn.Parameter(parameter.detach().clone()) for parameter in first]
    resumed = AdamW(second, 0.1, weight_decay=0.1)
    resumed.load_state_dict(optimizer.state_dict())
    run(second, resumed, range(2, 5))
    for one, other in zip(through, second, strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_one_second_moment_a_row_is_the_mean_over_the_row(at_once: int, weight_decay: float) -> None:
    table = nn.Parameter(numbers(V, D))
    optimizer = AdamW([{"params": [table], "row_wise": True}], 0.02, epsilon=1e-6, weight_decay=weight_decay)
    value, first, second = numbers(V, D), torch.zeros(V, D), torch.zeros(V)
    for step, (ids, gradient) in enumerate(row_gradients(8), 1):
        table.grad = sparse(ids, gradient.clone())
        optimizer.step()
        for i, g in zip(ids.tolist(), gradient, strict=True):
            first[i] = 0.9 * first[i] + 0.1 * g
            second[i] = 0.999 * second[i] + 0.001 * (g * g).mean()
            root = (second[i] / (1 - 0.999**step)).sqrt() + 1e-6
            value[i] = value[i] * (1 - 0.02 * weight_decay) - 0.02 * (first[i] / (1 - 0.9**step)) / root
    torch.testing.assert_close(table.detach(), value, rtol=1e-5, atol=1e-6)
    assert optimizer.state[table]["exp_avg_sq"].shape == (V, 1)


def test_a_dense_parameter_keeps_all_second_moments() -> None:
    ours, theirs = nn.Parameter(numbers(3, 5)), nn.Parameter(numbers(3, 5))
    for parameter, row_wise in ((ours, True), (theirs, False)):
        optimizer = AdamW([parameter], 0.02, row_wise=row_wise)
        parameter.grad = numbers(3, 5, seed=1)
        optimizer.step()
    assert torch.equal(ours, theirs)


def test_training_does_not_wait_for_a_compiler_that_it_does_not_use(tmp_path: Path) -> None:
    """Torch imports its own with its first optimiser, and with the state of one: longer than many a small run."""
    program = """
import sys
import longtail
from pathlib import Path
from longtail.recipes import ngame
from longtail.train.run import Run
dataset = longtail.Dataset.from_texts(["red fox", "blue whale"] * 40, [[0], [1]] * 40, ["fox", "whale"])
run = Run(Path(sys.argv[1]), interval=0)
assert "fused" in ngame(dataset, out=run, batch=16, epochs=1, classifier_epochs=1, validation=0.2).kinds
assert "torch._dynamo" not in sys.modules
"""
    command = [sys.executable, "-c", program, tmp_path / "run"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert not done.returncode, done.stderr


@pytest.mark.parametrize("width", [16, 17, 257])
def test_what_becomes_of_a_row_does_not_depend_on_the_rows_beside_it(width: int) -> None:
    """Bit by bit: rows of a table that is cut between processes have others beside them than those of a whole one."""
    start, gradient = torch.randn(2, 40, width, generator=torch.Generator().manual_seed(0))

    def updated(rows: Tensor) -> Tensor:
        table = Table(start.clone())
        (table.rows(rows) * gradient[rows]).sum().backward()
        AdamW([table.weight], 0.1, weight_decay=0.1).step()
        return table.weight.detach()

    every = updated(torch.arange(40))
    for rows in (torch.tensor([7]), torch.tensor([1, 7, 8]), torch.arange(3, 40, 4)):
        assert torch.equal(updated(rows)[rows], every[rows])


def test_numbers_of_two_bytes_are_updated_as_those_of_four() -> None:
    """Each is a sum of two bfloat16 numbers, which have 16 bits, not 24."""
    for at_once in (2**22, 3):
        wide, halves = nn.Parameter(numbers(7, 5).bfloat16().float()), nn.Parameter(numbers(7, 5).bfloat16())
        optimizers = [AdamW([parameter], 1e-3, weight_decay=0.1) for parameter in (wide, halves)]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(optimizer_module, "_NUMBERS_AT_ONCE", at_once)
            for step in range(50):
                for parameter, optimizer in zip((wide, halves), optimizers, strict=True):
                    parameter.grad = numbers(7, 5, seed=step).bfloat16().to(parameter.dtype)
                    optimizer.step()
        state = optimizers[1].state[halves]
        assert {tensor.dtype for name, tensor in state.items() if name != "step"} == {torch.bfloat16}
        torch.testing.assert_close(halves.float() + state["below"], wide.detach(), rtol=1e-3, atol=5e-4)
        assert torch.equal((halves.float() + state["below"]).bfloat16(), halves.detach())


@pytest.mark.parametrize("compensated", [True, False])
def test_small_updates_of_bfloat16_add_up(compensated: bool) -> None:
    """A quadratic whose minimum is at 2, from 1 on: the next number above 1 is 1/128 away, a step is 1e-3."""
    parameter = nn.Parameter(torch.ones(3, dtype=torch.bfloat16))
    optimizer = AdamW([parameter], 1e-3)
    plain = torch.optim.AdamW([parameter], 1e-3, weight_decay=0.0)
    for _ in range(2500):
        parameter.grad = (parameter.detach() - 2).bfloat16()
        (optimizer if compensated else plain).step()
    expected = 2.0 if compensated else 1.0  # plain numbers are where they began
    torch.testing.assert_close(parameter.detach().float(), torch.full((3,), expected), rtol=0, atol=0.05)


def test_the_state_of_numbers_of_two_bytes_comes_back_as_it_was() -> None:
    found = []
    for stops in (False, True):
        parameter = nn.Parameter(numbers(6).bfloat16())
        optimizer = AdamW([parameter], 1e-3)
        for step in range(10):
            parameter.grad = numbers(6, seed=step).bfloat16()
            optimizer.step()
            if stops and step == 4:
                state, optimizer = optimizer.state_dict(), AdamW([parameter], 1e-3)
                optimizer.load_state_dict(state)
        found.append((parameter.detach(), optimizer.state[parameter]["below_sq"]))
    assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))
