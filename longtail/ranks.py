"""The processes that train a run together, and what they send each other; nothing else imports `torch.distributed`.

They are started by ``torchrun``, which tells each its rank and where the others are. All of them run the same page.
What they send is a list of tensors, one for each of them (all-to-all), of whatever sizes. That is all that is needed:
who sends everyone the same has gathered, and who adds up what comes, in the order of ranks, has reduced.
"""

from __future__ import annotations

import atexit
import json
import os
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import cache
from secrets import token_hex
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor

from longtail.ending import acts
from longtail.errors import LongtailError

if TYPE_CHECKING:
    from torch.distributed import Store  # which some builds of PyTorch lack

Result = TypeVar("Result")
_PATIENCE = timedelta(days=2)  # for a rank that works alone, as where it plans or saves; one that ends is known at once
_ANSWER = timedelta(seconds=1)  # of the first process, to who has asked it


class RankLost(LongtailError):
    """One of the processes of a run has ended, and the others cannot go on.

    Args:
        rank: who says so.
        world: how many there were.
        lost: those that have ended, if they are known.
    """

    def __init__(self, rank: int, world: int, lost: Sequence[int] = ()) -> None:
        super().__init__(
            f"rank {rank} of {world}: {_ended(lost) or 'another rank has ended'}, or cannot be reached; its own line, "
            "or that of torchrun, says why; longtail resume, under torchrun with any number of processes that divides "
            "the shards, goes on from the last checkpoint"
        )


class Ranks:
    """This process among those that train a run; one alone is a world of 1.

    Args:
        rank: of this process.
        world: how many there are.
        store: that all of them read.

    Attributes:
        rank: of this process, in [0, world).
        world: how many there are.
        sent: bytes that this process has sent to others.
    """

    def __init__(self, rank: int = 0, world: int = 1, store: Store | None = None) -> None:
        self.rank, self.world, self.sent, self._store = rank, world, 0, store

    @property
    def first(self) -> bool:
        """Whether this is the process that writes, logs and plans."""
        return self.rank == 0

    def exchange(self, parts: Sequence[Tensor], counts: Sequence[int] | None = None) -> list[Tensor]:
        """Send each process a tensor, and get one of each.

        Args:
            parts: by rank, (n, ...) of any n; type and all other dimensions are the same everywhere.
            counts: by rank, the n of what comes, if it is known, which saves asking.

        Returns:
            By rank, what it has sent to this one.

        Raises:
            RankLost: one of the others has ended.
        """
        if self.world == 1:
            return list(parts)
        own, shape, kind = parts[self.rank], parts[0].shape[1:], parts[0].dtype
        if counts is None:
            lengths = torch.tensor([len(part) for part in parts], device=own.device)
            counts = self._all_to_all(lengths, [1] * self.world, [1] * self.world).tolist()
        width = max(1, shape.numel()) * kind.itemsize
        leaving = [_bytes_of(part) for rank, part in enumerate(parts) if rank != self.rank]
        sizes, others = ([width * n for n in of] for of in ([len(part) for part in parts], counts))
        sizes[self.rank] = others[self.rank] = 0  # what stays here is not sent
        self.sent += sum(sizes)
        came = self._all_to_all(leaving[0] if len(leaving) == 1 else torch.cat(leaving), sizes, others)
        pieces = [piece.view(kind).view(-1, *shape) for piece in torch.split(came, others)]
        pieces[self.rank] = own.detach()
        return pieces

    def _all_to_all(self, sent: Tensor, sizes: list[int], others: list[int]) -> Tensor:
        came = sent.new_empty(sum(others))
        try:
            torch.distributed.all_to_all_single(came, sent, others, sizes)
            if came.is_cuda:
                torch.cuda.current_stream().synchronize()
        except (RuntimeError, ValueError) as error:
            closed = self._closed()
            raise RankLost(self.rank, self.world, self._first(closed) or closed) from error
        return came

    def lost(self) -> str | None:
        """Who has ended, for the line of this one, which a signal ends; nothing where all are told to end at once."""
        return _ended(self._first(self._closed())) or None

    def _closed(self) -> list[int]:
        """The processes whose connections to this one are known to be closed."""
        return [rank for rank in range(self.world) if rank != self.rank and _is_closed(rank)]

    def _first(self, closed: list[int]) -> list[int]:
        """What the first process found that looked: it ends as well, and those that look later find it closed, too."""
        if self._store is not None:
            with suppress(RuntimeError):  # the store has ended with who had it
                closed = json.loads(self._store.compare_set("closed", "", json.dumps(closed)))
        return closed

    def told(self, value: Any) -> Any:
        """A value of JSON that the first process has, in all of them."""
        if self.world == 1:
            return value
        said = as_bytes(value) if self.first else torch.zeros(0, dtype=torch.uint8)
        return of_bytes(self.exchange([said] * self.world)[0])

    def every(self, value: Any) -> list[Any]:
        """A value of JSON of each process."""
        return [of_bytes(said) for said in self.exchange([as_bytes(value)] * self.world)]

    def restarted(self) -> bool:
        """Whether ``torchrun`` has started the processes anew, since one of them had ended: its `--max-restarts`.

        Its agents count by themselves, one a machine: those of a machine whose processes were well may say 0.
        """
        return any(self.every(int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))))

    def in_turn(self, work: Callable[[], Result]) -> Result:
        """Work that the first process does before the others do, who find what it has written."""
        if not self.first:
            self.wait()
        done = work()
        if self.first:
            self.wait()
        return done

    def wait(self) -> None:
        """Go on when all processes have come here."""
        self.told(None)


