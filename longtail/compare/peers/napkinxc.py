"""napkinXC."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
from scipy import sparse

from longtail.compare.peers.base import Given, Package, Ranking, Reads, padded


@dataclass(frozen=True)
class NapkinXC:
    """A napkinXC probabilistic label tree (Jasinska-Kobus et al., 2020), with its defaults, or one versus the rest."""

    reads: ClassVar[Sequence[Reads]] = ("features",)
    package: ClassVar[Package] = ("napkinxc", "napkinxc.models")
    fields: Sequence[str] = ("title",)
    loss: str = "log"
    cost: float = 10.0
    trees: int = 1
    one_versus_rest: bool = False
    seed: int = 0

    def __call__(self, given: Given, model: Path) -> Callable[[], Ranking]:
        """Train a tree, or a classifier a label over all documents."""
        from napkinxc.models import BR, PLT  # noqa: PLC0415

        y = given.matrix("targets")
        settings = {"loss": self.loss, "liblinear_c": self.cost, "seed": self.seed, "verbose": False}
        kind, own = (BR, {}) if self.one_versus_rest else (PLT, {"ensemble": self.trees})
        trained = kind(str(model), **settings, **own)
        trained.fit(given.matrix("train"), [row.tolist() for row in np.split(y.indices, y.indptr[1:-1])])

        def predict() -> Ranking:
            ranked = trained.predict_proba(given.matrix("test"), top_k=given.depth)
            pairs = np.array([pair for row in ranked for pair in row]).reshape(-1, 2)  # (E, 2): label, probability
            ends = np.cumsum([0, *map(len, ranked)])
            return padded(
                sparse.csr_matrix((pairs[:, 1], pairs[:, 0].astype(np.int64), ends), (len(ranked), y.shape[1]))
            )

        return predict
