"""Hard negatives: what is drawn comes from the document's own list, each entry equally often."""

from __future__ import annotations

import numpy as np

from longtail.batches.negatives import Mined
from longtail.batches.pool import Pool
from longtail.data.sparse import csr_of_lists

LISTS = np.array([[10, 11, 12], [20, -1, -1], [-1, -1, -1], [40, 41, -1]])  # the tens digit names the document


def test_it_starts_empty() -> None:
    assert Mined(4, 2)(np.array([0, 3]), np.random.default_rng(0)).tolist() == []


def test_every_document_draws_from_its_own_list() -> None:
    mined = Mined(4, 2)
    mined.renew(LISTS)
    for seed in range(20):
        drawn = mined(np.array([3, 1, 2]), np.random.default_rng(seed)).tolist()
        assert len(drawn) == 4  # two a document, none for the empty list
        assert set(drawn[:2]) <= {40, 41}
        assert drawn[2:] == [20, 20]


def test_every_entry_is_drawn_equally_often() -> None:
    mined = Mined(4, 1)
    mined.renew(LISTS)
    rng = np.random.default_rng(0)
    drawn = np.concatenate([mined(np.array([0]), rng) for _ in range(3000)])
    np.testing.assert_allclose(np.bincount(drawn)[10:], 1000, atol=100)


def test_a_pool_holds_them_on_top_of_the_positives() -> None:
    mined = Mined(4, 3)
    targets = csr_of_lists([[0], [1], [2], [3]], 50)
    pool = Pool(targets, positives=None, mined=mined)
    assert pool(np.array([1, 2]), np.random.default_rng(0)).tolist() == [1, 2]
    mined.renew(LISTS)
    assert pool(np.array([1, 2]), np.random.default_rng(0)).tolist() == [1, 2, 20]


def test_a_checkpoint_gives_the_same_draws() -> None:
    mined, other = Mined(4, 2), Mined(4, 2)
    mined.renew(LISTS)
    other.load_state_dict(mined.state_dict())
    rows = np.array([0, 3])
    assert (mined(rows, np.random.default_rng(1)) == other(rows, np.random.default_rng(1))).all()
