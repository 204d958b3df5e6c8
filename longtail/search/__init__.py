"""Vectors to ranked labels."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from typing import Any

from longtail.errors import BadInput
from longtail.files import read_json
from longtail.search.base import IndexKind, Rows
from longtail.search.codes import BINARY, FLOAT16, INT8
from longtail.search.exact import exact_over
from longtail.search.faiss import CARD, HNSW, IVFPQ, REMEDY, Approximate, Method, build, hnsw_bytes, ivfpq_bytes
from longtail.search.on_disk import IVFPQ_ON_DISK
from longtail.topk import FloatArray


def _approximate(method: Method, about: str) -> IndexKind:
    return IndexKind(partial(build, method=method), about, partial(Approximate.load, method=method))


INDEXES: dict[str, IndexKind] = {
    "exact": IndexKind(exact_over, "every label at each query: what the others are measured against"),
    "hnsw": _approximate(
        HNSW, "a graph over the vectors: fast, and takes the memory of the table and 270 bytes a label"
    ),
    "ivfpq": _approximate(IVFPQ, "a byte for every 4 numbers of a vector: for tables that do not fit in memory"),
    "ivfpq-disk": _approximate(
        IVFPQ_ON_DISK, "the same with these bytes on the disk: for tables whose bytes do not fit in memory"
    ),
    "float16": _approximate(
        FLOAT16, "two bytes a number, all looked at: half the memory of the table, and nothing lost"
    ),
    "int8": _approximate(INT8, "a byte a number, all looked at: a quarter of the memory of the table"),
    "binary": _approximate(
        BINARY, "a bit a number, all looked at, and the best scored exactly: a thirtieth of the memory"
    ),
}
"""Every index over label vectors; one row each. Those that can be loaded are approximate, and kept with a model."""


def build_index(
    rows: Rows,
    labels: int,
    queries: FloatArray,
    *,
    method: str | None = None,
    memory: float | None = None,
    **options: Any,
) -> Approximate:
    """Build an approximate index of `INDEXES`.

    Args:
        rows: reads rows of the (L, D) table; it is asked for blocks of them.
        labels: L, at least 2.
        queries: (n, D), n at least 2: like those that will be asked.
        method: its name; by default the first of hnsw, ivfpq and ivfpq-disk that fits in ``memory``.
        memory: GiB that the index may take; no limit if left out.
        options: ``target``, ``k`` and ``seed`` of `longtail.search.faiss.build`.

    Raises:
        BadInput: there is no approximate index of that name.
        LongtailError: no effort reaches the target.
    """
    sizes = {"hnsw": hnsw_bytes, "ivfpq": ivfpq_bytes}
    most = math.inf if memory is None else memory * 2**30
    fitting = (name for name, size in sizes.items() if size(labels, queries.shape[1]) <= most)
    built: Approximate = _kept(method or next(fitting, "ivfpq-disk")).build(rows, labels, queries, **options)
    return built


def open_index(folder: Path, rows: Rows) -> Approximate:
    """Open an index that was saved, over the same table.

    Raises:
        BadInput: it was made by a method that is not in `INDEXES`, is broken, or is of another table.
    """
    load = _kept(read_json(folder / CARD, remedy=REMEDY, keys={"method": str})["method"]).load
    assert load is not None
    opened: Approximate = load(folder, rows)
    return opened


def _kept(method: str) -> IndexKind:
    kept = {name: kind for name, kind in INDEXES.items() if kind.load is not None}
    if method not in kept:
        raise BadInput("method", f"expected one of {', '.join(kept)}, found {method}", remedy="choose one of those")
    return kept[method]
