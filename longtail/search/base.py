"""What an index is."""

from __future__ import annotations

from typing import Protocol

from longtail.data.sparse import CSR
from longtail.topk import FloatArray, TopK


class Index(Protocol):
    """Label vectors that can be asked for those nearest to a query by dot product."""

    def search(self, queries: FloatArray, k: int) -> TopK:
        """The k best labels of each of (Q, D) queries; a row with fewer is padded with -1 and -inf."""
        ...


class Ranker(Protocol):
    """Ranks L labels for queries, and can leave pairs out; its scores need not be inner products."""

    def search(self, queries: FloatArray, k: int, *, exclude: CSR | None = None) -> TopK:
        """The k best labels of each of (Q, W) queries, without those of the (Q, L) pairs to exclude."""
        ...
