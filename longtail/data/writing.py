"""Writing the files of a data set: whole or not at all, UTF-8, and equal bytes for equal content."""

from __future__ import annotations

import gzip
import io
import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import BinaryIO

from longtail.data.sparse import CSR, row_of_entry
from longtail.errors import BadInput


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary name beside ``path``: renamed to it when the block ends, removed when it fails."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.parent / f".{os.getpid()}-{path.name}"
    try:
        yield temporary
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def must_be_free(folder: Path) -> None:
    """Refuse a folder that holds something already."""
    if folder.exists() and (not folder.is_dir() or any(islice(folder.iterdir(), 1))):
        raise BadInput(folder, "is there already, and is not empty", remedy="choose another folder or remove it")


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """A temporary folder that becomes ``folder`` when the block ends, and goes when it fails: never half of one."""
    must_be_free(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}-"))
    try:
        yield temporary
        temporary.chmod(0o755)
        temporary.replace(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


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


def write_json(path: Path, records: Iterable[object]) -> None:
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
