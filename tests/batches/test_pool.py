"""Which labels a batch is scored against."""

from __future__ import annotations

import numpy as np
import pytest

from longtail.batches.batch import pairs_in_pool
from longtail.batches.negatives import Mined
from longtail.batches.pool import Pool
from longtail.data.sparse import csr, csr_of_lists
from longtail.data.split import Split
from longtail.data.texts import Texts

TARGETS = csr_of_lists([[0, 7], [2], [], [3, 4, 5], [7]], 10)
ROWS = np.array([3, 2, 0])


def draw(pool: Pool, rows: np.ndarray = ROWS, seed: int = 0) -> list[int]:
    ids = pool(rows, np.random.default_rng(seed))
    assert ids.dtype == np.int64
    assert (np.diff(ids) > 0).all()
    return ids.tolist()


def test_all_positives_by_hand() -> None:
    assert draw(Pool(TARGETS, positives=None)) == [0, 3, 4, 5, 7]
    assert draw(Pool(TARGETS, positives=None), np.array([4, 0])) == [0, 7]


def test_no_positives_are_drawn_where_none_are_asked_for() -> None:
    assert draw(Pool(TARGETS, positives=0)) == []


@pytest.mark.parametrize("seed", range(10))
def test_one_positive_of_each_document_that_has_one(seed: int) -> None:
    ids = draw(Pool(TARGETS, positives=1), seed=seed)
    assert len(ids) == 2
    assert ids[0] in {0, 3, 4, 5}
    assert len(set(ids) & {0, 7}) == 1
    assert len(set(ids) & {3, 4, 5}) == 1


def test_every_positive_is_drawn_equally_often() -> None:
    rng = np.random.default_rng(0)
    pool = Pool(TARGETS, positives=1)
    counts = np.bincount(np.concatenate([pool(np.array([3]), rng) for _ in range(3000)]), minlength=10)
    assert counts[[3, 4, 5]].sum() == 3000
    np.testing.assert_allclose(counts[[3, 4, 5]], 1000, atol=100)


def test_several_positives_are_drawn_with_replacement() -> None:
    pool = Pool(TARGETS, positives=2)
    drawn = {tuple(draw(pool, np.array([0]), seed)) for seed in range(30)}
    assert drawn == {(0,), (7,), (0, 7)}
    assert draw(pool, np.array([1])) == [2]


def test_random_labels_come_on_top_from_all_labels() -> None:
    assert draw(Pool(TARGETS, positives=0, random=500)) == list(range(10))
    for seed in range(10):
        ids = draw(Pool(TARGETS, positives=None, random=3), seed=seed)
        assert {0, 3, 4, 5, 7} <= set(ids)
        assert len(ids) <= 8


def test_documents_without_labels_draw_no_positive() -> None:
    assert draw(Pool(TARGETS, positives=1), np.array([2, 2])) == []
    assert draw(Pool(TARGETS, positives=None), np.array([2])) == []


def test_the_same_generator_gives_the_same_pool() -> None:
    pool = Pool(TARGETS, positives=1, random=4)
    assert draw(pool, seed=5) == draw(pool, seed=5)
    assert len({tuple(draw(pool, seed=seed)) for seed in range(10)}) > 1


SHARED = csr_of_lists([[0, 1, 2], [1, 2], [2, 3], [4]], 8)
ALL = np.arange(4)


def test_a_pool_that_is_too_small_keeps_what_most_documents_ask_for() -> None:
    """Label 2 is true for three documents, label 1 for two; of the others the first come first."""
    assert [draw(Pool(SHARED, None, size=size), ALL) for size in (1, 2, 3)] == [[2], [1, 2], [0, 1, 2]]
    assert draw(Pool(SHARED, None, size=100), ALL) == [0, 1, 2, 3, 4]


def test_hard_negatives_come_before_positives_that_were_not_drawn_and_these_before_random_labels() -> None:
    mined = Mined(4, 1)
    mined.renew(np.array([[5], [6], [6], [-1]]))
    single = csr_of_lists([[0]] * 4, 8)  # what is drawn is known
    assert draw(Pool(single, 1, 50, mined, 2), ALL) == [0, 6]
    assert draw(Pool(single, 1, 50, mined, 3), ALL) == [0, 5, 6]
    assert len(draw(Pool(single, 1, 50, mined, 5), ALL)) == 5
    rows = np.array([0])
    for seed in range(10):
        mined.renew(np.array([[5]] * 4))
        assert set(draw(Pool(SHARED, 1, 0, mined, 2), rows, seed)) & {5}, "before the two that were not drawn"
        assert draw(Pool(SHARED, 1, 0, mined, 4), rows, seed) == [0, 1, 2, 5]
        assert draw(Pool(SHARED, 1, 50, None, 3), rows, seed) == [0, 1, 2], "filled with positives"


def test_each_document_finds_its_own_labels_in_a_pool_of_all_of_theirs() -> None:
    targets, mined = csr_of_lists([[3, 5], [], [5], [8]], 9), Mined(4, 1)
    mined.renew(np.array([[0, -1], [7, 5], [3, 0], [2, 2]]))
    pool, rows = Pool(targets, None, random=100, mined=mined, own=True), np.array([2, 0, 1])
    ids = pool(rows, np.random.default_rng(0))
    assert ids.tolist() == [0, 3, 5, 7]  # none at random
    assert pool.places(rows, ids).tolist() == [[2, -1, 1, 0], [1, 2, 0, -1], [-1, -1, 3, 2]]
    drawn = np.array([0, 5, 7])  # one positive of row 0 was not drawn
    assert pool.places(rows, drawn).tolist() == [[1, -1, -1, 0], [-1, 1, 0, -1], [-1, -1, 2, 1]]
    assert pool.places(rows, np.zeros(0, np.int64)).shape == (3, 0)


def test_targets_and_mask_of_own_labels_are_those_of_the_whole_pool() -> None:
    generator = np.random.default_rng(0)
    dense, hidden = (generator.random((6, 13)) < 0.3 for _ in range(2))
    lists = [np.flatnonzero(row).tolist() for row in dense], [np.flatnonzero(row).tolist() for row in hidden]
    split = Split(Texts.of(list("abcdef")), *(csr_of_lists(list(rows), 13) for rows in lists))
    rows, ids = np.array([4, 1, 0]), np.array([0, 2, 3, 7, 12])
    places = np.array([[0, -1, 4], [3, 2, 1], [-1, -1, -1]])
    targets, mask = pairs_in_pool(split, rows, ids, places)
    all_targets, all_mask = pairs_in_pool(split, rows, ids)
    for i in range(3):
        for j, place in enumerate(places[i]):
            assert targets[i, j] == (all_targets[i, place] if place >= 0 else 0)
            assert mask[i, j] == (place >= 0 and all_mask[i, place])


def test_positives_are_drawn_by_their_targets() -> None:
    rows, labels, targets = np.array([0, 0, 0, 2]), np.array([1, 4, 6, 3]), np.array([1, 0.25, 0.75, 0.1], np.float32)
    pool = Pool(csr(rows, labels, (3, 9), targets), positives=1)
    draws = [draw(pool, np.array([0]), seed)[0] for seed in range(4000)]
    shares = np.bincount(draws, minlength=9) / 4000
    np.testing.assert_allclose(shares[[1, 4, 6]], [0.5, 0.125, 0.375], atol=0.04)  # five deviations
    assert draw(pool, np.array([1])) == []
    assert draw(pool, np.array([2, 1])) == [3]
