"""Work side by side: each operation alone, the results in order, and no wait for threads that cannot be had."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from threading import Barrier, Thread

import pytest
import torch

from longtail.threads import side_by_side

CPU = torch.device("cpu")


@pytest.fixture
def three_threads(set_threads: Callable[[int], None]) -> None:
    set_threads(3)


@pytest.mark.usefixtures("three_threads")
def test_parts_are_worked_on_at_once_and_each_operation_alone() -> None:
    """Each part waits for the two others, so that one after the other none would end."""
    others = Barrier(3)

    def work(part: int) -> tuple[int, int]:
        others.wait(60)
        return part, torch.get_num_threads()

    assert side_by_side(work, [0, 1, 2], CPU) == [(0, 1), (1, 1), (2, 1)]
    assert torch.get_num_threads() == 3
    started: list[int] = []
    later = Thread(target=lambda: started.append(torch.get_num_threads()))
    later.start()
    later.join()
    assert started == [3]


@pytest.mark.usefixtures("three_threads")
def test_an_error_of_a_part_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        side_by_side(lambda part: 1 / part, [1, 0], CPU)


@pytest.mark.usefixtures("three_threads")
def test_one_part_and_an_accelerator_have_all_threads() -> None:
    assert side_by_side(lambda _: torch.get_num_threads(), [0], CPU) == [3]
    assert side_by_side(lambda _: torch.get_num_threads(), [0, 1], torch.device("meta")) == [3, 3]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_process_starts_threads_of_its_own() -> None:
    """Those of its parent are not there: to give them work would be to wait for ever."""
    done = subprocess.run([sys.executable, "-c", FORKED], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "[2, 3] [2, 3]\n"  # newer Pythons warn of threads and forks


FORKED = """
import os
import torch
from longtail.threads import side_by_side

def plus_one(part):
    return part + 1

torch.set_num_threads(2)
here, there = os.pipe()
first = side_by_side(plus_one, [1, 2], torch.device("cpu"))
if not (child := os.fork()):
    os.write(there, str(side_by_side(plus_one, [1, 2], torch.device("cpu"))).encode())
    os._exit(0)
os.waitpid(child, 0)
print(first, os.read(here, 99).decode())
"""

THREADS = """
import threading
import torch
from longtail.threads import side_by_side

start, started = threading.Thread.start, []

def starting(thread):
    if started:
        raise RuntimeError("can't start new thread")
    started.append(thread)
    start(thread)

torch.set_num_threads(3)
threading.Thread.start = starting
try:
    side_by_side(print, [1, 2, 3], torch.device("cpu"))
except RuntimeError as error:
    print(error)
"""


def test_a_thread_that_cannot_be_started_is_an_error_and_no_wait() -> None:
    """The process ends: those that did start do not wait for it."""
    done = subprocess.run([sys.executable, "-c", THREADS], capture_output=True, text=True, check=True, timeout=60)
    assert (done.stdout, done.stderr) == ("can't start new thread\n", "")
