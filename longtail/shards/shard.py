"""The parts that a training step is cut into: their rows of a batch, of its pool, and of every table.

A run has V shards, for good; each of N processes works on V / N of them, N a divisor of V. Whatever is computed is
computed shard by shard, and what shards send each other is added up in their order: so a run comes out the same, bit by
bit, for every N.

A shard runs the objective of a page on its own rows. Where it needs what others have (the labels that these encode, the
rows of a table that they own) the shards meet: `Shard.exchange`. What is met for is a leaf of the shard's graph. Once
its backward pass has reached all leaves, the meetings are gone through once more, last one first, and each takes its
gradients to where they belong (`Shard.backward`). So all shards meet in one order, whatever their graphs look like.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

import torch
from torch import Tensor

from longtail.ranks import Ranks, as_bytes, of_bytes
from longtail.shards.turns import Turns

P = ParamSpec("P")
Result = TypeVar("Result")
_SAID, _LENGTH = 1024, 8  # bytes of a value that is told, and of its length before it
_APART, _SEEDS = 0x9E3779B97F4A7C15, 2**63  # between the seeds of shards, and how many there are
_local = threading.local()


def here() -> Shard | None:
    """The shard that this thread works on; None outside of a step, and where a run has one only."""
    shard: Shard | None = getattr(_local, "shard", None)
    return shard


def as_here(work: Callable[P, Result]) -> Callable[P, Result]:
    """Some work of this thread's shard, whichever thread does it: gradients on a GPU are made by one of its own."""
    shard = here()

    def of_shard(*positional: P.args, **named: P.kwargs) -> Result:
        with _working_on(shard):
            return work(*positional, **named)

    return of_shard


@contextmanager
def _working_on(shard: Shard | None) -> Iterator[None]:
    before, _local.shard = here(), shard
    try:
        yield
    finally:
        _local.shard = before


def step_seed() -> int:
    """The seed of the random numbers of a step, the same in each of its parts."""
    shard = here()
    return (torch.initial_seed() - (0 if shard is None else shard.own_seed(0))) % _SEEDS


@dataclass(frozen=True, slots=True)
class Part:
    """Which of several parts.

    Attributes:
        index: in [0, count).
        count: of the parts.
    """

    index: int
    count: int

    def of(self, length: int) -> slice:
        """Which of so many things are in it: as even as can be, the first parts have one more."""
        size, more = divmod(length, self.count)
        start = self.index * size + min(self.index, more)
        return slice(start, start + size + (self.index < more))


WHOLE = Part(0, 1)


