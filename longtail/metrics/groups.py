"""On which documents a metric is earned: groups by frequency, by length, by number of labels, by any column."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from longtail.calls import read_call
from longtail.data.dataset import Dataset
from longtail.data.describe import words
from longtail.data.io.folder import Folder
from longtail.data.io.formats import read_number
from longtail.data.io.manifest import FIELDS
from longtail.data.sparse import row_of_entry
from longtail.data.split import Split
from longtail.data.texts import Strings, Texts
from longtail.errors import BadInput
from longtail.metrics.intervals import Interval, intervals
from longtail.metrics.places import Ratio
from longtail.text.bag import RUN
from longtail.topk import Float64Array, IntArray

BINS = 5  # of numbers, unless others are asked for
BUILT_IN = {  # what documents are grouped by beside their columns
    "length": "words of the fields that the model reads",
    "labels": "true labels",
    "rarest-word": "training documents that hold the rarest word of the document",
}
_MOST = 12  # groups of texts; those of fewest documents are one
_NONE, _OTHERS = "(none)", "(others)"


@dataclass(frozen=True, slots=True)
class Groups:
    """n documents in g groups.

    Attributes:
        names: of the groups, none of which is empty.
        of_document: (n,) int64 in [0, g).
    """

    names: tuple[str, ...]
    of_document: IntArray


@dataclass(frozen=True, slots=True)
class Group:
    """What a score kind is worth on some of the test documents.

    Attributes:
        name: of the group.
        documents: in it.
        metrics: with 95 % intervals, by score kind and by name.
    """

    name: str
    documents: int
    metrics: Mapping[str, Mapping[str, Interval]]

    def as_dict(self) -> dict[str, Any]:
        """As JSON."""
        kinds = {kind: {name: asdict(it) for name, it in of.items()} for kind, of in self.metrics.items()}
        return {"group": self.name, "documents": self.documents, "kinds": kinds}


def by_group(scores: Mapping[str, Mapping[str, Ratio]], groups: Groups) -> list[Group]:
    """The metrics of each group, with bootstrap intervals over its documents.

    Args:
        scores: by score kind, as `longtail.metrics.ranking.score` returns them; those of labels, as coverage, are left
            out.
        groups: of the same n documents.
    """
    found = []
    for g, name in enumerate(groups.names):
        inside = groups.of_document == g
        metrics = {}
        for kind, of in scores.items():
            part = {m: Ratio(r.gained[inside], r.possible[inside]) for m, r in of.items() if r.unit == "document"}
            metrics[kind] = intervals(part, np.random.default_rng(0))
        found.append(Group(name, int(inside.sum()), metrics))
    return found


def groups_of(asked: str, test: Split, dataset: Dataset | None, fields: Sequence[str]) -> Groups:
    """The groups of test documents by what is asked for: a key of `BUILT_IN`, or a column.

    A column is one of numbers where all of its values are, and has bins then; otherwise each value is a group.

    Args:
        asked: a name, with ``:bins=10`` behind it for other bins than five.
        test: n documents, with the column among their fields.
        dataset: that they are of, whose training documents say how rare a word is; None where it is not known.
        fields: those that the model reads.

    Raises:
        BadInput: there is no such column, or no training documents, or less than 2 bins are asked for.
    """
    name, _, options = asked.partition(":")
    bins = read_call("by", _bins, options, besides=()).get("bins", BINS)
    if bins < 2:
        raise BadInput("by", f"expected at least 2 bins, found {bins}", remedy="ask for 5")
    if name == "length":
        read = [words(test.documents.fields[field]) for field in fields if field in test.documents.fields]
        return groups_of_numbers(np.sum(read, axis=0).astype(np.float64), bins)
    if name == "labels":
        rows = row_of_entry(test.targets)[test.targets.data > 0]
        return groups_of_numbers(np.bincount(rows, minlength=len(test)).astype(np.float64), bins)
    if name == "rarest-word":
        if dataset is None:
            problem = "expected a data set for rarest-word, found a split"
            raise BadInput("by", problem, remedy="give the data set, whose training documents say what is rare")
        return groups_of_numbers(rarest_words(test.documents, dataset.train.documents, fields), bins)
    column = column_of("by", name, dataset, test)
    numbers = numbers_in(column)
    return groups_of_texts(column) if numbers is None else groups_of_numbers(numbers, bins)


def _bins(bins: int = BINS) -> None:
    """What stands behind the name of a column."""


def column_of(where: str, name: str, dataset: Dataset | None, test: Split) -> Strings:
    """A further column of the test documents.

    Args:
        where: the option that names it.
        name: of the column.
        dataset: that the documents are of, if it is known.
        test: the documents.

    Raises:
        BadInput: there is none of this name.
    """
    if name in test.documents.fields and name not in FIELDS:
        return test.documents.fields[name]
    folder = dataset.folder if dataset is not None else None
    known = [] if folder is None else Folder.open(folder).columns("test")
    if name in known:
        remedy = f'read it so: Dataset.read(folder, fields=("title", "{name}"))'
        raise BadInput(where, f"the data set was read without its column {name}", remedy=remedy)
    there = f"the columns are {', '.join(known)}" if known else "there are no further columns"
    remedy = f"import the table again, with --keep {name}"
    raise BadInput(where, f"expected a column of the test documents, found {name}; {there}", remedy=remedy)


def numbers_in(column: Strings) -> Float64Array | None:
    """The finite numbers that a column holds, (n,), NaN where it is empty; None where it holds something else."""
    numbers = np.full(len(column), np.nan)
    for i, text in enumerate(column):
        if text.strip():
            try:
                numbers[i] = read_number(text.strip())
            except ValueError:
                return None
            if not np.isfinite(numbers[i]):
                return None
    return None if np.isnan(numbers).all() else numbers


def rarest_words(test: Texts, train: Texts, fields: Sequence[str]) -> Float64Array:
    """(n,) how many training documents hold the rarest word of each test document; NaN where it has no word.

    A word is a run of letters and digits, whatever its case.
    """
    counts = Counter[str]()
    for text in train.joined(fields):
        counts.update({*RUN.findall(text.lower())})
    found = [min(map(counts.__getitem__, RUN.findall(text.lower())), default=np.nan) for text in test.joined(fields)]
    return np.array(found, np.float64)


def groups_of_numbers(values: Float64Array, bins: int = BINS) -> Groups:
    """Bins of about as many documents, least values first; equal values stay together.

    Each bin takes values until it is as near as it can be to its share of the documents that are left; where there are
    no more values than bins, each is one. Documents without a value come last.

    Args:
        values: (n,) NaN where there is none.
        bins: at most.
    """
    known = ~np.isnan(values)
    distinct, of_known, counts = np.unique(values[known], return_inverse=True, return_counts=True)
    starts = _starts(counts, bins) if len(distinct) > bins else np.arange(len(distinct))
    of_document = np.full(len(values), len(starts), np.int64)
    of_document[known] = np.searchsorted(starts, of_known, side="right") - 1
    names = [_span(part) for part in np.split(distinct, starts[1:])] if len(distinct) else []
    return Groups((*names, *([] if known.all() else [_NONE])), of_document)


def _starts(counts: IntArray, bins: int) -> IntArray:
    """Where each bin begins among values that so many documents have, ascending."""
    ends, starts, done = np.cumsum(counts), [0], 0
    for left in range(bins, 1, -1):
        aim = done + (int(ends[-1]) - done) / left
        next_one = int(np.searchsorted(ends, aim)) + 1
        if next_one - starts[-1] > 1 and aim - ends[next_one - 2] <= ends[next_one - 1] - aim:
            next_one -= 1
        if next_one >= len(ends):
            break
        starts.append(next_one)
        done = int(ends[next_one - 1])
    return np.array(starts)


def _span(values: Float64Array) -> str:
    least, most = (f"{value:,.10g}" for value in (values[0], values[-1]))
    return least if least == most else f"{least} to {most}"


def groups_of_texts(column: Strings) -> Groups:
    """A group a value, those of most documents first; beyond 12 values, the smallest are one. None comes last.

    A value that is called as one of these two groups stands in quotes.
    """
    counts = Counter(column)
    order = sorted((value for value in counts if value), key=lambda value: (-counts[value], value))
    shown = order if len(order) <= _MOST else order[: _MOST - 1]
    named = (f'"{value}"' if value.strip('"') in (_NONE, _OTHERS) else value for value in shown)
    names = [*named, *([_OTHERS] if shown != order else []), *([_NONE] if "" in counts else [])]
    place = {value: i for i, value in enumerate(shown)} | {"": len(names) - 1}
    others = len(shown)
    return Groups(tuple(names), np.array([place.get(value, others) for value in column], np.int64))
