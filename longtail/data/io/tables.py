"""Tables to import from: CSV, JSON lines, Parquet and fastText's lines, one record after the other."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from longtail.data.io import parquet
from longtail.data.io.formats import decoded, excerpt, json_lines, lines
from longtail.errors import BadInput
from longtail.files import must_be_a_file

Record: TypeAlias = tuple[int, Mapping[str, Any]]
"""A line (a row, counted from 1, of a Parquet file) and its values by column."""

_PREFIX = "__label__"  # of a label in a line of fastText
_WORD = re.compile(r"[^ \t\v\f\r\0]+")  # as fastText reads it: other spaces of Unicode are letters
_LONGEST = 2**31 - 1  # characters of a cell; the csv module stops at 131,072 by itself


def read_table(path: Path, encoding: str = "utf-8") -> Iterator[Record]:
    """The records of a table, which is read as they are asked for.

    Args:
        path: of a ``.csv``, ``.tsv``, ``.jsonl``, ``.json`` (one object a line) or ``.parquet`` file, or a ``.txt``
            file of fastText, whose columns are ``title`` and ``labels``; all but Parquet may be gzipped, with ``.gz``
            after that.
        encoding: of the file.

    Raises:
        BadInput: the file is none of these, or malformed.
        MissingExtra: it is Parquet and pyarrow is not installed.
    """
    kind = _kind(path)
    if kind in {".csv", ".tsv"}:
        return _csv(path, encoding)
    if kind in {".jsonl", ".json", ".ndjson"}:
        return ((line, record) for line, record in enumerate(json_lines(path, encoding), 1) if record is not None)
    if kind == ".parquet":
        return _parquet(path)
    if kind == ".txt":
        return _fasttext(path, encoding)
    remedy = "give a .csv, .tsv, .jsonl or .parquet file, or a .txt file of fastText"
    raise BadInput(path, f"a table of unknown kind, its name ends in {excerpt(kind)}", remedy=remedy)


def wrong(path: Path, number: int, problem: str, remedy: str) -> BadInput:
    """A problem with a record: by its line, or by its row where a file has no lines."""
    if path.suffix == ".parquet":
        return BadInput(f"{path}, row {number}", problem, remedy=remedy)
    return BadInput(path, problem, line=number, remedy=remedy)


def csv_rows(path: Path, encoding: str = "utf-8") -> Iterator[tuple[int, list[str]]]:
    """The header of a ``.csv`` or ``.tsv`` table and its rows: the lines that they end in, and their cells.

    Args:
        path: of the file, which may be gzipped.
        encoding: of the file.

    Raises:
        BadInput: the table is malformed, or two columns have one name; several may have none.
    """
    longest, line, blank = csv.field_size_limit(_LONGEST), 1, 0
    reader = csv.reader(decoded(path, encoding), delimiter="\t" if _kind(path) == ".tsv" else ",", strict=True)
    try:
        header = next(reader, None)
        if header is None:
            raise BadInput(path, "the file is empty, expected a header", remedy="name the columns in the first line")
        if twice := [name for i, name in enumerate(header) if name and name in header[:i]]:
            problem = f"expected each column once, found {excerpt(twice[0])} twice"
            raise BadInput(path, problem, line=reader.line_num, remedy="rename one of them")
        yield reader.line_num, header
        line = reader.line_num + 1
        for cells in reader:
            if cells and blank and len(header) == 1:
                problem = "expected a cell of the one column, found a blank line"
                raise BadInput(path, problem, line=blank, remedy='take it out, or write "" for an empty text')
            if cells and len(cells) != len(header):
                problem = f"expected {len(header)} cells as in the header, found {len(cells)}"
                remedy = 'put texts that hold a delimiter or a line break into "quotes"'
                raise BadInput(path, problem, line=reader.line_num, remedy=remedy)
            if cells:
                yield reader.line_num, cells
            blank, line = blank if cells else blank or line, reader.line_num + 1
    except csv.Error as error:  # where the quote of a cell is open, it is at the end of the file by now
        raise BadInput(path, f"is not CSV ({error})", line=line, remedy="mend the quotes") from None
    finally:
        csv.field_size_limit(longest)


def _kind(path: Path) -> str:
    """What the name of a table ends in, but for ``.gz``."""
    return Path(path.name.removesuffix(".gz")).suffix.lower()


def _csv(path: Path, encoding: str) -> Iterator[Record]:
    rows = csv_rows(path, encoding)
    _, header = next(rows)
    return ((line, dict(zip(header, cells, strict=True))) for line, cells in rows)


def _fasttext(path: Path, encoding: str) -> Iterator[Record]:
    """Lines of words, of which those that begin with ``__label__`` are labels, wherever they stand."""
    number, has_labels = 0, False
    for number, line in enumerate(lines(path, encoding), 1):
        words = _WORD.findall(line)
        labels = [word.removeprefix(_PREFIX) for word in words if word.startswith(_PREFIX)]
        has_labels = has_labels or bool(labels)
        yield number, {"title": " ".join(word for word in words if not word.startswith(_PREFIX)), "labels": labels}
    if not has_labels:
        problem = f"expected lines with {_PREFIX}NAME, as of fastText, found none in {number} lines"
        raise BadInput(path, problem, remedy="write labels so, or give a .csv or .jsonl file")


def _parquet(path: Path) -> Iterator[Record]:
    parquet.pyarrow()
    must_be_a_file(path, remedy="give a Parquet file")
    for rows, batch in parquet.batches(path, path, 4096):
        try:
            records = batch.to_pylist()
        except UnicodeDecodeError:
            row, problem = parquet.undecodable(batch)
            raise wrong(path, rows + row + 1, problem, parquet.MEND_BYTES) from None
        yield from enumerate(records, rows + 1)
