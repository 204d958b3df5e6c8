"""A finished run, as reports read it: its rankings of the test documents, its cost, its settings and its log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from longtail.topk import TopK
from longtail.train.cost import COST, Cost, read_cost
from longtail.train.log import LOG, read_log
from longtail.train.progress import settings_of


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a finished run left.

    Attributes:
        tops: (n, K) ranked labels of the test documents by score kind, the best kind last, filtered pairs left out.
        milliseconds: a test document, from text to labels, by score kind, all documents at once.
        model_bytes: size of the model's files.
        cost: of training.
        settings: what ``run.json`` says.
        seed: of the run.
        command: that makes it again, as it is typed.
        log: the lines of ``metrics.jsonl``; none where there is no such file.
        latency: milliseconds of a single text, the median and the 99th percentile; None where it was not taken.
    """

    tops: Mapping[str, TopK]
    milliseconds: Mapping[str, float]
    model_bytes: int
    cost: Cost
    settings: Mapping[str, Any]
    seed: int
    command: str
    log: Sequence[Mapping[str, Any]] = field(repr=False)
    latency: Sequence[float] | None = None

    @classmethod
    def of(
        cls,
        folder: Path,
        tops: Mapping[str, TopK],
        milliseconds: Mapping[str, float],
        *,
        seed: int,
        command: str,
        size: int | None = None,
    ) -> Outcome:
        """What a run's folder says, beside what it ranks and what was typed.

        Args:
            folder: of the run.
            tops: as above.
            milliseconds: as above.
            seed: of the run.
            command: that makes it.
            size: of the model's files; looked up if left out.
        """
        size = model_bytes(folder) if size is None else size
        cost, settings, log = read_cost(folder / COST), settings_of(folder), read_log(folder / LOG)
        return cls(tops, milliseconds, size, cost, settings, seed, command, log)

    @property
    def batch(self) -> int | None:
        """Documents of a batch, and None where the recipe has no such argument."""
        found: int | None = self.settings["arguments"].get("batch")
        return found

    @property
    def pool(self) -> float | None:
        """Labels of a batch's pool, on average over the first epoch; None where the log has none."""
        return next((line["pool"] for line in self.log if "pool" in line), None)


def model_bytes(folder: Path) -> int:
    """The size of the files of a run's model."""
    return sum(path.stat().st_size for path in (folder / "model").rglob("*") if path.is_file())
