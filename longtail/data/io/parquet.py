"""Parquet files, read batch after batch: no file is held as a whole."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any

from longtail.errors import BadInput, MissingExtra

MEND_BYTES = "write it as UTF-8"


def pyarrow(purpose: str = "reading Parquet") -> Any:
    """The package pyarrow, with its Parquet.

    Args:
        purpose: what needs it, for the error.

    Raises:
        MissingExtra: it is not installed.
    """
    try:
        importlib.import_module("pyarrow.parquet")
        return importlib.import_module("pyarrow")
    except ImportError:
        raise MissingExtra("pyarrow", extra="parquet", purpose=purpose) from None


@contextmanager
def _opened(where: str | Path, source: Any, so_far: Callable[[], str] = str) -> Iterator[Any]:
    """A Parquet file, whose checksums are verified where it has some; what goes wrong in the block is said of it."""
    arrow = pyarrow()
    try:
        with arrow.parquet.ParquetFile(source, page_checksum_verification=True) as file:
            yield file
    except FileNotFoundError:
        raise BadInput(where, "the file is missing", remedy="check the name and the folder") from None
    except (arrow.ArrowException, OSError) as error:
        problem = f"is not readable as Parquet{so_far()} ({str(error).splitlines()[0]})"
        raise BadInput(where, problem, remedy="write the file again") from None


def undecodable(rows: Any) -> tuple[int, str]:
    """The first row, from 0 on, with text that is no UTF-8, and what is wrong with it: Parquet itself asks for none.

    Args:
        rows: a record batch or table of pyarrow, whose values cannot be read.
    """
    for row, (name, column) in product(range(len(rows)), zip(rows.schema.names, rows.columns, strict=True)):
        try:
            column[row].as_py()
        except UnicodeDecodeError as error:  # noqa: PERF203  (it is looked for)
            byte, place = error.object[error.start], error.start + 1
            return row, f'expected UTF-8 text in column "{name}", found byte 0x{byte:02x} at position {place}'
    raise ValueError("every value can be read")


def footer(where: str | Path, source: Any) -> tuple[Any, int]:
    """The schema of a Parquet file, as pyarrow has it, and its number of rows.

    Args:
        where: it is, for errors.
        source: a path, or an open binary file.

    Raises:
        BadInput: it is missing, or not readable as Parquet.
        MissingExtra: pyarrow is not installed.
    """
    with _opened(where, source) as file:
        return file.schema_arrow, file.metadata.num_rows


def batches(where: str | Path, source: Any, size: int) -> Iterator[tuple[int, Any]]:
    """The rows of a Parquet file as record batches of pyarrow, each after the number of rows before it.

    Args:
        where: it is, for errors.
        source: a path, or an open binary file.
        size: rows of a batch, at most.

    Raises:
        BadInput: it is missing, or not readable as Parquet.
        MissingExtra: pyarrow is not installed.
    """
    rows = 0
    with _opened(where, source, lambda: f" after {rows} rows") as file:
        for batch in file.iter_batches(batch_size=size):
            yield rows, batch
            rows += len(batch)
