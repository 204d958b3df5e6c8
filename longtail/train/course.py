"""How long a stage takes and how fast it learns meanwhile: a number of epochs, or until it gains no more."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

from longtail.errors import BadInput
from longtail.options import AtMost

Schedule: TypeAlias = Callable[[int, int], float]
Score: TypeAlias = Callable[[], float]
_PATIENCE = 2  # epochs without a better score after which the learning rate falls


def linear(warmup: float) -> Schedule:
    """The learning rate's factor: it rises to 1 over the first ``warmup`` steps, and falls to 0 at the last step.

    A ``warmup`` below 1 is a share of all steps.
    """

    def factor(step: int, steps: int) -> float:
        rising = _rising(warmup, steps)
        return min((step + 1) / max(1, rising), (steps - step) / max(1, steps - rising))

    return factor


def cosine(warmup: float) -> Schedule:
    """The learning rate's factor: it rises to 1 as `linear`, and falls to 0 along half a cosine (SGDR, 2017, eq. 5)."""
    straight = linear(warmup)

    def factor(step: int, steps: int) -> float:
        at = straight(step, steps)
        return at if step < _rising(warmup, steps) else (1 - math.cos(math.pi * at)) / 2

    return factor


SCHEDULES: Mapping[str, Callable[[float], Schedule]] = {"linear": linear, "cosine": cosine}


class Pace(NamedTuple):
    """How long a stage takes, and how its learning rates rise and fall.

    Attributes:
        epochs: passes over the sampler's epoch; `longtail.options.AtMost` for as many as a score rises.
        schedule: how the rates fall to 0, a key of `SCHEDULES`.
        warmup: steps over which they rise before that, or, below 1, a share of all; None for those of an epoch.
    """

    epochs: int
    schedule: str = "linear"
    warmup: float | None = None


class Course:
    """A number of epochs, over which the learning rate follows a schedule.

    Args:
        epochs: passes over the sampler's epoch.
        schedule: the factor of the learning rate at a step out of so many steps.
        score: how good the model is by now, on documents that were held out; None where there is none.
        every: after so many epochs, and at the end, it is asked for; 0 for never.

    Attributes:
        epochs: after which the stage ends; those that it has at most, as long as it may end by itself.
        state: what of it belongs into a checkpoint, by name.
    """

    def __init__(self, epochs: int, schedule: Schedule, score: Score | None = None, every: int = 0) -> None:
        self.epochs, self._schedule, self._asked, self._every = epochs, schedule, score, every
        self.state: dict[str, UntilBest] = {}

    def factor(self, step: int, steps: int) -> float:
        """The factor of the learning rate at a step, counted over all epochs, of which each has so many steps."""
        return self._schedule(step, self.epochs * steps)

    def ended(self, done: int) -> dict[str, float]:
        """Take note that so many epochs have ended. Returns what the line of the last in the log is to say, by name."""
        if self._asked is None or not self._every or (done % self._every and done < self.epochs):
            return {}
        return {"held_out": round(self._asked(), 6)}


class UntilBest(Course):
    """As many epochs as a score rises, at a constant learning rate, and then some over which the rate falls to 0.

    The rate rises over the warm-up. It begins to fall once the best score is two epochs old, or where no more epochs
    would fit, and takes a third of the epochs that there were until then, at least one, to come to 0.

    Args:
        epochs: at most.
        schedule: how the rate falls, a value of `SCHEDULES`.
        warmup: steps, or, below 1, a share of those that there are at most.
        score: what an epoch is to raise, asked at its end.
    """

    def __init__(self, epochs: AtMost, schedule: Callable[[float], Schedule], warmup: float, score: Score) -> None:
        super().__init__(epochs, schedule(0))
        self.state = {"course": self}
        self._warmup, self._most, self._score = warmup, epochs, score
        self._scores: list[float] = []
        self._falls_after: int | None = None  # so many epochs
        self._look()

    def factor(self, step: int, steps: int) -> float:
        """The factor of the learning rate at a step, counted over all epochs, of which each has so many steps."""
        rise = min(1.0, (step + 1) / max(1, _rising(self._warmup, self._most * steps)))
        if self._falls_after is None:
            return rise
        first = self._falls_after * steps
        return min(rise, self._schedule(step - first, self.epochs * steps - first))

    def ended(self, done: int) -> dict[str, float]:  # noqa: ARG002
        """Ask for the score. Returns what the line of the epoch in the log is to say, by name."""
        self._scores.append(self._score())
        self._look()
        return {"held_out": round(self._scores[-1], 6)}

    def _look(self) -> None:
        """Let the rate fall from here on, if it is time."""
        done = len(self._scores)
        best = self._scores.index(max(self._scores)) + 1 if done else 0
        if self._falls_after is None and (done - best >= _PATIENCE or _with_fall(done + 1) > self.epochs):
            self._falls_after, self.epochs = done, _with_fall(done)

    def state_dict(self) -> dict[str, Any]:
        """The scores, of which all else follows."""
        return {"scores": self._scores}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take the scores back into a course that has none yet."""
        for score in state["scores"]:
            self._scores.append(score)
            self._look()


def course_of(stage: str, epochs: int, schedule: str, warmup: float, score: Score | None, every: int = 0) -> Course:
    """The course of a stage.

    Args:
        stage: its name.
        epochs: passes over the sampler's epoch; `AtMost` for one that ends by itself.
        schedule: how the learning rate falls, a key of `SCHEDULES`.
        warmup: steps over which it rises, or, below 1, a share of all.
        score: what a stage that ends by itself is to raise; None where there is none.
        every: after so many epochs it is asked for where the number of epochs is known; 0 for never.

    Raises:
        BadInput: it is to end by itself, and has no score.
    """
    if not isinstance(epochs, AtMost):
        return Course(epochs, SCHEDULES[schedule](warmup), score, every)
    if score is None:
        problem = f"expected a number, found auto, and no held-out documents say when the stage {stage} is at its best"
        raise BadInput("epochs", problem, remedy="give a number")
    return UntilBest(epochs, SCHEDULES[schedule], warmup, score)


def _rising(warmup: float, steps: int) -> int:
    """The steps of all over which the learning rate rises."""
    return min(steps, int(warmup if warmup >= 1 else warmup * steps))


def _with_fall(epochs: int) -> int:
    """So many epochs, and those over which the learning rate then falls."""
    return epochs + max(1, epochs // 3)
