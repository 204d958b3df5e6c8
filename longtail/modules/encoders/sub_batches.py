"""Where a batch of texts is cut so that short ones do not pay for long ones."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from torch import Tensor

from longtail.data.sparse import offsets_of
from longtail.topk import IntArray

# What one more sub-batch costs, in tokens: with MiniLM-L6 on one core, 8 to 128 are equally good; more cores want more.
OVERHEAD = {"cpu": 128}
_OVERHEAD_ELSEWHERE = 16_384  # a GPU takes as long for one token as for thousands


def by_length(mask: Tensor, at_most: int | None = None) -> tuple[Tensor, IntArray, IntArray]:
    """B rows of tokens in the order of their length, and where to cut them on the device that they are on.

    Args:
        mask: (B, T), False on padding.
        at_most: rows of a part; any number if left out.

    Returns:
        (B,) the rows in that order, (B,) their lengths, ascending, and where to cut them, as `cuts` says, and further
        where parts are larger.
    """
    lengths = mask.sum(1)
    order = lengths.argsort(stable=True)
    ascending = lengths[order].cpu().numpy()
    ends = cuts(ascending, OVERHEAD.get(mask.device.type, _OVERHEAD_ELSEWHERE))
    if at_most is not None:
        ends = np.unique(np.concatenate([ends, *(np.arange(*span, at_most) for span in pairwise(ends))]))
    return order, ascending, ends


def cuts(lengths: IntArray, overhead: int) -> IntArray:
    """Where to cut rows into sub-batches so that the padded tokens, plus a fixed cost a sub-batch, are fewest.

    The sum over sub-batches of (rows x longest row + overhead) is minimised exactly, by dynamic programming over the
    U distinct lengths, in O(U^2).

    Args:
        lengths: (B,) tokens a row, ascending, at least one row.
        overhead: what a sub-batch costs besides its tokens, in tokens.

    Returns:
        (S + 1,) ascending row numbers from 0 to B; sub-batch s holds the rows from the s-th to the next.
    """
    widths, counts = np.unique(lengths, return_counts=True)
    ends = offsets_of(counts)
    best, before = np.zeros(len(ends)), np.zeros(len(ends), np.int64)
    for last in range(1, len(ends)):
        costs = best[:last] + (ends[last] - ends[:last]) * widths[last - 1] + overhead
        before[last] = costs.argmin()
        best[last] = costs[before[last]]
    chosen = [len(ends) - 1]
    while chosen[-1]:
        chosen.append(int(before[chosen[-1]]))
    return ends[chosen[::-1]]
