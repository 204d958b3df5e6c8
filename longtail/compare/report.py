"""What a report is made of: of a comparison, or of a single run."""

from __future__ import annotations

import inspect
import os
import platform
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import torch

from longtail.compare.jobs import Job, model_bytes, outcome_of, read_log
from longtail.compare.methods import Method
from longtail.compare.results import Judge, Row, as_json, judged
from longtail.data.dataset import Dataset
from longtail.recipes import RECIPES
from longtail.report.examples import Ranked, examples
from longtail.report.page import page
from longtail.topk import TopK


def report(results: Mapping[str, Any], rows: Mapping[str, Row], dataset: Dataset, judge: Judge) -> str:
    """The page of a comparison.

    Args:
        results: what ``results.json`` holds.
        rows: by label, at least those of the results.
        dataset: for the texts.
        judge: for the truth.
    """
    chosen = {label: rows[label] for label in results["rows"]}
    logs = {label: read_log(row.jobs[0].folder) for label, row in chosen.items()}
    if len(chosen) == 1:
        (only,) = chosen.values()
        kinds = {kind if len(only.scores) > 1 else next(iter(chosen)): (only, kind) for kind in only.scores}
    else:
        kinds = {label: (row, row.headline) for label, row in chosen.items()}
    ranked = [
        Ranked(name, row.outcomes[0].tops[kind], row.scores[kind]["nDCG@5"].each) for name, (row, kind) in kinds.items()
    ]
    return page(results, logs, examples(ranked, judge, dataset.labels) if ranked else {})


def report_of_run(
    folder: Path, dataset: Dataset, tops: Mapping[str, TopK], milliseconds: Mapping[str, float], *, data: Path
) -> str:
    """The page of a single run.

    Args:
        folder: of the run.
        dataset: with the test split that was ranked.
        tops: (n, K) rankings of the test documents by score kind, the best kind last; K at least 5.
        milliseconds: a test document, from text to labels, by score kind.
        data: the data set folder.
    """
    outcome, judge = outcome_of(folder, tops, milliseconds, model_bytes(folder)), Judge.of(dataset)
    recipe, arguments = outcome.settings["recipe"], dict(outcome.settings["arguments"])
    seed = arguments.pop("seed")
    defaults = {name: parameter.default for name, parameter in inspect.signature(RECIPES[recipe]).parameters.items()}
    given = {name: value for name, value in arguments.items() if value != _plain(defaults[name])}
    row = judged([Job(Method(recipe, recipe, given), seed, data, folder)], [outcome], judge)
    start = about(dataset, dataset.fingerprint(), judge)
    results = start | {"rows": {recipe: as_json(row)}, "differences": {}, "failed": {}, "stopped": {}}
    return report(results, {recipe: row}, dataset, judge)


def _plain(value: Any) -> Any:
    """A default as ``run.json`` holds it."""
    return list(value) if isinstance(value, tuple) else value


def about(dataset: Dataset, hashes: Mapping[str, str], judge: Judge) -> dict[str, Any]:
    """The data, its bins and the machine: what ``results.json`` begins with."""
    assert dataset.test is not None
    constants = dataset.propensity
    return {
        "date": datetime.now(timezone.utc).date().isoformat(),
        "data": {
            "name": dataset.name,
            "documents": len(dataset.train),
            "test_documents": len(dataset.test),
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
