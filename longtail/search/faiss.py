"""Approximate search with faiss: for label sets that are too many for exact search at each request.

HNSW (Malkov and Yashunin, 2020), a graph over the vectors themselves, is fast and takes the memory of the table and 270
bytes a label. IVF-PQ (Jegou et al., 2011) keeps a byte for every 4 numbers of a vector and reads the table from the
disk for the few candidates that it ranks; it is for tables that do not fit in memory. Either is searched with the least
effort that reaches a recall; exact search judges it, on one half of the queries to choose and on the other to report.
"""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from longtail.cards import read_card, write_card
from longtail.data.sparse import CSR, holds
from longtail.errors import BadInput, LongtailError, MissingExtra
from longtail.files import new_folder
from longtail.search.base import Rows, check_search
from longtail.search.exact import Exact
from longtail.search.quiet import unheard
from longtail.topk import AnyArray, FloatArray, IntArray, TopK, best_of, rank

CARD = "index.json"  # what a saved index says of itself, with the hash of its file
REMEDY = "build it again (longtail index)"  # where a saved index is not as it was saved
EXACT_BELOW = 300_000  # labels; up to here exact search is the default

_LINKS = 32  # neighbours of a vector in the graph; twice as many on its lowest level
_CONSTRUCTION = 80  # candidates looked at for each vector that is added to the graph
_NUMBERS_A_BYTE = 4  # of a vector, in a product quantiser's code
_CODES = 256  # of a product quantiser; it learns them from as many vectors at least
_BLOCK = 65_536  # rows added at a time
_INDEX, LISTS = "index.faiss", "lists.faiss"  # of a saved index; the second, where its lists are on the disk
_FULL = 8  # columns are padded to a multiple of this, with zeros


