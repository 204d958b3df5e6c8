"""Steps that several shards take together, each on its part of a batch, with tables that are cut between them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor, nn

from longtail.batches.batch import Batch
from longtail.batches.loader import Loader
from longtail.devices import seed as seed_of
from longtail.modules.table import Table
from longtail.shards.rows import RowsHere
from longtail.shards.shard import Part, Shard, Shards, added
from longtail.train.finite import must_be_a_number

_ROWS = "rows"  # of a table itself, beside the optimiser's state of them

Objective: TypeAlias = Callable[[Batch], dict[str, Tensor]]
"""The loss terms of a batch, or of a part of one, by name, times their weights: means over documents."""


class Taken(NamedTuple):
    """A step that was taken.

    Attributes:
        terms: loss terms by name, of the whole batch.
        rows: documents of the batch.
        asked: whether the first process has asked to stop after it for a checkpoint.
    """

    terms: dict[str, float]
    rows: int
    asked: bool


class Together:
    """Takes the steps of a stage in shards.

    In a step, each shard runs the objective on its documents. A term counts by the share of the batch that these are,
    so that the terms of all shards add up to that of the whole batch: losses are means over documents. Gradients of
    tables are made by who owns the rows (`longtail.modules.owned_rows`), those of all other parameters are added up
    over the shards, in their order, by one process for each part of them, and every process takes the same step.

    Tables are cut, and the optimiser's state of them, while steps are taken, and `whole` in between: whatever happens
    between epochs sees all rows.

    Args:
        shards: of the run.
        modules: what is trained, by name.
        optimizer: of their parameters.
    """

    def __init__(self, shards: Shards, modules: Mapping[str, nn.Module], optimizer: torch.optim.Optimizer) -> None:
        self._shards, self._modules, self._optimizer = shards, [*modules.values()], optimizer
        parts = {id(part): part for module in modules.values() for part in module.modules()}
        self._tables = [part for part in parts.values() if isinstance(part, Table) and part.weight.requires_grad]
        of_tables = {id(table.weight) for table in self._tables}
        groups = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        self._dense = [parameter for parameter in groups if id(parameter) not in of_tables and parameter.requires_grad]
        self._buffers = [
            (part, name)
            for part in parts.values()
            for name, held in part._buffers.items()  # noqa: SLF001
            if held is not None
        ]
        self._device = groups[0].device

    def batches(self, batches: Loader, epoch: int, start: int, stop: int) -> Iterator[list[Batch]]:
        """The parts of each batch of an epoch that are of this process, from step ``start`` on, before ``stop``."""
        of = [batches.part_of(Part(index, self._shards.count)) for index in self._shards.own]
        return (list(parts) for parts in zip(*(one.epoch(epoch, start, stop) for one in of), strict=True))

    def step(self, objective: Objective, parts: Sequence[Batch], *, seed: int, ask: bool) -> Taken:
        """One step; see `longtail.train.fit.take_step`.

        Args:
            objective: gives the loss terms of a part of a batch.
            parts: of the own shards.
            seed: of the step's random numbers; each shard has its own.
            ask: whether to ask for a checkpoint, which counts if the first process does.
        """
        self._optimizer.zero_grad(set_to_none=True)
        swapped = _Swapped(len(parts), self._dense, self._buffers, self._device)

        def work(shard: Shard) -> Taken:
            batch = parts[shard.index - self._shards.own[0]].to(self._device)
            seed_of(self._device, shard.own_seed(seed))
            shard.same, shard.wholes = batch.shared_ids(), batch.wholes()
            terms = objective(batch)
            rows = len(batch.rows)
            said = shard.told([rows, {name: float(term.detach()) for name, term in terms.items()}, ask])
            every = sum(one[0] for one in said)
            values: dict[str, float] = {}
            for count, of_shard, _ in said:
                for name, value in of_shard.items():
                    values[name] = values.get(name, 0.0) + value * count / every
            must_be_a_number(values)
            shard.backward(torch.stack(list(terms.values())).sum() * (rows / every))
            return Taken(values, every, bool(said[0][2]))

        with torch.random.fork_rng(devices=[self._device] if self._device.type == "cuda" else []):
            taken = self._shards.step(work, swapped)[0]
        self._add_up(swapped)
        self._optimizer.step()
        return taken

    def _add_up(self, swapped: _Swapped) -> None:
        """Give every parameter that is no table the sum of its gradients in all shards; none where no shard has one.

        Buffers of modules become the mean of what the shards have made of them.
        """
        shards, ranks = self._shards, self._shards.ranks
        states = swapped.states()
        if not len(states[0]):
            return
        flat = torch.stack(states)  # (V / N, n)
        bounds = [Part(rank, ranks.world).of(flat.shape[1]) for rank in range(ranks.world)]
        came = ranks.exchange([flat[:, part].reshape(-1) for part in bounds])
        total = added([row for some in came for row in some.view(len(shards.own), -1)])
        swapped.take(torch.cat(ranks.exchange([total] * ranks.world)), shards.count)

    @contextmanager
    def whole(self) -> Iterator[None]:
        """Tables with all of their rows in every process, within this context."""
        cuts = {id(table): table.rows_here for table in self._tables}
        for table in self._tables:
            if (cut := table.rows_here) is not None:
                table.weight.data, table.rows_here = self._joined(table.weight.data, cut), None
        try:
            yield
        finally:
            for table in self._tables:
                if (cut := cuts[id(table)]) is not None:
                    table.weight.data, table.rows_here = self._cut(table.weight.data, cut), cut

    def begin(self) -> None:
        """Leave this process the rows of its own shards, of all tables and of the optimiser's state of them."""
        for module in self._modules:
            module.train()
        for table in self._tables:
            cut = RowsHere(len(table), self._shards.count, self._shards.own)
            for holder, name, value in self._state_of(table):
                holder[name] = self._cut(value, cut)
            table.weight.grad = None
            table.weight.data, table.rows_here = self._cut(table.weight.data, cut), cut

    def end(self) -> None:
        """Give every process all rows again, for good; the optimiser's state of them is of no use then."""
        for table in self._tables:
            if (cut := table.rows_here) is not None:
                table.weight.grad = None
                table.weight.data, table.rows_here = self._joined(table.weight.data, cut), None

    @property
    def apart(self) -> Together:
        """What a checkpoint has in files of their own: see `longtail.train.checkpoint.Apart`."""
        return self

    @property
    def own(self) -> range:
        """The shards of this process."""
        return self._shards.own

    def rows(self, shard: int) -> dict[str, Any]:
        """The rows of one of them, of each table and of the optimiser's state of it."""
        return {"tables": [self._rows_of(table, shard) for table in self._tables]}

    def take(self, shard: int, rows: Mapping[str, Any]) -> None:
        """Take back what `rows` gave."""
        for table, came in zip(self._tables, rows["tables"], strict=True):
            state, cut = self._optimizer.state[table.weight], table.rows_here
            assert cut is not None
            for name, value in came.items():
                if name != _ROWS and len(state[name]) != len(table.weight):
                    state[name] = value.new_zeros(len(table.weight), *value.shape[1:], device=self._device)
                held = table.weight.data if name == _ROWS else state[name]
                held[cut.part(shard)] = value

    @contextmanager
    def left_out(self) -> Iterator[None]:
        """Tables, and the optimiser's state of them, without rows, within this context."""
        weights = [table.weight.data for table in self._tables]
        held = [state for table in self._tables for state in self._state_of(table)]
        for holder, name, value in held:
            holder[name] = _no_rows(value)
        for table in self._tables:
            table.weight.data = _no_rows(table.weight.data)
        try:
            yield
        finally:
            for table, weight in zip(self._tables, weights, strict=True):
                table.weight.data = weight
            for holder, name, value in held:
                holder[name] = value

    def wait(self) -> None:
        """Go on when all processes have come here."""
        self._shards.ranks.wait()

    def _state_of(self, table: Table) -> Iterator[tuple[dict[str, Tensor], str, Tensor]]:
        state = self._optimizer.state.get(table.weight, {})
        for name, value in [*state.items()]:
            if isinstance(value, Tensor) and value.dim() and len(value) == len(table.weight):
                yield state, name, value

    def _rows_of(self, table: Table, shard: int) -> dict[str, Tensor]:
        assert table.rows_here is not None
        part = table.rows_here.part(shard)
        return {_ROWS: table.weight.data[part], **{name: value[part] for _, name, value in self._state_of(table)}}

    def _cut(self, whole: Tensor, cut: RowsHere) -> Tensor:
        return whole[torch.cat([cut.ids(index) for index in cut.own]).to(whole.device)]

    def _joined(self, own: Tensor, cut: RowsHere) -> Tensor:
        """All rows, of those that each process has."""
        whole = own.new_empty(cut.length, *own.shape[1:])
        each = len(cut.own)
        for rank, rows in enumerate(self._shards.ranks.exchange([own] * self._shards.ranks.world)):
            of = RowsHere(cut.length, cut.count, range(rank * each, (rank + 1) * each))
            whole[torch.cat([of.ids(index) for index in of.own]).to(own.device)] = rows
        return whole


