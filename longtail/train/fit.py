"""The one training loop."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from itertools import islice, pairwise
from typing import Protocol

import torch
from torch import Tensor, nn

from longtail.batches.batch import Batch
from longtail.batches.loader import Loader
from longtail.devices import seed as seed_of
from longtail.memory import return_freed
from longtail.shards.shard import Shards
from longtail.train.checkpoint import Apart, Stateful
from longtail.train.course import Course
from longtail.train.finite import NotFinite, must_be_a_number, must_be_finite, not_finite
from longtail.train.progress import Progress
from longtail.train.renewal import Renewal
from longtail.train.together import Objective, Taken, Together

_MEASURED = 3  # steps, of which the mean time is taken


def fit(
    objective: Objective,
    batches: Loader,
    optimizer: torch.optim.Optimizer,
    *,
    progress: Progress,
    stage: str,
    modules: Mapping[str, nn.Module],
    course: Course,
    seed: int,
    before_epoch: Callable[[int], None] | None = None,
    renewal: Renewal | None = None,
    others: Mapping[str, Stateful] | None = None,
    shards: Shards | None = None,
) -> None:
    """Train one stage: the sum of the objective's terms is minimised, step by step.

    A stage that is finished in the run's folder is loaded, one that is half-done goes on at its checkpoint; on a CPU
    the parameters are then bit-equal to those of a run that was never stopped.

    Args:
        objective: gives the loss terms of a batch by name; their weights are in them.
        batches: of the stage.
        optimizer: of the modules' parameters. This is the only place of the library that calls its step.
        progress: where checkpoints and the log go.
        stage: the name of the stage, unique in its run.
        modules: what is trained, by name; kept when the stage is finished.
        course: how many epochs there are, and the factor of the learning rate at each step.
        seed: every step's random numbers (dropout) come from (seed, stage, epoch, step).
        before_epoch: what is done between epochs, called with the number of the epoch that begins.
        renewal: what is renewed between steps (clusters, negatives), after that; batches are made with what is new.
        others: what else is part of a checkpoint, by name: samplers and miners with a state.
        shards: that steps are taken in; None takes each as a whole.

    Raises:
        NotFinite: a term is not, or what is trained, at the end of an epoch or before a checkpoint; the last one stays.
    """
    state: dict[str, Stateful] = {"optimizer": optimizer, **course.state, **(others or {})}
    progress.claim()
    finished, steps = progress.finished(stage, modules), batches.steps()
    if finished is not None:
        progress.log.passed(stage, finished.get("epoch", course.epochs) * steps)
        return
    taker: _Steps = _Alone(modules, optimizer) if shards is None else Together(shards, modules, optimizer)
    taker.begin()
    position = progress.restore(stage, modules, state, taker.apart)
    epoch, start = position.get("epoch", 0), position.get("step", 0)
    progress.log.start(stage, steps=course.epochs * steps, done=epoch * steps + start)
    try:
        while epoch < course.epochs:
            for step, parts in enumerate(_batches(taker, batches, epoch, start, before_epoch, renewal), start):
                set_learning_rate(optimizer, course.factor(epoch * steps + step, steps))
                place = (stage, epoch, step)
                taken = _taken(taker, objective, parts, place, seed=seed, ask=progress.is_due(), modules=modules)
                progress.log.step(taken.terms, taken.rows, batches.pool_of(parts[0]), parts[0].positives)
                if taken.asked and step + 1 < steps:
                    position = {"epoch": epoch, "step": step + 1}
                    progress.checkpoint(stage, modules, state, position, taker.apart)
            epoch, start = epoch + 1, 0
            with taker.whole():
                must_be_finite(f"stage {stage}, end of epoch {epoch}", _states(modules))
                said = course.ended(epoch)
                progress.log.epoch(epoch, course.epochs, epoch * steps, **said)
            if taken.asked and epoch < course.epochs:
                progress.checkpoint(stage, modules, state, {"epoch": epoch, "step": 0}, taker.apart)
    finally:
        progress.log.stop()
    taker.end()
    progress.finish(stage, modules, epoch)
    _let_go(optimizer)


class _Steps(Protocol):
    """How steps are taken: `_Alone`, or `Together`, which see."""

    @property
    def apart(self) -> Apart | None: ...

    def batches(self, batches: Loader, epoch: int, start: int, stop: int) -> Iterator[list[Batch]]: ...

    def step(self, objective: Objective, parts: list[Batch], *, seed: int, ask: bool) -> Taken: ...

    def whole(self) -> AbstractContextManager[None]: ...

    def begin(self) -> None: ...

    def end(self) -> None: ...


class _Alone:
    """Takes each step as a whole."""

    apart = None

    def __init__(self, modules: Mapping[str, nn.Module], optimizer: torch.optim.Optimizer) -> None:
        self._device = next(parameter.device for module in modules.values() for parameter in module.parameters())
        self._modules, self._optimizer = modules, optimizer

    def batches(self, batches: Loader, epoch: int, start: int, stop: int) -> Iterator[list[Batch]]:
        return ([batch] for batch in batches.epoch(epoch, start, stop))

    def step(self, objective: Objective, parts: list[Batch], *, seed: int, ask: bool) -> Taken:
        terms = take_step(objective, parts[0].to(self._device), self._optimizer, seed=seed)
        return Taken(terms, len(parts[0].rows), ask)

    def whole(self) -> AbstractContextManager[None]:
        return nullcontext()

    def begin(self) -> None:
        for module in self._modules.values():
            module.train()

    def end(self) -> None:
        pass


def _batches(
    taker: _Steps,
    batches: Loader,
    epoch: int,
    start: int,
    before_epoch: Callable[[int], None] | None,
    renewal: Renewal | None,
) -> Iterator[list[Batch]]:
    """The batches of an epoch from a step on. What is to be done before one is done first: none is older than that."""
    if start == 0 and before_epoch is not None:
        with taker.whole():
            before_epoch(epoch)
    steps = batches.steps()
    due = {} if renewal is None else {moment.step: moment for moment in renewal.when.of(epoch, steps)}
    for begin, end in pairwise([start, *(step for step in due if step > start), steps]):
        if renewal is not None and begin in due:
            with taker.whole():
                renewal.work(due[begin])
        yield from taker.batches(batches, epoch, begin, end)


def _taken(
    taker: _Steps,
    objective: Objective,
    parts: list[Batch],
    place: tuple[str, int, int],
    *,
    seed: int,
    ask: bool,
    modules: Mapping[str, nn.Module],
) -> Taken:
    """The step of a stage and an epoch; an error says where it was, and what was spoilt before."""
    stage, epoch, step = place
    try:
        return taker.step(objective, parts, seed=_step_seed(seed, stage, epoch, step), ask=ask)
    except NotFinite as error:
        said = error.what + _because_of(modules)
        raise NotFinite(f"stage {stage}, epoch {epoch + 1}, step {step + 1}", said) from None


def take_step(objective: Objective, batch: Batch, optimizer: torch.optim.Optimizer, *, seed: int) -> dict[str, float]:
    """One step: terms, their check, gradients, update. Returns the values of the terms."""
    with torch.random.fork_rng(devices=[batch.rows.device] if batch.rows.is_cuda else []):
        seed_of(batch.rows.device, seed)
        terms = objective(batch)
        values = {name: float(term.detach()) for name, term in terms.items()}
        must_be_a_number(values)
        optimizer.zero_grad(set_to_none=True)
        torch.stack(list(terms.values())).sum().backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return values


def set_learning_rate(optimizer: torch.optim.Optimizer, factor: float) -> None:
    """Set each group's learning rate to ``factor`` times the one it was made with."""
    for group in optimizer.param_groups:
        group["lr"] = group.setdefault("initial_lr", group["lr"]) * factor


