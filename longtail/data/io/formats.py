"""Reading the files of a data set, plain or gzipped: lines, JSON lines, matrices, pairs. Problems name their line."""

from __future__ import annotations

import codecs
import gzip
import io
import json
import re
import zlib
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

import numpy as np

from longtail.data.sparse import CSR, csr
from longtail.errors import BadInput
from longtail.files import must_be_a_file
from longtail.topk import BoolArray

Report: TypeAlias = Callable[[BadInput], None]
"""What to do with a problem that reading can go on after: raise it (`stop`), or note it."""
Parse: TypeAlias = Callable[[str], tuple[list[int], list[float] | None]]

_LONGEST = 2**26  # bytes of a line: a packed file may unpack to a line that no memory holds
_NUMBER = re.compile("[0-9a-zA-Z.+-]+")  # Python's own int and float read 1_0, and digits of every script
_WEIGHT = rf"-?[0-9]+:{_NUMBER.pattern}"
_PAIRS = re.compile(rf"[ \t]*(?:{_WEIGHT}(?:[ \t]+{_WEIGHT})*)?[ \t]*")
_PAIR = re.compile(r"[ \t]*-?[0-9]+[ \t]+-?[0-9]+[ \t]*")
_LABELS = re.compile(r"-?[0-9]+(?:,-?[0-9]+)*")
_SIZE = re.compile("[0-9]{1,18}")  # of a matrix: it fits 64 bits
_STATE = (
    'save it as UTF-8, or state the encoding, perhaps "{}": of a table by longtail data import --encoding, of a folder '
    "in dataset.json"
)
CUT_AGAIN = "write or download the file again"


def stop(problem: BadInput) -> NoReturn:
    """End reading at the first problem."""
    try:
        raise problem
    finally:  # else it holds this frame, which holds it, and the files of all who read are open until a collection
        del problem


def raw_lines(path: Path) -> Iterator[bytes]:
    """The lines of a file with their ends; unpacked where the name ends in ``.gz``.

    Raises:
        BadInput: the file is missing or not readable, or no file, or its gzip is broken.
    """
    count = 0
    must_be_a_file(path, remedy="put a file there")
    try:
        packed = path.suffix == ".gz"
        with path.open("rb") as file, io.BufferedReader(gzip.GzipFile(fileobj=file)) if packed else file as stream:
            for count, line in enumerate(iter(partial(stream.readline, _LONGEST), b""), 1):
                if len(line) == _LONGEST:
                    problem = f"expected lines of less than {_LONGEST:,} bytes, found a longer one"
                    raise BadInput(path, problem, line=count, remedy="is it what it should be? " + CUT_AGAIN)
                yield line.removeprefix(codecs.BOM_UTF8) if count == 1 else line
    except FileNotFoundError:
        raise BadInput(path, "the file is missing", remedy="check the name and the folder") from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        problem = f"the gzip is broken or cut short somewhere after line {count} ({error})"
        raise BadInput(path, problem, remedy=CUT_AGAIN) from None
    except OSError as error:
        raise BadInput(path, f"cannot be read ({error.strerror})", remedy="check the path and its rights") from None


def decoded(path: Path, encoding: str = "utf-8", report: Report = stop) -> Iterator[str]:
    """The lines of a file as text, with their ends. A line in another encoding is reported, and read as it can be."""
    return (decoded_line(raw, path, number, encoding, report) for number, raw in enumerate(raw_lines(path), 1))


def decoded_line(raw: bytes, path: Path, number: int, encoding: str, report: Report) -> str:
    """A line as text; one in another encoding is reported, and read as it can be."""
    try:
        return raw.decode(encoding)
    except UnicodeDecodeError as error:
        if number == 1 and raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            report(BadInput(path, f"expected {encoding} text, found UTF-16", line=1, remedy="save it as UTF-8"))
            return raw.decode(encoding, "replace")
        other = "latin-1" if codecs.lookup(encoding).name == "utf-8" else "utf-8"
        problem = f"expected {encoding} text, found byte 0x{raw[error.start]:02x} at position {error.start + 1}"
        report(BadInput(path, problem, line=number, remedy=_STATE.format(other)))
        return raw.decode(encoding, "replace")


def lines(path: Path, encoding: str = "utf-8", report: Report = stop) -> Iterator[str]:
    """The lines of a file as text, without their ends."""
    return (line.rstrip("\r\n") for line in decoded(path, encoding, report))


def json_lines(path: Path, encoding: str = "utf-8", report: Report = stop) -> Iterator[dict[str, Any] | None]:
    """One JSON object a line; None stands in for a line that was reported."""
    for number, line in enumerate(lines(path, encoding, report), 1):
        yield json_object(line, path, number, report)