def _ended(lost: Sequence[int]) -> str:
    return f"{' and '.join(f'rank {rank}' for rank in lost)} ended" if lost else ""


def _is_closed(rank: int) -> bool:
    """Whether the connection to a process is known to be closed: nothing can be sent on it then."""
    try:
        torch.distributed.isend(torch.zeros(1), rank)
    except RuntimeError:
        return True
    return False


def _bytes_of(tensor: Tensor) -> Tensor:
    flat = tensor.detach().contiguous().reshape(-1)
    return flat.view(torch.uint8) if len(flat) else flat.to(torch.uint8)


def as_bytes(value: Any) -> Tensor:
    """A value of JSON as (n,) uint8."""
    return torch.frombuffer(bytearray(json.dumps(value).encode()), dtype=torch.uint8)


def of_bytes(said: Tensor) -> Any:
    """What `as_bytes` took."""
    return json.loads(bytes(said.tolist()))


@cache
def ranks() -> Ranks:
    """The processes of this run: those of ``torchrun`` meet here, with gloo on CPUs and NCCL on GPUs."""
    world = int(os.environ.get("WORLD_SIZE", "1")) if "MASTER_ADDR" in os.environ else 1
    if world == 1:
        return Ranks()
    backend = "gloo"
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())
        backend = "cpu:gloo,cuda:nccl"
    store, rank, _ = next(torch.distributed.rendezvous("env://", timeout=_PATIENCE))
    store.set_timeout(_PATIENCE)
    own = fresh_part(store, rank, world)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.distributed.init_process_group(backend, store=own, rank=rank, world_size=world, timeout=_PATIENCE)
    atexit.register(torch.distributed.destroy_process_group)
    these = Ranks(rank, world, own)
    acts.append(these.lost)
    return these


def fresh_part(store: Store, rank: int, world: int) -> Store:
    """A part of a store that is these processes' own, also where others have met in the store before them.

    The agents of ``torchrun`` keep a store for all restarts (torch 2.13), with the addresses of processes that have
    ended. So the first process names the part; it gives each other one, which may have read an old name, a word that
    nobody had before.

    Args:
        store: of all of them.
        rank: of this process.
        world: how many there are.
    """
    word = token_hex(8)
    if rank == 0:
        store.set("part", word)
        for other in range(1, world):
            store.set(f"{word} {store.get(f'{word} {other}').decode()}", "")
        return torch.distributed.PrefixStore(word, store)
    while True:
        part = store.get("part").decode()
        store.set(f"{part} {rank}", word)
        with suppress(torch.distributed.DistStoreError):  # nobody answers: it is an old one
            store.wait([f"{part} {word}"], _ANSWER)
            return torch.distributed.PrefixStore(part, store)