class Shard:
    """One of V parts of a step, and its meetings with the others.

    Attributes:
        index: in [0, count).
        count: V.
        part: which of V parts is its own.
        leads: whether it is the first of its process, which does what a process does once.
        same: ids that are the same in all shards, so that nobody asks for them.
        wholes: of how many texts all shards have a part, by the `id` of the tokens of the own part.
    """

    def __init__(self, index: int, shards: Shards) -> None:
        self.index, self.count, self._shards = index, shards.count, shards
        self.part, self.leads = Part(index, shards.count), index == shards.own[0]
        self.same: Sequence[Tensor] = ()
        self.wholes: Mapping[int, int] = {}
        self._met: list[Callable[[], None]] = []

    def own_seed(self, seed: int) -> int:
        """That of the shard's own random numbers in a step with a seed below 2^63."""
        return (seed + self.index * _APART) % _SEEDS

    def exchange(self, parts: Sequence[Tensor], counts: Sequence[int] | None = None) -> list[Tensor]:
        """Send each shard a tensor, and get one of each, without gradients.

        Args:
            parts: by shard, (n, ...) of any n; type and all other dimensions are the same everywhere.
            counts: by shard, the n of what comes, if it is known, which saves asking; in all shards or in none.

        Returns:
            By shard, what it has sent to this one.
        """
        return self._shards.meet(self.index, [part.detach() for part in parts], counts)

    def gather(self, own: Tensor, counts: Sequence[int] | None = None) -> list[Tensor]:
        """What each shard has, (n, ...) of any n, without gradients; ``counts`` as of `exchange`."""
        return self.exchange([own] * self.count, counts)

    def lengths(self, own: int) -> list[int]:
        """How many of something each shard has."""
        return torch.cat(self.gather(torch.tensor([own]), [1] * self.count)).tolist()

    def told(self, value: Any) -> list[Any]:
        """A value of JSON of each shard; the first kibibyte goes at once, so that nobody asks how long it is."""
        said = as_bytes(value)
        head = torch.zeros(_SAID, dtype=torch.uint8)
        head[:_LENGTH] = torch.tensor([len(said)]).view(torch.uint8)
        head[_LENGTH : _LENGTH + len(said)] = said[: _SAID - _LENGTH]
        heads = self.gather(head, [_SAID] * self.count)
        lengths = [int(one[:_LENGTH].clone().view(torch.int64)) for one in heads]
        if max(lengths) > _SAID - _LENGTH:
            return [of_bytes(one) for one in self.gather(said, lengths)]
        return [of_bytes(one[_LENGTH : _LENGTH + length]) for one, length in zip(heads, lengths, strict=True)]

    def gathers_same(self, ids: Tensor) -> list[Tensor]:
        """The ids that each shard has, which does not meet the others where all have the same."""
        return [ids] * self.count if any(ids is one for one in self.same) else self.gather(ids)

    def sizes_of(self, texts: Sized) -> list[int] | None:
        """How many texts each shard has of those that all have a part of; None where that is not known."""
        whole = self.wholes.get(id(texts))
        if whole is None:
            return None
        parts = (Part(index, self.count).of(whole) for index in range(self.count))
        return [part.stop - part.start for part in parts]

    def leaves(self, values: Sequence[Tensor], met: Callable[[list[Tensor]], None]) -> list[Tensor]:
        """Values that came out of a meeting, to be computed with.

        Args:
            values: without a graph.
            met: the same meeting on the way back: takes the gradients of the values.
        """
        found = [value.requires_grad_() for value in values]
        self._met.append(
            lambda: met([torch.zeros_like(value) if value.grad is None else value.grad for value in found])
        )
        return found

    def backward(self, loss: Tensor) -> None:
        """The gradients of a loss, through all meetings: every shard calls this once a step."""
        if loss.requires_grad:
            loss.backward()  # type: ignore[no-untyped-call]
        while self._met:
            self._met.pop()()


def everyones(own: Tensor, shared: Sequence[Sized] = (), *, private: int = 0) -> tuple[Tensor, ...]:
    """Rows that shards have computed, some for themselves and some for all, with gradients.

    Args:
        own: (n, D), of which nothing else is computed: first the shard's private rows, then parts of what all share.
        shared: whose rows each part has; one part of all rows that are not private if left out.
        private: rows.

    Returns:
        The private rows, and of each part the rows of all shards, in their order; outside of a step those of ``own``.
    """
    parts = torch.split(own, [private, *(map(len, shared) if shared else [len(own) - private])])
    shard = here()
    if shard is None:
        return parts if private or shared else parts[1:]
    known = [shard.sizes_of(texts) for texts in shared] or [None]
    every = [shard.gather(part, counts) for part, counts in zip(parts[1:], known, strict=True)]
    sizes = [[len(rows) for rows in of_part] for of_part in every]
    values = [parts[0].detach().clone(), *(torch.cat(rows) for rows in every)]
    if own.requires_grad:

        def back(gradients: list[Tensor]) -> None:
            of_parts = (
                added(shard.exchange(torch.split(gradient, size), [size[shard.index]] * shard.count))
                for gradient, size in zip(gradients[1:], sizes, strict=True)
            )
            own.backward(torch.cat([gradients[0], *of_parts]))  # type: ignore[no-untyped-call]

        values = shard.leaves(values, back)
    return tuple(values if private or shared else values[1:])


