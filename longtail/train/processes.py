"""Processes that train one run each, which end with the one that started them."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from longtail.ending import at_the_end
from longtail.errors import LongtailError
from longtail.files import write_json
from longtail.options import time_of
from longtail.train.cost import COST, read_cost
from longtail.train.log import WITHIN

_THREADS = "OMP_NUM_THREADS"  # an environment variable, which PyTorch and the libraries of NumPy read
_PR_SET_PDEATHSIG = 1  # of Linux' prctl


class OverBudget(LongtailError):
    """A run has had the time that it was given: nothing is wrong with it, and it may go on when it is given more."""

    def __init__(self, budget: float) -> None:
        super().__init__(f"over the budget of {time_of(budget)}")


@dataclass(frozen=True, slots=True)
class Process:
    """How processes run.

    Attributes:
        inherited: file descriptors that a process inherits, so that a lock on them lasts as long as the process.
        quiet: keep what it prints to itself.
        budget: seconds of a run, over all its processes; None for no limit.
        threads: of a process; as many as it takes by itself if left out.
        running: those that run now.
    """

    inherited: tuple[int, ...]
    quiet: bool
    budget: float | None = None
    threads: int | None = None
    running: list[subprocess.Popen[str]] = field(default_factory=list)

    def stop(self) -> None:
        """Stop those that run now: `run` then fails, in the threads that wait for them."""
        for process in tuple(self.running):
            process.kill()

    def must_be_left(self, folder: Path) -> None:
        """Refuse a run that has used its budget up.

        Raises:
            OverBudget: it has.
        """
        if self.budget is not None and read_cost(folder / COST).seconds >= self.budget:
            raise OverBudget(self.budget)

    def run(self, command: Sequence[str], folder: Path, *, spent: float = 0.0) -> None:
        """Run a command to its end.

        Args:
            command: a program and its arguments.
            folder: of the run; ``cost.json`` there says so where the process was stopped.
            spent: seconds of the budget that earlier processes took.

        Raises:
            OverBudget: it was stopped.
            LongtailError: it failed; the message is its last line.
        """
        process = subprocess.Popen(  # noqa: S603 - our own command line, without a shell
            command,
            stdout=subprocess.DEVNULL if self.quiet else None,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            pass_fds=self.inherited,
            env={**os.environ, WITHIN: "1", **({} if self.threads is None else {_THREADS: str(self.threads)})},
            preexec_fn=_ending_with(os.getpid()),  # noqa: PLW1509 - it takes no lock that a thread may hold
        )
        self.running.append(process)
        try:
            with at_the_end(process.kill):
                _, errors = process.communicate(timeout=None if self.budget is None else self.budget - spent)
        except subprocess.TimeoutExpired:
            assert self.budget is not None
            process.kill()
            process.communicate()
            write_json(folder / COST, asdict(replace(read_cost(folder / COST), seconds=self.budget)))
            raise OverBudget(self.budget) from None
        finally:
            process.kill()
            self.running.remove(process)
        if process.returncode < 0:
            raise LongtailError(f"the process was ended by signal {-process.returncode}; 9 may mean too little memory")
        if process.returncode:
            lines = errors.strip().splitlines() or [f"exit status {process.returncode}"]
            raise LongtailError(lines[-1].removeprefix("longtail: "))


def _ending_with(parent: int) -> Callable[[], None] | None:
    """What a process does at its start to get SIGTERM when its parent ends, also by SIGKILL; Linux can do that."""
    if sys.platform != "linux":
        return None
    control = ctypes.CDLL(None).prctl

    def ask() -> None:
        control(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # which has ended meanwhile
            os._exit(128 + signal.SIGTERM)

    return ask
