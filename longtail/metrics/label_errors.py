"""Where a ranking errs, label by label: what stands in the place of what, what is never found, what too often."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from longtail.data.sparse import CSR, csr, holds, row_blocks
from longtail.errors import BadInput
from longtail.metrics.places import Placed, place
from longtail.topk import BoolArray, Float64Array, IntArray, TopK

_SURE = 2.0  # standard deviations of chance, by which a label is found too often at least


class Confusion(NamedTuple):
    """A true label that is missed, and a wrong one that stands where it should.

    Attributes:
        missed: the true label.
        predicted: the wrong one.
        documents: in which that is so.
        example: the first of them.
    """

    missed: int
    predicted: int
    documents: int
    example: int


@dataclass(frozen=True, slots=True)
class LabelErrors:
    """Errors on a test split, (L,) each; *in place* is among as many first labels of a document as are true of it.

    Attributes:
        true: test documents that have the label.
        found: those of them that have it among their first k.
        in_place: those of them that have it in place.
        given: test documents that have it in place, rightly or not.
        typical: the median rank, from 1, among the documents that have it; inf where it is beyond the ranking, NaN
            where no document has it.
        best: the least such rank.
    """

    true: IntArray
    found: IntArray
    in_place: IntArray
    given: IntArray
    typical: Float64Array
    best: Float64Array

    @property
    def never_found(self) -> IntArray:
        """Labels that have test documents and are found for none of them; those with most documents first."""
        there = np.flatnonzero((self.true > 0) & (self.found == 0))
        order: IntArray = there[np.lexsort((self.typical[there], -self.true[there]))]
        return order

    @property
    def too_often(self) -> IntArray:
        """Labels that are given twice as often as they are true, or more, and not by chance; the worst first."""
        excess = (self.given - self.true) / np.sqrt(np.maximum(self.given + self.true, 1))
        there = np.flatnonzero((self.given >= 2 * self.true) & (excess >= _SURE))
        order: IntArray = there[np.argsort(-excess[there], kind="stable")]
        return order


def label_errors(top: TopK, truth: CSR, k: int) -> LabelErrors:
    """Count errors label by label.

    Args:
        top: (n, K) ranked labels of n documents, without the pairs of a filter file.
        truth: (n, L) the relevant ones.
        k: labels of a document among which one counts as found, K at most.

    Raises:
        BadInput: no document has a label, or k is below 1 or above K.
    """
    if not 1 <= k <= top.k:
        raise BadInput("k", f"expected 1 to {top.k} labels, found {k}", remedy="give for example 5")
    pairs, first = place(top, truth), _in_place(top, truth)
    order = np.lexsort((pairs.places, pairs.labels))
    true = np.bincount(pairs.labels, minlength=pairs.L)
    starts, ranks = np.cumsum(true) - true, np.append(pairs.places[order] + 1, np.nan)
    there = true > 0
    median = np.where(there, starts + (true - 1) // 2, len(ranks) - 1)  # the lower one of two in the middle
    least = np.where(there, starts, len(ranks) - 1)
    hits = pairs.places < pairs.relevant[pairs.rows]
    return LabelErrors(
        true=true,
        found=np.bincount(pairs.labels[pairs.places < k], minlength=pairs.L),
        in_place=np.bincount(pairs.labels[hits], minlength=pairs.L),
        given=np.bincount(top.ids[first], minlength=pairs.L),
        typical=ranks[median],
        best=ranks[least],
    )


def confusions(top: TopK, truth: CSR, most: int) -> list[Confusion]:
    """Pairs of a label that is missed and one in its place, those of most documents first.

    A document with r true labels that has a wrong one among its first r misses at least one of them. Each label that
    it misses so is taken as confused with each wrong one.

    Args:
        top: (n, K) ranked labels of n documents.
        truth: (n, L) the relevant ones.
        most: pairs at most; of those of as many documents, the larger shares of the missed label's documents come
            first.
    """
    pairs, first = place(top, truth), _in_place(top, truth)
    missed, wrong = _missed(pairs), _wrong(top, truth, first)
    by_label, sizes = CSR(missed.T), np.diff(wrong.indptr).astype(np.int64)
    work = np.bincount(missed.indices, np.repeat(sizes, np.diff(missed.indptr)), minlength=pairs.L)
    true = np.bincount(pairs.labels, minlength=pairs.L)
    found: list[tuple[int, float, int, int]] = []
    for block in row_blocks(work.astype(np.int64)):
        common = (by_label[block] @ wrong).tocoo()
        rows, counts = common.row + block.start, common.data.astype(np.int64)
        best = np.lexsort((common.col, rows, -counts / true[rows], -counts))[:most]
        found += [(-int(counts[i]), -float(counts[i] / true[rows[i]]), int(rows[i]), int(common.col[i])) for i in best]
    of_wrong = CSR(wrong.T)
    return [
        Confusion(i, j, -count, int(np.intersect1d(_row(by_label, i), _row(of_wrong, j))[0]))
        for count, _, i, j in sorted(found)[:most]
    ]


def _in_place(top: TopK, truth: CSR) -> BoolArray:
    """(n, K) which ranked labels are among as many first ones as are true."""
    counts = np.diff(truth.indptr) if truth.nnz == np.count_nonzero(truth.data > 0) else (truth > 0).sum(1)
    first: BoolArray = (np.arange(top.k) < np.asarray(counts)[:, None]) & (top.ids >= 0)
    return first


def _missed(pairs: Placed) -> CSR:
    """(n, L) true pairs that are not in place."""
    there = pairs.places >= pairs.relevant[pairs.rows]
    return csr(pairs.rows[there], pairs.labels[there], (pairs.n, pairs.L))


def _wrong(top: TopK, truth: CSR, first: BoolArray) -> CSR:
    """(n, L) pairs that are in place and not true."""
    there = first & ~holds(truth, top.ids)
    return csr(np.nonzero(there)[0], top.ids[there], truth.shape)


def _row(matrix: CSR, i: int) -> IntArray:
    found: IntArray = matrix.indices[matrix.indptr[i] : matrix.indptr[i + 1]]
    return found
