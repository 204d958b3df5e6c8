"""Runs within a run that are trained while it is, in processes of their own.

A step of a bag of words is many short operations, between which the threads of one process wait for each other, so that
runs at once, of fewer threads each, are done sooner than in turn (docs/guides/time.md). A run that is trained so is
like any other: whoever goes on with it finds what another process has left.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import torch

from longtail.data.dataset import Dataset
from longtail.errors import LongtailError
from longtail.memory import free_memory_bytes, resident_bytes
from longtail.modules.encoders.bag import BagEncoder
from longtail.modules.encoders.named import encoder_named
from longtail.train.log import LOG
from longtail.train.processes import Process
from longtail.train.run import Run

_FEWEST = 10_000  # documents, of fewer of which to start a process, which reads all of them anew, is not worth it
_GROWS = 3  # times as large as at its first stage a run may become: moments, a search, what it learns on held-out texts


def runs_at_once(run: Run, dataset: Dataset, o: Any, further: int) -> int:
    """How many of a run and its further ones are trained at the same time; 1 where they are trained in turn.

    They are where another process can read the same data and folder, and a run leaves threads idle: a bag of words on a
    CPU.

    Args:
        run: that has further runs within it, or its plan.
        dataset: that they are trained on.
        o: the options of the recipe.
        further: how many further runs there are.
    """
    if not further or len(dataset.train) < _FEWEST or encoder_named(o.encoder).kind is not BagEncoder:
        return 1
    reads_again = dataset.folder is not None and (run.folder is not None or run.dry)
    alone = run.ranks.world == 1 and run.shards is None and run.device.type == "cpu"
    return min(torch.get_num_threads(), 1 + further) if reads_again and alone else 1


class Alongside:
    """The further runs of a run: other processes train some of them while it is trained, and it trains the rest.

    They begin with the first stage of the run, which by then has made what all of them read: tokens, what a language
    model knows, what a teacher says. Where a process fails, the run goes on with what that has left. None outlives it.

    Args:
        run: that has further runs within it, or its plan.
        names: of the folders of these.
        at_once: how many runs are trained at the same time, `runs_at_once`.
        claim: makes the folder of a name that of its run.
    """

    def __init__(self, run: Run, names: Sequence[str], at_once: int, claim: Callable[[str], None]) -> None:
        self._run, self._names, self._claim, self.at_once = run, names, claim, at_once
        self._others: dict[str, Future[str | None]] = {}
        self._ending = ExitStack()

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Train the run in this context; what other processes have not done at its end is stopped."""
        self._run.before_stage = self._begin if self.at_once > 1 else None
        with self._ending:
            yield

    def in_turn(self) -> Iterator[str]:
        """The names of all further runs: first those that are to be trained here, then those that are done, each once.

        Whatever no other process has begun when its turn comes is trained here.
        """
        elsewhere = []
        for name in self._names:
            if name not in self._others or self._others[name].cancel():
                yield name
            else:
                elsewhere.append(name)
        for name in elsewhere:
            if not self._others[name].done():
                self._run.log.say(f"waiting for {name}: {self._folder(name) / LOG} says how far it is")
            if (problem := self._others[name].result()) is None:
                self._run.log.tell_of(self._folder(name) / LOG, name)
            else:
                self._run.log.say(f"{name}: the process that trained it failed ({problem}); it goes on here")
            yield name

    def _begin(self) -> None:
        """Begin with the further runs, once; a plan only takes the threads that the run will have."""
        self._run.before_stage, threads = None, torch.get_num_threads()
        self.at_once = max(1, min(self.at_once, free_memory_bytes() // (_GROWS * resident_bytes())))
        if self.at_once == 1:
            return
        each = threads // self.at_once
        torch.set_num_threads(each)
        self._ending.callback(torch.set_num_threads, threads)
        if self._run.plan is not None:
            return
        self._run.log.say(f"{self.at_once} runs at once, of {each} thread{'s' * (each > 1)} each")
        process = Process(inherited=(), quiet=True, threads=each)
        executor = self._ending.enter_context(ThreadPoolExecutor(self.at_once - 1, "alongside"))
        self._ending.callback(self._stop, process)
        for name in reversed(self._names):  # those that come first stay for this process
            self._claim(name)
            self._others[name] = executor.submit(self._train, name, process)

    def _train(self, name: str, process: Process) -> str | None:
        """Train a further run in another process; returns why it failed, where it did."""
        run, folder = self._run, self._folder(name)
        command = [sys.executable, "-m", "longtail", "resume", str(folder), "--checkpoint-every", str(run.interval)]
        command += ["--threads", str(process.threads), *(["--cache", str(run.cache)] if run.cache else [])]
        try:
            process.run(command, folder)
        except (LongtailError, OSError) as error:
            return str(error)
        return None

    def _stop(self, process: Process) -> None:
        """Stop other processes, also one that is just being started, and begin with no other."""
        for other in self._others.values():
            other.cancel()
        process.stop()
        while wait(self._others.values(), timeout=0.1).not_done:
            process.stop()

    def _folder(self, name: str) -> Path:
        assert self._run.folder is not None
        return self._run.folder / name
