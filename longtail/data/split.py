"""Documents and their labels."""

from __future__ import annotations

from dataclasses import dataclass

from longtail.data.sparse import CSR
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

    def take(self, rows: IntArray) -> Split:
        """The documents at ``rows``, with their targets and filtered pairs."""
        filtered = None if self.filtered is None else self.filtered[rows]
        return Split(self.documents.take(rows), self.targets[rows], filtered)
