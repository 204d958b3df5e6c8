"""Training that is ended at some step."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

from longtail.train import fit as module


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
