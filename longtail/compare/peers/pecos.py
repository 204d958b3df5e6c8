"""PECOS."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from longtail.compare.peers.base import Given, Package, Ranking, Reads, padded


@dataclass(frozen=True)
class Pecos:
    """PECOS XR-Linear (Yu et al., 2022): linear rankers in a tree of labels, with its documented defaults."""

    reads: ClassVar[Sequence[Reads]] = ("features",)
    package: ClassVar[Package] = ("libpecos", "pecos.xmc.xlinear.model")
    fields: Sequence[str] = ("title",)
    beam: int = 10
    seed: int = 0

    def __call__(self, given: Given, model: Path) -> Callable[[], Ranking]:
        """Cluster the labels by the documents that have them, then train a ranker a node."""
        from pecos.xmc import Indexer, LabelEmbeddingFactory  # noqa: PLC0415
        from pecos.xmc.xlinear.model import XLinearModel  # noqa: PLC0415

        x, y = given.matrix("train"), given.matrix("targets")
        labels = LabelEmbeddingFactory.create(y, x, method="pifa")
        tree = Indexer.gen(labels, indexer_type="hierarchicalkmeans", seed=self.seed)
        trained = XLinearModel.train(x, y, C=tree)
        trained.save(str(model))
        return lambda: padded(trained.predict(given.matrix("test"), only_topk=given.depth, beam_size=self.beam))