def seconds_a_step(objective: Objective, batches: Loader, optimizer: torch.optim.Optimizer) -> float:
    """The mean time of a training step, from a few that change nothing (learning rate 0, moments forgotten).

    The one before them is not counted: it makes what the others find.
    """
    device = optimizer.param_groups[0]["params"][0].device
    set_learning_rate(optimizer, 0.0)
    times = []
    ready = time.monotonic()
    for batch in islice(batches.epoch(0), 1 + _MEASURED):
        take_step(objective, batch.to(device), optimizer, seed=0)
        times.append(time.monotonic() - ready)
        ready = time.monotonic()
    _let_go(optimizer)
    set_learning_rate(optimizer, 1.0)
    counted = times[1:] or times
    return sum(counted) / len(counted)


def _let_go(optimizer: torch.optim.Optimizer) -> None:
    """Free gradients and moments, which are twice as large as what they are of: what comes next may need the room."""
    optimizer.zero_grad(set_to_none=True)
    optimizer.state.clear()
    return_freed()


def _states(modules: Mapping[str, nn.Module]) -> dict[str, dict[str, Tensor]]:
    return {name: module.state_dict() for name, module in modules.items()}


def _because_of(modules: Mapping[str, nn.Module]) -> str:
    """A clause that names what an earlier step has spoilt; empty where nothing is."""
    name = not_finite(_states(modules))
    return "" if name is None else f", since {name} has become NaN or infinite before"


def _step_seed(seed: int, stage: str, epoch: int, step: int) -> int:
    return int.from_bytes(hashlib.sha256(f"{seed} {stage} {epoch} {step}".encode()).digest()[:7], "big")
