"""What a plan is made of: training stages, and the work between and after them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class StagePlan:
    """The size and time of a training stage.

    Attributes:
        stage: its name.
        rows: training documents.
        unlabelled: how many of them have no label, or only filtered ones: losses that are defined by positives leave
            them out.
        labels: L, of the stage.
        steps: steps an epoch.
        epochs: of the stage.
        batch: documents of a batch, B.
        pool: labels of its pool, P, in a typical batch.
        negatives: labels of the pool that are a document's effective negatives, on average.
        parameters: trained numbers.
        memory: estimated peak bytes of one process, on the device that trains.
        seconds: estimated time of an epoch.
        times: how many stages of this kind there are.
        rounds: how many of them add to the time of the run: the others are trained while these are, or what is before.
    """

    stage: str
    rows: int
    unlabelled: int
    labels: int
    steps: int
    epochs: int
    batch: int
    pool: int
    negatives: float
    parameters: int
    memory: int
    seconds: float
    times: int = 1
    rounds: int = 1


@dataclass(slots=True)
class Work:
    """What a run does besides taking steps.

    Attributes:
        times: how often.
        seconds: estimated, of all times together.
        held: bytes that it holds, at most.
    """

    times: int = 0
    seconds: float = 0.0
    held: int = 0


class Reckoning(NamedTuple):
    """What a step against all labels costs at least, where it is too large to be tried.

    Attributes:
        seconds: of a step of B documents.
        memory: bytes that a step holds besides parameters and their moments.
    """

    seconds: Callable[[int], float]
    memory: int
