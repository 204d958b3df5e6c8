"""The records that a run is judged by before it goes live: tables of judges, of a log and of attributes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from longtail.data.dataset import Dataset
from longtail.data.io.manifest import FIELDS
from longtail.data.io.pair_tables import Cells, positions, read_cells
from longtail.data.sparse import CSR
from longtail.data.texts import Strings
from longtail.errors import BadInput
from longtail.metrics.groups import column_of, numbers_in
from longtail.metrics.offline import Judged, Logged
from longtail.model.evaluation import must_have_test
from longtail.topk import Float64Array

_BETWEEN = ";"  # values of an attribute in a cell


@dataclass(frozen=True, slots=True)
class Records:
    """What a run is judged by.

    Attributes:
        truth: (n, L) the true labels of the test documents.
        weights: (n,) how often each counts.
        judged: what was graded, or None.
        log: what was shown and clicked, or None.
        attributes: values of the n documents and of the L labels, by attribute.
        notes: sentences about entries that say nothing.
    """

    truth: CSR
    weights: Float64Array
    judged: Judged | None
    log: Logged | None
    attributes: Mapping[str, tuple[list[frozenset[str]], list[frozenset[str]]]]
    notes: list[str] = field(default_factory=list)


def read_records(
    dataset: Dataset, weight: str | None, judged: Path | None, log: Path | None, attributes: Path | None
) -> Records:
    """Read the records; see `longtail.report.offline.Asked`.

    Queries and keywords are known by their uid or their text in the data set. What is of another query, or has another
    keyword, is left out and counted, but for a log: an entry of an unknown keyword is one that the run does not give.

    Raises:
        BadInput: a file is not as it must be, or says nothing of the data set.
    """
    test = must_have_test(dataset)
    queries, labels, notes = positions(test.documents), positions(dataset.labels), list[str]()
    return Records(
        truth=test.targets,
        weights=np.ones(len(test)) if weight is None else _weights(weight, dataset),
        judged=None if judged is None else _judged(judged, queries, labels, notes),
        log=None if log is None else _logged(log, queries, labels, len(test), notes),
        attributes={} if attributes is None else _attributes(attributes, dataset, labels, notes),
        notes=notes,
    )


def _weights(weight: str, dataset: Dataset) -> Float64Array:
    test = must_have_test(dataset)
    numbers = numbers_in(column_of("weight", weight, dataset, test))
    if numbers is None or np.nanmin(numbers) < 0 or not np.nansum(numbers):
        problem = f"expected numbers of at least 0 in the column {weight}, and one above 0"
        raise BadInput("weight", problem, remedy="name a column of counts, as impressions")
    return np.nan_to_num(numbers)


def _judged(path: Path, queries: Mapping[str, int], labels: Mapping[str, int], notes: list[str]) -> Judged:
    """Grades of pairs; of a pair that is graded twice, the last."""
    found, known, rows = dict[tuple[int, int], str](), 0, 0
    for cells in read_cells(path, ("query", "keyword", "grade")):
        pair = queries.get(cells.name("query"), -1), labels.get(cells.name("keyword"), -1)
        rows += 1
        if min(pair) >= 0 and cells.text("grade"):
            found[pair] = cells.text("grade")
            known += 1
    must_say_something(path, known, rows, notes, "have a grade, a test query and a keyword of the data")
    pairs, grades = np.array(list(found)), list(found.values())
    return Judged(pairs[:, 0], pairs[:, 1], grades, numbers_in(Strings.of(grades)))


def _logged(path: Path, queries: Mapping[str, int], labels: Mapping[str, int], n: int, notes: list[str]) -> Logged:
    """Entries of a log; those of one query and event are one search, and one without an event is a search by itself."""
    entries: list[tuple[int, int, float, float, float]] = []
    searches, rows = defaultdict[int, set[object]](set), 0
    for rows, cells in enumerate(read_cells(path, ("query", "keyword", "propensity")), 1):
        query, keyword = queries.get(cells.name("query"), -1), cells.name("keyword")
        entry = _entry(cells, shown=bool(keyword))
        if query >= 0:
            searches[query].add(cells.text("event") or rows)
            entries.append((query, labels.get(keyword, -1), *entry))
    must_say_something(path, len(entries), rows, notes, "are of a test query")
    columns = np.array(entries).T
    counts = np.array([len(searches[i]) for i in range(n)], np.float64)
    return Logged(columns[0].astype(np.int64), columns[1].astype(np.int64), columns[2], columns[3], columns[4], counts)


def _entry(cells: Cells, *, shown: bool) -> tuple[float, float, float]:
    """Propensity, impressions and clicks; of a search without a keyword there are none."""
    if not shown:
        return 1.0, 0.0, 0.0
    propensity = cells.number("propensity", 0.0, above=0.0, most=1.0)
    return propensity, cells.number("impressions", 1.0), cells.number("clicks", 0.0)


def _attributes(
    path: Path, dataset: Dataset, labels: Mapping[str, int], notes: list[str]
) -> dict[str, tuple[list[frozenset[str]], list[frozenset[str]]]]:
    """Values by attribute: those of the documents are in columns of the same name."""
    fields = must_have_test(dataset).documents.fields
    of_label: dict[str, list[frozenset[str]]] = {}
    known, rows = 0, 0
    for cells in read_cells(path, ("keyword",)):
        rows += 1
        names = [name for name in cells.record if name in fields and name not in (*FIELDS, "keyword")]
        label = labels.get(cells.name("keyword"), -1)
        known += label >= 0
        for name in names if label >= 0 else ():
            of_label.setdefault(name, [frozenset()] * len(dataset.labels))[label] = _values(cells.text(name))
    must_say_something(path, known, rows, notes, "are of a keyword of the data")
    if not of_label:
        problem = "expected columns that the test documents have, too, as brand, found none"
        raise BadInput(path, problem, remedy="import the documents again, and keep these columns")
    return {name: ([_values(text) for text in fields[name]], of) for name, of in of_label.items()}


def _values(text: str) -> frozenset[str]:
    """The values in a cell, whatever their case."""
    return frozenset(part.strip().casefold() for part in text.split(_BETWEEN) if part.strip())


def must_say_something(path: Path, known: int, rows: int, notes: list[str], what: str) -> None:
    """Note how many rows of a file say something of the data.

    Raises:
        BadInput: none does.
    """
    if not known:
        problem = f"expected rows about the data, found {rows:,}, none of which is"
        raise BadInput(path, problem, remedy="name queries and keywords by their uid, or by their text")
    if known < rows:
        notes.append(f"{known:,} of the {rows:,} rows of {path.name} {what}.")
