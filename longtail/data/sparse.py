"""Label matrices as CSR: the few operations that the rest of the library needs, without a Python loop over rows."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from scipy import sparse

from longtail.arrays import load_arrays, remade, save_arrays
from longtail.errors import BadInput
from longtail.topk import AnyArray, BoolArray, Float64Array, FloatArray, IntArray, TopK

CSR: TypeAlias = sparse.csr_array
_ARRAYS = ("data", "indices", "indptr", "shape")  # of a saved matrix
_NO_LABELS = "give [] to a document without labels, [7] to one with a label"
_OPERATIONS = 2**24  # of one block of rows; the product of as many takes at most 200 MB


def csr(rows: IntArray, columns: IntArray, shape: tuple[int, int], values: FloatArray | None = None) -> CSR:
    """A CSR matrix from pairs, columns sorted in each row; a pair given twice keeps its largest value.

    Args:
        rows: (n,) int64 in [0, shape[0]).
        columns: (n,) int64 in [0, shape[1]).
        shape: rows and columns of the matrix.
        values: (n,) float32; ones if left out.
    """
    data = np.ones(len(rows), np.float32) if values is None else values.astype(np.float32)
    if not _ascend(rows, columns):
        order = np.lexsort((-data, columns, rows))
        rows, columns, data = rows[order], columns[order], data[order]
    new = np.ones(len(rows), bool)
    new[1:] = (rows[1:] != rows[:-1]) | (columns[1:] != columns[:-1])
    indptr = offsets_of(np.bincount(rows[new], minlength=shape[0]))
    return CSR((data[new], columns[new].astype(np.int64), indptr), shape=shape)


def _ascend(rows: IntArray, columns: IntArray) -> bool:
    """Whether the pairs are in order, and each is there once."""
    same = rows[1:] == rows[:-1]
    return bool(((rows[1:] > rows[:-1]) | same & (columns[1:] > columns[:-1])).all())


def csr_of_lists(lists: Sequence[Sequence[int]], columns: int) -> CSR:
    """A CSR matrix of ones from one list of column ids a row."""
    counts = np.fromiter((len(row) for row in lists), np.int64, len(lists))
    ids = np.fromiter((j for row in lists for j in row), np.int64, int(counts.sum()))
    return csr(np.repeat(np.arange(len(lists)), counts), ids, (len(lists), columns))


def csr_of_ids(lists: Iterable[Iterable[int]], shape: tuple[int, int]) -> CSR:
    """A CSR matrix of ones from one list of label ids a document, as a Python caller gives them.

    Args:
        lists: N lists of ids in [0, L).
        shape: (N, L).

    Raises:
        BadInput: there is not a list a document, or an id is not in [0, L).
    """
    rows = [_ids(row, f"document {i}", shape[1]) for i, row in enumerate(_listed(lists, "documents"))]
    if len(rows) != shape[0]:
        problem = f"expected one list of label ids a document, found {len(rows)} for {shape[0]} documents"
        raise BadInput("targets", problem, remedy=_NO_LABELS)
    return csr_of_lists(rows, shape[1])


def _ids(row: Iterable[int], of: str, labels: int) -> list[int]:
    ids = _listed(row, of)
    for j in ids:
        if isinstance(j, bool) or not isinstance(j, (int, np.integer)) or not 0 <= j < labels:
            problem = f"label id {_in_short(j)} of {of} is not an integer in [0, {labels})"
            raise BadInput("targets", problem, remedy="ids are positions in the list of labels, from 0")
    return ids


def _listed(given: Iterable[Any], of: str) -> list[Any]:
    try:
        return [*given]
    except TypeError:
        problem = f"expected a list of label ids for each document, found {_in_short(given)} for {of}"
        raise BadInput("targets", problem, remedy=_NO_LABELS) from None


def _in_short(value: Any) -> str:
    return " ".join(repr(value).split())[:40]


def csr_of_relevance(matrix: Any, shape: tuple[int, int]) -> CSR:
    """A CSR matrix with a one for each value above 0.

    Args:
        matrix: scipy matrix or array of any format, or what numpy makes an array of.
        shape: that it must have.

    Raises:
        BadInput: its shape is another, or a value is not a finite number of at least 0.
    """
    values = matrix if sparse.issparse(matrix) else np.array(matrix, ndmin=1)
    if values.shape != shape:
        problem = f"expected {shape[0]} documents x {shape[1]} labels, found shape {tuple(values.shape)}"
        raise BadInput("targets", problem, remedy="give a row for each document and a column for each label")
    if values.dtype.kind not in "biuf":
        raise BadInput("targets", f"expected numbers, found {values.dtype}", remedy="give 1 for relevant, else 0")
    known = values if sparse.issparse(values) else values.astype(np.float64)  # scipy knows no float16
    found = sparse.coo_array(known)  # CSR and its astype add up what is given twice: 1 and -1 would be nothing
    wrong = np.flatnonzero(~(np.isfinite(found.data) & (found.data >= 0)))
    if len(wrong):
        row, column, more = found.row[wrong[0]], found.col[wrong[0]], len(wrong) - 1
        problem = f"expected a finite number of at least 0, found {found.data[wrong[0]]:g} at ({row}, {column})"
        raise BadInput("targets", f"{problem} and at {more} more places", remedy="give 1 for relevant, else 0")
    there = found.data > 0
    return csr(found.row[there].astype(np.int64), found.col[there].astype(np.int64), shape)


def row_of_entry(matrix: CSR) -> IntArray:
    """(nnz,) the row of each stored entry."""
    return np.repeat(np.arange(matrix.shape[0], dtype=np.int64), np.diff(matrix.indptr))


def holds(matrix: CSR, columns: IntArray) -> BoolArray:
    """Which entries are stored.

    Args:
        matrix: (n, L).
        columns: (n, C) int64, some columns of each row; below 0 for none.

    Returns:
        (n, C), False where there is no column.
    """
    keys = row_of_entry(matrix) * matrix.shape[1] + matrix.indices
    return np.isin(np.arange(len(columns))[:, None] * matrix.shape[1] + columns, keys) & (columns >= 0)


def drawn_entries(matrix: CSR, rows: IntArray, draws: Float64Array) -> IntArray:
    """Entries of some rows, drawn in proportion to their values.

    Args:
        matrix: (R, C), no entry below 0.
        rows: (n,) int64, rows that have an entry above 0.
        draws: (n, k) random numbers in [0, 1), of which each draws an entry.

    Returns:
        (n, k) positions in the flat arrays of the matrix.
    """
    positions, counts = gather(matrix.indptr, rows)
    ends = np.cumsum(matrix.data[positions], dtype=np.float64)  # (E,)
    last = np.cumsum(counts) - 1
    below = np.append(0, ends)[last + 1 - counts]
    at = np.searchsorted(ends, (below + draws.T * (ends[last] - below)).T, side="right")
    found: IntArray = positions[np.minimum(at, last[:, None])]
    return found


def values_at(matrix: CSR, rows: IntArray, columns: IntArray) -> FloatArray:
    """Some entries of some rows.

    Args:
        matrix: (N, L), columns ascending in each row.
        rows: (n,) int64 in [0, N).
        columns: (n, C) int64, columns of each of the rows; below 0 for none.

    Returns:
        (n, C) float32, 0 where nothing is stored.
    """
    positions, counts = gather(matrix.indptr, rows)
    found = np.zeros(columns.shape, np.float32)
    if len(positions):
        of_row = matrix.shape[1] * np.arange(len(rows))
        keys, wanted = np.repeat(of_row, counts) + matrix.indices[positions], of_row[:, None] + columns
        at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        there = (keys[at] == wanted) & (columns >= 0)
        found[there] = matrix.data[positions[at[there]]]
    return found


def offsets_of(counts: AnyArray) -> IntArray:
    """(n + 1,) where each of n rows of so many entries begins in the flat arrays of a ragged table, and the end."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])


