"""What the parts of a run have taken in this process: time, processor time and memory."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass

from longtail.memory import peak_bytes


@dataclass(slots=True)
class Part:
    """What a part has taken, without the parts within it.

    Attributes:
        times: how often it was done.
        seconds: by the clock.
        processor_seconds: of all threads of the process, those that did other things meanwhile among them.
        peak_memory: bytes, the most that the process had held when it ended.
    """

    times: int = 0
    seconds: float = 0.0
    processor_seconds: float = 0.0
    peak_memory: int = 0


class Parts:
    """Parts of a run by name, in the order in which they first ended."""

    def __init__(self) -> None:
        self._parts: dict[str, Part] = {}
        self._within: list[tuple[float, float]] = []  # of each part that goes on, what those within it have taken

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        """Count what happens in this context as a part of this name; what is counted within it is not of it."""
        before = _now()
        self._within.append((0.0, 0.0))
        try:
            yield
        finally:
            taken, inner = [after - start for after, start in zip(_now(), before, strict=True)], self._within.pop()
            if self._within:
                outer = self._within[-1]
                self._within[-1] = outer[0] + taken[0], outer[1] + taken[1]
            part = self._parts.setdefault(name, Part())
            part.times += 1
            part.seconds += taken[0] - inner[0]
            part.processor_seconds += taken[1] - inner[1]
            part.peak_memory = peak_bytes()

    def as_json(self) -> dict[str, dict[str, float]]:
        """The parts as the log keeps them."""
        return {
            name: {key: round(value, 3) for key, value in asdict(part).items()} for name, part in self._parts.items()
        }


def _now() -> tuple[float, float]:
    return time.monotonic(), time.process_time()
