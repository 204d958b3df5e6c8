"""Work of many small operations of torch, for several threads at once."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from threading import Barrier, BrokenBarrierError
from typing import TypeVar

import torch

Part = TypeVar("Part")
Result = TypeVar("Result")


def side_by_side(work: Callable[[Part], Result], parts: Sequence[Part], device: torch.device) -> list[Result]:
    """What some work makes of each part: on a CPU, as many at once as torch has threads.

    Torch wakes its threads for each operation, and they sleep in between (`longtail` sees to that): for thousands of
    operations on small parts, that takes longer than the work. Here they are woken once, and each operation runs on the
    thread of its part alone. A single part has all threads, and an accelerator works on one part after the other.

    Args:
        work: what is done. It runs with gradients unless it says otherwise itself: `torch.no_grad` is a thread's own.
        parts: what it is done to.
        device: where its tensors are.
    """
    threads = torch.get_num_threads()
    if device.type != "cpu" or threads == 1 or len(parts) == 1:
        return [work(part) for part in parts]
    return list(_threads(threads).map(work, parts))  # an exception is raised here


@cache
def _threads(count: int) -> ThreadPoolExecutor:
    """Threads in which each operation of torch runs alone."""
    ready = Barrier(count + 1)

    def alone() -> None:
        torch.get_num_threads()  # the first call in a thread takes the number of the process
        torch.set_num_threads(1)
        with suppress(BrokenBarrierError):
            ready.wait()

    executor = ThreadPoolExecutor(count, "parts", initializer=alone)
    try:
        for _ in range(count):
            executor.submit(int)  # starts a thread, as none is free before all are ready
        ready.wait()
    except BaseException:
        ready.abort()  # else those that did start would wait for ever, and the process for them
        raise
    torch.set_num_threads(count)  # the number of the process again
    return executor


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_threads.cache_clear)  # a child has the one thread that made it
