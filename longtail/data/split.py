"""Documents and their labels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from longtail.data.sparse import CSR, stacked
from longtail.data.texts import Texts
from longtail.topk import IntArray


@dataclass(frozen=True, slots=True)
class Split:
    """n documents and their labels out of L.

    Attributes:
        documents: n texts.
        targets: (n, L) CSR of ones: the relevant labels of each document.
        filtered: (n, L) CSR of ones: pairs that are neither rewarded nor penalised (identity and reciprocal pairs),
            in training and in evaluation; None where the data set has no filter file.
    """

    documents: Texts
    targets: CSR
    filtered: CSR | None = None

    def __len__(self) -> int:
        return len(self.documents)

    @property
    def known(self) -> CSR:
        """(n, L) the pairs that are no negatives: true ones, and filtered ones."""
        return self.targets if self.filtered is None else (self.targets + self.filtered).tocsr()

    def take(self, rows: IntArray) -> Split:
        """The documents at ``rows``, with their targets and filtered pairs."""
        filtered = None if self.filtered is None else self.filtered[rows]
        return Split(self.documents.take(rows), self.targets[rows], filtered)

    def followed_by(self, other: Split) -> Split:
        """These documents and then others; where either has a filter, both have."""
        filtered = None
        if self.filtered is not None or other.filtered is not None:
            filtered = stacked([self._filter(), other._filter()])
        documents = self.documents.followed_by(other.documents)
        return Split(documents, stacked([self.targets, other.targets]), filtered)

    def _filter(self) -> CSR:
        return CSR(self.targets.shape, dtype=np.float32) if self.filtered is None else self.filtered
