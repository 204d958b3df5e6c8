"""How fast an encoder learns, step by step."""

from __future__ import annotations

from dataclasses import dataclass

from longtail.options import NATURAL, POSITIVE, option
from longtail.stages.recipe import RunOptions
from longtail.train.course import SCHEDULES, Pace


@dataclass(frozen=True, kw_only=True)
class PaceOptions(RunOptions):
    """Learning rates."""

    learning_rate: float | None = option(
        None,
        "of the encoder; if left out, 3e-4 for a transformer up to 384 wide, 1e-4 for a wider one, 4e-3 for others",
        within=POSITIVE,
    )
    warmup: float = option(
        100,
        "steps over which the learning rate rises, or, below 1, a share of all steps; it falls to 0 after that",
        within=NATURAL,
    )
    schedule: str = option("linear", "how learning rates fall to 0 after the warm-up", choices=tuple(SCHEDULES))

    def pace(self, epochs: int) -> Pace:
        """Of a stage of the encoder that takes so many epochs."""
        return Pace(epochs, self.schedule, self.warmup)
