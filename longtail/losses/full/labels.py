"""The vectors of all labels, as the losses over all labels read them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from longtail.shards.rows import RowsHere


class LabelTable(Protocol):
    """(L, D) label vectors: a `longtail.modules.table.Table`, or `Encoded`.

    The losses of `longtail.losses.full.chunked` take a plain tensor for the latter.
    """

    @property
    def weight(self) -> Tensor:
        """The tensor that a gradient is for."""

    @property
    def rows_here(self) -> RowsHere | None:
        """Which rows there are, where a table is cut; None for all, or for those that a shard has encoded."""

    def __len__(self) -> int:
        """L."""

    def rows(self, ids: Tensor) -> Tensor:
        """The vectors of some labels, (U, D), in any order where gradients are off."""

    def blocks(self, size: int, /) -> Iterator[tuple[slice, Tensor]]:
        """The vectors of all labels, ``size`` at a time: which labels they are, and (size, D) or fewer vectors."""


@dataclass(frozen=True, slots=True)
class Encoded:
    """Label vectors that an encoder has just made, as a `LabelTable`.

    Attributes:
        weight: (L, D).
    """

    weight: Tensor
    rows_here: None = None

    def __len__(self) -> int:
        return len(self.weight)

    def rows(self, ids: Tensor) -> Tensor:
        """As of a `LabelTable`."""
        return self.weight.index_select(0, ids)

    def blocks(self, size: int, /) -> Iterator[tuple[slice, Tensor]]:
        """As of a `LabelTable`."""
        for start in range(0, len(self), size):
            part = slice(start, min(start + size, len(self)))
            yield part, self.weight[part]
