"""Approximate search with faiss: for label sets that are too many for exact search at each request.

HNSW (Malkov and Yashunin, 2020), a graph over the vectors themselves, is fast and takes the memory of the table and 270
bytes a label. IVF-PQ (Jegou et al., 2011) keeps a byte for every 4 numbers of a vector and reads the table from the
disk for the few candidates that it ranks; it is for tables that do not fit in memory. Either is searched with the least
effort that reaches a recall; exact search judges it, on one half of the queries to choose and on the other to report.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from longtail.errors import BadInput, LongtailError, MissingExtra
from longtail.files import new_folder, write_json
from longtail.search.exact import Exact
from longtail.topk import AnyArray, FloatArray, IntArray, TopK, rank

EXACT_BELOW = 300_000  # labels; up to here exact search is the default
Rows = Callable[[IntArray], FloatArray]  # label ids to rows of the table

_LINKS = 32  # neighbours of a vector in the graph; twice as many on its lowest level
_CONSTRUCTION = 80  # candidates looked at for each vector that is added to the graph
_NUMBERS_A_BYTE = 4  # of a vector, in a product quantiser's code
_RESCORED = {"hnsw": 1, "ivfpq": 16}  # candidates that are scored exactly, for each place of a ranking
_EFFORTS = {"hnsw": "efSearch", "ivfpq": "nprobe"}
_BLOCK = 65_536  # rows added at a time
_FULL = 8  # columns are padded to a multiple of this, with zeros


class Measured(NamedTuple):
    """What is known of an approximate index.

    Attributes:
        method: hnsw or ivfpq.
        labels: L.
        width: W of the table.
        effort: candidates (hnsw) or cells (ivfpq) that a search looks at.
        k: the cut-off of the recall.
        target: the recall that was asked for, in [0, 1].
        recall: share of exact search's k best labels that it finds, on queries that did not choose the effort.
        queries: how many those were.
        seconds: the build took.
    """

    method: str
    labels: int
    width: int
    effort: int
    k: int
    target: float
    recall: float
    queries: int
    seconds: float


class Approximate:
    """Most of the best labels, found without looking at all of them.

    Args:
        index: of faiss, over the table padded to a multiple of 8 columns.
        rows: reads rows of the table, for the scores of what was found.
        measured: says how it is searched.
    """

    def __init__(self, index: Any, rows: Rows, measured: Measured) -> None:
        self._index, self._rows, self.measured = index, rows, measured

    def search(self, queries: FloatArray, k: int) -> TopK:
        """The best labels of each of (Q, W) queries that were found; a row with fewer than k is padded."""
        found = min(k * _RESCORED[self.measured.method], self.measured.labels)
        self._set_effort(max(self.measured.effort, found))
        ids = self._index.search(_padded(queries), found)[1] if len(queries) else np.zeros((0, found), np.int64)
        known, inverse = np.unique(np.maximum(ids, 0), return_inverse=True)
        table = self._rows(known)  # (n, W)
        scores = np.einsum("qkw,qw->qk", table[inverse.reshape(ids.shape)], queries)  # (Q, found)
        return rank(ids, scores, k)

    def _set_effort(self, effort: int) -> None:
        if self.measured.method == "hnsw":
            self._index.hnsw.efSearch = effort
        else:
            self._index.nprobe = min(self.measured.effort, self._index.nlist)

    def with_effort(self, effort: int) -> Approximate:
        """The same index, searched with another effort."""
        return Approximate(self._index, self._rows, self.measured._replace(effort=effort))

    def save(self, folder: Path) -> None:
        """Write a new folder with the index and ``index.json``, which says what was measured."""
        with new_folder(folder) as path:
            _faiss().write_index(self._index, str(path / "index.faiss"))
            write_json(path / "index.json", self.measured._asdict())

    @classmethod
    def load(cls, folder: Path, rows: Rows) -> Approximate:
        """Open what `save` wrote, over the same table."""
        measured = Measured(**json.loads((folder / "index.json").read_text(encoding="utf-8")))
        try:
            index = _faiss().read_index(str(folder / "index.faiss"))
        except RuntimeError as error:
            raise BadInput(folder, "expected an index of faiss, found none", remedy="build it again") from error
        if (index.ntotal, index.d) != (measured.labels, _columns(measured.width)):
            problem = f"expected {measured.labels} vectors of width {measured.width}, found {index.ntotal} of {index.d}"
            raise BadInput(folder, problem, remedy="build it again")
        return cls(index, rows, measured)


def build(
    rows: Rows,
    labels: int,
    queries: FloatArray,
    *,
    method: str | None = None,
    memory: float | None = None,
    target: float = 0.95,
    k: int = 10,
    seed: int = 0,
) -> Approximate:
    """Build an index and find the least effort that reaches a recall.

    Args:
        rows: reads rows of the (L, W) table; it is asked for blocks of them.
        labels: L, at least 2.
        queries: (Q, W), Q at least 2: like those that will be asked.
        method: hnsw or ivfpq; by default hnsw if it fits in ``memory``.
        memory: GiB that the index may take; no limit if left out.
        target: recall at k that is asked for, in (0, 1].
        k: labels a query.
        seed: of the rows that cells and codes are learned from.

    Raises:
        LongtailError: no effort reaches the target.
    """
    start = time.monotonic()
    width = queries.shape[1]
    method = method or ("hnsw" if memory is None or _hnsw_bytes(labels, width) <= memory * 2**30 else "ivfpq")
    index = _hnsw(width) if method == "hnsw" else _ivfpq(rows, labels, width, np.random.default_rng(seed))
    for at in range(0, labels, _BLOCK):
        index.add(_padded(rows(np.arange(at, min(at + _BLOCK, labels)))))
    built = Approximate(index, rows, Measured(method, labels, width, 1, k, target, 0.0, len(queries) // 2, 0.0))
    truth = exact_in_blocks(rows, labels, queries, k)
    effort = k
    while recall(built.with_effort(effort).search(queries[::2], k), truth[::2]) < target:
        effort *= 2
        if effort > max(4096, 2 * k):
            raise LongtailError(f"the {method} index stays below a recall@{k} of {target}; use exact search")
    reached = recall(built.with_effort(effort).search(queries[1::2], k), truth[1::2])
    seconds = round(time.monotonic() - start, 1)
    return Approximate(index, rows, built.measured._replace(effort=effort, recall=round(reached, 4), seconds=seconds))


def exact_in_blocks(rows: Rows, labels: int, queries: FloatArray, k: int) -> IntArray:
    """(Q, k) int64 ids that exact search finds, without holding the table."""
    ids, scores = np.full((len(queries), 0), -1, np.int64), np.zeros((len(queries), 0), np.float32)
    for at in range(0, labels, _BLOCK):
        top = Exact(rows(np.arange(at, min(at + _BLOCK, labels)))).search(queries, k)
        ids = np.concatenate([ids, np.where(top.ids < 0, -1, top.ids + at)], axis=1)
        best = rank(ids, np.concatenate([scores, top.scores], axis=1), k)
        ids, scores = best.ids, best.scores
    return ids


def recall(top: TopK, truth: IntArray) -> float:
    """Share of the (Q, k) true ids that are among the first k found; -1 is no id."""
    found = ((top.ids[:, :, None] == truth[:, None, :]) & (truth >= 0)[:, None, :]).any(1)  # (Q, k)
    return float(found.sum() / max(1, (truth >= 0).sum()))


def _faiss() -> Any:
    """The package, with as many threads as torch."""
    try:
        import faiss  # noqa: PLC0415  (an extra)
    except ModuleNotFoundError as error:
        raise MissingExtra("faiss-cpu", extra="faiss", purpose="approximate search") from error
    faiss.omp_set_num_threads(torch.get_num_threads())
    return faiss


def _hnsw(width: int) -> Any:
    faiss = _faiss()
    index = faiss.IndexHNSWFlat(_columns(width), _LINKS, faiss.METRIC_INNER_PRODUCT)
    index.hnsw.efConstruction = _CONSTRUCTION
    return index


def _hnsw_bytes(labels: int, width: int) -> int:
    return labels * (4 * _columns(width) + 8 * _LINKS + 16)


def _ivfpq(rows: Rows, labels: int, width: int, generator: np.random.Generator) -> Any:
    faiss, columns = _faiss(), _columns(width)
    cells = max(1, min(round(4 * math.sqrt(labels)), labels // 40))
    index = faiss.IndexIVFPQ(
        faiss.IndexFlatIP(columns), columns, cells, columns // _NUMBERS_A_BYTE, 8,
        faiss.METRIC_INNER_PRODUCT,
    )  # fmt: skip
    sample = np.sort(generator.permutation(labels)[: max(64 * cells, 20_000)])
    index.train(_padded(rows(sample)))
    return index


def _columns(width: int) -> int:
    return -(-width // _FULL) * _FULL


def _padded(vectors: FloatArray) -> AnyArray:
    missing = _columns(vectors.shape[1]) - vectors.shape[1]
    return np.ascontiguousarray(np.pad(vectors, ((0, 0), (0, missing))), np.float32)
