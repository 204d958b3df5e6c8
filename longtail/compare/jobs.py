"""One run of a comparison: trained in a process of its own, or found as it is, then asked about the test documents."""

from __future__ import annotations

import inspect
import shutil
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from longtail.arrays import read_archive
from longtail.cards import is_card, read_card, write_card
from longtail.compare.methods import Method
from longtail.compare.peer_exchange import collect, prepare, program
from longtail.compare.peers import PEERS
from longtail.compare.peers.base import Peer
from longtail.data.dataset import Dataset
from longtail.data.shape import fields_read, must_have_fields
from longtail.data.split import Split
from longtail.errors import BadInput
from longtail.files import read_json, replacing, write_json
from longtail.locks import LOCK
from longtail.model import load
from longtail.model.evaluation import DEPTH, latency, must_have_test, rank_test
from longtail.model.saved import CARD
from longtail.options import as_json, parsed, stored
from longtail.recipes import RECIPES
from longtail.report.commands import command_of, defaults_of, given_arguments, train_command, typed
from longtail.report.outcome import Outcome, model_bytes
from longtail.report.run_summary import PREDICTION
from longtail.stages.inputs import inputs_of
from longtail.stages.recipe import defaults_on, options_class
from longtail.topk import TopK
from longtail.train.cost import COST, Cost, read_cost
from longtail.train.log import LOG, read_log
from longtail.train.processes import Process
from longtail.train.progress import INPUTS, must_have_read, settings_of

_WHERE = {"device"}  # arguments that say where a run is made, which may go on elsewhere
_RANKED = "predictions.npz"  # of a run that is done: its ranking, of which `PREDICTION` says more


