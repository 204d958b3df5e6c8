"""Ranked labels: what every search returns and every metric reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float32]
Float64Array = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]
AnyArray: TypeAlias = npt.NDArray[Any]


class Prediction(NamedTuple):
    """One ranked label of a text.

    Attributes:
        id: of the label, in [0, L).
        uid: its identifier in the data set, or an empty string.
        text: its title.
        score: higher is better; comparable within one text and one score kind.
    """

    id: int
    uid: str
    text: str
    score: float


@dataclass(frozen=True, slots=True)
class TopK:
    """The K best labels of each of Q queries, best first.

    Rows with fewer than K labels are padded with id -1 and score -inf. Where two labels score the same, the one with
    the lower id comes first, so that a ranking is a function of the scores alone.

    Attributes:
        ids: (Q, K) int64, labels in [0, L), or -1.
        scores: (Q, K) float32, not increasing along a row.
    """

    ids: IntArray
    scores: FloatArray

    def __post_init__(self) -> None:
        if self.ids.shape != self.scores.shape or self.ids.ndim != 2:
            raise ValueError(f"ids {self.ids.shape} and scores {self.scores.shape} must be one (Q, K) shape")

    @classmethod
    def nothing(cls, queries: int, k: int = 0) -> TopK:
        """Of so many queries, places for k labels, all of which are empty."""
        return cls(np.full((queries, k), -1, np.int64), np.full((queries, k), -np.inf, np.float32))

    @classmethod
    def stacked(cls, parts: Sequence[TopK]) -> TopK:
        """The labels of some queries, then those of others, and so on; at least one part, all with the same K."""
        return cls(np.concatenate([part.ids for part in parts]), np.concatenate([part.scores for part in parts]))

    def __len__(self) -> int:
        return int(self.ids.shape[0])

    @property
    def k(self) -> int:
        """Labels a query, K."""
        return int(self.ids.shape[1])

    def take(self, rows: IntArray) -> TopK:
        """Those of some queries, in their order."""
        return TopK(self.ids[rows], self.scores[rows])

    def first(self, k: int) -> TopK:
        """The k best of each row."""
        return TopK(self.ids[:, :k], self.scores[:, :k])


def rank(ids: IntArray, scores: FloatArray, k: int) -> TopK:
    """Rank (Q, C) candidates: the k best of each row, lower label first on a tie, candidates -1 never.

    Args:
        ids: (Q, C) int64 label ids; -1 marks an empty place. An id must not occur twice in a row.
        scores: (Q, C) float32; an entry of -inf is never ranked.
        k: places to fill; rows with fewer candidates are padded.
    """
    scores = np.where(ids < 0, -np.inf, scores).astype(np.float32, copy=False)
    order = np.lexsort((ids, -scores), axis=1)[:, :k]
    rows = np.arange(len(ids))[:, None]
    ranked_ids, ranked_scores = ids[rows, order], scores[rows, order]
    ranked_ids = np.where(np.isneginf(ranked_scores), -1, ranked_ids)
    missing = k - ranked_ids.shape[1]
    if missing > 0:
        ranked_ids = np.pad(ranked_ids, ((0, 0), (0, missing)), constant_values=-1)
        ranked_scores = np.pad(ranked_scores, ((0, 0), (0, missing)), constant_values=-np.inf)
    return TopK(ranked_ids.astype(np.int64, copy=False), ranked_scores)


def best_of(parts: Sequence[tuple[int, TopK]], k: int) -> TopK:
    """The k best labels of each query among those of several parts of the labels.

    Args:
        parts: of each, its first label, and what was found in it, where labels count from 0.
        k: places to fill; rows with fewer labels are padded.
    """
    ids = [np.where(top.ids < 0, -1, top.ids + first) for first, top in parts]
    return rank(np.concatenate(ids, axis=1), np.concatenate([top.scores for _, top in parts], axis=1), k)
