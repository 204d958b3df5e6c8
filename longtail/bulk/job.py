"""A job over many files: each gives one file of the same name, whole or absent, and what is missing is done later."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeAlias

from rich.console import Console

from longtail.bulk.parts import Part, Place, is_hidden, parts_of
from longtail.bulk.ranker import BadRow, Ranker
from longtail.data.io.parquet import pyarrow
from longtail.ending import at_the_end
from longtail.errors import BadInput
from longtail.files import remove_partial
from longtail.locks import alone

Table: TypeAlias = Any  # of pyarrow
Engine: TypeAlias = Callable[[Ranker, Sequence[Part], int], Iterator[Iterable[Table]]]
"""From a ranker, parts and rows of a batch to the ranked rows of each part, in order; parts are answered in turn."""

BATCH = 8_192  # rows that are ranked at a time
MANIFEST = "_longtail.json"  # in a folder of results: what they are of; readers of Parquet leave such a name aside
_GROUP = 2**24  # bytes of rows that are written at a time
_NOT_ASKED = {"run", "device"}  # of a ranker, what a job may go on with another of


@dataclass(frozen=True)
class Done:
    """What a job has done.

    Attributes:
        parts: that it finished now.
        before: parts that were there already.
        texts: rows that it ranked.
        seconds: that it took, without opening the run.
    """

    parts: int
    before: int
    texts: int
    seconds: float


def local(ranker: Ranker, parts: Sequence[Part], batch: int) -> Iterator[Iterable[Table]]:
    """The engine that ranks in this process."""
    for part in parts:
        yield _ranked(ranker, part, batch)


def predict_parts(
    ranker: Ranker,
    inputs: Sequence[str],
    output: str,
    *,
    engine: Engine = local,
    batch: int = BATCH,
    console: Console | None = None,
) -> Done:
    """Rank labels for the rows of Parquet files, part by part, into a folder; a job that was stopped goes on.

    Each part gives a file of the same name, with its rows in their order, its columns, and those of
    `longtail.Ranker`. It appears when it is whole; a part whose file is there is done. Rows are read and written some
    at a time.

    Args:
        ranker: what ranks.
        inputs: files, patterns or folders, local or as URLs of fsspec: `longtail.bulk.parts.parts_of`.
        output: the folder of the results, local or a URL.
        engine: what brings rows to the ranker: `local`, or one of `longtail.bulk.with_ray.on_ray`.
        batch: rows that are ranked at a time.
        console: told of each part; nothing is said without one.

    Raises:
        BadInput: an input is not as it must be, or the folder holds something else, as the results of another run or
            with other options; results that are there stay.
        NotWritten: a file could not be written.
        MissingExtra: a package is not installed.
    """
    pyarrow("predicting Parquet")
    console = console or Console(quiet=True)
    folder = Place.of(output)
    if folder.system.exists(folder.path) and not folder.system.isdir(folder.path):
        raise BadInput(output, "expected a folder, or a new name for one, found a file", remedy="choose another name")
    parts = _outside(folder, parts_of(inputs))
    ranker.model  # noqa: B018  (a ranker that cannot be is refused before anything is made)
    with alone(Path(folder.path) if folder.is_local else None):
        names = folder.names()
        _begin(folder, names, ranker)
        missing = [part for part in parts if part.name not in names]
        before, texts, start = len(parts) - len(missing), 0, time.perf_counter()
        if before:
            console.print(f"{before:,} of {len(parts):,} parts are there", highlight=False)
        with at_the_end(lambda: "the same command goes on with the parts that are missing"):
            for part, tables in zip(missing, engine(ranker, missing, batch), strict=True):
                rows = _write(part, folder / part.name, ranker, tables)
                console.print(f"{part.name}: {rows:,} texts", highlight=False, markup=False)
                texts += rows
    return Done(len(missing), before, texts, time.perf_counter() - start)


def _ranked(ranker: Ranker, part: Part, batch: int) -> Iterator[Table]:
    table = pyarrow().Table
    for before, rows in part.batches(batch):
        with naming_row(part, before):
            ranked = ranker(table.from_batches([rows]))
        yield ranked


@contextmanager
def naming_row(part: Part, before: int) -> Iterator[None]:
    """Say which row of a part it is that has no text that can be read.

    Args:
        part: that is read in the block.
        before: its rows before the batch that is.

    Raises:
        BadInput: in the place of a `BadRow`.
    """
    try:
        yield
    except BadRow as error:
        raise BadInput(f"{part.place}, row {before + error.row + 1}", error.problem, remedy=error.remedy) from None


def _write(part: Part, result: Place, ranker: Ranker, tables: Iterable[Table]) -> int:
    """Write the result of a part, and count its rows."""
    arrow = pyarrow()
    schema, expected = part.footer()
    ranker.must_fit(schema.names, str(part.place))
    schema = ranker(schema.empty_table()).schema
    rows, waiting = 0, []
    with result.replaced() as file, arrow.parquet.ParquetWriter(file, schema) as writer:
        for table in tables:
            if table.column_names != schema.names:
                problem = f"expected the columns {', '.join(schema.names)}, found {', '.join(table.column_names)}"
                raise BadInput(str(part.place), problem, remedy="give parts of one schema, or the engine local")
            waiting.append(table.cast(schema))
            rows += len(table)
            if sum(one.nbytes for one in waiting) >= _GROUP:
                writer.write_table(arrow.concat_tables(waiting))
                waiting = []
        if waiting:
            writer.write_table(arrow.concat_tables(waiting))
        if rows != expected:
            problem = f"expected {expected:,} rows, found {rows:,}"
            raise BadInput(str(part.place), problem, remedy="see that nothing writes it, and try again")
    return rows


def _outside(folder: Place, parts: Sequence[Part]) -> list[Part]:
    """The parts that are not in the folder of results, which may be within that of the parts."""
    kind, inside = type(folder.system), f"{folder.path.rstrip('/')}/"
    found = [part for part in parts if type(part.place.system) is not kind or not part.place.path.startswith(inside)]
    if not found:
        problem = f"expected a folder without parts that are read, found {parts[0].place} in it"
        raise BadInput(str(folder), problem, remedy="choose another folder")
    return found


def _begin(folder: Place, names: Collection[str], ranker: Ranker) -> None:
    """See that the results in a folder are of this job; one that has none gets a manifest that says what they are."""
    options = {field.name: getattr(ranker, field.name) for field in fields(ranker) if field.name not in _NOT_ASKED}
    now = {"run": ranker.state, "options": options}
    manifest, there = folder / MANIFEST, not all(map(is_hidden, names))
    if there and MANIFEST not in names:
        raise BadInput(str(folder), "is there already, and holds something else", remedy="choose another folder")
    if there:
        with manifest.opened() as file:
            _must_agree(manifest, json.load(file), now)
    else:  # nothing was finished that it would speak of
        with manifest.replaced() as file:
            file.write(json.dumps(now, indent=1).encode() + b"\n")
    if folder.is_local:
        remove_partial(Path(folder.path))  # of a process that was killed when it had just put a part in its place


def _must_agree(manifest: Place, then: dict[str, dict[str, Any]], now: dict[str, dict[str, Any]]) -> None:
    if then["run"] != now["run"]:
        changed = [name for name, value in now["run"].items() if then["run"].get(name) != value]
        words = {"model": "another model", "changes": "other labels", "indexes": "other indexes or exports"}
        problem = f"expected the run that these results are of, found {words[changed[0]]}"
        raise BadInput(str(manifest), problem, remedy="choose another folder, or remove this one")
    for name, value in now["options"].items():
        if (was := then["options"].get(name)) != value:
            problem = f"expected {name} {json.dumps(was)}, as these results have it, found {json.dumps(value)}"
            raise BadInput(str(manifest), problem, remedy="finish it with that, or choose another folder")