@dataclass(frozen=True, slots=True)
class Job:
    """A method with a seed, and the folder of its run.

    Attributes:
        method: what is run.
        seed: of all its random numbers.
        data: the data set folder.
        folder: of the run; of one that was finished before, where the comparison keeps what it needs of it.
    """

    method: Method
    seed: int
    data: Path
    folder: Path

    @property
    def arguments(self) -> dict[str, Any]:
        """Those of its method, with its seed for ``{seed}`` in a text: so one may name a run of the same seed."""
        seed = str(self.seed)
        return {
            name: value.replace("{seed}", seed) if isinstance(value, str) else value
            for name, value in self.method.arguments.items()
        }

    @property
    def given(self) -> dict[str, Any]:
        """What the recipe or peer is called with: its arguments, and the seed where it has random numbers."""
        return ({"seed": self.seed} if self.method.random else {}) | self.arguments

    @property
    def command(self) -> list[str]:
        """The arguments of ``longtail`` that train it; of a peer, those that compare it alone, up to its seed."""
        if self.method.finished:
            return command_of(settings_of(self.folder), self.data, self.run)
        if self.method.peer:
            seeds = ["--seeds", str(self.seed + 1)]
            return ["compare", str(self.data), self.method.text, "--out", str(self.folder.parents[2]), *seeds]
        return train_command(self.method.recipe, self.arguments, self.seed, self.data, self.folder)

    @property
    def asked(self) -> tuple[str, Mapping[str, Any]]:
        """The recipe or peer, and what it was given; of a run that was finished before, by its settings."""
        if not self.method.finished:
            return self.method.recipe, self.method.arguments
        settings = settings_of(self.folder)
        return settings["recipe"], given_arguments(settings["recipe"], settings["arguments"])

    @property
    def run(self) -> Path:
        """The folder that holds its model: its own, or that of a run that was finished before."""
        return Path(self.arguments["folder"]) if self.method.finished else self.folder

    def trained(self) -> bool:
        """Whether its model is there, and the process that made it has come to its end."""
        return (self.run / "model" / CARD).exists() and not (self.run / LOCK).exists()

    def done(self) -> bool:
        """Whether what it predicts is there; its model need not be any more."""
        return (self.folder / PREDICTION).exists()


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
        LongtailError: it failed, or is to read fields that the training documents do not have.
    """
    test, peer = must_have_test(dataset), _peer(job, dataset)
    must_have_fields(dataset, peer.fields)
    for part in ("given", "model"):
        shutil.rmtree(job.folder / part, ignore_errors=True)
    before, after = prepare(job.folder / "given", peer, dataset)
    most = 0 if test.filtered is None else int(np.diff(test.filtered.indptr).max(initial=0))
    settings = {
        "recipe": job.method.recipe,
        "arguments": vars(peer),
        "data": str(job.data.resolve()),
        "hashes": dataset.fingerprint(),
        INPUTS: inputs_of(vars(peer)),
        "depth": DEPTH + most,
    }
    where = {"file": inspect.getfile(type(peer)), "class": type(peer).__name__}
    write_json(job.folder / "given" / "asked.json", settings | where)
    process.run([*program(python), str(job.folder)], job.folder)
    top, said = collect(job.folder / "given", test, DEPTH)
    cost = Cost(round(before + said["seconds"], 3), said["peak_memory"], said["peak_gpu_memory"])
    write_json(job.folder / COST, asdict(cost))
    write_json(job.folder / "run.json", settings | {"versions": said["versions"]})
    milliseconds = 1000 * (after + said["prediction_seconds"]) / len(test)
    _keep(job, {"peer": top}, {"peer": round(milliseconds, 4)})
    shutil.rmtree(job.folder / "given")


def _peer(job: Job, dataset: Dataset) -> Peer:
    """The peer of a job with its arguments, and with the fields that recipes read where it is given none."""
    kind = PEERS[job.method.recipe]
    usual = {"fields": fields_read(dataset)} if "fields" in inspect.signature(kind).parameters else {}
    return kind(**usual | job.given)


def must_agree(job: Job, dataset: Dataset, hashes: Mapping[str, str]) -> None:
    """Refuse a folder that holds a run of other settings or of other data, and a run that is to be finished and is not.

    Args:
        job: whose folder is looked at.
        dataset: of the job; some defaults go by it.
        hashes: of the data set.

    Raises:
        BadInput: something differs.
    """
    if job.method.finished:
        _must_be_finished(job, hashes)
        return
    path = job.folder / "run.json"
    if not path.exists():
        return
    settings, asked = settings_of(job.folder), {"recipe": job.method.recipe, **job.given}
    if settings["hashes"] != hashes:
        raise BadInput(path, f"the run was made with other data than {job.data}", remedy="compare into another folder")
    defaults = defaults_of(RECIPES.get(job.method.recipe) or PEERS[job.method.recipe])
    made = {"recipe": settings["recipe"], **settings["arguments"]}
    for name, value in (asked | _usual(job, dataset)).items():
        if name not in asked and (name not in made or name in _WHERE):  # older runs may lack an argument
            continue
        found = made[name] if name in made else defaults[name]
        if found != value:
            now = "asked for now is" if name in asked else "the default now is"
            problem = f"the run was made with {name} {found}, {now} {value}"
            raise BadInput(path, problem, remedy="give the row another label, or compare into another folder")
    must_have_read(path, settings, inputs_of(settings["arguments"]))


def _usual(job: Job, dataset: Dataset) -> dict[str, Any]:
    """What a method is run with on a data set, as ``run.json`` holds it."""
    if job.method.peer:
        return {name: as_json(value) for name, value in vars(_peer(job, dataset)).items()}
    recipe = RECIPES[job.method.recipe]
    usual = defaults_on(dataset, recipe, job.given)
    return stored(parsed(options_class(recipe), job.method.recipe, usual | job.given))


def _must_be_finished(job: Job, hashes: Mapping[str, str]) -> None:
    """Refuse a run that is not finished, of other data, or not the one that is there; once judged it may be gone."""
    if job.done() and not job.run.exists():
        return
    settings = settings_of(job.run)
    if not job.trained():
        raise BadInput(job.run, "expected a finished run, found one without a model", remedy="longtail resume it first")
    if settings["hashes"] != hashes:
        problem = f"the run was made with other data than {job.data}"
        raise BadInput(job.run, problem, remedy="compare runs of the same data")
    if (job.folder / "run.json").exists() and settings_of(job.folder) != settings:
        problem = f"another run is there as {job.method.label}"
        raise BadInput(job.run, problem, remedy="give the row another label, or compare into another folder")


def adopt(job: Job) -> None:
    """Keep what reports need of a run that was finished before, as its folder may go or change."""
    job.folder.mkdir(parents=True, exist_ok=True)
    for name in ("run.json", COST, LOG):
        if (job.run / name).exists():
            with replacing(job.folder / name) as path:
                shutil.copyfile(job.run / name, path)


def predict(job: Job, test: Split) -> None:
    """Rank labels for the test documents with the model of a run, and keep that in its folder of the comparison."""
    model = load(job.run, changes=False)
    ranked = rank_test(model, test)
    _keep(job, ranked.tops, ranked.milliseconds, latency(model, test))


def _keep(
    job: Job, tops: Mapping[str, TopK], milliseconds: Mapping[str, float], single: tuple[float, float] | None = None
) -> None:
    """Write what a run predicts, and how long that took, by score kind, and of single texts where that is known."""
    arrays = {f"{kind} {name}": getattr(top, name) for kind, top in tops.items() for name in ("ids", "scores")}
    with replacing(job.folder / _RANKED) as path, path.open("wb") as file:
        np.savez_compressed(file, **arrays)
    said = {"kinds": list(tops), "milliseconds": dict(milliseconds), "model_bytes": model_bytes(job.run)}
    said |= {"latency": single}
    write_card(job.folder / PREDICTION, said, files=[_RANKED])


def outcome(job: Job) -> Outcome:
    """Read what a finished run left."""
    path, keys = job.folder / PREDICTION, {"kinds": list, "milliseconds": dict}
    remedy = f"remove {path}; the run is then asked again"
    said = read_json(path, remedy=remedy, keys=keys)
    if is_card(said):  # earlier comparisons have no checksums
        said = read_card(path, remedy=remedy, keys=keys)
    names = [f"{kind} {part}" for kind in said["kinds"] for part in ("ids", "scores")]
    arrays = read_archive(job.folder / _RANKED, names, remedy=remedy)
    tops = {kind: TopK(*arrays[2 * i : 2 * i + 2]) for i, kind in enumerate(said["kinds"])}
    size = said.get("model_bytes")  # earlier comparisons have none
    seed = settings_of(job.folder)["arguments"]["seed"] if job.method.finished else job.seed
    found = Outcome.of(job.folder, tops, said["milliseconds"], seed=seed, command=typed(job.command), size=size)
    return replace(found, latency=said.get("latency"))


def reached(folder: Path) -> str:
    """How far a run came that was stopped, as a clause; empty where it has not ended an epoch."""
    ended = [line for line in read_log(folder / LOG) if "terms" in line]
    return f", after epoch {ended[-1]['epoch']} of the stage {ended[-1]['stage']}" if ended else ""
