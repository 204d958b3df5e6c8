"""One run of a comparison: trained in a process of its own, then asked for the labels of the test documents."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from longtail.compare.methods import Method
from longtail.compare.peering import collect, prepare, program
from longtail.compare.peers import PEERS
from longtail.compare.processes import COST, Process
from longtail.data.dataset import Dataset
from longtail.data.split import Split
from longtail.errors import BadInput
from longtail.files import replacing, write_json
from longtail.model import Model, load
from longtail.topk import FloatArray, IntArray, TopK
from longtail.train.cost import Cost, read_cost

DEPTH = 10  # labels kept of each test document


@dataclass(frozen=True, slots=True)
class Job:
    """A method with a seed, and the folder of its run.

    Attributes:
        method: what is run.
        seed: of all its random numbers.
        data: the data set folder.
        folder: of the run.
    """

    method: Method
    seed: int
    data: Path
    folder: Path

    @property
    def command(self) -> list[str]:
        """The arguments of ``longtail`` that train it; of a peer, those that compare it alone, up to its seed."""
        if self.method.peer:
            seeds = ["--seeds", str(self.seed + 1)]
            return ["compare", str(self.data), self.method.text, "--out", str(self.folder.parents[2]), *seeds]
        given = [*self.method.options(), "--seed", str(self.seed)]
        return ["train", self.method.recipe, str(self.data), "--out", str(self.folder), *given]

    def trained(self) -> bool:
        """Whether its model is there."""
        return (self.folder / "model" / "bundle.json").exists()

    def done(self) -> bool:
        """Whether what it predicts is there; its model need not be any more."""
        return (self.folder / "prediction.json").exists()


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a finished run left.

    Attributes:
        tops: (n, K) ranked labels of the test documents by score kind, the best kind last, filtered pairs left out.
        milliseconds: a test document, from text to labels, by score kind.
        model_bytes: size of the model's files.
        cost: of training.
        batch: documents of a batch, and None where the recipe has no such argument.
        pool: labels of a batch's pool, on average over the first epoch; None where the log has none.
        settings: what ``run.json`` says.
    """

    tops: Mapping[str, TopK]
    milliseconds: Mapping[str, float]
    model_bytes: int
    cost: Cost
    batch: int | None
    pool: float | None
    settings: Mapping[str, Any]


def train(job: Job, *, process: Process) -> None:
    """Train a run of a recipe, or go on with it, or leave it as it is where it is trained.

    Args:
        job: what to train.
        process: how.

    Raises:
        OverBudget: it was stopped; its checkpoints lose it a tenth of the budget at most.
        LongtailError: training failed.
    """
    if job.trained():
        return
    begun = (job.folder / "run.json").exists()
    given = ["resume", str(job.folder)] if begun else job.command
    often = [] if process.budget is None else ["--checkpoint-every", f"{min(120, process.budget / 10):g}"]
    command = [sys.executable, "-m", "longtail", *given, *often]
    process.run(command, job.folder, spent=read_cost(job.folder / COST).seconds)


def run_peer(job: Job, dataset: Dataset, python: str, *, process: Process) -> None:
    """Train a peer, and keep what it predicts; a peer that was stopped begins anew.

    Its folder is described when it is done, so that a peer that failed can be asked for with other arguments.

    Args:
        job: what to run.
        dataset: of the job.
        python: an interpreter that has the peer's package.
        process: how.

    Raises:
        OverBudget: it was stopped.
        LongtailError: it failed.
    """
    test = dataset.test
    assert test is not None
    peer = PEERS[job.method.recipe](**job.method.arguments, **({"seed": job.seed} if job.method.random else {}))
    for part in ("given", "model"):
        shutil.rmtree(job.folder / part, ignore_errors=True)
    before, after = prepare(job.folder / "given", peer, dataset)
    most = 0 if test.filtered is None else int(np.diff(test.filtered.indptr).max(initial=0))
    settings = {
        "recipe": job.method.recipe,
        "arguments": vars(peer),
        "data": str(job.data.resolve()),
        "hashes": dataset.fingerprint(),
        "depth": DEPTH + most,
    }
    write_json(job.folder / "given" / "asked.json", settings)
    process.run([*program(python), str(job.folder)], job.folder)
    top, said = collect(job.folder / "given", test, DEPTH)
    cost = Cost(round(before + said["seconds"], 3), said["peak_memory"], said["peak_gpu_memory"])
    write_json(job.folder / COST, asdict(cost))
    write_json(job.folder / "run.json", settings | {"versions": said["versions"]})
    milliseconds = 1000 * (after + said["prediction_seconds"]) / len(test)
    _keep(job, {"peer": top}, {"peer": round(milliseconds, 4)})
    shutil.rmtree(job.folder / "given")


