"""How far a run is, in its folder: what was asked, finished stages and the checkpoint of the stage in progress."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from torch import nn

from longtail.errors import BadInput
from longtail.files import Kinds, must_be_free, must_hold, read_json, remove_file, remove_partial, write_json
from longtail.locks import LOCK
from longtail.modules.table import load_module_state
from longtail.options import NATURAL
from longtail.train.checkpoint import REMEDY, load_state, save_state
from longtail.train.cost import Meter
from longtail.train.finite import must_be_finite
from longtail.train.log import Log

SCHEMA = 2  # of run.json; the first has no number
_RENAMED = {"fuse": "ensemble"}  # what earlier versions called a recipe
DATA = "data"  # the data set of a run that was made of a table
_UNCLAIMED = (DATA, "tokens", "cost.json", LOCK)  # may lie in a folder before it is a run's: by content, and time spent
_ASKED = ("recipe", "arguments", "hashes")  # what decides the model: an edit is refused
_TIMES = 9  # as long as a checkpoint takes, training goes on at least before the next one
_CHOSEN = "chosen"  # what decides it, too, where there is something
_KINDS: Mapping[str, Kinds] = {
    "recipe": str,
    "arguments": dict,
    "hashes": dict,
    "data": (str, type(None)),
    "schema": int,
}


def settings_of(run: Path) -> dict[str, Any]:
    """What a run folder's ``run.json`` says.

    Raises:
        BadInput: there is none, or it is not what was written, or a later version wrote it.
    """
    path = run / "run.json"
    if not path.exists():
        raise BadInput(path, "expected the settings of a run, found no such file", remedy="train one into this folder")
    remedy = "put the file back as it was, or train the run again"
    settings = {"data": None, "schema": 1} | read_json(path, remedy=remedy)
    must_hold(path, settings, _KINDS, remedy=remedy)
    if (found := _sha256(settings)) != settings.pop("sha256", found):  # earlier versions wrote none
        raise BadInput(path, f"expected another {', '.join(_ASKED)}: SHA-256 {found[:12]}...", remedy=remedy)
    if settings["schema"] > SCHEMA:
        problem = f"expected schema {SCHEMA} or less, found {settings['schema']}"
        raise BadInput(path, problem, remedy="use the longtail that wrote it")
    return settings | {"recipe": _RENAMED.get(settings["recipe"], settings["recipe"])}


class Stateful(Protocol):
    """Anything whose state belongs into a checkpoint: modules, optimisers, samplers."""

    def state_dict(self) -> dict[str, Any]:
        """The state, as nested dicts of tensors and numbers."""

    def load_state_dict(self, state: Any, /) -> Any:
        """Take a state back."""


class Progress:
    """What a run has done, so that a crash at any moment costs at most the time since a checkpoint.

    Args:
        folder: of the run; None keeps everything in memory only.
        log: its running means are part of a checkpoint.
        interval: seconds between checkpoints; where they are large, more, so that training has nine tenths of the time.
        writes: whether this is the process that writes; others of the same run read only.

    Attributes:
        chosen: what was chosen for the run beyond what was asked for, by argument; ``run.json`` has it beside that.

    Raises:
        BadInput: the interval is none.
    """

    def __init__(self, folder: Path | None, log: Log, interval: float = 120.0, *, writes: bool = True) -> None:
        if interval not in NATURAL:
            problem = f"expected {NATURAL}, found {interval:g}"
            raise BadInput("checkpoint_every", problem, remedy="it is: seconds between checkpoints")
        self.folder, self.log, self._interval, self._writes = folder, log, interval, writes
        self._last, self._taken = time.monotonic(), 0.0  # when the last checkpoint ended, and how long it took
        self._meter: Meter | None = None
        self._settings: Mapping[str, Any] | None = None  # what `claim` is to write
        self.chosen: Mapping[str, Any] = {}

    def describe(self, settings: Mapping[str, Any], defaults: Mapping[str, Any]) -> None:
        """Make sure that the folder is free for a run, or holds this one.

        ``run.json`` is written by `claim`, when the first stage begins: a recipe that refuses an option before that
        leaves the folder free for a corrected command.

        Args:
            settings: with ``recipe``, ``arguments`` and ``hashes`` (of the data), which must agree, and what else helps
                a reader.
            defaults: of the arguments; a run that was begun before there was an argument has its default.

        Raises:
            BadInput: the folder holds something else.
        """
        if self.folder is None:
            return
        path = self.folder / "run.json"
        if self._writes:
            self._meter = Meter(self.folder / "cost.json")
        if not path.exists():
            if self._writes:
                must_be_free(self.folder, besides=_UNCLAIMED)
                self._settings = settings
            return
        if self._writes:
            remove_partial(self.folder)
            for left in self.folder.glob("stages/.tmp??????"):  # by safetensors, in killed runs of earlier versions
                left.unlink()
        found, wanted = settings_of(self.folder), json.loads(json.dumps(settings))
        found["arguments"] = {**json.loads(json.dumps(defaults)), **found["arguments"]}
        for part in _ASKED:
            if found[part] != wanted[part]:
                problem = f"the run was made with {part} {_only(found[part], wanted[part])}, asked for now is "
                problem += str(_only(wanted[part], found[part]))
                raise BadInput(path, problem, remedy="give the run another folder, or ask for the same again")
        self.chosen = found.get(_CHOSEN, {})

    def claim(self) -> None:
        """Make the folder this run's, if it is not: its recipe has accepted all options, and its first stage begins.

        Raises:
            BadInput: another process was first.
        """
        if self.folder is None or self._settings is None:
            return
        path = self.folder / "run.json"
        if path.exists():
            raise BadInput(path, "another process has begun a run here", remedy="choose another folder")
        settings = {**self._settings, **({_CHOSEN: self.chosen} if self.chosen else {})}
        write_json(path, {"schema": SCHEMA, **settings, "sha256": _sha256(settings)})
        remove_partial(self.folder)
        self._settings = None

    def tell(self, **found: Any) -> None:
        """Keep what a run found out, which decides nothing of what it is asked again, in ``run.json``."""
        if self._settings is not None:
            self._settings = {**self._settings, **found}
        elif self.folder is not None and self._writes:
            path = self.folder / "run.json"
            write_json(path, read_json(path, remedy="train the run again") | found)

    def begun(self) -> bool:
        """Whether an earlier process has left a stage, or a part of one."""
        return self.folder is not None and (self.folder / "stages").is_dir()

    def _path(self, stage: str, kind: str) -> Path | None:
        return None if self.folder is None else self.folder / "stages" / f"{stage}{kind}.safetensors"

    def restore(self, stage: str, modules: Mapping[str, nn.Module], others: Mapping[str, Stateful]) -> dict[str, Any]:
        """Bring a stage to where an earlier process left it.

        Returns:
            ``{"done": True, "epoch": epochs that it took}`` where the stage is finished (its modules are loaded; those
            that earlier versions finished do not say their epochs), else the position of its checkpoint
            (everything is loaded), else an empty dict.

        Raises:
            BadInput: what it left is not what was written, or not of this stage.
        """
        finished, checkpoint = self._path(stage, ""), self._path(stage, ".checkpoint")
        if finished is not None and checkpoint is not None and finished.exists():
            if self._writes:
                checkpoint.unlink(missing_ok=True)  # there if a crash came between the two
            with _state_in(finished) as saved:
                for name, module in modules.items():
                    load_module_state(module, saved[name])
                return {"done": True, **saved.get("position", {})}
        if checkpoint is not None and checkpoint.exists():
            with _state_in(checkpoint) as saved:
                for name, module in modules.items():
                    load_module_state(module, saved["parts"][name])
                for name, part in {**others, "log": self.log}.items():
                    part.load_state_dict(saved["parts"][name])
                return dict(saved["position"])
        return {}

    def is_due(self) -> bool:
        """Whether the last checkpoint is old enough for another one."""
        wait = self._interval and max(self._interval, _TIMES * self._taken)
        return self.folder is not None and time.monotonic() - self._last >= wait

    def checkpoint(
        self, stage: str, modules: Mapping[str, nn.Module], others: Mapping[str, Stateful], position: Mapping[str, int]
    ) -> None:
        """Write a checkpoint.

        Raises:
            NotFinite: what it would hold is not; the last one stays.
        """
        path = self._path(stage, ".checkpoint")
        if path is None or not self._writes:
            return
        begun = time.monotonic()
        parts = {name: part.state_dict() for name, part in {**modules, **others, "log": self.log}.items()}
        must_be_finite(f"stage {stage}, epoch {position['epoch'] + 1}, after step {position['step']}", parts)
        save_state(path, {"position": position, "parts": parts})
        self.account()
        self._last = time.monotonic()
        self._taken = self._last - begun

    def account(self) -> None:
        """Write what the run has cost up to now into ``cost.json``."""
        if self._meter is not None:
            self._meter.write()

    def finish(self, stage: str, modules: Mapping[str, nn.Module], epochs: int) -> None:
        """Keep the result of a stage that took so many epochs, and let its checkpoint go."""
        path, checkpoint = self._path(stage, ""), self._path(stage, ".checkpoint")
        if path is not None and checkpoint is not None and self._writes:
            states = {name: module.state_dict() for name, module in modules.items()}
            save_state(path, {**states, "position": {"epoch": epochs}})
            remove_file(checkpoint)
            self.account()
        self._last = time.monotonic()


@contextmanager
def _state_in(path: Path) -> Iterator[dict[str, Any]]:
    """A saved state, for a block that takes it up."""
    try:
        yield load_state(path)
    except (KeyError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        found = " ".join(str(error).split())[:200]
        raise BadInput(path, f"expected a state of this stage, found another ({found})", remedy=REMEDY) from error


def _sha256(settings: Mapping[str, Any]) -> str:
    """Of what decides the model."""
    decides = {name: settings[name] for name in (*_ASKED, _CHOSEN) if name in settings}
    text = json.dumps(decides, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _only(one: Any, other: Any) -> Any:
    """The part of one value that another does not share: of dicts, the differing items."""
    if isinstance(one, dict) and isinstance(other, dict):
        return {name: value for name, value in one.items() if other.get(name) != value}
    return one
