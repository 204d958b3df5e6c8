"""What a run says of itself: lines of ``metrics.jsonl``, and a progress bar."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from longtail.errors import BadInput
from longtail.files import must_be_a_file, replacing
from longtail.train.parts import Parts
from longtail.units import printable

_OF_LOG = "it says how a stage went, and nothing is trained or ranked by it"
_LINES = 30  # of a stage, on what is no terminal
LOG = "metrics.jsonl"  # in a run folder
WITHIN = "LONGTAIL_WITHIN"  # an environment variable: of runs that another command asks for, which says what comes next


class Listener(Protocol):
    """Who is told what the log says: see `longtail.train.trackers.Tracking`."""

    def line(self, fields: Mapping[str, Any], within: str = "") -> None:
        """Take a line, of a run that is within another where its name is given."""


class Log:
    """Keeps a run's log file and shows its progress.

    Args:
        path: of the log, one JSON object a line; None keeps no log.
        console: where progress is shown; None shows nothing. On something that is no terminal, each
            epoch is a line, or some 30 of more epochs are.
        listener: told each line.
        name: of the run within another one, with a slash at its end; empty for one that is in none.

    Attributes:
        parts: of the run, and what each has taken.
    """

    def __init__(
        self,
        path: Path | None = None,
        console: Console | None = None,
        listener: Listener | None = None,
        name: str = "",
    ) -> None:
        self._path, self.console, self.listener, self._name = path, console, listener, name
        self.parts = Parts()
        self._progress: Progress | None = None
        self._begun = False
        self._stage = ""
        self._sums: dict[str, float] = {}
        self._steps = self._rows = self._pool = self._taken = 0
        self._positives = 0.0
        self._since = time.monotonic()

    def within(self, path: Path | None, name: str) -> Log:
        """The log of a run of this name within this one, which the same listener is told of."""
        return Log(path, self.console, self.listener, f"{self._name}{name}/")

    def tell_of(self, path: Path, name: str) -> None:
        """Tell the listener of a run of this name within this one that another process has trained, by its log."""
        log = self.within(None, name)
        for fields in read_log(path) if self.listener is not None else ():
            log.write(**fields)

    def write(self, **fields: Any) -> None:
        """Append one line."""
        if self.listener is not None:
            self.listener.line(fields, self._name)
        if self._path is None:
            return
        with self._path.open("ab+") as file:
            if not self._begun:
                file.seek(0)
                file.truncate(len(_whole(file.read())))
                self._begun = True
            file.write(json.dumps(fields).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())  # so that no line but the last can be torn by a power loss

    def _rewind(self, stage: str, step: int) -> None:
        """Drop the lines of a stage that lie beyond ``step``, where a resumed run starts again."""
        if self._path is None:
            return
        lines = read_log(self._path)
        kept = [fields for fields in lines if fields.get("stage") != stage or fields.get("step", 0) <= step]
        if len(kept) < len(lines):
            with replacing(self._path) as temporary:
                temporary.write_text("".join(f"{json.dumps(fields)}\n" for fields in kept), encoding="utf-8")

    def start(self, stage: str, *, steps: int, done: int) -> None:
        """Begin to show a stage of so many steps, of which some are done."""
        self.passed(stage, done)
        if not done:
            self._begin_epoch()
        if self.console is not None and self.console.is_terminal:
            columns = (
                TextColumn("{task.description}"),
                BarColumn(bar_width=20),
                MofNCompleteColumn(),
                TextColumn("{task.fields[rate]}"),
                TextColumn("{task.fields[terms]}", style="cyan"),
                TimeElapsedColumn(),
                TextColumn("left"),
                TimeRemainingColumn(),
            )
            self._progress = Progress(*columns, console=self.console)
            self._progress.start()
            self._progress.add_task(stage, total=steps, completed=done, rate="", terms="")

    def passed(self, stage: str, done: int) -> None:
        """Take up a stage of which so many steps are done: what was noted after these is going to be noted again."""
        self._stage, self._taken = stage, done
        self._rewind(stage, done)

    def _begin_epoch(self) -> None:
        self._sums, self._steps, self._rows, self._pool, self._positives = {}, 0, 0, 0, 0.0
        self._since = time.monotonic()

    def step(self, terms: Mapping[str, float], rows: int, pool: int, positives: float) -> None:
        """Count one step: its loss terms, its documents, the labels of its pool, and the true ones of a document."""
        for name, value in terms.items():
            self._sums[name] = self._sums.get(name, 0.0) + value
        self._steps += 1
        self._taken += 1
        self._rows += rows
        self._pool += pool
        self._positives += positives
        if self._progress is not None:
            task = self._progress.task_ids[0]
            self._progress.update(task, advance=1, rate=f"{self._rate():,.0f} rows/s", terms=_terms(self._means()))

    def epoch(self, epoch: int, epochs: int, step: int, **fields: float) -> None:
        """Close an epoch: its mean loss terms and its rate go to the log, and so do fields.

        Args:
            epoch: how many are done.
            epochs: of the stage, as far as it is known.
            step: how many steps are done.
            fields: what else there is to say of the epoch, by name.
        """
        seconds = time.monotonic() - self._since
        means, rate = self._means(), self._rate()
        self.write(
            stage=self._stage,
            epoch=epoch,
            step=step,
            seconds=round(seconds, 3),
            rows_per_second=round(rate, 1),
            pool=round(self._pool / max(self._steps, 1), 1),
            positives=round(self._positives / max(self._steps, 1), 3),
            terms={name: round(value, 6) for name, value in means.items()},
            **fields,
        )
        if self.console is not None and self._progress is None and _is_said(epoch, epochs):
            left = seconds * (epochs - epoch)
            terms = _terms({**means, **fields})
            line = f"{self._stage}: epoch {epoch} of {epochs}, {rate:,.0f} rows/s, {terms}, {left:.0f} s left"
            self.console.print(line, highlight=False, soft_wrap=True)
        elif self._progress is not None:
            self._progress.update(self._progress.task_ids[0], total=step // epoch * epochs)
        self._begin_epoch()

    def note(self, **fields: Any) -> None:
        """Append a line on the stage, under the step that comes next, counted from 1; the epochs before it are done."""
        self.write(stage=self._stage, step=self._taken + 1, **fields)

    def stop(self) -> None:
        """Take the progress bar down."""
        if self._progress is not None:
            self._progress.stop()
            self._progress = None

    def say(self, text: str) -> None:
        """Print a line, above the progress bar."""
        if self.console is not None:
            in_a_file = not self.console.is_terminal
            self.console.print(printable(text), highlight=False, markup=False, soft_wrap=in_a_file)

    def show(self, renderable: RenderableType) -> None:
        """Print a table."""
        if self.console is not None:
            self.console.print(renderable)

    def _means(self) -> dict[str, float]:
        return {name: value / max(self._steps, 1) for name, value in self._sums.items()}

    def _rate(self) -> float:
        return self._rows / max(time.monotonic() - self._since, 1e-9)

    def state_dict(self) -> dict[str, Any]:
        """The running means of the epoch, for a checkpoint."""
        seconds = time.monotonic() - self._since
        counts = {"steps": self._steps, "rows": self._rows, "pool": self._pool, "positives": self._positives}
        return {"sums": self._sums, **counts, "seconds": seconds}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take the running means back from a checkpoint."""
        self._sums, self._steps = dict(state["sums"]), state["steps"]
        self._rows, self._pool, self._positives = state["rows"], state["pool"], state.get("positives", 0.0)
        self._since = time.monotonic() - state["seconds"]


