"""What training says of a text that is itself a label: which labels go with it.

Where labels are documents too (pages and related pages, products and products), a new text may be a label that training
documents have. A text is known again by its key, without a search.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse

from longtail.data.sparse import CSR, csr, row_of_entry, widened
from longtail.search.keys import marks_of
from longtail.topk import AnyArray, FloatArray, IntArray

ARRAYS = ("marks", "related", "related_offsets", "shares")  # of what is saved


@dataclass(frozen=True, slots=True)
class Related:
    """R texts, and how much each of L labels goes with them.

    Attributes:
        marks: (R,) int64, those of the texts' keys (`marks_of`), ascending, each once.
        shares: (R, L) CSR in (0, 1].
    """

    marks: IntArray
    shares: CSR

    @classmethod
    def of(cls, keys: FloatArray, shares: CSR) -> Related:
        """Those of (n, W) unit rows that something goes with, by (n, L) shares; a text of zeros is none.

        Texts of equal keys are one, with the larger shares.
        """
        known = np.flatnonzero(keys.any(1) & (np.diff(shares.indptr) > 0))
        return cls._merged(marks_of(keys[known]), CSR(shares[known]))

    @classmethod
    def _merged(cls, marks: IntArray, shares: CSR) -> Related:
        marks, places = np.unique(marks, return_inverse=True)
        rows = places[row_of_entry(shares)]
        return cls(marks, csr(rows, shares.indices, (len(marks), shares.shape[1]), shares.data))

    def __getitem__(self, rows: IntArray | slice) -> Related:
        """What goes with the same texts, of some labels."""
        return replace(self, shares=CSR(self.shares[:, rows]))

    def followed_by(self, other: Related) -> Related:
        """The texts of both, over the labels of both."""
        both = CSR(sparse.block_diag([self.shares, other.shares], format="csr"))
        return self._merged(np.concatenate([self.marks, other.marks]), both)

    def over(self, labels: int) -> Related:
        """The same texts over so many labels, of which nothing is known of those on the right."""
        return replace(self, shares=widened(self.shares, labels))

    def of_new(self, labels: int) -> Related:
        """What is known of so many other labels: nothing."""
        return Related(self.marks[:0], csr(self.marks[:0], self.marks[:0], (0, labels)))

    def places(self, keys: FloatArray) -> tuple[IntArray, IntArray]:
        """Which of (n, W) unit rows are texts that are known here, (m,), and where each of these stands, (m,)."""
        marks = marks_of(keys)
        places = np.searchsorted(self.marks, marks)
        known = np.flatnonzero(places < len(self.marks))
        known = known[self.marks[places[known]] == marks[known]]
        return known, places[known]

    def votes(self, keys: FloatArray) -> CSR:
        """(n, L) the shares of the texts that (n, W) unit rows are; nothing in the row of a text that is none."""
        known, places = self.places(keys)
        ends, found = np.zeros(len(keys) + 1, np.int64), self.shares[places]
        ends[known + 1] = np.diff(found.indptr)
        return CSR((found.data, found.indices, np.cumsum(ends)), shape=(len(keys), self.shares.shape[1]))

    def arrays(self) -> dict[str, AnyArray]:
        """What a file keeps, by name."""
        labels, offsets = self.shares.indices.astype(np.int64), self.shares.indptr.astype(np.int64)
        return dict(zip(ARRAYS, (self.marks, labels, offsets, self.shares.data), strict=True))

    @classmethod
    def of_arrays(cls, found: Mapping[str, AnyArray], labels: int) -> Related:
        """What `arrays` gave, of L labels."""
        marks, columns, offsets, shares = (found[name] for name in ARRAYS)
        return cls(marks, CSR((shares, columns, offsets), shape=(len(marks), labels)))
