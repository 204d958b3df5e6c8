"""How far a run is, in its folder: what was asked, finished stages and the checkpoint of the stage in progress."""

from __future__ import annotations

import hashlib
import json
import platform
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import longtail
from longtail.errors import BadInput
from longtail.files import Kinds, must_be_free, must_hold, read_json, remove_partial, write_json
from longtail.locks import LOCK
from longtail.modules.table import load_module_state
from longtail.options import NATURAL
from longtail.train.checkpoint import Apart, Checkpoint, Stateful, save_state, state_in
from longtail.train.cost import Meter
from longtail.train.log import Log

SCHEMA = 4  # of run.json; the first has no number
_LEFT_OUT = {"windows": 1, "window_pooling": "mean"}  # in the first and the second: arguments that were not given
_ENCODERS = ("dpr", "ance", "depsl", "dexml")  # recipes of an encoder alone
_WITH_CLASSIFIERS = ("ngame", "dexa", "ramen")  # recipes of one without epochs of classifiers
_RENAMED = {"fuse": "ensemble"}  # what earlier versions called a recipe
DATA = "data"  # the data set of a run that was made of a table
_UNCLAIMED = (DATA, "tokens", "cost.json", LOCK)  # may lie in a folder before it is a run's: by content, and time spent
INPUTS = "inputs"  # what a run reads beside its data, by argument: SHA-256; runs of earlier versions do not say
_ASKED = ("recipe", "arguments", "hashes")  # what decides the model: an edit is refused
_TIMES = 9  # as long as a checkpoint takes, training goes on at least before the next one
_CHOSEN = "chosen"  # what decides it, too, where there is something, as the inputs do
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
    if settings["schema"] > SCHEMA:
        problem = f"expected schema {SCHEMA} or less, found {settings['schema']}"
        raise BadInput(path, problem, remedy="use the longtail that wrote it")
    if (found := _sha256(settings)) != settings.pop("sha256", found):  # earlier versions wrote none
        raise BadInput(path, f"expected another {', '.join(_ASKED)}: SHA-256 {found[:12]}...", remedy=remedy)
    if settings["schema"] < 3:
        of = settings["arguments"]
        settings["arguments"] = of | {name: None for name, value in _LEFT_OUT.items() if of.get(name) == value}
    if settings["schema"] < 4:
        recipe, of = settings["recipe"], settings["arguments"]
        without = recipe in _WITH_CLASSIFIERS and of.get("classifier_epochs") == 0
        if recipe in _ENCODERS or without or of.get("base") in ("ance", "dpr"):  # held nothing out up to the third
            settings["arguments"] = of | {"validation": 0.0}
    return settings | {"recipe": _RENAMED.get(settings["recipe"], settings["recipe"])}


