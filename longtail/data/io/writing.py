"""Writing the files of a data set: UTF-8, and equal bytes for equal content."""

from __future__ import annotations

import csv
import gzip
import io
import json
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, BinaryIO

from longtail.data.sparse import CSR, row_of_entry
from longtail.data.texts import Texts
from longtail.errors import BadInput
from longtail.files import replacing
from longtail.units import printable

_FORMULA = ("=", "+", "-", "@")  # begins what a spreadsheet would reckon


def write_lines(path: Path, texts: Iterable[str]) -> None:
    """Write UTF-8 lines, gzipped where the name ends in ``.gz``. Equal lines give equal bytes."""
    with replacing(path) as temporary, temporary.open("wb") as file, _packed(file, path.suffix == ".gz") as stream:
        stream.writelines(text.encode("utf-8", "replace") + b"\n" for text in texts)


@contextmanager
def _packed(file: BinaryIO, gzipped: bool) -> Iterator[BinaryIO]:  # noqa: FBT001
    """A stream into a file, gzipped with no time and no name in it."""
    if not gzipped:
        yield file
        return
    with (
        gzip.GzipFile(filename="", mode="wb", compresslevel=4, fileobj=file, mtime=0) as stream,
        io.BufferedWriter(stream, 1 << 20) as buffered,
    ):
        yield buffered


def write_records(path: Path, records: Iterable[object]) -> None:
    """Write one JSON object a line. Characters beyond ASCII are escaped, so that every reader agrees on them."""
    write_lines(path, map(json.dumps, records))


def write_sparse(path: Path, matrix: CSR) -> None:
    """Write a matrix as `read_sparse` reads it."""
    entries = [f"{j}:{str(v).removesuffix('.0')}" for j, v in zip(matrix.indices.tolist(), matrix.data, strict=True)]
    ends = matrix.indptr.tolist()
    rows = (" ".join(entries[start:end]) for start, end in pairwise(ends))
    write_lines(path, chain([f"{matrix.shape[0]} {matrix.shape[1]}"], rows))


def write_pairs(path: Path, pairs: CSR) -> None:
    """Write a filter file."""
    rows = row_of_entry(pairs)
    write_lines(path, (f"{i} {j}" for i, j in zip(rows.tolist(), pairs.indices.tolist(), strict=True)))


def write_csv(path: Path, header: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> None:
    """Write rows as CSV that a spreadsheet shows as it is.

    It begins with a byte order mark, so that it is read as UTF-8. A text that would be a formula has an apostrophe
    before it, which is how spreadsheets mark a text; control characters and line ends are written as JSON does.

    Args:
        path: of the file.
        header: names of columns.
        rows: values by column; None is an empty cell.
    """
    with replacing(path) as temporary, temporary.open("w", encoding="utf-8-sig", errors="replace", newline="") as file:
        table = csv.writer(file)
        table.writerow(header)
        table.writerows([_cell(row[name]) for name in header] for row in rows)


def _cell(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    text = printable(value)
    first = unicodedata.normalize("NFKC", text.lstrip()[:1])  # a full-width sign is one, too
    return f"'{text}" if first.startswith(_FORMULA) else text


def write_labels(path: Path, labels: Texts) -> None:
    """Write uids and titles as JSON lines."""
    with path.open("w", encoding="utf-8") as file:
        for uid, title in zip(labels.uids, labels.fields["title"], strict=True):
            file.write(json.dumps({"uid": uid, "text": title}, ensure_ascii=False) + "\n")


def read_labels(path: Path) -> Texts:
    """Read what `write_labels` wrote.

    Raises:
        BadInput: there is no such file, or it holds something else.
    """
    try:
        with path.open(encoding="utf-8") as file:
            rows = [json.loads(line) for line in file]
        return Texts.of([row["text"] for row in rows], uids=[row["uid"] for row in rows])
    except (OSError, ValueError, RecursionError, KeyError, TypeError, AttributeError) as error:
        problem = f"expected labels with uid and text, found {type(error).__name__} ({error})"
        raise BadInput(path, problem, remedy="copy the folder again, whole") from error
