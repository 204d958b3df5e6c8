"""Training that is ended at some step."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from longtail.train import fit as module
from longtail.train.log import Log
from longtail.train.progress import Progress
from longtail.train.run import Run


def stopped_after(steps: int, train: Callable[[], Any]) -> None:
    """Let what trains be ended before so many steps are done."""
    plain, taken = module.take_step, count()

    def take_step(*given: Any, **options: Any) -> dict[str, float]:
        if next(taken) == steps:
            raise KeyboardInterrupt
        return plain(*given, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "take_step", take_step)
        with pytest.raises(KeyboardInterrupt):
            train()


def stopped_in_the_middle(train: Callable[[Run], Any], folder: Path, steps: int = 5) -> None:
    """Let what trains in a folder be ended before so many steps are done, with a checkpoint of each."""
    stopped_after(steps, lambda: train(Run(folder, Log(folder / "metrics.jsonl"), interval=0.0)))


def stopped_at_the_end(train: Callable[[], Any]) -> None:
    """Let what trains be ended after its last step, of each of which there is a checkpoint."""

    def ended(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Progress, "is_due", lambda _: True)
        patch.setattr(Progress, "finish", ended)
        with pytest.raises(KeyboardInterrupt):
            train()
