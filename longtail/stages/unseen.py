"""Documents that a model has not seen, and what it says of them: those that a run held out, or all, fold by fold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console

from longtail.data.dataset import Dataset
from longtail.data.holdout import cut_as_test
from longtail.data.sparse import CSR
from longtail.data.split import Split
from longtail.errors import BadInput
from longtail.metrics.annotations import Unseen
from longtail.metrics.propensity import label_frequency
from longtail.model import Model
from longtail.model.calibration import learn_calibration
from longtail.stages.held_out import rows_held_out
from longtail.stages.recipe import Recipe
from longtail.topk import IntArray, TopK
from longtail.train.log import LOG, Log
from longtail.train.progress import as_trained
from longtail.train.run import Run
from longtail.transforms import run_read_by

DEPTH = 100  # labels ranked for a document
_WITHOUT_MEMORY = "fused"  # the score kind that asks no document that it remembers


class Part(NamedTuple):
    """Documents of one split that a model was asked about.

    Attributes:
        split: ``train`` or ``test``.
        rows: (n,) their places in it.
        unseen: what the model says.
    """

    split: str
    rows: IntArray
    unseen: Unseen


def judged(split: str, rows: IntArray, documents: Split, top: TopK, train: CSR) -> Part | None:
    """How probable the ranked labels of unseen documents are; None where there is too little to learn that from.

    Args:
        split: ``train`` or ``test``.
        rows: (n,) places in it.
        documents: n of them.
        top: (n, K) ranked labels.
        train: (N, L) labels of the documents that the model was trained on.
    """
    frequency = label_frequency(train)
    calibration = learn_calibration(top, documents.targets, frequency)
    if calibration is None:
        return None
    chances = calibration(top.scores, top.scores, frequency[np.maximum(top.ids, 0)])
    return Part(split, rows, Unseen(documents.targets, top.ids, chances, frequency))


def why_none_held_out(settings: Mapping[str, Any], model: Model, before: Model | None, dataset: Dataset) -> str | None:
    """Why there are no training documents that a run has not seen, as a clause; None where there are some.

    Args:
        settings: what its ``run.json`` says.
        model: of the run.
        before: what it was before it was trained once more, if it was (`longtail.stages.refit.before_refit`).
        dataset: as it was read.
    """
    if settings["hashes"] != dataset.fingerprint():
        return "the run was trained on other data"
    if as_trained(settings).get("refit") and before is None:
        return "the run was trained once more on all documents"
    if model.fusion is None or not settings["arguments"].get("validation"):
        return "the run held no documents out"
    return None


def of_held_out(settings: Mapping[str, Any], model: Model, dataset: Dataset) -> Part | None:
    """What a run says of the training documents that it held out, by a model that was not trained on these.

    It is asked by its fused score: the memory that it keeps has these documents in it (`longtail.stages.held_out`).
    """
    arguments = settings["arguments"]
    rest, held, rows = cut_as_test(dataset, rows_held_out(dataset, arguments["validation"], arguments["seed"]))
    top = model.rank(held.documents, DEPTH, kind=_WITHOUT_MEMORY, exclude=held.filtered)
    return judged("train", rows, held, top, rest.train.targets)


def can_fold(settings: Mapping[str, Any], dataset: Dataset) -> bool:
    """Whether `of_folds` may train what a run was trained as."""
    return bool(settings["hashes"] == dataset.fingerprint() and _learns_from(settings["arguments"]) is None)


def _learns_from(arguments: Mapping[str, Any]) -> str | Path | None:
    """The folder of another run, whose encoder or scores a run was trained with; None where there is none."""
    return arguments.get("start") or arguments.get("teacher") or run_read_by(arguments.get("augment", "none"))


def of_folds(
    train: Recipe,
    settings: Mapping[str, Any],
    dataset: Dataset,
    folds: int,
    folder: Path | None = None,
    console: Console | None = None,
) -> Iterator[Part | None]:
    """What models say of all training documents, each of a fold that it was trained without.

    Each fold is a run of its own, ``folder/<number>-of-<folds>``, which is trained as the given run was. One that is
    there is not trained again, and one that was stopped goes on.

    Args:
        train: the recipe of the run.
        settings: what its ``run.json`` says.
        dataset: that it was trained on.
        folds: at least 2.
        folder: for the runs; they are kept in memory, one at a time, where it is left out.
        console: where their progress is shown; None shows nothing.

    Raises:
        BadInput: there are not so many documents, or other data, or the run learned from another, which has seen them.
    """
    arguments, N = settings["arguments"], len(dataset.train)
    if not 2 <= folds <= N:
        raise BadInput("folds", f"expected 2 to {N}, one document each, found {folds}", remedy="give for example 5")
    if settings["hashes"] != dataset.fingerprint():
        remedy = "give the data set that it was trained on, or leave folds out"
        raise BadInput("folds", "expected the data that the run was trained on, found other data", remedy=remedy)
    if (other := _learns_from(arguments)) is not None:
        problem = f"expected a run from scratch, found one that learned from {other}, which has seen all"
        raise BadInput("folds", problem, remedy="leave folds out")
    given = {**as_trained(settings), **({"budget": None} if settings.get("chosen") else {})}
    fold = np.random.default_rng(arguments["seed"]).permutation(N) % folds
    for i in range(folds):
        rows, place = np.flatnonzero(fold == i), None if folder is None else folder / f"{i + 1}-of-{folds}"
        rest, held = dataset.holdout(rows)
        log = Log(None if place is None else place / LOG, console)
        log.say(f"fold {i + 1} of {folds}")
        model = train(rest, out=Run(place, log), **given)
        top = model.rank(held.documents, DEPTH, exclude=held.filtered)
        yield judged("train", rows, held, top, rest.train.targets)
