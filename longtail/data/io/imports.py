"""From a table of texts with their labels to a data set."""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

from longtail.data.dataset import Dataset
from longtail.data.io.folder import OWN
from longtail.data.io.formats import Rows, excerpt
from longtail.data.io.manifest import FIELDS
from longtail.data.io.records import plain, read_lines, report_texts
from longtail.data.io.tables import read_table, wrong
from longtail.data.split import Split
from longtail.data.texts import MEND_TEXT, STORABLE, Strings, Texts, TextsCollector, caseless, storable
from longtail.errors import BadInput

Match = Literal["uid", "title", "row"]
Fields: TypeAlias = Mapping[str, Any]
Lookup: TypeAlias = Callable[[str], int]


@dataclass(frozen=True, slots=True)
class Columns:
    """Which columns of a table hold what; ``content`` and ``uid`` may be missing in it, and ``uid`` be left aside."""

    title: str = "title"
    content: str = "content"
    uid: str | None = "uid"
    labels: str = "labels"


def import_tables(
    train: Path,
    *,
    test: Path | None = None,
    labels: Path | None = None,
    columns: Columns = Columns(),
    separator: str | None = None,
    match: Match | None = None,
    merge_case: bool = False,
    keep: Sequence[str] = (),
    encoding: str = "utf-8",
    name: str = "imported",
) -> Dataset:
    """Make a data set of tables.

    The labels of a document are a list (JSON lines, Parquet), a JSON list in a cell, or a cell cut at ``separator``.
    Without a label file each distinct entry becomes a label, with itself as its text, in order of appearance.

    Args:
        train: the table of training documents, `longtail.data.io.tables.read_table`.
        test: one of test documents.
        labels: one of labels, or a ``.txt`` file with one label text a line.
        columns: the names of the columns, the same in each table.
        separator: of the labels in a cell; a backslash and a t are a tab.
        match: what the entries are in the label file: uids, titles or row numbers from 0. By default uids where
            it has any, and otherwise titles.
        merge_case: entries that differ in case only, or in the form of letters, are one label, as the first of them is
            written.
        keep: further columns of the documents, which the data set has under their names.
        encoding: of the text files.
        name: of the data set.

    Raises:
        BadInput: a table is malformed, an entry is not in the label file, labels of one are to be merged, or a column
            to keep is in no table.
        MissingExtra: a file is Parquet and pyarrow is not installed.
    """
    found: dict[str, int] = {}  # the labels, where no file names them
    known = None
    lookup: Lookup = partial(_numbered, found, {} if merge_case else None)
    between = None if separator is None else _between(separator)
    if labels is not None:
        if merge_case:
            problem = "expected labels that documents name, found a file of them"
            raise BadInput("merge_case", problem, remedy="merge them there")
        known = _labels(labels, columns, encoding)
        lookup = _lookup(known, labels, match)

    def read(path: Path) -> tuple[Path, Texts, Rows]:
        rows = Rows()

        def add(record: Fields) -> None:
            if columns.labels not in record:
                raise _missing(record, columns.labels, "labels", "labels-column")
            rows.add([lookup(entry) for entry in _entries(record[columns.labels], between)])

        return path, _texts(path, columns, encoding, add, keep), rows

    if own := [name for name in keep if name in OWN]:
        problem = f"expected further columns, found {own[0]}, which is a name of the data set's own"
        raise BadInput("keep", problem, remedy="rename the column in the table")
    parts = [read(path) for path in (train, test) if path is not None]
    if lost := [name for name in keep if not any(name in texts.fields for _, texts, _ in parts)]:
        raise BadInput(train, f'column "{lost[0]}" is missing, or empty in all rows', remedy="name another to keep")
    texts = Texts.of(list(found)) if known is None else known
    splits = [_split(*part, len(texts), columns) for part in parts]
    return Dataset(name, splits[0], texts, splits[1] if test is not None else None)


def texts_of_table(path: Path, columns: Columns = Columns()) -> Texts:
    """The texts of a table, row by row, as `import_tables` reads them; its uids and labels are left aside.

    Raises:
        BadInput: the table is malformed, or has no such column of texts.
    """
    return _texts(path, replace(columns, uid=None), "utf-8", lambda _: None)


def _split(path: Path, documents: Texts, rows: Rows, labels: int, columns: Columns) -> Split:
    targets = rows.matrix(path, labels, first_line=1, what="label id")
    if not targets.nnz:
        problem = f"no document has a label: {len(documents)} documents, 0 pairs"
        raise BadInput(path, problem, remedy=f'fill the column "{columns.labels}"')
    return Split(documents, targets)


def _texts(
    path: Path, columns: Columns, encoding: str, add: Callable[[Fields], None], keep: Sequence[str] = ()
) -> Texts:
    """The texts of a table, with further columns to keep; what else is in a record is for ``add``."""
    collector, numbers = TextsCollector((*FIELDS, *keep)), array("q")
    for number, record in read_table(path, encoding):
        try:
            collector.add((*_text(record, columns), *(_kept(record, name) for name in keep)))
            add(record)
        except _Wrong as error:
            raise wrong(path, number, str(error), error.remedy) from None
        numbers.append(number)
    if not len(collector):
        raise BadInput(path, "holds no record, expected at least 1", remedy="write one text a row")
    texts = collector.texts()
    report_texts(path, texts, np.frombuffer(numbers, np.int64))
    return texts


