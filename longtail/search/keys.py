"""The documents that a memory asks: their vectors, a search among them, and their titles where these are known."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import torch

from longtail.data.sparse import csr
from longtail.data.texts import Strings
from longtail.search.exact import Exact
from longtail.topk import FloatArray, IntArray, TopK

NEIGHBOURS = 50  # documents that are asked, K


def keys_of(vectors: FloatArray, columns: slice | IntArray) -> FloatArray:
    """Some columns of n encoded texts, (n, W), as unit rows; a text of zeros stays one."""
    chosen = np.ascontiguousarray(vectors[:, columns])
    keys: FloatArray = chosen / np.maximum(np.linalg.norm(chosen, axis=1, keepdims=True), np.float32(1e-12))
    return keys


def marks_of(keys: FloatArray) -> IntArray:
    """(M,) int64, the same for (M, W) unit rows that are equal but for rounding, and another for others.

    Four random projections are rounded to 16 bits each. Two rows at a distance of 0.01 share all four once in some ten
    million times; rows that differ in their last bits are told apart once in some hundred.
    """
    directions = np.random.default_rng(0).normal(size=(keys.shape[1], 4)).astype(np.float32)
    rounded = np.rint(2048 * np.clip(keys @ directions, -15, 15)).astype(np.int16)  # (M, 4)
    marks: IntArray = rounded.view(np.int64)[:, 0]
    return marks


class Keys:
    """M documents, and a search among them that is made when it is first asked.

    Args:
        vectors: (M, W) float32 unit rows.
        device: where the search runs.
        titles: of the first documents, as many as are known; those of all are mostly kept with a run.
    """

    def __init__(self, vectors: FloatArray, device: torch.device, titles: Strings | None = None) -> None:
        self.vectors, self.device, self.titles = vectors, device, titles
        self._made: Exact | None = None

    def take(self, rows: IntArray) -> Keys:
        """The documents in some ascending rows."""
        known = self.titles and self.titles.take(rows[rows < len(self.titles)])
        return Keys(self.vectors[rows], self.device, known)

    def followed_by(self, vectors: FloatArray, titles: Strings | None = None) -> Keys:
        """These documents, and then others."""
        known = self.titles
        if known is not None and titles is not None and len(known) == len(self.vectors):
            known = known.followed_by(titles)
        return Keys(np.concatenate([self.vectors, vectors]), self.device, known)

    def title(self, document: int) -> str | None:
        """The title of a document, where it is known."""
        return self.titles[document] if self.titles and document < len(self.titles) else None

    @cached_property
    def marks(self) -> IntArray:
        """Those of the documents (`marks_of`)."""
        return marks_of(self.vectors)

    def nearest(self, queries: FloatArray, gone: IntArray) -> TopK:
        """The nearest documents to each of (Q, W) queries, but for the (d,) documents that are gone."""
        if self._made is None:
            self._made = Exact(self.vectors, device=self.device)
        n, d = len(queries), len(gone)
        exclude = csr(np.repeat(np.arange(n), d), np.tile(gone, n), (n, len(self.vectors))) if d else None
        return self._made.search(queries, NEIGHBOURS, exclude=exclude)
