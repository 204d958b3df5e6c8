"""A run folder at a glance: what was asked, how far it is, what it costs, and how good its model is."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from longtail.errors import BadInput
from longtail.files import is_of_another, read_json
from longtail.locks import LOCK
from longtail.model.saved import CARD
from longtail.report.commands import given_arguments
from longtail.train.cost import COST, Cost, read_cost
from longtail.train.log import LOG, read_log
from longtail.train.progress import settings_of

EVALUATION = "evaluation.json"  # in a run folder, where ``longtail evaluate --json`` was told to write it
PREDICTION = "prediction.json"  # of a finished run of a comparison: a peer has no card, and a model may be removed
_DEPTH = 4  # folders that runs are looked for in, one below the other
HEADLINE = ("P@1", "P@5", "PSP@1", "PSP@5")


@dataclass(frozen=True, slots=True)
class RunSummary:
    """What a run folder says of itself.

    Attributes:
        folder: of the run.
        recipe: that it is of.
        data: the data set folder; None where it was trained on lists.
        state: ``finished``, ``training`` where a process works on it, or ``stopped``.
        arguments: that are not the recipe's defaults, by name.
        epochs: by stage, how many are done; stages of runs within it have the names of these before theirs.
        curves: by stage and by loss term, or by what else an epoch is scored with, the values of the epochs.
        cost: of training.
        versions: of packages, as of when it was begun.
        kinds: score kinds of the model, the best one last; none where there is no model yet.
        labels: that it was trained with, L; 0 where it is not known.
        remembers: whether the model has a memory of training documents.
        evaluation: what ``longtail evaluate`` found, as `longtail.metrics.summary.Evaluation.as_dict`; {} for nothing.
        bytes: of all its files.
        changed: when it last said something, in seconds since 1970.
    """

    folder: Path
    recipe: str
    data: str | None
    state: str
    arguments: Mapping[str, Any]
    epochs: Mapping[str, int]
    curves: Mapping[str, Mapping[str, Sequence[float]]] = field(repr=False)
    cost: Cost
    versions: Mapping[str, str]
    kinds: Sequence[str]
    labels: int
    remembers: bool
    evaluation: Mapping[str, Any] = field(repr=False)
    bytes: int
    changed: float

    @classmethod
    def of(cls, folder: Path) -> RunSummary:
        """Read a run folder.

        Raises:
            BadInput: it is none, or a file of it is not as it was written.
        """
        settings, card = settings_of(folder), folder / "model" / CARD
        said = _read(card) if card.exists() else {}
        logs = {name: read_log(path) for name, path in _logs(folder)}
        files = [path for path in folder.rglob("*") if path.is_file()]
        return cls(
            folder=folder,
            recipe=settings["recipe"],
            data=settings["data"],
            state="finished" if said or (folder / PREDICTION).exists() else "training" if _works(folder) else "stopped",
            arguments=given_arguments(settings["recipe"], settings["arguments"]) | settings.get("chosen", {}),
            epochs={name + line["stage"]: line["epoch"] for name, log in logs.items() for line in _epochs(log)},
            curves={name + stage: curves for name, log in logs.items() for stage, curves in _curves(log).items()},
            cost=read_cost(folder / COST),
            versions=settings.get("versions", {}),
            kinds=said.get("kinds", []),
            labels=said.get("labels", 0),
            remembers=any((folder / "model").rglob("memory.safetensors")),  # its own, or of a first stage
            evaluation=_read(folder / EVALUATION) if (folder / EVALUATION).exists() else {},
            bytes=sum(path.stat().st_size for path in files),
            changed=max(
                (folder / name).stat().st_mtime for name in ("run.json", LOG, COST) if (folder / name).exists()
            ),
        )

    @property
    def headline(self) -> tuple[str, Mapping[str, float]]:
        """The score kind that predictions use, and its main metrics in percent; "" and {} without an evaluation."""
        for kind, metrics in self.evaluation.get("kinds", {}).items():
            return kind, {name: metrics[name] for name in HEADLINE if name in metrics}
        return "", {}

    @property
    def age(self) -> float:
        """Seconds since it last said something."""
        return max(0.0, time.time() - self.changed)

    def as_dict(self) -> dict[str, Any]:
        """Itself as JSON keeps it."""
        said = json.loads(
            json.dumps({name: getattr(self, name) for name in self.__slots__ if name != "cost"}, default=str)
        )
        return {**said, "cost": asdict(self.cost), "headline": dict(self.headline[1])}


def runs_below(folder: Path, depth: int = _DEPTH) -> Iterator[Path]:
    """The run folders in a folder and below it, or itself; those within another run are a part of that.

    Raises:
        BadInput: there is no such folder.
    """
    if not folder.is_dir():
        raise BadInput(folder, "there is no such folder", remedy="name one that runs are in")
    if (folder / "run.json").is_file():
        yield folder
    elif depth:
        for path in sorted(folder.iterdir()):
            if path.is_dir() and not path.name.startswith("."):
                yield from runs_below(path, depth - 1)


def _logs(folder: Path) -> Iterator[tuple[str, Path]]:
    """The logs of a run and of those within it, with the names of these before a stage."""
    for path in sorted(folder.rglob(LOG)):
        within = path.parent.relative_to(folder).as_posix()
        yield ("" if within == "." else f"{within}/"), path


def _epochs(log: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [line for line in log if {"stage", "epoch", "terms"} <= line.keys()]


def _curves(log: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, list[float]]]:
    found: dict[str, dict[str, list[float]]] = {}
    for line in _epochs(log):
        of_stage = found.setdefault(line["stage"], {})
        for name, value in {**line["terms"], **({"held_out": line["held_out"]} if "held_out" in line else {})}.items():
            of_stage.setdefault(name, []).append(value)
    return found


def _works(folder: Path) -> bool:
    """Whether a process works on a run."""
    lock = folder / LOCK
    return lock.is_file() and is_of_another(lock.read_text(encoding="ascii", errors="replace").strip())


def _read(path: Path) -> dict[str, Any]:
    return read_json(path, remedy="put the file back as it was, or write it again")
