"""How counts are spread: labels a document, documents a label, words a text."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from longtail.topk import IntArray

_NARROW = 24  # bars of one count each at most; where counts spread further, bars widen
_FACTORS = (1, 2, 5)  # of a power of ten, at which wide bars end


@dataclass(frozen=True, slots=True)
class Bar:
    """How many things have a count from ``least`` to ``most``, both included."""

    least: int
    most: int
    number: int

    @property
    def name(self) -> str:
        """The counts, for people."""
        return f"{self.least:,}" if self.least == self.most else f"{self.least:,}-{self.most:,}"


def histogram(counts: IntArray, *, wide: bool | None = None) -> tuple[Bar, ...]:
    """Bars that hold all counts, least first; the first and the last one are not empty.

    Args:
        counts: (n,) int64, none below 0.
        wide: bars of 0, 1, 2 to 5, 6 to 10, 11 to 20 and so on; otherwise one a count, and one for the hundredth of
            the largest. Left out, it is wide where that would be more than 24 bars.
    """
    if not len(counts):
        return ()
    starts = _starts(counts, wide=wide)
    of_count = np.searchsorted(starts, counts, side="right") - 1
    numbers = np.bincount(of_count, minlength=len(starts)).tolist()
    ends = [*(starts[1:] - 1).tolist(), int(counts.max())]
    return tuple(Bar(*bar) for bar in zip(starts.tolist(), ends, numbers, strict=True))


def _starts(counts: IntArray, *, wide: bool | None) -> IntArray:
    """The least count of each bar."""
    least, most, usual = int(counts.min()), int(counts.max()), int(np.percentile(counts, 99))
    if wide or (wide is None and usual - least >= _NARROW):
        ends = [0, *(factor * 10**power for power in range(len(str(most))) for factor in _FACTORS)]
        starts = np.unique([0, *(end + 1 for end in ends)])
        starts = starts[starts != 3]  # 2 to 5 is one bar
    else:
        starts = np.arange(least, min(usual + 1, most) + 1)
    first, last = np.searchsorted(starts, [least, most], side="right") - 1
    return starts[first : last + 1].astype(np.int64)
