"""Which labels the documents of a batch are scored against."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from longtail.batches.negatives import Mined
from longtail.data.sparse import CSR, drawn_entries, gather, padded
from longtail.topk import IntArray


@dataclass(frozen=True, slots=True)
class Pool:
    """The labels of a batch: positives of its documents, labels drawn at random, and hard negatives.

    What is a positive in the pool for one document is a negative for the others (in-batch negatives), except where it
    is true for them as well: `longtail.batches.batch.entries_in_pool` marks every true pair.

    A pool of no positives and nothing on top stands for every label: no (B, L) matrix is made of their targets, and
    the objective reads those of its documents as a list (`longtail.losses.full.targets`).

    Where each document meets labels of its ``own`` alone, the pool is what any of them meets: its true labels, all or
    as many as are drawn, and the whole of its list. This is the shortlist of Astec, DECAF, ECLARE and InceptionXML.

    Attributes:
        targets: (N, L) true pairs.
        positives: how many positives of each document are drawn, by target and with replacement; None takes all.
        random: how many labels are drawn from all L, uniformly, on top.
        mined: draws hard negatives of the batch's documents, on top.
        size: the most labels of a pool (the thesis, section 2.3.2, whose code cuts and fills it). Positives come first,
            then hard negatives, then those positives that were not drawn, then labels at random; of each, what most
            documents of the batch ask for comes first. None takes whatever was drawn, and no more.
        own: whether each document meets its own labels alone (`places`); none are drawn then but positives.
    """

    targets: CSR
    positives: int | None = 1
    random: int = 0
    mined: Mined | None = None
    size: int | None = None
    own: bool = False

    @property
    def every_label(self) -> bool:
        """Whether it draws nothing, and so stands for every label."""
        return self.positives == 0 and self.random == 0 and self.mined is None

    def __call__(self, rows: IntArray, generator: np.random.Generator) -> IntArray:
        """The pool of a batch: (P,) label ids, ascending, each once."""
        extra = generator.integers(self.targets.shape[1], size=0 if self.own else self.random)
        positives = self._positives(rows, generator)
        hard = np.zeros(0, np.int64)
        if self.mined is not None:
            lists = self.mined.lists(rows)
            hard = lists[lists >= 0] if self.own else self.mined(rows, generator)
        if self.size is None:
            return np.unique(np.concatenate([positives, hard, extra])).astype(np.int64)
        return _first([positives, hard, self._every_positive(rows), extra], self.size)

    def _every_positive(self, rows: IntArray) -> IntArray:
        positions, _ = gather(self.targets.indptr, rows)
        return np.asarray(self.targets.indices[positions], np.int64)

    def places(self, rows: IntArray, label_ids: IntArray) -> IntArray:
        """Where in a pool of its own labels each document finds them.

        Args:
            rows: (B,) documents.
            label_ids: (P,) the pool, ascending.

        Returns:
            (B, S) int64, the labels that are true first, then those of the list; -1 where there are none.
        """
        if self.mined is None or not len(label_ids):
            return np.zeros((len(rows), 0), np.int64)
        ids = np.concatenate([true_labels(self.targets, rows), self.mined.lists(rows)], axis=1)  # (B, S)
        at = np.minimum(np.searchsorted(label_ids, ids), len(label_ids) - 1)
        places: IntArray = np.where((ids >= 0) & (label_ids[at] == ids), at, -1)
        return places

    def _positives(self, rows: IntArray, generator: np.random.Generator) -> IntArray:
        if self.positives is None:
            return self._every_positive(rows)
        some = rows[self.targets.indptr[rows + 1] > self.targets.indptr[rows]]
        draws = generator.random((len(some), self.positives))
        positions = drawn_entries(self.targets, some, draws).ravel()  # (B * positives,)
        return np.asarray(self.targets.indices[positions], np.int64)


def true_labels(targets: CSR, rows: IntArray) -> IntArray:
    """(B, T) the labels that are true for each of some rows of (N, L), padded with -1."""
    positions, counts = gather(targets.indptr, rows)
    return padded(targets.indices[positions], counts)


def _first(parts: Sequence[IntArray], most: int) -> IntArray:
    """The first distinct ids of some parts, ascending; within a part, what is there most often comes first."""
    counted = [np.unique(part, return_counts=True) for part in parts]
    ids = np.concatenate([found[np.argsort(-counts, kind="stable")] for found, counts in counted])
    _, places = np.unique(ids, return_index=True)
    return np.sort(ids[np.sort(places)[:most]]).astype(np.int64)