def _labels(path: Path, columns: Columns, encoding: str) -> Texts:
    """The labels of a label file."""
    if Path(path.name.removesuffix(".gz")).suffix != ".txt":
        return _texts(path, columns, encoding, lambda _: None)
    titles = read_lines(path, encoding)
    if not len(titles):
        raise BadInput(path, "the file is empty, expected at least 1 label", remedy="write one label a line")
    return Texts.of_columns({"title": titles})


def _numbered(found: dict[str, int], spellings: dict[str, str] | None, entry: str) -> int:
    """The number of an entry that is a label's text, or another spelling of one; a new one becomes a label."""
    if spellings is not None:
        entry = spellings.setdefault(caseless(entry), entry)
    if entry not in found and not storable(entry):
        raise _Wrong(f"{STORABLE}, found {excerpt(entry)}", MEND_TEXT)
    return found.setdefault(entry, len(found))


def _lookup(labels: Texts, path: Path, match: Match | None) -> Lookup:
    """From an entry to the row of its label."""
    match = match or ("uid" if len(labels.uids.blob) else "title")
    if match == "row":
        positions = {str(i): i for i in range(len(labels))}
    else:
        positions = _positions(labels.uids if match == "uid" else labels.fields["title"], path, match)

    def lookup(entry: str) -> int:
        if entry not in positions:
            others = " or ".join(f"--match {other}" for other in ("uid", "title", "row") if other != match)
            expected = f"a row from 0 to {len(labels) - 1}" if match == "row" else f"one of the {len(labels)} {match}s"
            raise _Wrong(f"label {excerpt(entry)} is not {expected} of {path.name}", f"add it there, or {others}")
        return positions[entry]

    return lookup


def _positions(strings: Strings, path: Path, match: str) -> dict[str, int]:
    positions: dict[str, int] = {}
    for i, text in enumerate(map(str.strip, strings)):
        if positions.setdefault(text, i) != i and text:
            problem = f"{match} {excerpt(text)} is that of labels {positions[text]} and {i}"
            raise BadInput(path, problem, remedy="name labels by what is theirs alone: --match uid or --match row")
    return positions


class _Wrong(Exception):
    """What is wrong with a record, and the remedy; the file and line are added by who knows them."""

    def __init__(self, problem: str, remedy: str) -> None:
        self.remedy = remedy
        super().__init__(problem)


def _missing(record: Fields, column: str, what: str, option: str) -> _Wrong:
    columns = ", ".join(name if name.isprintable() else excerpt(name) for name in record)
    problem = f'there is no column "{column}", the columns are: {columns}'
    return _Wrong(problem, f"name the column of the {what} with --{option}")


def _text(record: Fields, columns: Columns) -> tuple[str, str, str]:
    """uid, title and content of a record."""
    if columns.title not in record:
        raise _missing(record, columns.title, "text", "text")
    uid = None if columns.uid is None else record.get(columns.uid)
    values = uid, record[columns.title], record.get(columns.content)
    uid, title, content = (str(value) if type(value) is int else value for value in values)
    if not isinstance(title, str):
        raise _Wrong(f'expected text in column "{columns.title}", found {excerpt(title)}', "write text into it")
    for value, column in ((uid, columns.uid), (content, columns.content)):
        if not isinstance(value, (str, type(None))):
            raise _Wrong(f'expected text in column "{column}", found {excerpt(value)}', "write text into it")
    return uid or "", title, content or ""


def _kept(record: Fields, column: str) -> str:
    """The value of a further column."""
    try:
        return plain(record.get(column))
    except TypeError as error:
        raise _Wrong(f'{error} in column "{column}"', "write such values into it, or keep another column") from None


def _between(separator: str) -> str:
    """What is between labels, where a tab may be typed as a backslash and a t."""
    if not separator:
        remedy = "give for example ';', or leave it out where cells are lists"
        raise BadInput("separator", "expected what is between labels, found an empty text", remedy=remedy)
    return "\t" if separator == r"\t" else separator


def _entries(cell: object, separator: str | None) -> list[str]:
    """The labels in a cell, as strings without blanks around them."""
    if cell is None or (isinstance(cell, str) and not cell.strip()):
        return []
    if isinstance(cell, str) and separator is not None:
        return [part.strip() for part in cell.split(separator) if part.strip()]
    if isinstance(cell, str):
        cell = _json_list(cell)
    entries = cell if isinstance(cell, list) else [cell]
    for entry in entries:
        if isinstance(entry, bool) or not isinstance(entry, (str, int)) or not str(entry).strip():
            raise _Wrong(f"expected label ids or texts, found {excerpt(entry)}", 'write [3, 8] or ["cat", "dog"]')
    return [str(entry).strip() for entry in entries]


def _json_list(cell: str) -> list[object]:
    try:
        entries = json.loads(cell)
    except (ValueError, RecursionError):
        entries = None
    if isinstance(entries, list):
        return entries
    problem = f"expected a JSON list of labels, found {excerpt(cell)}"
    raise _Wrong(problem, "write one, or say what is between labels: --separator ';'")
