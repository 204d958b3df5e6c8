"""Which rows of a table are whose."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class RowsHere:
    """Which rows of a table of n rows a process has: those of its shards, one shard's behind another's.

    Row i is that of shard i mod V, which spreads labels that are next to each other.

    Attributes:
        length: n.
        count: V.
        own: the shards of this process.
    """

    length: int
    count: int
    own: range

    def ids(self, index: int) -> Tensor:
        """The rows of a shard, ascending."""
        return torch.arange(self.length)[index :: self.count]

    def part(self, index: int) -> slice:
        """Where the rows of one of the own shards are."""
        ends = list(accumulate((len(range(one, self.length, self.count)) for one in self.own), initial=0))
        at = index - self.own[0]
        return slice(ends[at], ends[at + 1])
