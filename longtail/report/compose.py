"""What a report is made of: of a comparison, or of a single run."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import torch

from longtail.data.dataset import Dataset
from longtail.metrics.reliability import Reliability
from longtail.metrics.summary import Evaluation
from longtail.report.commands import command_of, given_arguments, typed
from longtail.report.examples import QUALITY, MethodRanking, examples
from longtail.report.html_page import page
from longtail.report.judge import Judge, Row, as_json, judged
from longtail.report.outcome import Outcome
from longtail.train.progress import settings_of


def report_of_rows(results: Mapping[str, Any], rows: Mapping[str, Row], dataset: Dataset, judge: Judge) -> str:
    """The page of a comparison.

    Args:
        results: what ``results.json`` holds.
        rows: by label, at least those of the results.
        dataset: for the texts.
        judge: for the truth.
    """
    chosen = {label: rows[label] for label in results["rows"]}
    logs = {label: row.outcomes[0].log for label, row in chosen.items()}
    if len(chosen) == 1:
        (only,) = chosen.values()
        kinds = {kind if len(only.scores) > 1 else next(iter(chosen)): (only, kind) for kind in only.scores}
    else:
        kinds = {label: (row, row.headline) for label, row in chosen.items()}
    ranked = [
        MethodRanking(name, row.outcomes[0].tops[kind], row.scores[kind][QUALITY].each)
        for name, (row, kind) in kinds.items()
    ]
    return page(results, logs, examples(ranked, judge, dataset.labels) if ranked else {})


def report_of_run(folder: Path, dataset: Dataset, found: Evaluation, *, data: Path) -> str:
    """The page of a single run.

    Args:
        folder: of the run.
        dataset: with the test split that was ranked.
        found: its evaluation, at least 5 labels of each document.
        data: the data set folder.
    """
    ranked = found.ranked
    settings, judge = settings_of(folder), Judge.of(dataset)
    recipe, arguments = settings["recipe"], settings["arguments"]
    command = typed(command_of(settings, data, folder))
    outcome = Outcome.of(folder, ranked.tops, ranked.milliseconds, seed=arguments["seed"], command=command)
    row = judged(recipe, given_arguments(recipe, arguments), [outcome], judge)
    start = about(dataset, dataset.fingerprint(), judge)
    reliability = {
        kind: Reliability.of(ranked.tops[kind], chances, judge.test.targets, 5).as_dict()
        for kind, chances in ranked.probabilities.items()
    }
    by = {name: [group.as_dict() for group in groups] for name, groups in found.by.items()}
    above = None if found.above is None else str(found.above)
    rows = {recipe: as_json(row) | {"reliability": reliability, "by": by, "above": above}}
    results = start | {"rows": rows, "differences": {}, "failed": {}, "stopped": {}}
    return report_of_rows(results, {recipe: row}, dataset, judge)


def about(dataset: Dataset, hashes: Mapping[str, str], judge: Judge) -> dict[str, Any]:
    """The data, its bins and the machine: what ``results.json`` begins with."""
    constants = dataset.propensity
    return {
        "date": datetime.now(timezone.utc).date().isoformat(),
        "data": {
            "name": dataset.name,
            "documents": len(dataset.train),
            "test_documents": len(judge.test),
            "labels": len(dataset.labels),
            "A": None if constants is None else constants.A,
            "B": None if constants is None else constants.B,
            "hashes": hashes,
        },
        "bins": {
            "names": list(judge.bins.names),
            "labels": judge.bins.labels.tolist(),
            "frequency": judge.bins.frequency.tolist(),
        },
        "machine": {
            "processor": _processor(),
            "cores": os.cpu_count(),
            "threads": torch.get_num_threads(),
            "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        },
    }


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text(encoding="utf-8").splitlines() if cpuinfo.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
