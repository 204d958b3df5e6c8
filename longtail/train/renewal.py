"""Work that is done again and again while a stage trains: clusters of near documents, hard negatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class Moment(NamedTuple):
    """When something is renewed: before a step.

    Attributes:
        epoch: counted from 0.
        step: of the epoch, counted from 0.
        passes: times that a document is met until the next renewal, at most.
    """

    epoch: int
    step: int
    passes: int


class When(NamedTuple):
    """Before which steps something is renewed.

    Attributes:
        first: the epoch that it is renewed before first, counted from 0.
        every: epochs from one time to the next.
        steps: steps from one time to the next, in place of epochs.
    """

    first: int
    every: int
    steps: int | None = None

    def of(self, epoch: int, steps: int) -> list[Moment]:
        """The moments of an epoch of so many steps, in their order."""
        if epoch < self.first:
            return []
        between, since = self.steps or self.every * steps, (epoch - self.first) * steps
        return [Moment(epoch, step, self.passes(steps)) for step in range(-since % between, steps, between)]

    def passes(self, steps: int) -> int:
        """Epochs of so many steps that begin, at most, from one time to the next."""
        return self.every if self.steps is None else -(-self.steps // steps)


class Renewal(NamedTuple):
    """Something that is renewed while a stage trains.

    Attributes:
        when: before which steps.
        work: renews it at such a moment.
    """

    when: When
    work: Callable[[Moment], None]
