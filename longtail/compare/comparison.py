"""Train methods side by side, judge them alike, and write down what came out."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from longtail.compare.jobs import Job, adopt, must_agree, outcome, predict, reached, run_peer, train
from longtail.compare.methods import Method, distinct
from longtail.compare.peer_exchange import must_be_there
from longtail.data.dataset import Dataset
from longtail.errors import BadInput, LongtailError
from longtail.files import replacing, write_json
from longtail.locks import in_turn
from longtail.report.compose import about, report_of_rows
from longtail.report.judge import Judge, Row, as_json, differences, judged
from longtail.report.markdown import markdown
from longtail.train.processes import OverBudget, Process


def compare(
    data: str | Path,
    methods: Sequence[Method],
    out: str | Path,
    *,
    seeds: int = 3,
    budget: float | None = None,
    peer_python: str = sys.executable,
    console: Console | None = None,
) -> dict[str, Any]:
    """Train every method with every seed, one after the other, and judge them on the test split.

    A run that is finished already is judged as it is. Each of the others is a run folder of its own,
    ``out/runs/<label>/seed-<seed>``, trained by ``longtail train`` in a process of its own, so that time and memory are
    its own. What is done already is not done again: a comparison that was killed goes on where it stood, and one that
    is given more methods or seeds does only these. A method that fails, or is stopped by the budget, is reported, and
    the others go on. ``results.json``, ``results.md`` and ``report.html`` are written anew after every run, so that
    they hold what is there so far; all methods have run with one seed before the first runs with the next.

    Args:
        data: a data set folder with a test split.
        methods: what to compare; the first is the baseline of the differences.
        out: the folder of the comparison. Only one process at a time works in it; others wait.
        seeds: runs of each method, with the seeds 0, 1, and so on; a method without random numbers runs once.
        budget: seconds after which a run is stopped and reported as that; a larger budget continues it.
        peer_python: an interpreter that has the packages of the peers among the methods.
        console: where progress is shown, that of the training processes included; None shows nothing.

    Returns:
        What ``results.json`` holds.

    Raises:
        BadInput: two methods share a label, the data has no test split, a run in the folder is of other settings, one
            that is to be finished is not or is of other data, or a peer's package is missing.
    """
    distinct(methods)
    if seeds < 1:
        raise BadInput("seeds", f"expected at least 1, found {seeds}", remedy="ask for 3")
    data, out, say = Path(data), Path(out), console or Console(quiet=True)
    dataset = Dataset.read(data)
    judge = Judge.of(dataset)
    hashes = dataset.fingerprint()
    jobs = [_job(method, seed, data, out) for seed in range(seeds) for method in methods if method.random or not seed]
    for job in jobs:
        must_agree(job, dataset, hashes)
    must_be_there([job.method.recipe for job in jobs if job.method.peer and not job.done()], peer_python)
    start = about(dataset, hashes, judge) | {"budget": budget}
    unfinished: dict[str, dict[str, dict[str, str]]] = {"failed": {}, "stopped": {}}
    rows: dict[str, Row] = {}
    results: dict[str, Any] = {}
    with in_turn(out, say) as inherited:
        process = Process(inherited, quiet=console is None, budget=budget)
        for number, job in enumerate(jobs, 1):
            label = job.method.label
            if not job.done() and not any(label in of for of in unfinished.values()):
                say.rule(f"{number} of {len(jobs)}: {label}, seed {job.seed}", style="dim")
                try:
                    _run(job, dataset, judge, peer_python, process)
                except OverBudget as error:
                    unfinished["stopped"][label] = {str(job.seed): f"{error}{reached(job.folder)}"}
                    say.print(f"{label} stopped: {error}", style="yellow", markup=False, highlight=False)
                except LongtailError as error:
                    unfinished["failed"][label] = {str(job.seed): str(error)}
                    say.print(f"{label} failed: {error}", style="red", markup=False, highlight=False)
                results = _results(jobs, judge, rows, results)
                _write(out, start | results | unfinished, rows, dataset, judge)
        results = _results(jobs, judge, rows, results)
        return _write(out, start | results | unfinished, rows, dataset, judge)


def _job(method: Method, seed: int, data: Path, out: Path) -> Job:
    return Job(method, seed, data, out / "runs" / method.folder / f"seed-{seed}")


def _run(job: Job, dataset: Dataset, judge: Judge, peer_python: str, process: Process) -> None:
    """Train what is not trained, and keep what it predicts."""
    if job.method.finished:
        adopt(job)
        predict(job, judge.test)
        return
    process.must_be_left(job.folder)
    if job.method.peer:
        run_peer(job, dataset, peer_python, process=process)
    else:
        train(job, process=process)
        predict(job, judge.test)


def _results(jobs: Sequence[Job], judge: Judge, rows: dict[str, Row], before: Mapping[str, Any]) -> dict[str, Any]:
    """The results of what is done; ``rows`` keeps what was judged, and is brought up to date.

    Intervals take longer than anything else here: those of a method stay as they were ``before`` until a seed is added.
    """
    labels = list(dict.fromkeys(job.method.label for job in jobs if job.done()))
    new = set()
    for label in labels:
        done = [job for job in jobs if job.method.label == label and job.done()]
        if label not in rows or len(rows[label].outcomes) < len(done):
            rows[label] = judged(*done[0].asked, [outcome(job) for job in done], judge)
            new.add(label)
    return {
        "rows": {label: as_json(rows[label]) if label in new else before["rows"][label] for label in labels},
        "differences": {
            label: differences(rows[labels[0]], rows[label])
            if new & {labels[0], label}
            else before["differences"][label]
            for label in labels[1:]
        },
    }


def _write(
    out: Path, results: dict[str, Any], rows: Mapping[str, Row], dataset: Dataset, judge: Judge
) -> dict[str, Any]:
    write_json(out / "results.json", results)
    for name, text in (
        ("results.md", markdown(results)),
        ("report.html", report_of_rows(results, rows, dataset, judge)),
    ):
        with replacing(out / name) as path:
            path.write_text(text, encoding="utf-8")
    return results