def of_all(value: float, rows: int) -> float | None:
    """The mean of what all shards say, each of so many rows; None where another shard of this process is told.

    Outside of a step it is the value.
    """
    shard = here()
    if shard is None:
        return value
    said = shard.told([value, rows])
    mean = sum(one * n for one, n in said) / max(1, sum(n for _, n in said))
    return mean if shard.leads else None


def added(parts: Sequence[Tensor]) -> Tensor:
    """The sum of some tensors of one shape, in their order."""
    total = parts[0].clone()
    for part in parts[1:]:
        total += part
    return total


class Shards:
    """The shards of a run, and those that this process works on.

    Args:
        count: V, a multiple of the processes.
        ranks: the processes.

    Attributes:
        own: the indices of those of this process.
    """

    def __init__(self, count: int, ranks: Ranks) -> None:
        each = count // ranks.world
        self.count, self.ranks, self.own = count, ranks, range(ranks.rank * each, (ranks.rank + 1) * each)
        self._turns = Turns(each)
        self._outbox: dict[int, tuple[list[Tensor], Sequence[int] | None]] = {}
        self._inbox: dict[int, list[Tensor]] = {}

    def owner(self, index: int) -> int:
        """The rank of the process that works on a shard."""
        return index // len(self.own)

    def step(self, work: Callable[[Shard], Result], swap: Callable[[int], None] = lambda _: None) -> list[Result]:
        """Work on each of the own shards, in turns that change where they meet.

        Args:
            work: on a shard.
            swap: called with the place of a shard among the own ones whenever it is its turn, if there are several, to
                put what it writes to in its place.
        """

        def of(place: int) -> Result:
            shard = Shard(self.own[place], self)
            with _working_on(shard):
                return work(shard)

        return [of(0)] if len(self.own) == 1 else self._turns.go_round(of, swap)

    def meet(self, index: int, parts: list[Tensor], counts: Sequence[int] | None = None) -> list[Tensor]:
        """What `Shard.exchange` does."""
        self._outbox[index] = parts, counts
        if len(self._outbox) == len(self.own):
            self._deliver()
        if len(self.own) > 1:
            self._turns.next(index - self.own[0])
        return self._inbox.pop(index)

    def _deliver(self) -> None:
        """Send what all own shards have to send, and sort what comes."""
        each, boxes, ranks = len(self.own), self._outbox, self.ranks
        if ranks.world == 1:
            self._outbox, self._inbox = {}, {to: [boxes[of][0][to] for of in self.own] for to in self.own}
            return
        groups = [range(rank * each, (rank + 1) * each) for rank in range(ranks.world)]
        pieces = [[boxes[of][0][to] for of in self.own for to in others] for others in groups]
        sizes = self._sizes(groups, pieces)
        self._outbox = {}
        leaving = [torch.cat(some) if each > 1 else some[0] for some in pieces]
        came = ranks.exchange(leaving, None if sizes is None else [sum(some) for some in sizes])
        if each == 1 or sizes is None:
            self._inbox = {self.own[0]: came}
            return
        split = [torch.split(found, size) for found, size in zip(came, sizes, strict=True)]
        self._inbox = {
            to: [split[of // each][of % each * each + at] for of in range(self.count)] for at, to in enumerate(self.own)
        }

    def _sizes(self, groups: list[range], pieces: list[list[Tensor]]) -> list[list[int]] | None:
        """By process, how many rows its shards send to the own ones; None where that is not asked for."""
        boxes, each = self._outbox, len(self.own)
        known = {index: counts for index, (_, counts) in boxes.items() if counts is not None}
        if len(known) == each:
            return [[known[to][of] for of in others for to in self.own] for others in groups]
        if each == 1:
            return None
        asked = [torch.tensor([len(piece) for piece in some]) for some in pieces]
        return [sizes.tolist() for sizes in self.ranks.exchange(asked, [each * each] * len(groups))]