def must_agree(job: Job, hashes: Mapping[str, str]) -> None:
    """Refuse a folder that holds a run of other settings or of other data.

    Args:
        job: whose folder is looked at.
        hashes: of the data set.

    Raises:
        BadInput: something differs.
    """
    path = job.folder / "run.json"
    if not path.exists():
        return
    settings = json.loads(path.read_text(encoding="utf-8"))
    seed = {"seed": job.seed} if job.method.random else {}
    wanted = {"recipe": job.method.recipe, **seed, **job.method.arguments}
    found = {"recipe": settings["recipe"], **settings["arguments"]}
    for name, value in wanted.items():
        if found[name] != value:
            problem = f"the run was made with {name} {found[name]}, asked for now is {value}"
            raise BadInput(path, problem, remedy="give the row another label, or compare into another folder")
    if settings["hashes"] != hashes:
        raise BadInput(path, f"the run was made with other data than {job.data}", remedy="compare into another folder")


class Ranked(NamedTuple):
    """Test documents ranked by every score kind of a model.

    Attributes:
        vectors: of the n documents, from `Model.encode`.
        tops: (n, K) rankings by score kind, the best kind last, filtered pairs left out.
        milliseconds: a document, from text to labels, by score kind.
    """

    vectors: FloatArray
    tops: Mapping[str, TopK]
    milliseconds: Mapping[str, float]


def rank_all(bundle: Model, test: Split, k: int, links: IntArray | None = None) -> Ranked:
    """Rank labels for the test documents by every score kind, and take the time.

    Args:
        bundle: ranks.
        test: n documents.
        k: labels of each.
        links: (n, K) the nodes of each, for a model with a linker; those that it finds if left out.
    """
    bundle.encode(test.documents.take(np.arange(1)))  # what is done once is not in the time
    start = time.perf_counter()
    vectors = bundle.encode(test.documents, links)
    encoding = time.perf_counter() - start
    tops, seconds = {}, {}
    for kind in bundle.kinds:
        bundle.search(vectors[:1], k, kind=kind)
        start = time.perf_counter()
        tops[kind] = bundle.search(vectors, k, kind=kind, exclude=test.filtered)
        seconds[kind] = encoding + time.perf_counter() - start
    return Ranked(vectors, tops, {kind: round(1000 * taken / len(test), 4) for kind, taken in seconds.items()})


def predict(job: Job, test: Split) -> None:
    """Rank labels for the test documents with the model of a run, and keep that in the run's folder."""
    ranked = rank_all(load(job.folder), test, DEPTH)
    _keep(job, ranked.tops, ranked.milliseconds)


def _keep(job: Job, tops: Mapping[str, TopK], milliseconds: Mapping[str, float]) -> None:
    """Write what a run predicts, and how long that took, by score kind."""
    arrays = {f"{kind} {name}": getattr(top, name) for kind, top in tops.items() for name in ("ids", "scores")}
    with replacing(job.folder / "predictions.npz") as path, path.open("wb") as file:
        np.savez_compressed(file, **arrays)
    said = {"kinds": list(tops), "milliseconds": dict(milliseconds), "model_bytes": model_bytes(job.folder)}
    write_json(job.folder / "prediction.json", said)


def outcome(job: Job) -> Outcome:
    """Read what a finished run left."""
    said = json.loads((job.folder / "prediction.json").read_text(encoding="utf-8"))
    with np.load(job.folder / "predictions.npz") as arrays:
        tops = {kind: TopK(arrays[f"{kind} ids"], arrays[f"{kind} scores"]) for kind in said["kinds"]}
    size = said["model_bytes"] if "model_bytes" in said else model_bytes(job.folder)  # earlier comparisons have none
    return outcome_of(job.folder, tops, said["milliseconds"], size)


def model_bytes(folder: Path) -> int:
    """The size of the files of a run's model."""
    return sum(path.stat().st_size for path in (folder / "model").rglob("*") if path.is_file())


def outcome_of(folder: Path, tops: Mapping[str, TopK], milliseconds: Mapping[str, float], size: int) -> Outcome:
    """What a trained run left, with its rankings, their time and the size of its model, as in `Outcome`."""
    settings = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    log = read_log(folder)
    return Outcome(
        tops=tops,
        milliseconds=milliseconds,
        model_bytes=size,
        cost=read_cost(folder / COST),
        batch=settings["arguments"].get("batch"),
        pool=next((line["pool"] for line in log if "pool" in line), None),
        settings=settings,
    )


def read_log(folder: Path) -> list[dict[str, Any]]:
    """The lines of a run's log; none where it keeps none."""
    path = folder / "metrics.jsonl"
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]  # else it was cut off


def reached(folder: Path) -> str:
    """How far a run came that was stopped, as a clause; empty where it has not ended an epoch."""
    ended = [line for line in read_log(folder) if "terms" in line]
    return f", after epoch {ended[-1]['epoch']} of the stage {ended[-1]['stage']}" if ended else ""


def written(command: list[str]) -> str:
    """A command as it is typed."""
    return shlex.join(["longtail", *command])
