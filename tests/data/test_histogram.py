from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest

from longtail.data.histogram import Bar, histogram


def test_bars_by_hand() -> None:
    assert histogram(np.array([1, 1, 3])) == (Bar(1, 1, 2), Bar(2, 2, 0), Bar(3, 3, 1))
    assert histogram(np.array([0, 1, 2, 5, 6, 7]), wide=True) == (
        *(Bar(0, 0, 1), Bar(1, 1, 1)),
        *(Bar(2, 5, 2), Bar(6, 7, 2)),
    )
    assert histogram(np.zeros(0, np.int64)) == ()
    assert [Bar(2, 5, 0).name, Bar(1000, 1000, 0).name] == ["2-5", "1,000"]


@pytest.mark.parametrize(
    ("most", "wide"), [*product([1, 10, 30, 1000, 10**6], [None, True]), *product([1, 10, 300], [False])]
)
def test_bars_join_and_hold_everything(most: int, wide: bool | None) -> None:
    counts = np.random.default_rng(0).integers(0, most + 1, 500)
    bars = histogram(counts, wide=wide)
    assert bars[0].least <= counts.min()
    assert bars[-1].most == counts.max()
    assert bars[0].number
    assert bars[-1].number
    for one, following in pairwise(bars):
        assert one.most + 1 == following.least
    for one in bars:
        assert one.number == ((counts >= one.least) & (counts <= one.most)).sum()
    if wide is None:
        assert len(bars) <= 26
