"""Where people watch their runs: each tracker is told the lines of a run's log that close an epoch."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from longtail.errors import BadInput, MissingExtra
from longtail.files import read_json, write_json
from longtail.train.log import LOG
from longtail.train.progress import settings_of

TRACKED = "tracked.json"  # in a run folder: what the run is called elsewhere, by tracker


class Tracker(Protocol):
    """What a run is told to."""

    def epoch(self, values: Mapping[str, float], step: int) -> None:
        """Take the numbers of an epoch, by ``stage/name``, after so many steps of its stage."""

    def end(self, *, finished: bool) -> None:
        """Take the end of the process, which is that of the run, or leaves it to be resumed."""


class Asked(NamedTuple):
    """What a tracker is to know of a run when it begins.

    Attributes:
        folder: of the run.
        arguments: of the recipe, which is one of them, and the data set folder.
        known: what `keep` was given when the run was begun; None where it begins now.
        keep: takes what the run is called elsewhere, so that a resumed run goes on there.
    """

    folder: Path
    arguments: Mapping[str, Any]
    known: str | None
    keep: Callable[[str], None]


class TensorBoard:
    """Event files in ``RUN/tensorboard``: tensorboard --logdir RUN."""

    def __init__(self, run: Asked) -> None:
        from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415 - an extra

        self._writer: Any = SummaryWriter(str(run.folder / "tensorboard"))
        if run.known is None:
            self._writer.add_text("arguments", f"    {json.dumps(run.arguments)}")
            run.keep("tensorboard")

    def epoch(self, values: Mapping[str, float], step: int) -> None:
        """Write a scalar for each number."""
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)
        self._writer.flush()

    def end(self, *, finished: bool) -> None:  # noqa: ARG002 - event files have no state
        """Close the file."""
        self._writer.close()


class MLflow:
    """A run of MLflow, where MLFLOW_TRACKING_URI and MLFLOW_EXPERIMENT_NAME say."""

    def __init__(self, run: Asked) -> None:
        self._mlflow = importlib.import_module("mlflow")
        found = self._mlflow.start_run(run_id=run.known, run_name=run.folder.name)
        if run.known is None:
            self._mlflow.log_params(run.arguments)
            run.keep(found.info.run_id)

    def epoch(self, values: Mapping[str, float], step: int) -> None:
        """Log the numbers."""
        self._mlflow.log_metrics(dict(values), step=step)

    def end(self, *, finished: bool) -> None:
        """End the run, as finished or as killed."""
        self._mlflow.end_run("FINISHED" if finished else "KILLED")


class WeightsAndBiases:
    """A run of Weights & Biases, where WANDB_PROJECT and WANDB_MODE say."""

    def __init__(self, run: Asked) -> None:
        wandb = importlib.import_module("wandb")
        config, name = dict(run.arguments), run.folder.name
        self._run = wandb.init(id=run.known, resume="allow", name=name, config=config, dir=str(run.folder))
        if run.known is None:
            run.keep(self._run.id)

    def epoch(self, values: Mapping[str, float], step: int) -> None:
        """Log the numbers, with the step of their stage: its own axis, since a resumed run goes back a little."""
        stage = next(iter(values)).partition("/")[0]
        self._run.define_metric(f"{stage}/*", step_metric=f"{stage}/step")
        self._run.log({**values, f"{stage}/step": step})

    def end(self, *, finished: bool) -> None:
        """Finish the run, with the status of a process."""
        self._run.finish(exit_code=0 if finished else 1)


class TrackerKind(NamedTuple):
    """How a tracker is made.

    Attributes:
        make: of what it is to know of a run.
        package: that it needs.
        about: one line.
    """

    make: Callable[[Asked], Tracker]
    package: str
    about: str


TRACKERS: dict[str, TrackerKind] = {
    "tensorboard": TrackerKind(TensorBoard, "tensorboard", "event files in the run folder"),
    "mlflow": TrackerKind(MLflow, "mlflow", "a run where MLFLOW_TRACKING_URI says"),
    "wandb": TrackerKind(WeightsAndBiases, "wandb", "a run of Weights & Biases"),
}


def trackers_named(text: str | None) -> tuple[str, ...]:
    """The names of trackers in a text with commas, each installed.

    Raises:
        BadInput: there is none of that name.
        MissingExtra: its package is not installed.
    """
    names = tuple(dict.fromkeys(part.strip() for part in (text or "").split(",") if part.strip()))
    for name in names:
        if name not in TRACKERS:
            raise BadInput("track", f"expected some of {', '.join(TRACKERS)}, found {name}", remedy="give those")
        if importlib.util.find_spec(package := TRACKERS[name].package) is None:
            raise MissingExtra(package, extra=name, purpose=f"tracking by {name}")
    return names


def trackers_of(run: Path) -> tuple[str, ...]:
    """The names of those that a run is known to, as far as they are installed."""
    known = _called(run)
    return tuple(name for name in TRACKERS if name in known and importlib.util.find_spec(TRACKERS[name].package))


def _called(run: Path) -> dict[str, Any]:
    """What a run is called elsewhere, by tracker."""
    path = run / TRACKED
    return read_json(path, remedy="remove the file; the run is then tracked anew") if path.exists() else {}


class Tracking:
    """Tells trackers of a run. One that fails is left out from then on, and training goes on.

    A tracker begins with the first epoch that it is told of, when the folder is the run's.

    Args:
        folder: of the run.
        names: keys of `TRACKERS`.
        say: takes the line that says which tracker failed, and why.
    """

    def __init__(self, folder: Path, names: Sequence[str], say: Callable[[str], None]) -> None:
        self._folder, self._say = folder, say
        self._made: dict[str, Tracker | None] = dict.fromkeys(names)

    def line(self, fields: Mapping[str, Any], within: str = "") -> None:
        """Take a line of the log; one that closes no epoch does not count.

        Args:
            fields: of the line.
            within: the name of a run within this one, with a slash at its end, whose line it is.
        """
        if "epoch" not in fields:
            return
        told = {**fields, **fields.get("terms", {})}
        numbers = {name: value for name, value in told.items() if isinstance(value, (int, float))}
        values = {f"{within}{fields['stage']}/{name}": float(value) for name, value in numbers.items()}
        for name in [*self._made]:
            self._tell(name, lambda tracker: tracker.epoch(values, fields["step"]))

    def end(self, *, finished: bool) -> None:
        """Take the end of the process."""
        for name in [name for name, tracker in self._made.items() if tracker is not None]:
            self._tell(name, lambda tracker: tracker.end(finished=finished))

    def _tell(self, name: str, say: Callable[[Tracker], None]) -> None:
        try:
            tracker = self._made[name] = self._made[name] or TRACKERS[name].make(self._asked(name))
            say(tracker)
        except Exception as error:  # noqa: BLE001 - whatever another's program does, training goes on
            del self._made[name]
            said = " ".join(str(error).split())[:200] or type(error).__name__
            self._say(f"warning: {name} is told no more of this run ({said}); {LOG} has all of it")

    def _asked(self, name: str) -> Asked:
        settings, known = settings_of(self._folder), _called(self._folder)
        arguments = {"recipe": settings["recipe"], "data": settings["data"], **settings["arguments"]}
        path = self._folder / TRACKED
        return Asked(self._folder, arguments, known.get(name), lambda called: write_json(path, {**known, name: called}))
