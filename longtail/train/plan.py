"""What a run will do and cost, said before it starts.

The plan of a recipe is its page, run once with nothing done: a stage takes a few steps that change nothing, and what
would be encoded, searched or clustered is measured on a small part and counted. So the plan has whatever the page does.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, replace
from math import ceil
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from rich.table import Table
from torch import nn

from longtail.batches.loader import Loader
from longtail.data.filters import unfiltered
from longtail.data.split import Split
from longtail.errors import LongtailError
from longtail.memory import free_memory_bytes, resident_bytes
from longtail.search.exact import Exact
from longtail.text.tokens import FieldTokens, PaddedTokens
from longtail.train.activations import activation_bytes
from longtail.train.fit import seconds_a_step
from longtail.train.plan_parts import Reckoning, StagePlan, Work
from longtail.train.together import Objective
from longtail.units import duration

SAMPLE = 512  # texts, queries and vectors that a plan measures with
Result = TypeVar("Result")
LARGE = 2**28  # pairs of a batch and all labels; from here on a step is reckoned and not tried


class Plan:
    """The stages of a run, and its work between and after them.

    Args:
        folder: of the run, whose disk must have room; None for none.
        measured: for plans of the same run, which this one adds to.

    Attributes:
        stages: in the order in which they are trained.
        work: by name.
        held: bytes of the vectors that are held at once for a search.
        kept: bytes of what is solved piece by piece, which the run folder keeps.
        at_once: runs that are trained at the same time, each in a process of its own.
    """

    def __init__(self, folder: Path | None, measured: dict[object, Any] | None = None) -> None:
        self._folder = folder
        self.stages: list[StagePlan] = []
        self.work: dict[str, Work] = {}
        self.held, self.kept, self.at_once = 0, 0, 1
        self._counted: set[object] = set()
        self._measured = {} if measured is None else measured

    @property
    def seconds(self) -> float:
        """The estimated time of everything."""
        trained = sum(stage.rounds * stage.epochs * stage.seconds for stage in self.stages)
        return trained + sum(work.seconds for work in self.work.values())

    @property
    def memory(self) -> int:
        """The estimated peak bytes of one process."""
        return max((stage.memory for stage in self.stages), default=0) + self.held

    @property
    def disk(self) -> int:
        """The estimated bytes of the run folder: finished stages, and a checkpoint with moments."""
        largest = max((stage.parameters for stage in self.stages), default=0)
        return sum(4 * stage.times * stage.parameters for stage in self.stages) + 3 * 4 * largest + self.kept

    def add(self, what: str, seconds: float, *, held: int = 0) -> None:
        """Count some work.

        Args:
            what: its name.
            seconds: of one time.
            held: bytes that it holds.
        """
        work = self.work.setdefault(what, Work())
        work.times += 1
        work.seconds += seconds
        work.held = max(work.held, held)
        self.held = max(self.held, held)

    def first(self, of: object) -> bool:
        """Whether this plan is told of something that is done once, whoever needs it, for the first time."""
        new = of not in self._counted
        self._counted.add(of)
        return new

    def once(self, of: object, measure: Callable[[], Result]) -> Result:
        """What is measured once for all plans of a run and as many threads, as the seconds of a unit of something."""
        key = of, torch.get_num_threads()
        found: Result = self._measured[key] if key in self._measured else self._measured.setdefault(key, measure())
        return found

    @contextmanager
    def repeated(self, times: int, *, at_once: int, together: bool) -> Iterator[None]:
        """What is planned inside this context is done so many times, and each time leaves its parameters in memory.

        Args:
            times: how often.
            at_once: how many of these, and of what was planned before, are trained at the same time.
            together: all are put into one, which is as large again as they are.
        """
        stages, work = len(self.stages), {name: replace(one) for name, one in self.work.items()}
        yield
        self.at_once = at_once
        rounds = ceil((1 + times) / at_once) - 1  # after the first one, which has what came before in it
        for i, stage in enumerate(self.stages[stages:], start=stages):
            memory = stage.memory + 4 * (times - 1 + times * together) * stage.parameters
            self.stages[i] = replace(stage, times=times * stage.times, rounds=rounds * stage.rounds, memory=memory)
        for name, one in self.work.items():
            before = work.get(name, Work())
            one.times += (times - 1) * (one.times - before.times)
            one.seconds += (rounds - 1) * (one.seconds - before.seconds)

    def seconds_of_search(self, queries: int, labels: int, width: int, device: torch.device, *, nearly: bool) -> float:
        """The time of a search of all labels, exact or nearly: Q * L * D multiply-adds, at the speed of a small one."""
        q, n = min(queries, SAMPLE), min(labels, 32 * SAMPLE)
        if not q * n:
            return 0.0

        def measure() -> float:
            table = np.random.default_rng(0).standard_normal((n, width), np.float32)
            index = Exact(table, device=device)
            search = index.nearly if nearly else index.search
            search(table[:1], 1)
            return timed(lambda: search(np.resize(table, (q, width)), 10)) / (q * n)

        return queries * labels * self.once(("search", width, q, n, nearly), measure)

    def stage(
        self,
        stage: str,
        objective: Objective,
        batches: Loader,
        optimizer: torch.optim.Optimizer,
        modules: Mapping[str, nn.Module],
        *,
        epochs: int,
        reckoning: Reckoning | None = None,
    ) -> None:
        """Measure a stage: its size from the first batch, its time from a few steps that change nothing.

        Args:
            stage: its name.
            objective: of the stage.
            batches: of the stage.
            optimizer: of the stage; left as it was.
            modules: what is trained; left as they were.
            epochs: of the stage.
            reckoning: of a stage over all labels: where these are very many, a step is not tried.

        Raises:
            LongtailError: it needs more memory or disk than there is; the message says which settings to lower.
        """
        batch = next(iter(batches.epoch(0)))
        size, pool, parts = len(batch.rows), batches.pool_of(batch), list(modules.values())
        every = [parameter for module in parts for parameter in module.parameters()]
        parameters = sum(parameter.numel() for parameter in every)
        device = every[0].device
        every_text = (batch.documents, batch.labels, *batch.nodes)
        read = [text.parts if isinstance(text, FieldTokens) else text for text in every_text]
        tokens = [part for part in read if isinstance(part, PaddedTokens)]
        activations = sum(activation_bytes(module, part) for module in parts for part in tokens)
        held = sum(parameter.numel() * (parameter.itemsize + 8 * parameter.requires_grad) for parameter in every)
        held += 4 * 6 * batch.targets.numel()  # the optimiser has 8 bytes a number, whatever its type, or 2
        small = (group["params"] for group in optimizer.param_groups if group.get("eight_bits"))
        held -= sum(6 * parameter.numel() * parameter.requires_grad for some in small for parameter in some)
        activations += 0 if reckoning is None else reckoning.memory
        memory = resident_bytes() * (device.type == "cpu") + held + activations
        remedy = "lower batch, random_negatives, width or max_length"
        remedy += ", or give texts_at_once" if activations else ""
        _refuse("memory", memory, free_bytes(device), remedy)
        if self._folder is not None:
            there = next(
                place for place in (self._folder.absolute(), *self._folder.absolute().parents) if place.exists()
            )
            _refuse("disk", 16 * parameters, shutil.disk_usage(there).free, "lower width, or give a larger disk")
        if reckoning is not None and size * pool > LARGE:
            seconds = reckoning.seconds(size)
        else:
            seconds = self.once(("stage", stage), lambda: _seconds_of_step(objective, batches, optimizer, parts))
        self.stages.append(
            StagePlan(
                stage=stage,
                rows=len(batches.split),
                unlabelled=_unlabelled(batches.split),
                labels=batches.pool.targets.shape[1],
                steps=batches.steps(),
                epochs=epochs,
                batch=size,
                pool=pool,
                negatives=pool - float(((batch.targets > 0) | ~batch.mask).sum()) / size,
                parameters=parameters,
                memory=memory,
                seconds=seconds * batches.steps(),
            )
        )

    def as_json(self) -> dict[str, Any]:
        """The plan as the log keeps it."""
        whole = {"memory": self.memory, "disk": self.disk, "seconds": round(self.seconds, 3)}
        work = {name: asdict(work) for name, work in self.work.items()}
        return whole | {"stages": [asdict(stage) for stage in self.stages], "work": work}

    def table(self) -> Table:
        """The plan as two columns for a terminal."""
        table = Table.grid(padding=(0, 2))
        for name, value in self._lines():
            table.add_row(f"[dim]{name}[/dim]", value)
        return table

    def _lines(self) -> list[tuple[str, str]]:
        lines = []
        for last in self.stages[-1:]:  # those before it may be of linkers, or of clusters of labels
            without = f", {last.unlabelled:,} without a label" * (last.unlabelled > 0)
            lines.append(("training documents", f"{last.rows:,}{without}"))
            lines.append(("labels", f"{last.labels:,}"))
        for stage in self.stages:
            shape = f"{stage.steps:,} steps of {stage.batch:,} documents x {stage.pool:,} labels"
            times = "" if stage.times == 1 else f"{stage.times} times, "
            taken = f"{times}{stage.epochs} epochs of {duration(stage.seconds)}, about {_size(stage.memory)}"
            negatives = f"{stage.negatives:,.0f} effective negatives a document"
            lines.append((f"stage {stage.stage}", f"{taken}; an epoch: {shape}, {negatives}"))
        for name, work in self.work.items():
            times = "" if work.times == 1 else f"{work.times} times, "
            held = f", holds {_size(work.held)}" * (work.held >= 2**20)
            lines.append((name, f"{times}{duration(work.seconds)}{held}"))
        if self.stages:
            lines.append(("parameters", f"{max(stage.parameters for stage in self.stages):,}"))
        if self.at_once > 1:
            lines.append(("at once", f"{self.at_once} runs, each in a process with a memory of its own"))
        lines.append(("peak memory", f"about {_size(self.memory)}"))
        lines.append(("disk", f"about {_size(self.disk)}"))
        lines.append(("in all", f"about {duration(self.seconds)}"))
        return lines


class Planned(Exception):
    """A dry run has shown its plan and is at its end."""


def timed(action: Callable[[], Any], device: torch.device | None = None) -> float:
    """The seconds that an action takes; on a GPU the second time, since the first one loads what it computes with."""
    if device is not None and device.type == "cuda":
        action()
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def _seconds_of_step(
    objective: Objective, batches: Loader, optimizer: torch.optim.Optimizer, parts: list[nn.Module]
) -> float:
    """The time of a step that leaves what is trained as it was, running means too."""
    buffers = [buffer for module in parts for buffer in module.buffers()]
    before = [buffer.clone() for buffer in buffers]
    seconds = seconds_a_step(objective, batches, optimizer)
    for buffer, value in zip(buffers, before, strict=True):
        buffer.copy_(value)
    return seconds


def _unlabelled(split: Split) -> int:
    """How many documents have no true pair that is not filtered."""
    return int(np.count_nonzero(np.diff(unfiltered(split).indptr) == 0))


def _refuse(what: str, needed: int, free: int, remedy: str) -> None:
    if needed > free:
        found = f"the run needs about {_size(needed)} of {what}, and {_size(free)} are free"
        raise LongtailError(f"{found}; {remedy}")


def _size(count: int) -> str:
    """Bytes, for people."""
    return f"{count / 2**30:,.1f} GiB" if count >= 2**30 else f"{count / 2**20:,.0f} MiB"


def free_bytes(device: torch.device) -> int:
    """The memory that this process can still take on a device, with what it holds already."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0] + torch.cuda.memory_reserved(device)
    return free_memory_bytes() + resident_bytes()
