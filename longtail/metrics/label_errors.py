"""Where a ranking errs, label by label: what stands in the place of what, what is never found, what too often."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from longtail.data.sparse import CSR, csr, row_blocks
from longtail.errors import BadInput
from longtail.metrics.places import Placed
from longtail.topk import BoolArray, Float64Array, IntArray

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


def label_errors(pairs: Placed, k: int) -> LabelErrors:
    """Count errors label by label.

    Args:
        pairs: places of the true pairs, from a ranking without those of a filter file.
        k: labels of a document among which one counts as found, as many as are ranked at most.

    Raises:
        BadInput: k is below 1 or above that.
    """
    most = pairs.ranked.shape[1]
    if not 1 <= k <= most:
        raise BadInput("k", f"expected 1 to {most} labels, found {k}", remedy="give for example 5")
    order = np.lexsort((pairs.places, pairs.labels))
    ranks = np.append(pairs.places[order] + 1, np.nan)
    true = np.bincount(pairs.labels, minlength=pairs.L)
    starts = np.where(true > 0, np.cumsum(true) - true, len(ranks) - 1)
    middle = np.where(true > 0, starts + (true - 1) // 2, len(ranks) - 1)  # the lower one of two
    return LabelErrors(
        true=true,
        found=np.bincount(pairs.labels[pairs.places < k], minlength=pairs.L),
        in_place=np.bincount(pairs.labels[~_missed(pairs)], minlength=pairs.L),
        given=np.bincount(pairs.ranked[_first(pairs)], minlength=pairs.L),
        typical=ranks[middle],
        best=ranks[starts],
    )


def confusions(pairs: Placed, most: int) -> list[Confusion]:
    """Pairs of a label that is missed and one in its place, those of most documents first.

    A document with r true labels that has a wrong one among its first r misses at least one of them. Each label that
    it misses so is taken as confused with each wrong one.

    Args:
        pairs: places of the true pairs, from a ranking without those of a filter file.
        most: pairs at most; of those of as many documents, the larger shares of the missed label's documents come
            first.
    """
    there, wrong = _missed(pairs), _first(pairs)
    hit = np.flatnonzero(pairs.places < pairs.ranked.shape[1])
    wrong[pairs.rows[hit], pairs.places[hit].astype(np.int64)] = False
    by_document = csr(np.nonzero(wrong)[0], pairs.ranked[wrong], (pairs.n, pairs.L))
    by_missed = CSR(csr(pairs.rows[there], pairs.labels[there], (pairs.n, pairs.L)).T)
    work = np.bincount(pairs.labels[there], np.diff(by_document.indptr)[pairs.rows[there]], minlength=pairs.L)
    true = np.bincount(pairs.labels, minlength=pairs.L)
    found: list[tuple[int, float, int, int]] = []
    for block in row_blocks(work.astype(np.int64)):
        common = (by_missed[block] @ by_document).tocoo()
        rows, counts = common.row + block.start, common.data.astype(np.int64)
        best = np.lexsort((common.col, rows, -counts / true[rows], -counts))[:most].tolist()
        found += [(-int(counts[i]), -float(counts[i] / true[rows[i]]), int(rows[i]), int(common.col[i])) for i in best]
    by_wrong = CSR(by_document.T)
    return [
        Confusion(i, j, -count, int(np.intersect1d(_row(by_missed, i), _row(by_wrong, j))[0]))
        for count, _, i, j in sorted(found)[:most]
    ]


def _first(pairs: Placed) -> BoolArray:
    """(n, K) which ranked labels are in place: among as many first ones as are true."""
    there: BoolArray = (np.arange(pairs.ranked.shape[1]) < pairs.relevant[:, None]) & (pairs.ranked >= 0)
    return there


def _missed(pairs: Placed) -> BoolArray:
    """(E,) which true pairs are not in place."""
    there: BoolArray = pairs.places >= pairs.relevant[pairs.rows]
    return there


def _row(matrix: CSR, i: int) -> IntArray:
    found: IntArray = matrix.indices[matrix.indptr[i] : matrix.indptr[i + 1]]
    return found
