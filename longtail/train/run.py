"""A run folder: what was asked, the log, finished stages and the checkpoint of the stage in progress."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from torch import nn

from longtail.train.checkpoint import load_state, save_state
from longtail.train.log import Log


class Stateful(Protocol):
    """Anything whose state belongs into a checkpoint: modules, optimisers, samplers."""

    def state_dict(self) -> dict[str, Any]:
        """The state, as nested dicts of tensors and numbers."""

    def load_state_dict(self, state: Any, /) -> Any:
        """Take a state back."""


@dataclass(slots=True)
class Run:
    """Where a recipe keeps what it has done, so that a crash at any moment costs at most the time since a checkpoint.

    A recipe is resumed by calling it again with the same arguments and the same folder: each of its stages finds its
    result, or its checkpoint, or nothing.

    Attributes:
        folder: of the run; None keeps everything in memory only.
        log: where it says what it does.
        interval: seconds between checkpoints.
    """

    folder: Path | None = None
    log: Log = field(default_factory=Log)
    interval: float = 120.0
    _last: float = field(default_factory=time.monotonic)

    def _path(self, stage: str, kind: str) -> Path | None:
        return None if self.folder is None else self.folder / "stages" / f"{stage}{kind}.safetensors"

    def restore(self, stage: str, modules: Mapping[str, nn.Module], others: Mapping[str, Stateful]) -> dict[str, Any]:
        """Bring a stage to where an earlier process left it.

        Returns:
            ``{"done": True}`` where the stage is finished (its modules are loaded), else the position of its checkpoint
            (everything is loaded), else an empty dict.
        """
        finished, checkpoint = self._path(stage, ""), self._path(stage, ".checkpoint")
        if finished is not None and finished.exists():
            for name, state in load_state(finished).items():
                modules[name].load_state_dict(state)
            return {"done": True}
        if checkpoint is not None and checkpoint.exists():
            saved = load_state(checkpoint)
            for name, part in {**modules, **others, "log": self.log}.items():
                part.load_state_dict(saved["parts"][name])
            return dict(saved["position"])
        return {}

    def checkpoint(
        self, stage: str, modules: Mapping[str, nn.Module], others: Mapping[str, Stateful], position: Mapping[str, int]
    ) -> None:
        """Write a checkpoint if the last one is old enough."""
        path = self._path(stage, ".checkpoint")
        if path is None or time.monotonic() - self._last < self.interval:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        parts = {**modules, **others, "log": self.log}
        save_state(path, {"position": position, "parts": {name: part.state_dict() for name, part in parts.items()}})
        self._last = time.monotonic()

    def finish(self, stage: str, modules: Mapping[str, nn.Module]) -> None:
        """Keep the result of a stage, and let its checkpoint go."""
        path, checkpoint = self._path(stage, ""), self._path(stage, ".checkpoint")
        if path is not None and checkpoint is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            save_state(path, {name: module.state_dict() for name, module in modules.items()})
            checkpoint.unlink(missing_ok=True)
        self._last = time.monotonic()