def as_trained(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments that a run was trained with: what was asked for, and what was chosen in place of some of it.

    Args:
        settings: what its ``run.json`` says (`settings_of`).
    """
    return {**settings["arguments"], **settings.get(_CHOSEN, {})}


def must_have_read(path: Path, settings: Mapping[str, Any], inputs: Mapping[str, str]) -> None:
    """Refuse a run that has read something else than what is there now under the same name.

    Args:
        path: of its ``run.json``.
        settings: what that says (`settings_of`).
        inputs: what there is now (`longtail.stages.inputs.inputs_of`); what is gone is not compared.

    Raises:
        BadInput: something that it reads was trained or written anew since it began.
    """
    for name, before in settings.get(INPUTS, {}).items():
        if (found := inputs.get(name, before)) != before:
            what = f"{name} {settings['arguments'].get(name)}"
            problem = f"expected {what} as it was when the run began, SHA-256 {before[:12]}..., found another there now"
            remedy = "put that back as it was, or train the run anew in another folder"
            raise BadInput(path, f"{problem}, {found[:12]}...", remedy=remedy)


def versions() -> dict[str, str]:
    """Those of what a run is made by, by package."""
    own = {"longtail": longtail.__version__, "python": platform.python_version()}
    return own | {"torch": torch.__version__, "numpy": np.__version__}


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
            settings: with ``recipe``, ``arguments`` and ``hashes`` (of the data), which must agree, as must ``inputs``
                where there are some, and what else helps a reader.
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
        must_have_read(path, found, settings.get(INPUTS, {}))
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
        settings = {"schema": SCHEMA, **self._settings, **({_CHOSEN: self.chosen} if self.chosen else {})}
        write_json(path, settings | {"sha256": _sha256(settings)})
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

    def finished(self, stage: str, modules: Mapping[str, nn.Module]) -> dict[str, Any] | None:
        """Load a stage that an earlier process finished into its modules.

        Returns:
            ``{"epoch": epochs that it took}``, which earlier versions did not say; None where it is not finished.

        Raises:
            BadInput: what there is is not what was written, or not of this stage.
        """
        if self.folder is None or not (path := _result(self.folder, stage)).exists():
            return None
        if self._writes:
            Checkpoint(self.folder, stage).forget()  # there if a crash came between the two
        with state_in(path) as saved:
            for name, module in modules.items():
                load_module_state(module, saved[name])
            return dict(saved.get("position", {}))

    def restore(
        self,
        stage: str,
        modules: Mapping[str, nn.Module],
        others: Mapping[str, Stateful],
        apart: Apart | None = None,
    ) -> dict[str, Any]:
        """Bring a stage to where its checkpoint is.

        Returns:
            The position of the checkpoint; empty where there is none.

        Raises:
            BadInput: it is not what was written, or not of this stage.
        """
        if self.folder is None:
            return {}

        def take(parts: Mapping[str, Any]) -> None:
            for name, module in modules.items():
                load_module_state(module, parts[name])
            for name, part in {**others, "log": self.log}.items():
                part.load_state_dict(parts[name])

        return Checkpoint(self.folder, stage).read(take, apart)

    def is_due(self) -> bool:
        """Whether the last checkpoint is old enough for another one."""
        wait = self._interval and max(self._interval, _TIMES * self._taken)
        return self.folder is not None and time.monotonic() - self._last >= wait

    def checkpoint(
        self,
        stage: str,
        modules: Mapping[str, nn.Module],
        others: Mapping[str, Stateful],
        position: Mapping[str, int],
        apart: Apart | None = None,
    ) -> None:
        """Write a checkpoint; all processes call it where some of it is apart.

        Raises:
            NotFinite: what it would hold is not; the last one stays.
        """
        if self.folder is None:
            return
        begun, parts = time.monotonic(), {**modules, **others, "log": self.log}
        Checkpoint(self.folder, stage).write(position, parts, apart, first=self._writes)
        if self._writes:
            self.account()
            self._last = time.monotonic()
            self._taken = self._last - begun

    def account(self) -> None:
        """Write what the run has cost up to now into ``cost.json``."""
        if self._meter is not None:
            self._meter.write()

    def finish(self, stage: str, modules: Mapping[str, nn.Module], epochs: int) -> None:
        """Keep the result of a stage that took so many epochs, and let its checkpoint go."""
        if self.folder is not None and self._writes:
            states = {name: module.state_dict() for name, module in modules.items()}
            save_state(_result(self.folder, stage), {**states, "position": {"epoch": epochs}})
            Checkpoint(self.folder, stage).forget()
            self.account()
        self._last = time.monotonic()


def _result(folder: Path, stage: str) -> Path:
    return folder / "stages" / f"{stage}.safetensors"


def _sha256(settings: Mapping[str, Any]) -> str:
    """Of what decides the model; from the fourth schema on, that is among it."""
    names = (*_ASKED, INPUTS, _CHOSEN, *(["schema"] if settings["schema"] > 3 else []))
    decides = {name: settings[name] for name in names if name in settings}
    text = json.dumps(decides, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _only(one: Any, other: Any) -> Any:
    """The part of one value that another does not share: of dicts, the differing items."""
    if isinstance(one, dict) and isinstance(other, dict):
        return {name: value for name, value in one.items() if other.get(name) != value}
    return one