def json_object(line: str, path: Path, number: int, report: Report) -> dict[str, Any] | None:
    """The JSON object that a line holds; None where something else was reported."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        problem = f"expected one JSON object a line, found {excerpt(line)} ({error})"
        report(BadInput(path, problem, line=number, remedy="mend or remove the line"))
        return None
    if not isinstance(record, dict):
        problem = f"expected a JSON object, found {excerpt(line)}"
        report(BadInput(path, problem, line=number, remedy='write {"title": ...} objects, one a line'))
        return None
    return record


def read_number(text: str) -> float:
    """A number as files have it, in ASCII digits and without ``_``.

    Raises:
        ValueError: it is none.
    """
    _must_match(_NUMBER, text)
    return float(text)


def excerpt(value: object) -> str:
    """A value as it is shown in a message: quoted, and at most 40 characters of it."""
    text = value if isinstance(value, str) else repr(value)
    return repr(text if len(text) <= 40 else text[:37] + "...")


class Rows:
    """The entries of a sparse matrix, collected row after row in flat arrays."""

    def __init__(self) -> None:
        self.counts, self.ids, self.values = array("q"), array("q"), array("f")

    def add(self, ids: Iterable[int] = (), values: Iterable[float] | None = None) -> None:
        """Append one row; without values its entries are ones.

        Raises:
            TypeError: an id is not an integer, or a value not a number.
            OverflowError: an id does not fit 64 bits.
            ValueError: there are more or fewer values than ids.
        """
        new = array("q", ids)
        weights = array("f", [1.0]) * len(new) if values is None else array("f", values)
        if len(new) != len(weights):
            raise ValueError(f"{len(new)} ids and {len(weights)} values")
        self.counts.append(len(new))
        self.ids += new
        self.values += weights

    def add_all(self, ids: Sequence[Sequence[int]], values: Sequence[Sequence[float] | None]) -> None:
        """Append rows, all of them or, after an error of `add`, none."""
        counts = array("q", map(len, ids))
        weights = [[1.0] * count if row is None else row for count, row in zip(counts, values, strict=True)]
        if counts != array("q", map(len, weights)):
            raise ValueError("there are more or fewer values than ids in a row")
        new, numbers = array("q", chain.from_iterable(ids)), array("f", chain.from_iterable(weights))
        self.counts += counts
        self.ids += new
        self.values += numbers

    def __len__(self) -> int:
        return len(self.counts)

    def matrix(self, path: Path, columns: int, *, first_line: int, what: str, report: Report = stop) -> CSR:
        """The (n, columns) matrix. Entries of weight 0 are dropped; a pair given twice keeps its largest weight.

        Args:
            path: where the rows are from, for messages.
            columns: of the matrix.
            first_line: the line of row 0.
            what: the name of a column id: "label id".
            report: gets entries out of range, and weights that are negative or not finite.
        """
        ids, values = np.frombuffer(self.ids, np.int64), np.frombuffer(self.values, np.float32)
        rows = np.repeat(np.arange(len(self)), np.frombuffer(self.counts, np.int64))
        stray, wild = (ids < 0) | (ids >= columns), ~(np.isfinite(values) & (values >= 0))
        if stray.any():
            first, more = _first(stray)
            problem = f"{what} {ids[first]} is not in [0, {columns}){more}"
            remedy = "ids count from 0, so mend the id or the size"
            report(BadInput(path, problem, line=int(rows[first]) + first_line, remedy=remedy))
        if wild.any():
            first, more = _first(wild)
            problem = f"weight {values[first]:g} of {what} {ids[first]} is not a finite number >= 0{more}"
            report(BadInput(path, problem, line=int(rows[first]) + first_line, remedy="mend or remove the entry"))
        kept = ~stray & ~wild & (values > 0)
        return csr(rows[kept], ids[kept], (len(self), columns), values[kept])


def _first(bad: BoolArray) -> tuple[int, str]:
    """Where the first bad entry is, and how to say that there are more."""
    count = int(bad.sum())
    return int(bad.argmax()), f" (and {count - 1} more like it)" if count > 1 else ""


def read_sparse(path: Path, *, what: str, report: Report = stop) -> CSR:
    """A matrix of the XMC repository: a header ``rows columns``, then ``id:weight`` pairs, one line a row.

    A third number in the header is the count of entries (METHODS, section 3.1).

    Args:
        path: of the file, plain or ``.gz``.
        what: the name of a column id in messages: "label id", "node id".
        report: gets the problems that reading can go on after.
    """
    text = lines(path, report=report)
    height, width, *entries = _header(path, next(text, None), (2, 3))
    rows = _rows(path, text, _pairs, "3:1 8:0.5", report)
    if len(rows) != height:
        problem = f"the header says {height} rows, and {len(rows)} follow"
        report(BadInput(path, problem, line=1, remedy="write the header 'rows columns' anew, or " + CUT_AGAIN))
    if entries and entries[0] != len(rows.ids):
        problem = f"the header says {entries[0]} entries, and {len(rows.ids)} follow"
        report(BadInput(path, problem, line=1, remedy=CUT_AGAIN))
    return rows.matrix(path, width, first_line=2, what=what, report=report)


def read_points(path: Path, *, report: Report = stop) -> CSR:
    """The label matrix of the repository's older format, whose header is ``points features labels``.

    Each line holds ``label,label,... feature:value ...``; the features are passed over.
    """
    text = lines(path, report=report)
    height, _, width = _header(path, next(text, None), (3,))
    rows = _rows(path, text, _labels, "3,8 0:0.5 7:1", report)
    if len(rows) != height:
        report(BadInput(path, f"the header says {height} rows, and {len(rows)} follow", line=1, remedy=CUT_AGAIN))
    return rows.matrix(path, width, first_line=2, what="label id", report=report)


def _pairs(line: str) -> tuple[list[int], list[float] | None]:
    """Ids and weights of a line ``3:1 8:0.5``."""
    _must_match(_PAIRS, line)
    pairs = [pair.split(":") for pair in line.split()]
    return [int(index) for index, _ in pairs], [float(weight) for _, weight in pairs]


def _labels(line: str) -> tuple[list[int], list[float] | None]:
    """Labels of a line ``3,8 0:0.5 7:1``; a document without labels begins with a blank or with its features."""
    ids = re.split("[ \t]", line, maxsplit=1)[0]
    if not ids or re.fullmatch(_WEIGHT, ids):
        return [], None
    _must_match(_LABELS, ids)
    return [int(label) for label in ids.split(",")], None


def _must_match(pattern: re.Pattern[str], text: str) -> None:
    if not pattern.fullmatch(text):
        raise ValueError


def _rows(path: Path, text: Iterator[str], parse: Parse, example: str, report: Report) -> Rows:
    """The rows after a header; a line that cannot be parsed is reported, and stays an empty row."""
    rows = Rows()
    for number, line in enumerate(text, 2):
        if not _added(rows, parse, line):
            problem = f"expected a line like '{example}', found {excerpt(line)}"
            report(BadInput(path, problem, line=number, remedy="mend the line; ids count from 0"))
    return rows


def _added(rows: Rows, parse: Parse, line: str) -> bool:
    """Whether a line could be parsed; if not, its row is empty."""
    try:
        rows.add(*parse(line))
    except (ValueError, OverflowError):
        rows.add()
        return False
    return True


def _header(path: Path, line: str | None, sizes: Sequence[int]) -> list[int]:
    """The numbers of a header."""
    found = [] if line is None else line.split()
    if len(found) in sizes and all(map(_SIZE.fullmatch, found)):
        return [int(number) for number in found]
    problem = "the file is empty" if line is None else f"found {excerpt(line)}"
    expected = "points features labels" if sizes == (3,) else "rows columns"
    raise BadInput(path, f"expected a header '{expected}', {problem}", line=1, remedy=CUT_AGAIN)


def read_pairs(path: Path, shape: tuple[int, int], *, report: Report = stop) -> CSR:
    """A filter file: one ``row label`` pair a line, no header; it may be empty.

    Args:
        path: of the file.
        shape: documents and labels of the data set.
        report: gets the problems that reading can go on after.
    """
    row_ids, label_ids = array("q"), array("q")
    for number, line in enumerate(lines(path, report=report), 1):
        try:
            _must_match(_PAIR, line)
            row, label = map(int, line.split())
            if not 0 <= row < shape[0] or not 0 <= label < shape[1]:
                name, found, size = ("row", row, shape[0]) if not 0 <= row < shape[0] else ("label", label, shape[1])
                problem, remedy = f"{name} {found} is not in [0, {size})", "is the file of this data set and split?"
            else:
                row_ids.append(row)
                label_ids.append(label)
                continue
        except ValueError:
            problem, remedy = f"expected 'row label', found {excerpt(line)}", "write two ids from 0, a space between"
        report(BadInput(path, problem, line=number, remedy=remedy))
    return csr(np.frombuffer(row_ids, np.int64), np.frombuffer(label_ids, np.int64), shape)