class Measured(NamedTuple):
    """What is known of an approximate index.

    Attributes:
        method: a key of `longtail.search.INDEXES`.
        labels: L.
        width: W of the table.
        effort: candidates (hnsw) or cells (ivfpq) that a search looks at, or labels that it scores exactly (codes),
            more for more than k places.
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


@dataclass(frozen=True, slots=True)
class Method:
    """A method of faiss.

    Attributes:
        name: in ``index.json``.
        empty: an index without vectors, from the rows of the table, L, W and a generator of random numbers.
        rescored: candidates that are scored exactly, for each place of a ranking; as many as the effort says if None.
        set_effort: makes an index look at so many candidates or cells, when so many labels are wanted.
        fill: adds the rows of L labels to one without vectors.
    """

    name: str
    empty: Callable[[Rows, int, int, np.random.Generator], Any]
    rescored: int | None
    set_effort: Callable[[Any, int, int], None]
    fill: Callable[[Any, Rows, int], None]


@dataclass(frozen=True, slots=True)
class Approximate:
    """Most of the best labels, found without looking at all of them.

    Attributes:
        index: of faiss, over the table padded to a multiple of 8 columns.
        rows: reads rows of the table, for the scores of what was found.
        method: of the index.
        measured: says how it is searched.
    """

    index: Any
    rows: Rows
    method: Method
    measured: Measured

    def search(self, queries: FloatArray, k: int, *, exclude: CSR | None = None) -> TopK:
        """Rank the labels of each query; see `longtail.search.base.Index`.

        As many candidates more are asked for as labels are excluded, rounded up to a power of 2 so that a batch is
        searched in a few goes.
        """
        check_search(queries.shape, (self.measured.labels, self.measured.width), k, exclude)
        if exclude is None:
            return self._search(queries, k, 0)
        counts = np.diff(exclude.indptr)
        more = np.where(counts, 2 ** np.ceil(np.log2(np.maximum(counts, 1))), 0).astype(np.int64)
        found = TopK.nothing(len(queries), k)
        for size in np.unique(more).tolist():
            rows = np.flatnonzero(more == size)
            top = self._search(queries[rows], k, size, exclude[rows])
            found.ids[rows], found.scores[rows] = top.ids, top.scores
        return found

    def _search(self, queries: FloatArray, k: int, more: int, exclude: CSR | None = None) -> TopK:
        effort, each = self.measured.effort, self.method.rescored
        wanted = max(effort, -(-k * effort // self.measured.k)) if each is None else k * each
        wanted = min(wanted + more, self.measured.labels)
        self.method.set_effort(self.index, effort, wanted)
        ids = self.index.search(padded(queries), wanted)[1] if len(queries) else np.zeros((0, wanted), np.int64)
        if exclude is not None:
            ids = np.where(holds(exclude, ids), -1, ids)
        known, inverse = np.unique(np.maximum(ids, 0), return_inverse=True)
        table = self.rows(known)  # (n, W)
        scores = np.einsum("qkw,qw->qk", table[inverse.reshape(ids.shape)], queries)  # (Q, wanted)
        return rank(ids, scores, k)

    def with_effort(self, effort: int) -> Approximate:
        """The same index, searched with another effort."""
        return replace(self, measured=self.measured._replace(effort=effort))

    def save(self, folder: Path) -> None:
        """Write a new folder with the index and its card, which says what was measured."""
        with new_folder(folder) as path:
            try:
                load_faiss().write_index(self.index, str(path / _INDEX))
            except RuntimeError as error:
                raise OSError(str(error).rpartition("failed: ")[2].strip()) from error  # as any other write that fails
            if (lists := _lists_on_disk(self.index)) is not None:
                shutil.copyfile(lists, path / LISTS)
            write_card(path / CARD, self.measured._asdict())

    @classmethod
    def load(cls, folder: Path, rows: Rows, *, method: Method) -> Approximate:
        """Open what `save` wrote, over the same table; faiss reads nothing that is not what it wrote."""
        card = read_card(folder / CARD, remedy=REMEDY, keys=Measured._fields)
        measured = Measured(*(card[name] for name in Measured._fields))
        try:
            faiss = load_faiss()
            with unheard() if (folder / LISTS).exists() else nullcontext():
                index = faiss.read_index(str(folder / _INDEX), faiss.IO_FLAG_ONDISK_SAME_DIR)
        except RuntimeError as error:
            raise BadInput(folder, "expected an index of faiss, found none", remedy=REMEDY) from error
        if (index.ntotal, index.d) != (measured.labels, columns_of(measured.width)):
            problem = f"expected {measured.labels} vectors of width {measured.width}, found {index.ntotal} of {index.d}"
            raise BadInput(folder, problem, remedy=REMEDY)
        return cls(index, rows, method, measured)


def build(
    rows: Rows,
    labels: int,
    queries: FloatArray,
    *,
    method: Method,
    target: float = 0.95,
    k: int = 10,
    seed: int = 0,
) -> Approximate:
    """Build an index and find the least effort that reaches a recall.

    Args:
        rows: reads rows of the (L, W) table; it is asked for blocks of them.
        labels: L, at least 2.
        queries: (Q, W), Q at least 2: like those that will be asked.
        method: `HNSW`, `IVFPQ`, or one of `longtail.search.codes`.
        target: recall at k that is asked for, in (0, 1].
        k: labels a query.
        seed: of the rows that cells and codes are learned from.

    Raises:
        LongtailError: no effort reaches the target.
    """
    start = time.monotonic()
    width = queries.shape[1]
    index = method.empty(rows, labels, width, np.random.default_rng(seed))
    method.fill(index, rows, labels)
    measured = Measured(method.name, labels, width, 1, k, target, 0.0, len(queries) // 2, 0.0)
    built = Approximate(index, rows, method, measured)
    truth = exact_in_blocks(rows, labels, queries, k)
    effort = k
    while recall(built.with_effort(effort).search(queries[::2], k), truth[::2]) < target:
        effort *= 2
        if effort > max(4096, 2 * k):
            raise LongtailError(f"the {method.name} index stays below a recall@{k} of {target}; use exact search")
    reached = recall(built.with_effort(effort).search(queries[1::2], k), truth[1::2])
    seconds = round(time.monotonic() - start, 1)
    return replace(built, measured=measured._replace(effort=effort, recall=round(reached, 4), seconds=seconds))


def exact_in_blocks(rows: Rows, labels: int, queries: FloatArray, k: int) -> IntArray:
    """(Q, k) int64 ids that exact search finds, without holding the table."""
    best = TopK.nothing(len(queries))
    for block in blocks(0, labels):
        best = best_of([(0, best), (int(block[0]), Exact(rows(block)).search(queries, k))], k)
    return best.ids


def recall(top: TopK, truth: IntArray) -> float:
    """Share of the (Q, k) true ids that are among the first k found; -1 is no id."""
    found = ((top.ids[:, :, None] == truth[:, None, :]) & (truth >= 0)[:, None, :]).any(1)  # (Q, k)
    return float(found.sum() / max(1, (truth >= 0).sum()))


def blocks(start: int, stop: int) -> Iterator[IntArray]:
    """The ids of labels from one to before another, as many at a time as are read together."""
    return (np.arange(at, min(at + _BLOCK, stop)) for at in range(start, stop, _BLOCK))


def fill(index: Any, rows: Rows, labels: int) -> None:
    """Add the rows of L labels to an index without vectors."""
    for ids in blocks(0, labels):
        index.add(padded(rows(ids)))


def _lists_on_disk(index: Any) -> Path | None:
    """The file that the lists of an index lie in; None where it holds them, or has none."""
    lists: Any = load_faiss().downcast_InvertedLists(index.invlists) if hasattr(index, "invlists") else None
    return Path(lists.filename) if hasattr(lists, "filename") else None


def load_faiss() -> Any:
    """The package, with as many threads as torch."""
    try:
        import faiss  # noqa: PLC0415  (an extra)
    except ModuleNotFoundError as error:
        raise MissingExtra("faiss-cpu", extra="faiss", purpose="approximate search") from error
    faiss.omp_set_num_threads(torch.get_num_threads())
    return faiss


def _hnsw(_rows: Rows, _labels: int, width: int, _generator: np.random.Generator) -> Any:
    faiss = load_faiss()
    index = faiss.IndexHNSWFlat(columns_of(width), _LINKS, faiss.METRIC_INNER_PRODUCT)
    index.hnsw.efConstruction = _CONSTRUCTION
    return index


def _look_at_candidates(index: Any, effort: int, wanted: int) -> None:
    index.hnsw.efSearch = max(effort, wanted)


def hnsw_bytes(labels: int, width: int) -> int:
    """Memory that `HNSW` takes."""
    return labels * (4 * columns_of(width) + 8 * _LINKS + 16)


def _ivfpq(rows: Rows, labels: int, width: int, generator: np.random.Generator) -> Any:
    if labels < _CODES:
        raise BadInput("method", f"expected {_CODES} labels or more for ivfpq, found {labels}", remedy="take hnsw")
    faiss, columns, cells = load_faiss(), columns_of(width), _cells(labels)
    index = faiss.IndexIVFPQ(
        faiss.IndexFlatIP(columns), columns, cells, columns // _NUMBERS_A_BYTE, 8,
        faiss.METRIC_INNER_PRODUCT,
    )  # fmt: skip
    sample = np.sort(generator.permutation(labels)[: max(64 * cells, 20_000)])
    index.train(padded(rows(sample)))
    return index


def ivfpq_bytes(labels: int, width: int) -> int:
    """Memory that `IVFPQ` takes: codes, ids, and the centres of cells."""
    return labels * (columns_of(width) // _NUMBERS_A_BYTE + 8) + 4 * _cells(labels) * columns_of(width)


def _cells(labels: int) -> int:
    return max(1, min(round(4 * math.sqrt(labels)), labels // 40))


def _look_into_cells(index: Any, effort: int, wanted: int) -> None:
    """As many cells as the effort says, and at least as many as hold the labels wanted, on average."""
    index.nprobe = min(max(effort, -(-wanted * index.nlist // index.ntotal)), index.nlist)


HNSW = Method("hnsw", _hnsw, rescored=1, set_effort=_look_at_candidates, fill=fill)
IVFPQ = Method("ivfpq", _ivfpq, rescored=16, set_effort=_look_into_cells, fill=fill)


def columns_of(width: int) -> int:
    """The width of a table of such vectors, once they are `padded`."""
    return -(-width // _FULL) * _FULL


def padded(vectors: FloatArray) -> AnyArray:
    """(n, W) vectors as an index takes them, with zeros behind."""
    missing = columns_of(vectors.shape[1]) - vectors.shape[1]
    return np.ascontiguousarray(np.pad(vectors, ((0, 0), (0, missing))), np.float32)
