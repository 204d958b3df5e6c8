"""The nearest training documents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
from scipy import sparse

from longtail.compare.peers.base import BLOCK, Given, Package, Ranking, Reads, padded


@dataclass(frozen=True)
class Neighbours:
    """Labels of the nearest training documents by the cosine of tf-idf features, added up with the cosines."""

    reads: ClassVar[Sequence[Reads]] = ("features",)
    package: ClassVar[Package] = None
    fields: Sequence[str] = ("title",)
    neighbours: int = 20

    def __call__(self, given: Given, model: Path) -> Callable[[], Ranking]:
        """Keep the training documents."""
        x, y = given.matrix("train"), given.matrix("targets")
        model.mkdir()
        sparse.save_npz(model / "documents.npz", x)
        sparse.save_npz(model / "targets.npz", y)

        def predict() -> Ranking:
            test, by_feature = given.matrix("test"), x.T.tocsr()
            count, parts = min(self.neighbours, x.shape[0]), []
            for start in range(0, test.shape[0], BLOCK):
                cosines = (test[start : start + BLOCK] @ by_feature).toarray()  # (b, N)
                near = np.argpartition(-cosines, count - 1, axis=1)[:, :count]  # (b, count)
                ends = np.arange(0, near.size + 1, count)
                weights = np.take_along_axis(cosines, near, axis=1).ravel()
                parts.append(sparse.csr_matrix((weights, near.ravel(), ends), cosines.shape) @ y)
            return padded(sparse.vstack(parts, format="csr"))

        return predict