def _no_rows(tensor: Tensor) -> Tensor:
    return tensor.new_empty(0, *tensor.shape[1:])


class _Swapped:
    """What the shards of one process write to, and must not share: gradients, and buffers of modules.

    It is called with the place of the shard whose turn it is.
    """

    def __init__(
        self, count: int, dense: list[Tensor], buffers: list[tuple[nn.Module, str]], device: torch.device
    ) -> None:
        self._dense, self._at, self._device = dense, 0, device
        self._gradients: list[list[Tensor | None]] = [[None] * len(dense) for _ in range(count)]
        self._places = buffers
        held = [module.get_buffer(name) for module, name in buffers]
        self._buffers = [held, *([buffer.clone() for buffer in held] for _ in range(count - 1))]
        self._before = [buffer.clone() for buffer in held]

    def __call__(self, place: int) -> None:
        self._gradients[self._at] = [parameter.grad for parameter in self._dense]
        self._at = place
        for parameter, gradient in zip(self._dense, self._gradients[place], strict=True):
            parameter.grad = gradient
        for (module, name), held in zip(self._places, self._buffers[place], strict=True):
            module._buffers[name] = held  # noqa: SLF001

    def states(self) -> list[Tensor]:
        """What is to be added up, by place, (n,) float32, after all have worked: see `take`."""
        self(0)
        return [self._flat(*state) for state in zip(self._gradients, self._buffers, strict=True)]

    def _flat(self, gradients: Sequence[Tensor | None], buffers: Sequence[Tensor]) -> Tensor:
        """Gradients one after the other, whether there is each, and how buffers of floating point numbers changed."""
        parts = [
            torch.zeros(parameter.numel(), device=parameter.device)
            if gradient is None
            else gradient.float().reshape(-1)
            for parameter, gradient in zip(self._dense, gradients, strict=True)
        ]
        there = torch.tensor([float(gradient is not None) for gradient in gradients], device=self._device)
        changed = [
            torch.where(buffer == before, 0, buffer.float() - before.float()).reshape(-1)  # also of infinite ones
            for buffer, before in zip(buffers, self._before, strict=True)
            if buffer.is_floating_point()
        ]
        return torch.cat([*parts, there, *changed])

    def take(self, total: Tensor, count: int) -> None:
        """Take the sum of what `states` of so many shards are."""
        held = [pair for pair in zip(self._buffers[0], self._before, strict=True) if pair[0].is_floating_point()]
        sizes, numbers = [parameter.numel() for parameter in self._dense], [before.numel() for _, before in held]
        *gradients, there, changes = torch.split(total, [*sizes, len(sizes), sum(numbers)])
        for parameter, gradient, is_there in zip(self._dense, gradients, there.tolist(), strict=True):
            parameter.grad = gradient.view_as(parameter).to(parameter.dtype) if is_there else None
        for (buffer, before), change in zip(held, torch.split(changes, numbers), strict=True):
            buffer.copy_(before.float() + change.view_as(before) / count)
