"""The product of two scores: not an inner product, so it is searched by one of them and scored by both."""

from __future__ import annotations

import numpy as np

from longtail.data.sparse import CSR
from longtail.search.base import Index
from longtail.search.fusion import pair_scores
from longtail.topk import FloatArray, TopK, rank

SHORTLIST = 200  # labels of each query that are scored by both, as many as NGAME's inference keeps


class Product:
    """Ranks by ``max(0, <x, z>) max(0, <x, w>)`` the labels that <x, w> ranks first. OAK, section 4.2.

    Args:
        by_classifier: the index of the vectors w.
        text: (L, D) the vectors z.
    """

    def __init__(self, by_classifier: Index, text: FloatArray) -> None:
        self._by_classifier, self._text = by_classifier, text

    def search(self, queries: FloatArray, k: int, *, exclude: CSR | None = None) -> TopK:
        """The k best labels of each of (Q, D) queries, without those of the (Q, L) pairs to exclude."""
        top = self._by_classifier.search(queries, max(k, SHORTLIST), exclude=exclude)
        by_text = pair_scores(queries, self._text, top.ids)
        return rank(top.ids, np.maximum(by_text, 0) * np.maximum(top.scores, 0), k)
