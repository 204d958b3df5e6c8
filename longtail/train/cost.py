"""What a run has cost: the time and the memory of the processes that did its work."""

from __future__ import annotations

import math
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from longtail.errors import BadInput
from longtail.files import read_json, write_json
from longtail.memory import peak_bytes

COST = "cost.json"  # in a run folder


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of a run up to what its folder holds.

    Attributes:
        seconds: wall time of all processes that worked on it, without what a killed one had not kept.
        peak_memory: bytes, the most that one of these processes held.
        peak_gpu_memory: bytes, the most that PyTorch held on a GPU; 0 without one.
    """

    seconds: float = 0.0
    peak_memory: int = 0
    peak_gpu_memory: int = 0


class Meter:
    """Adds this process to the cost of a run, from now on.

    Args:
        path: the file of the cost, which may hold that of earlier processes.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._since = path, time.monotonic()
        self._before = read_cost(path)

    def write(self) -> Cost:
        """Write the cost up to now."""
        before = self._before
        gpu = torch.cuda.max_memory_allocated() if torch.cuda.is_available() else 0
        cost = Cost(
            seconds=round(before.seconds + time.monotonic() - self._since, 3),
            peak_memory=max(before.peak_memory, peak_bytes()),
            peak_gpu_memory=max(before.peak_gpu_memory, gpu),
        )
        write_json(self._path, asdict(cost))
        return cost


def read_cost(path: Path) -> Cost:
    """The cost in a file; nothing where there is none.

    Raises:
        BadInput: the file holds something else.
    """
    if not path.exists():
        return Cost()
    names, remedy = Cost.__slots__, "remove the file; what the run has cost until now is then not counted"
    said = read_json(path, remedy=remedy, keys=names)
    for name in names:
        if type(said[name]) not in (int, float) or not 0 <= said[name] < math.inf:
            raise BadInput(path, f"expected {name} of at least 0, found {said[name]!r}", remedy=remedy)
    return Cost(*(said[name] for name in names))
