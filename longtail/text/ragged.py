"""Token tables: the tokens of many texts, row after row in flat arrays that can be memory-mapped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
import numpy.typing as npt

from longtail.arrays import load_arrays, save_arrays
from longtail.data.sparse import gather, offsets_of
from longtail.topk import FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class Ragged:
    """Rows of differing length.

    Attributes:
        ids: (F,) int32 token or feature ids, row after row.
        offsets: (n + 1,) int64; row i holds ``ids[offsets[i]:offsets[i + 1]]``.
        weights: (F,) float32, or (0,) where the tokeniser gives none.
    """

    ids: npt.NDArray[np.int32]
    offsets: IntArray
    weights: FloatArray

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @classmethod
    def of(cls, rows: Sequence[Sequence[int]]) -> Ragged:
        """A table of rows of ids, without weights."""
        offsets = np.cumsum([0, *map(len, rows)], dtype=np.int64)
        ids = np.fromiter(chain.from_iterable(rows), np.int32, int(offsets[-1]))
        return cls(ids, offsets, np.zeros(0, np.float32))

    @classmethod
    def concatenated(cls, parts: Sequence[Ragged]) -> Ragged:
        """One table of all rows of the parts, in order."""
        ends = np.cumsum([0, *(len(part.ids) for part in parts)])
        offsets = [part.offsets[1:] + end for part, end in zip(parts, ends, strict=False)]
        return cls(
            np.concatenate([np.zeros(0, np.int32), *(part.ids for part in parts)]),
            np.concatenate([np.zeros(1, np.int64), *offsets]),
            np.concatenate([np.zeros(0, np.float32), *(part.weights for part in parts)]),
        )

    def take(self, rows: IntArray) -> Ragged:
        """The rows at ``rows`` (any order, repeats allowed)."""
        positions, counts = gather(self.offsets, rows)
        offsets = offsets_of(counts)
        weights = self.weights[positions] if len(self.weights) else np.zeros(0, np.float32)
        return Ragged(self.ids[positions], offsets, weights)

    def repeated(self, n: int) -> Ragged:
        """A table of n rows: these, again and again."""
        return self.take(np.resize(np.arange(len(self)), n))

    def save(self, folder: Path) -> None:
        """Write the table into a new folder, which appears whole or not at all."""
        save_arrays(folder, {name: getattr(self, name) for name in self.__slots__})

    @classmethod
    def load(cls, folder: Path) -> Ragged:
        """Open a saved table, memory-mapped and read-only.

        Raises:
            BadInput: it is not what was saved.
        """
        return cls(*load_arrays(folder, cls.__slots__, mapped=True))