def gather(indptr: IntArray, rows: IntArray) -> tuple[IntArray, IntArray]:
    """Positions of the entries of ``rows`` in the flat arrays of a ragged table.

    Args:
        indptr: (n + 1,) int64 offsets of the table.
        rows: (B,) int64 rows wanted, repeats allowed.

    Returns:
        positions: (E,) int64 into the flat arrays, row after row.
        counts: (B,) int64 entries of each wanted row; they sum to E.
    """
    starts = indptr[rows]
    counts = indptr[rows + 1] - starts
    ends = np.cumsum(counts)
    positions = np.arange(ends[-1] if len(ends) else 0, dtype=np.int64) + np.repeat(starts - (ends - counts), counts)
    return positions, counts


def padded(ids: IntArray, counts: IntArray, most: int | None = None) -> IntArray:
    """The first ids of each row side by side, (n, K) padded with -1, with K the longest row.

    Args:
        ids: (E,) row after row.
        counts: (n,) ids of each row.
        most: ids of a row that are kept; all if left out.
    """
    wide = counts if most is None else np.minimum(counts, most)
    out = np.full((len(counts), int(wide.max(initial=0))), -1, np.int64)
    there = np.arange(out.shape[1]) < wide[:, None]  # (n, K)
    out[there] = ids[(offsets_of(counts)[:-1, None] + np.arange(out.shape[1]))[there]]
    return out


