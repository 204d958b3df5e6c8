"""What is wrong with a data set folder, all in one pass, and what is odd about it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

import numpy as np

from longtail.data.dataset import Dataset, assembled
from longtail.data.filters import identity_pairs, matches, proposed_pairs, same_texts, without
from longtail.data.graph import Graph
from longtail.data.io.folder import SIDES, Folder, Side
from longtail.data.io.formats import excerpt
from longtail.data.io.manifest import NAME, part
from longtail.data.split import Split
from longtail.data.texts import Texts, caseless
from longtail.errors import BadInput

PROBLEMS_A_FILE = 10
_SEPARATORS = (";", "|", "\t", ",")  # the likely ones first
_MANY = 0.1  # of the cells of labels
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Finding:
    """Something to mend.

    Attributes:
        severity: ``error`` where the folder cannot be read so, ``warning`` where it can.
        message: one line: where, what was expected and found, and the remedy.
    """

    severity: Literal["error", "warning"]
    message: str


class _Notes:
    """Notes problems where `longtail.data.io.formats.stop` would end at the first."""

    def __init__(self) -> None:
        self.problems: list[BadInput] = []
        self._count: Counter[str] = Counter()

    def report(self, problem: BadInput) -> None:
        """Note a problem; end reading a file that has many."""
        self._count[problem.where] += 1
        if self._count[problem.where] > PROBLEMS_A_FILE:
            remedy = "mend these, then check again"
            raise BadInput(problem.where, f"has more than {PROBLEMS_A_FILE} problems, reading ends here", remedy=remedy)
        self.problems.append(problem)

    def attempt(self, read: Callable[[], T]) -> T | None:
        """What could be read, or None after a problem that reading cannot go on after."""
        try:
            return read()
        except BadInput as problem:
            self.problems.append(problem)
            return None


def check(folder: str | Path) -> tuple[list[Finding], Dataset | None]:
    """Look for everything in a data set folder that has to be mended.

    Returns:
        findings: errors, or where there are none, warnings.
        dataset: what was read, or None where there are errors.
    """
    notes = _Notes()
    dataset = _read(Path(folder), notes)
    if notes.problems or dataset is None:
        return [Finding("error", str(problem)) for problem in notes.problems], None
    return [Finding("warning", str(problem)) for problem in _oddities(Path(folder), dataset)], dataset


def _read(path: Path, notes: _Notes) -> Dataset | None:
    """The data set, as far as it can be read: one broken file does not hide the problems of the others."""
    report = notes.report
    source = notes.attempt(lambda: Folder.open(path, report))
    labels = None if source is None else notes.attempt(lambda: source.labels(report=report))
    if source is None or labels is None:
        return None

    def split(side: Side) -> Split | None:
        read = notes.attempt(lambda: source.documents(side, len(labels), report=report))
        if read is None:
            return None
        return Split(*read, notes.attempt(lambda: source.filtered(side, read[1].shape, report)))

    train = split("train")
    test = split("test") if notes.attempt(lambda: source.has("test")) else None
    if train is None:
        return None

    def graph(name: str) -> Graph | None:
        return notes.attempt(lambda: source.graph(name, len(train), len(labels), report))

    read = {name: graph(name) for name in source.manifest.graphs}
    return assembled(source, train, labels, test, {name: graph for name, graph in read.items() if graph is not None})


def _oddities(path: Path, dataset: Dataset) -> Iterator[BadInput]:
    """What can be read, and is seldom meant."""
    if part(path, "trn.json") and part(path, "trn_X_Y.txt", "train.txt"):
        problem = "two layouts are there, trn.json and trn_X_Y.txt; the JSON lines are read"
        yield BadInput(path, problem, remedy="remove the other, unless it says the same")
    if dataset.propensity is None:
        problem = "the propensity constants A and B are missing, so no PSP can be computed"
        yield BadInput(path / NAME, problem, remedy='add "propensity": {"A": ..., "B": ...} as in published results')
    if dataset.test is None:
        yield BadInput(path, "there is no test split", remedy="'longtail data split' cuts one")
    else:
        yield from _leaks(path, dataset.train.documents, dataset.test.documents)
    yield from _blank(path, "label", dataset.labels)
    yield from but_for_case(path, dataset.labels)
    for name, graph in dataset.graphs.items():
        for what, edges in (("training documents", graph.train), ("labels", graph.label)):
            if edges is not None and not edges.nnz:
                remedy = f"leave that side out of {NAME}"
                yield BadInput(path, f"graph {name} has 0 edges from its {edges.shape[0]} {what}", remedy=remedy)
    for side in SIDES:
        split = dataset.train if side == "train" else dataset.test
        if split is not None:
            yield from _blank(path, f"{side} document", split.documents)
            yield from _unlabelled(path, side, split)
            yield from _strange_uids(path, side, split.documents, dataset.labels)
            yield from _filter_oddities(path / f"filter_labels_{side}.txt", side, split, dataset)


def _blank(path: Path, what: str, texts: Texts) -> Iterator[BadInput]:
    blank = np.flatnonzero(np.all([np.diff(column.offsets) == 0 for column in texts.fields.values()], axis=0))
    if len(blank):
        problem = f"{len(blank)} of {len(texts)} {what}s have no text, the first is row {blank[0]}"
        yield BadInput(path, problem, remedy="an encoder sees nothing there; give them a title")


def but_for_case(path: Path, labels: Texts) -> Iterator[BadInput]:
    """Labels whose titles are `caseless` the same as that of another, in one line with an example, if there are any."""
    first: dict[str, str] = {}
    pairs = [(first.setdefault(caseless(title), title), title) for title in dict.fromkeys(labels.fields["title"])]
    if other := [pair for pair in pairs if pair[0] != pair[1]]:
        said = " and ".join(map(excerpt, other[0]))
        how = (
            "in case only"
            if all(a.casefold() == b.casefold() for a, b in other)
            else "in case or the form of letters only"
        )
        count = f"{len(other)} label{' differs' if len(other) == 1 else 's differ'} from another {how}"
        problem = f"{count}, as {said}; documents of the one count as wrong for the other"
        yield BadInput(path, problem, remedy="if they mean one thing, 'longtail data import --merge-case' makes it one")


def uncut(path: Path, dataset: Dataset, separator: str) -> Iterator[BadInput]:
    """Say that no cell of labels held what was to be between them, where many hold something else that may be.

    Args:
        path: of the table.
        dataset: made of it.
        separator: as it was given.
    """
    splits = [split for split in (dataset.train, dataset.test) if split is not None]
    if any((np.diff(split.targets.indptr) > 1).any() for split in splits):
        return
    used = np.concatenate([split.targets.indices for split in splits])
    cells = np.bincount(used, minlength=len(dataset.labels)).tolist()
    counts = dict.fromkeys(_SEPARATORS, 0)
    for title, count in zip(dataset.labels.fields["title"], cells, strict=True):
        for one in _SEPARATORS:
            counts[one] += count * (one in title)
    likely = max(counts, key=lambda one: counts[one])
    if counts[likely] >= _MANY * len(used):
        problem = f"no cell holds two labels with {separator!r} between them, and {counts[likely]:,} hold {likely!r}"
        yield BadInput(path, problem, remedy=f"if that is between labels, import it again with --separator {likely!r}")


def _unlabelled(path: Path, side: str, split: Split) -> Iterator[BadInput]:
    empty = np.flatnonzero(np.diff(split.targets.indptr) == 0)
    if len(empty):
        problem = f"{len(empty)} of {len(split)} {side} documents have no label, the first is row {empty[0]}"
        cost = "they lower every metric" if side == "test" else "nothing is learnt from them"
        yield BadInput(path, problem, remedy=f"{cost}; leave them out unless that is meant")


def _leaks(path: Path, train: Texts, test: Texts) -> Iterator[BadInput]:
    if not len(train.uids.blob) or not len(test.uids.blob):
        return
    shared = np.flatnonzero(np.diff(matches(test.uids, train.uids).indptr))
    if len(shared):
        problem = f"{len(shared)} of {len(test)} test documents have the uid of a training document"
        remedy = "take them out of one side: their labels are known"
        yield BadInput(path, f"{problem}, the first is {test.uids[int(shared[0])]!r}", remedy=remedy)


def _filter_oddities(file: Path, side: Side, split: Split, dataset: Dataset) -> Iterator[BadInput]:
    """Filter pairs that are in the truth, and pairs that should be filtered and are not."""
    if side == "test":
        kind, needed = "identity and reciprocal pairs", proposed_pairs(split, dataset.train, dataset.labels)
    else:  # the filters of published data sets hold no reciprocal pairs of training documents
        kind = "identity pairs"
        needed = without(identity_pairs(split.documents, dataset.labels), split.targets)
    if split.filtered is None:
        if needed.nnz:
            problem = f"the file is missing, and there are {needed.nnz} {kind}"
            remedy = "'longtail data check --write-filters' writes it (docs/guides/filters.md)"
            yield BadInput(file, problem, remedy=remedy)
        return
    true = split.filtered.multiply(split.targets).tocoo()
    if true.nnz:
        first = f"the first is '{true.row[0]} {true.col[0]}'"
        problem = f"{true.nnz} of {split.filtered.nnz} pairs are in the truth, {first}"
        yield BadInput(file, problem, remedy="a filtered pair is never ranked; take it out of one of the two")
    covered = needed.multiply(split.filtered).nnz
    if covered < needed.nnz:
        problem = f"{covered} of {needed.nnz} {kind} are in the file"
        yield BadInput(file, problem, remedy="the others rank high and count as wrong (docs/guides/filters.md)")


def _strange_uids(path: Path, side: Side, documents: Texts, labels: Texts) -> Iterator[BadInput]:
    """Documents and labels that share uids and mostly not titles are numbered each on their own."""
    if len(documents.uids.blob) and len(labels.uids.blob):
        itself = matches(documents.uids, labels.uids)
        same = itself.multiply(same_texts(documents.fields["title"], labels.fields["title"])).nnz
        if 2 * same < itself.nnz:
            problem = f"{itself.nnz} {side} documents have the uid of a label, and only {same} of these its title too"
            yield BadInput(
                path, problem, remedy="equal uids mean one thing; if they do not here, give labels other uids"
            )