def read_log(path: Path) -> list[dict[str, Any]]:
    """The lines of a run's log, without a last one that a crash cut off; none where there is no such file.

    Raises:
        BadInput: another line is none of a log. It is refused, not skipped: a report must not lack an epoch in silence.
    """
    must_be_a_file(path, remedy=f"remove it; {_OF_LOG}")
    found = []
    for number, line in enumerate(_whole(path.read_bytes() if path.is_file() else b"").split(b"\n")[:-1], 1):
        try:
            fields = json.loads(line)
        except (ValueError, RecursionError):
            fields = None
        if not isinstance(fields, dict) or type(fields.get("step", 0)) is not int:
            problem = f"expected a line of a log, found {line[:40]!r}"
            raise BadInput(path, problem, remedy=f"remove the line; {_OF_LOG}", line=number)
        found.append(fields)
    return found


def _whole(log: bytes) -> bytes:
    """The lines of a log without a last one that a crash cut off, or a power loss left zeros in."""
    whole = log[: log.rfind(b"\n") + 1]
    before = whole[: whole.rfind(b"\n", 0, -1) + 1]
    return before if b"\0" in whole[len(before) :] else whole


def _is_said(epoch: int, epochs: int) -> bool:
    """Whether an epoch is a line where there is no progress bar: the first, the last and `_LINES` at most."""
    return epoch in (1, epochs) or epoch * _LINES // epochs > (epoch - 1) * _LINES // epochs


def _terms(means: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {value:.4f}" for name, value in means.items())
