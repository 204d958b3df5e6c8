"""The errors of a run: where it confuses labels, which it never finds, and which annotations it doubts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from longtail.data.dataset import Dataset
from longtail.data.io.writing import write_csv
from longtail.errors import BadInput
from longtail.metrics.annotations import doubts
from longtail.metrics.label_errors import confusions, label_errors
from longtail.metrics.places import place
from longtail.metrics.propensity import label_frequency
from longtail.metrics.ranking import score
from longtail.model import Model
from longtail.model.evaluation import must_have_test
from longtail.model.same_labels import must_be_labels
from longtail.recipes import RECIPES
from longtail.report.error_rows import COLUMNS, Row, Rows, by_frequency, by_length
from longtail.stages.refit import before_refit
from longtail.stages.unseen import DEPTH, Part, can_fold, judged, of_folds, of_held_out, why_none_held_out
from longtail.train.progress import settings_of

FILES = {name: f"{name.replace('_', '-')}.csv" for name in COLUMNS}
_FOLDS = "folds"  # in the folder of a report, the runs that it was made with


@dataclass(frozen=True, slots=True)
class Asked:
    """Documents whose annotations were judged by a model that had not seen them.

    Attributes:
        train: of the training documents, how many.
        of: all training documents.
        test: of the test documents, how many.
        why: there are no more of them, as a clause; empty where there are all.
        more: whether folds would judge all.
    """

    train: int
    of: int
    test: int
    why: str
    more: bool


@dataclass(frozen=True, slots=True)
class Errors:
    """Errors of a run on a test split, and annotations that are likely wrong or missing.

    Attributes:
        run: its folder.
        data: the name of the data set.
        recipe: of the run.
        kind: the score kind that ranked.
        k: labels of a document among which one counts as found.
        documents: of the test split.
        labels: that have test documents.
        scores: P@1 and R@k, in percent.
        counts: what was found, before tables were cut; annotations are counted by kind, ``wrong`` and ``missing``.
        asked: whose annotations were judged.
        by_frequency: from head to tail, and unseen labels.
        by_length: by words of a document.
        tables: rows by the names of `COLUMNS`, the worst first.
    """

    run: str
    data: str
    recipe: str
    kind: str
    k: int
    documents: int
    labels: int
    scores: Mapping[str, float]
    counts: Mapping[str, int]
    asked: Asked
    by_frequency: Sequence[Row]
    by_length: Sequence[Row]
    tables: Mapping[str, Sequence[Row]]

    def write_tables(self, folder: Path) -> None:
        """Write the tables into a folder, as CSV."""
        for name, rows in self.tables.items():
            write_csv(folder / FILES[name], COLUMNS[name], rows)


def errors_of_run(
    run: Path,
    model: Model,
    dataset: Dataset,
    *,
    k: int = 5,
    most: int = 1000,
    folds: int | None = None,
    out: Path | None = None,
    console: Console | None = None,
) -> Errors:
    """Look for the errors of a run.

    Annotations are judged on documents that the model that is asked has not seen: the test documents, and of training
    documents those that the run held out, or, with ``folds``, all of them, by models that are trained for it.

    Args:
        run: its folder.
        model: of the run, as it was trained.
        dataset: with a test split, and with all fields and graphs, by which it is known as that of the run.
        k: labels of a document among which one counts as found, `DEPTH` at most.
        most: rows of a table; of annotations, of each kind.
        folds: trainings for annotations of all training documents, at least 2; none if left out.
        out: the folder of the report, in which the runs of folds are kept; they are not where it is left out.
        console: where the progress of these is shown; None shows nothing.

    Raises:
        BadInput: there is no test split, or it is of other labels, or folds are not possible.
    """
    settings, test = settings_of(run), must_have_test(dataset)
    must_be_labels(model, dataset.labels, dataset.folder or "data")
    top = model.rank(test.documents, DEPTH, exclude=test.filtered)
    pairs = place(top, test.targets)
    labels = label_errors(pairs, k)
    place_of_folds = None if out is None else out / _FOLDS
    parts, why, more = _unseen(run, settings, model, dataset, folds, place_of_folds, console)
    tested = judged("test", np.arange(len(test)), test, top, dataset.train.targets)
    parts += [] if tested is None else [tested]
    doubted = doubts([part.unseen for part in parts]) if parts else []
    by_kind = {kind: [one for one in doubted if one.kind == kind] for kind in ("wrong", "missing")}
    confused = confusions(pairs, most)
    rows, never, often = Rows(dataset, label_frequency(dataset.train.targets)), labels.never_found, labels.too_often
    metrics = score(pairs, ks=(1, k))
    return Errors(
        run=str(run),
        data=dataset.name,
        recipe=settings["recipe"],
        kind=model.kinds[-1],
        k=k,
        documents=len(test),
        labels=int((labels.true > 0).sum()),
        scores={name: round(metrics[name].value, 2) for name in ("P@1", f"R@{k}")},
        counts={"never_found": len(never), "found_too_often": len(often)}
        | {kind: len(of) for kind, of in by_kind.items()},
        asked=Asked(*(_count(parts, "train"), len(dataset.train), _count(parts, "test")), why, more),
        by_frequency=by_frequency(pairs, labels, dataset, k),
        by_length=by_length(pairs, test, model.fields, k),
        tables={
            "confusions": rows.confusions(confused, labels),
            "never_found": rows.never_found(never[:most], labels),
            "found_too_often": rows.found_too_often(often[:most], labels),
            "annotations": rows.annotations([one for of in by_kind.values() for one in of[:most]], parts),
        },
    )


def _unseen(
    run: Path,
    settings: Mapping[str, Any],
    model: Model,
    dataset: Dataset,
    folds: int | None,
    folder: Path | None,
    console: Console | None,
) -> tuple[list[Part], str, bool]:
    """Training documents by a model that has not seen them, why these are not all, and whether folds would do all."""
    if folds is not None:
        if settings["recipe"] not in RECIPES:
            problem = f"expected a run of longtail train, found one of longtail {settings['recipe']}"
            raise BadInput("folds", problem, remedy="leave folds out, or give one of the runs that it is made of")
        found = list(of_folds(RECIPES[settings["recipe"]], settings, dataset, folds, folder, console))
        known = [part for part in found if part is not None]
        return known, "" if len(known) == len(found) else "the other folds are too small", False
    more, before = settings["recipe"] in RECIPES and can_fold(settings, dataset), before_refit(run, model.device)
    why = why_none_held_out(settings, model, before, dataset)
    if why is not None:
        return [], why, more
    held = of_held_out(settings, before or model, dataset)
    if held is None:
        return [], "the documents that the run held out are too few", more
    return [held], "the run held these out, and has seen the others", more


def _count(parts: Sequence[Part], split: str) -> int:
    return sum(len(part.rows) for part in parts if part.split == split)
