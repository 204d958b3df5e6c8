"""SGD in the backward pass: the steps of torch's own SGD, bit-equal after a crash, and stochastic rounding."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from longtail.batches.loader import Loader
from longtail.batches.pool import Pool
from longtail.batches.samplers import Shuffled
from longtail.data.dataset import Dataset
from longtail.data.sparse import csr
from longtail.losses.full.chunked import binary_cross_entropy, decoupled_softmax, sup_con
from longtail.losses.full.targets import SparseTargets
from longtail.modules.table import Table
from longtail.text.tokens import VectorTokens
from longtail.train.course import Course, linear
from longtail.train.fit import fit, seconds_a_step, set_learning_rate
from longtail.train.in_backward import SGDInBackward, stochastically_rounded
from longtail.train.optimizer import AdamW
from longtail.train.run import Run

B, L, D = 7, 29, 5
LOSSES = (binary_cross_entropy, sup_con, decoupled_softmax)


def numbers(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def some_targets(step: int) -> SparseTargets:
    draws = np.random.default_rng(step)
    positives = csr(np.arange(B), draws.integers(1, L, B), (B, L))
    hidden = csr(np.repeat(np.arange(B), 2), np.stack([np.zeros(B, int), draws.integers(1, L, B)], 1).ravel(), (B, L))
    return SparseTargets.of(positives, hidden, torch.arange(B))


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_steps_are_those_of_sgd_on_the_dense_gradient(loss, momentum):
    stepped, plain = Table(numbers(L, D)), nn.Parameter(numbers(L, D))
    host = AdamW([nn.Parameter(torch.zeros(1))], 1.0)
    update = SGDInBackward(host, stepped, 0.5, momentum=momentum, weight_decay=0.1)
    theirs = torch.optim.SGD([plain], 0.5, momentum=momentum)
    for step in range(5):
        for optimizer in (host, theirs):
            set_learning_rate(optimizer, 1 / (step + 1))
        documents = [numbers(B, D, seed=step).requires_grad_() for _ in range(2)]
        with torch.no_grad():
            plain.grad = None
        loss(documents[1], plain, some_targets(step)).backward()
        with torch.no_grad():
            plain.mul_(1 - 0.5 / (step + 1) * 0.1)
        theirs.step()
        loss(documents[0], stepped, some_targets(step), update=update, chunk=4).backward()
        host.step()
        assert stepped.weight.grad is None
        torch.testing.assert_close(documents[0].grad, documents[1].grad)
    torch.testing.assert_close(stepped.weight, plain)
    assert not torch.allclose(stepped.weight.detach(), numbers(L, D), atol=1e-2)
    assert ("momentum" in host.state[stepped.weight]) == (momentum > 0)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_label_that_is_masked_for_every_document_stays(loss, dtype):
    table = Table(numbers(L, D).to(dtype))
    update = SGDInBackward(AdamW([nn.Parameter(torch.zeros(1))], 1.0), table, 0.5, momentum=0.5)
    for step in range(3):
        loss(numbers(B, D, seed=step, dtype=torch.float32), table, some_targets(step), update=update).backward()
    assert torch.equal(table.weight[0], numbers(L, D).to(dtype)[0])
    assert (table.weight != numbers(L, D).to(dtype)).any(1).sum() > L / 3


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_small_steps_of_a_bfloat16_table_add_up(momentum):
    """Each step is a hundredth of the gap between two bfloat16 numbers: rounded to the nearest, none would be taken."""
    wide, narrow = (Table(torch.ones(4096, 1).to(dtype)) for dtype in (torch.float32, torch.bfloat16))
    documents = torch.full((1, 1), 2**-7 / 100)
    torch.manual_seed(0)
    for table in (wide, narrow):
        update = SGDInBackward(AdamW([nn.Parameter(torch.zeros(1))], 1.0), table, 1.0 - momentum, momentum=momentum)
        for _ in range(100):
            for rows, weights in table.blocks():
                update(rows, weights.to(torch.float32), torch.ones(4096, 1), documents)
    assert 0.9 < float(wide.weight.detach().mean()) < 0.9999
    assert float(narrow.weight.detach().float().mean()) == pytest.approx(float(wide.weight.detach().mean()), abs=2e-4)


def test_rounding_is_right_on_average_and_to_a_neighbour():
    x = torch.cat([numbers(1000, dtype=torch.float32), torch.tensor([1e-30, -3e30, 1 + 2**-9])])
    torch.manual_seed(0)
    draws = torch.stack([stochastically_rounded(x).double() for _ in range(400)])
    gaps = 2.0 ** (torch.frexp(x)[1].double() - 8)
    assert ((draws - x).abs() < gaps).all()
    assert ((draws.mean(0) - x).abs() < 5 * gaps / 40).all()  # a mean of 400 draws has a deviation of gap / 40 at most
    assert ((draws.mean(0) - x) / gaps).abs().mean() < 0.02
    exact = x.bfloat16()
    assert torch.equal(stochastically_rounded(exact.float()), exact)


class Crash(Exception):
    pass


class Stage:
    """Classifiers over every label, and a linear encoder that is trained with them."""

    def __init__(self, run, *, momentum, dtype, crash_at=None):
        texts = [f"text {i}" for i in range(60)]
        self.data = Dataset.from_texts(texts, [[i % L, (3 * i + 1) % L] for i in range(60)], ["label"] * L).train
        vectors = numbers(60, 8, dtype=torch.float32)
        self.encoder = nn.Linear(8, D)
        self.classifiers = Table(numbers(L, D, seed=2).to(dtype))
        with torch.no_grad():
            self.encoder.weight.copy_(numbers(D, 8, seed=1))
            self.encoder.bias.zero_()
        pool = Pool(self.data.targets, positives=0)
        source = lambda rows: VectorTokens(vectors[torch.from_numpy(rows)])  # noqa: E731
        self.batches = Loader(self.data, Shuffled(60, 10, seed=3), pool, source, None, seed=4)
        self.optimizer = AdamW(self.encoder.parameters(), 0.01)
        self.update = SGDInBackward(self.optimizer, self.classifiers, 0.5, momentum=momentum)
        self.run, self.crash_at, self.steps = run, crash_at, 0

    def objective(self, b):
        if self.steps == self.crash_at:
            raise Crash
        self.steps += 1
        x = nn.functional.dropout(self.encoder(b.documents.values), 0.2)
        targets = SparseTargets.of(self.data.targets, self.data.filtered, b.rows)
        options = {"update": self.update, "value_from": 2, "chunk": 8}
        return {"bce": binary_cross_entropy(x, self.classifiers, targets, **options)}

    def fit(self):
        modules = {"encoder": self.encoder, "classifiers": self.classifiers}
        options = {"modules": modules, "course": Course(2, linear(4)), "seed": 5}
        fit(self.objective, self.batches, self.optimizer, progress=self.run.progress, stage="all", **options)
        return [parameter.detach().clone() for module in modules.values() for parameter in module.parameters()]


@pytest.mark.parametrize("crash_at", [1, 6, 9])
@pytest.mark.parametrize(("momentum", "dtype"), [(0.0, torch.float32), (0.9, torch.float32), (0.9, torch.bfloat16)])
def test_a_run_that_was_stopped_ends_bit_equal(tmp_path, crash_at, momentum, dtype):
    options = {"momentum": momentum, "dtype": dtype}
    start = Stage(Run(), **options).classifiers.weight.detach().clone()
    whole = Stage(Run(), **options).fit()
    with pytest.raises(Crash):
        Stage(Run(tmp_path, interval=0.0), **options, crash_at=crash_at).fit()
    again = Stage(Run(tmp_path, interval=0.0), **options).fit()
    assert all(torch.equal(one, other) for one, other in zip(whole, again, strict=True))
    assert not torch.equal(whole[-1], start)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_timing_a_step_changes_nothing(dtype):
    stage, other = (Stage(Run(), momentum=0.9, dtype=dtype) for _ in range(2))
    assert seconds_a_step(stage.objective, stage.batches, stage.optimizer) > 0
    assert torch.equal(stage.classifiers.weight, other.classifiers.weight)
    assert all(torch.equal(one, two) for one, two in zip(stage.fit(), other.fit(), strict=True))


def test_no_step_is_taken_without_a_backward_pass():
    stage = Stage(Run(), momentum=0.0, dtype=torch.float32)
    before = stage.classifiers.weight.detach().clone()
    stage.objective(next(stage.batches.epoch(0)))
    assert torch.equal(stage.classifiers.weight, before)
