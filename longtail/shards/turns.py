"""Threads that take turns: the shards of one process."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch
from torch import Tensor

Result = TypeVar("Result")


class Turns:
    """Threads of which one works at a time, in a fixed order: each goes on until it meets the others.

    Args:
        count: how many.
    """

    def __init__(self, count: int) -> None:
        self._count, self._turn, self._failed = count, 0, False
        self._changed = threading.Condition()
        self._threads = ThreadPoolExecutor(count, "shards")  # starts them when there is work
        self._swap: Callable[[int], None] = lambda _: None
        self._random: dict[int, list[Tensor]] = {}

    def go_round(self, work: Callable[[int], Result], swap: Callable[[int], None]) -> list[Result]:
        """The results of some work, by place."""
        self._turn, self._failed, self._swap = 0, False, swap
        self._random = dict.fromkeys(range(self._count), _random_state())
        threads = torch.get_num_threads()

        def run(place: int) -> Result:
            torch.set_num_threads(threads)
            try:
                self._await(place)
                result = work(place)
                self._pass_on(place)
            except BaseException:
                with self._changed:
                    self._failed = True
                    self._changed.notify_all()
                raise
            return result

        running = [self._threads.submit(run, place) for place in range(self._count)]
        errors = [error for error in (one.exception() for one in running) if error is not None]
        if errors:
            raise next((error for error in errors if not isinstance(error, _Left)), errors[0])
        return [one.result() for one in running]

    def next(self, place: int) -> None:
        """Let the others work until it is this one's turn again."""
        self._pass_on(place)
        self._await(place)

    def _pass_on(self, place: int) -> None:
        self._random[place] = _random_state()
        with self._changed:
            self._turn = (place + 1) % self._count
            self._changed.notify_all()

    def _await(self, place: int) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._turn == place or self._failed)
        if self._failed:
            raise _Left
        _put_random_state(self._random[place])
        self._swap(place)


def _random_state() -> list[Tensor]:
    """That of the CPU, and of the GPU that is worked on."""
    return [torch.get_rng_state(), *([torch.cuda.get_rng_state()] if _on_gpu() else [])]


def _on_gpu() -> bool:
    return bool(torch.cuda.is_initialized())  # type: ignore[no-untyped-call]


def _put_random_state(state: list[Tensor]) -> None:
    torch.set_rng_state(state[0])
    for of_gpu in state[1:]:
        torch.cuda.set_rng_state(of_gpu)


class _Left(Exception):
    """Another thread has failed."""
