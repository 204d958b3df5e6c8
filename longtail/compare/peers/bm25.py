"""BM25."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from longtail.compare.peers.base import Given, Package, Ranking, Reads


@dataclass(frozen=True)
class BM25:
    """BM25 of the labels' texts with the document as the query (bm25s, its defaults): nothing is learned."""

    reads: ClassVar[Sequence[Reads]] = ("words",)
    package: ClassVar[Package] = ("bm25s", "bm25s")
    fields: Sequence[str] = ("title",)

    def __call__(self, given: Given, model: Path) -> Callable[[], Ranking]:
        """Index the labels."""
        import bm25s  # noqa: PLC0415

        labels = given.texts("labels")
        index = bm25s.BM25()
        index.index(bm25s.tokenize(labels, show_progress=False), show_progress=False)
        index.save(model, show_progress=False)

        def predict() -> Ranking:
            queries = bm25s.tokenize(given.texts("test"), show_progress=False)
            ids, scores = index.retrieve(queries, k=min(given.depth, len(labels)), show_progress=False)
            return Ranking(np.where(scores > 0, ids, -1), scores)

        return predict