def row_blocks(work: FloatArray | IntArray, operations: int = _OPERATIONS) -> Iterator[slice]:
    """Cut rows into runs of about so many operations each, and at least a row.

    Args:
        work: (R,) operations that each row takes.
        operations: of one run.
    """
    block = np.cumsum(work.astype(np.float64)) // operations
    bounds = [0, *(np.flatnonzero(np.diff(block)) + 1).tolist(), len(work)]
    yield from (slice(start, end) for start, end in pairwise(bounds) if end > start)


def stacked(parts: Sequence[CSR]) -> CSR:
    """The rows of all parts, in order; the parts have the same number of columns."""
    ends = np.cumsum([0, *(part.nnz for part in parts)])
    indptr = [part.indptr[1:].astype(np.int64) + end for part, end in zip(parts, ends, strict=False)]
    data, indices = (np.concatenate([getattr(part, name) for part in parts]) for name in ("data", "indices"))
    shape = (sum(part.shape[0] for part in parts), parts[0].shape[1])
    return CSR((data, indices.astype(np.int64), np.concatenate([np.zeros(1, np.int64), *indptr])), shape=shape)


def widened(matrix: CSR, columns: int) -> CSR:
    """The same matrix with so many columns, of which those on the right are empty."""
    return CSR((matrix.data, matrix.indices, matrix.indptr), shape=(matrix.shape[0], columns))


def digest(matrix: CSR) -> str:
    """SHA-256 of a matrix (shape, pattern and values), in hexadecimal."""
    state = hashlib.sha256(str(matrix.shape).encode())
    for array in (matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64), matrix.data.astype(np.float32)):
        state.update(array.tobytes())
    return state.hexdigest()


def take_entries(matrix: CSR, kept: BoolArray) -> CSR:
    """Some of the stored entries.

    Args:
        matrix: (R, C).
        kept: (nnz,) which ones.
    """
    ends = offsets_of(kept)[matrix.indptr]
    return CSR((matrix.data[kept], matrix.indices[kept], ends), shape=matrix.shape)


def heaviest(matrix: CSR, k: int) -> CSR:
    """The k largest entries of each row; of equal ones, those that are stored first.

    Args:
        matrix: (R, C).
        k: at least 1.
    """
    counts = np.diff(matrix.indptr)
    kept = np.ones(matrix.nnz, bool)
    widths = np.where(counts > k, np.ceil(np.log2(np.maximum(counts, 1))), 0)
    for width in np.unique(widths[widths > 0]):  # rows of about the same length, side by side in one array
        rows = np.flatnonzero(widths == width)
        places = np.arange(int(counts[rows].max()))
        there = places < counts[rows, None]
        at = np.minimum(matrix.indptr[rows, None] + places, matrix.nnz - 1)  # (r, w)
        values = np.where(there, matrix.data[at], -np.inf)
        least = np.partition(values, -k, axis=1)[:, -k, None]
        above, equal = values > least, values == least
        spare = k - above.sum(1, keepdims=True)
        kept[at[there]] = (above | equal & (equal.cumsum(1, dtype=np.int32) <= spare))[there]
    return take_entries(matrix, kept)


def ranked(matrix: CSR, k: int) -> TopK:
    """The k largest entries of each row, the lower column first on a tie; a row that stores fewer is padded.

    Args:
        matrix: (R, C).
        k: at least 1.
    """
    matrix = heaviest(matrix if matrix.has_sorted_indices else matrix.sorted_indices(), k)
    rows = row_of_entry(matrix)
    order = np.lexsort((matrix.indices, -matrix.data, rows))
    place = np.arange(len(rows)) - matrix.indptr[rows]
    found = TopK.nothing(matrix.shape[0], k)
    found.ids[rows, place] = matrix.indices[order]
    found.scores[rows, place] = matrix.data[order]
    return found


def save_csr(matrix: CSR, folder: Path) -> None:
    """Write a matrix into a new folder, which appears whole or not at all."""
    save_arrays(folder, {name: np.asarray(getattr(matrix, name)) for name in _ARRAYS})


def load_csr(folder: Path) -> CSR:
    """Open a saved matrix.

    Raises:
        BadInput: it is not what was saved.
    """
    *arrays, shape = load_arrays(folder, _ARRAYS)
    try:
        return CSR(tuple(arrays), shape=tuple(shape.tolist()))
    except (ValueError, TypeError, OverflowError) as error:
        raise BadInput(folder, f"expected a matrix, found none ({error})", remedy=remade(folder)) from error
