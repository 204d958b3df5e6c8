"""Which labels the documents of a batch are scored against."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from longtail.batches.negatives import Mined
from longtail.data.sparse import CSR, gather
from longtail.topk import IntArray


@dataclass(frozen=True, slots=True)
class Pool:
    """The labels of a batch: positives of its documents, labels drawn at random, and hard negatives.

    What is a positive in the pool for one document is a negative for the others (in-batch negatives), except where it
    is true for them as well: `longtail.batches.batch.entries_in_pool` marks every true pair.

    A pool of no positives and nothing on top stands for every label: no (B, L) matrix is made of their targets, and
    the objective reads those of its documents as a list (`longtail.losses.full.targets`).

    Attributes:
        targets: (N, L) true pairs.
        positives: how many positives of each document are drawn, with replacement; None takes all of them.
        random: how many labels are drawn from all L, uniformly, on top.
        mined: draws hard negatives of the batch's documents, on top.
        size: the most labels of a pool (the thesis, section 2.3.2, whose code cuts and fills it). Positives come first,
            then hard negatives, then those positives that were not drawn, then labels at random; of each, what most
            documents of the batch ask for comes first. None takes whatever was drawn, and no more.
    """

    targets: CSR
    positives: int | None = 1
    random: int = 0
    mined: Mined | None = None
    size: int | None = None

    @property
    def every_label(self) -> bool:
        """Whether it draws nothing, and so stands for every label."""
        return self.positives == 0 and self.random == 0 and self.mined is None

    def __call__(self, rows: IntArray, generator: np.random.Generator) -> IntArray:
        """The pool of a batch: (P,) label ids, ascending, each once."""
        extra = generator.integers(self.targets.shape[1], size=self.random)
        positives = self._positives(rows, generator)
        hard = np.zeros(0, np.int64) if self.mined is None else self.mined(rows, generator)
        if self.size is None:
            return np.unique(np.concatenate([positives, hard, extra])).astype(np.int64)
        return _first([positives, hard, self._every_positive(rows), extra], self.size)

    def _every_positive(self, rows: IntArray) -> IntArray:
        positions, _ = gather(self.targets.indptr, rows)
        return np.asarray(self.targets.indices[positions], np.int64)

    def _positives(self, rows: IntArray, generator: np.random.Generator) -> IntArray:
        if self.positives is None:
            return self._every_positive(rows)
        starts, ends = self.targets.indptr[rows], self.targets.indptr[rows + 1]
        some = np.flatnonzero(ends > starts)
        starts, counts = starts[some, None], (ends - starts)[some, None]
        draws = generator.random((len(some), self.positives))
        positions = (starts + (draws * counts).astype(np.int64)).ravel()  # (B * positives,)
        return np.asarray(self.targets.indices[positions], np.int64)


def _first(parts: Sequence[IntArray], most: int) -> IntArray:
    """The first distinct ids of some parts, ascending; within a part, what is there most often comes first."""
    counted = [np.unique(part, return_counts=True) for part in parts]
    ids = np.concatenate([found[np.argsort(-counts, kind="stable")] for found, counts in counted])
    _, places = np.unique(ids, return_index=True)
    return np.sort(ids[np.sort(places)[:most]]).astype(np.int64)
