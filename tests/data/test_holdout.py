from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from longtail.data.dataset import Dataset
from longtail.data.holdout import (
    cut_as_test,
    rows_at_random,
    rows_to_hold_out,
    with_test_split,
    without_orphaned_labels,
)
from longtail.data.sparse import CSR, csr, csr_of_lists
from longtail.data.split import Split
from longtail.data.texts import Texts
from longtail.errors import BadInput


def lost(targets: CSR, out: np.ndarray) -> list[int]:
    """Labels of the rows held out that no other row has."""
    dense = targets.toarray() > 0
    kept = np.ones(len(dense), bool)
    kept[out] = False
    return [j for j in range(dense.shape[1]) if dense[out, j].any() and not dense[kept, j].any()]


def test_rows_with_a_label_of_their_own_stay_and_rows_without_labels_come_last() -> None:
    targets = csr_of_lists([[0], [1], [1], [], [0, 2]], 3)  # label 2 is of row 4 alone, so row 4 can keep label 0
    for seed in range(20):
        assert rows_to_hold_out(targets, 2, seed).tolist() in ([0, 1], [0, 2])
        assert 3 not in rows_to_hold_out(targets, 4, seed)
    assert {rows_to_hold_out(targets, 1, seed)[0] for seed in range(40)} == {0, 1, 2}


@pytest.mark.parametrize("seed", range(5))
def test_no_label_is_lost_while_it_can_be_helped(seed: int) -> None:
    rng = np.random.default_rng(seed)
    label = rng.zipf(1.5, 700) % 101
    targets = csr(rng.integers(0, 293, 700), label, (293, 101))
    out = rows_to_hold_out(targets, 60, seed)
    assert len(np.unique(out)) == 60
    assert (np.diff(out) > 0).all()
    assert lost(targets, out) == []


def test_more_rows_are_held_out_than_can_be_helped() -> None:
    targets = csr_of_lists([[0], [1], [2]], 3)
    assert len(rows_to_hold_out(targets, 2, 0)) == 2


def test_a_seed_draws_the_same_rows_again() -> None:
    targets = csr_of_lists([[0]] * 97, 1)
    np.testing.assert_array_equal(rows_to_hold_out(targets, 11, 3), rows_to_hold_out(targets, 11, 3))
    assert rows_to_hold_out(targets, 11, 3).tolist() != rows_to_hold_out(targets, 11, 4).tolist()


def test_each_row_is_drawn_about_as_often() -> None:
    targets = csr_of_lists([[0]] * 10, 1)
    counts = sum(np.bincount(rows_to_hold_out(targets, 3, seed), minlength=10) for seed in range(500))
    assert counts.min() > 110
    assert counts.max() < 190


@pytest.mark.parametrize("rows", [-1, 0, 3, 4])
def test_all_or_no_rows_cannot_be_held_out(rows: int) -> None:
    with pytest.raises(BadInput, match=f"cannot hold {rows} of 3 rows out; give a number from 1 to 2"):
        rows_to_hold_out(csr_of_lists([[0]] * 3, 1), rows, 0)


def test_random_rows_are_a_fair_sample() -> None:
    counts = sum(np.bincount(rows_at_random(10, 3, seed), minlength=10) for seed in range(500))
    assert counts.sum() == 1500
    assert counts.min() > 110  # 150 expected, standard deviation 10
    assert rows_at_random(5, 5, 0).tolist() == [0, 1, 2, 3, 4]
    assert rows_at_random(5, 0, 0).tolist() == []


def test_documents_with_nothing_left_to_find_are_not_held_out() -> None:
    """Items 0 to 3, each a label, too: 0 and 1 name each other, as do 0 and 2, and 3 names nothing."""
    items = [{"uid": str(i), "title": f"t{i}"} for i in range(4)]
    pairs = csr_of_lists([[1, 2], [0], [0, 3], []], 4)
    whole = Dataset.from_matrix(items, pairs, items)
    whole = replace(whole, train=replace(whole.train, filtered=csr_of_lists([[0], [1], [2], [3]], 4)))
    one_way = replace(whole, one_way=True)
    for dataset, tested, truth in (
        (whole, [1, 2, 3], [[1, 0, 0, 0], [1, 0, 0, 1], [0, 0, 0, 0]]),
        (one_way, [2, 3], [[0, 0, 0, 1], [0, 0, 0, 0]]),
    ):
        rest, held, rows = cut_as_test(dataset, np.array([1, 2, 3]))
        assert rows.tolist() == tested
        assert list(held.documents.uids) == [str(row) for row in tested]
        np.testing.assert_array_equal(held.targets.toarray(), truth)
        assert list(rest.train.documents.uids) == ["0"]
    made, tested = with_test_split(one_way, 3, 0, at_random=True)
    assert made.test is not None
    assert list(made.test.documents.uids) == [str(row) for row in tested]
    assert len(made.train) == 1


def test_a_test_split_with_nothing_to_find_is_refused() -> None:
    items = [{"uid": str(i), "title": f"t{i}"} for i in range(2)]
    each_other = Dataset.from_matrix(items, csr_of_lists([[1], [0]], 2), items)
    train = replace(each_other.train, filtered=csr_of_lists([[0], [1]], 2))
    with pytest.raises(BadInput, match="found 1 whose pairs training has all the other way; cut more, or take another"):
        with_test_split(replace(each_other, train=train, one_way=True), 1, 0)


def held(lists: list[list[int]], labels: int, filtered: list[list[int]] | None = None) -> Split:
    """Documents that were held out."""
    hidden = None if filtered is None else csr_of_lists(filtered, labels)
    return Split(Texts.of([f"document {i}" for i in range(len(lists))]), csr_of_lists(lists, labels), hidden)


@pytest.mark.parametrize("filtered", [None, [[1], [], [], [2]]])
def test_of_a_closed_set_a_label_whose_only_documents_are_held_out_is_neither_right_nor_wrong(
    filtered: list[list[int]] | None,
) -> None:
    split = held([[0, 3], [4], [], [3]], 5, filtered)  # labels 3 and 4 are of these documents alone
    later, rows = without_orphaned_labels(split, np.array([2, 1, 4, 0, 0]))
    assert rows.tolist() == [0, 2]  # 1 and 3 have nothing left to find; 2 never had
    assert later.targets.toarray().tolist() == [[1, 0, 0, 0, 0], [0] * 5]
    assert later.filtered is not None
    assert np.flatnonzero(later.filtered[0].toarray()).tolist() == ([3] if filtered is None else [1, 3])
    assert list(later.documents.fields["title"]) == ["document 0", "document 2"]
    assert split.targets.nnz == 4, "what was given is as it was"


def test_of_an_open_set_all_stays() -> None:
    split = held([[0, 3], [4]], 6)
    later, rows = without_orphaned_labels(split, np.array([2, 1, 4, 0, 0, 0]))  # 5 has no document at all
    assert later is split
    assert rows.tolist() == [0, 1]


def test_a_few_labels_without_any_document_do_not_open_a_set() -> None:
    split = held([[i] for i in range(21)], 40)
    frequency = np.repeat([0, 1], [20, 20])
    assert len(without_orphaned_labels(split, frequency)[0]) == 1  # label 20 has another document
    for none, documents in ((1, 1), (2, 21)):
        later, _ = without_orphaned_labels(split, np.concatenate([frequency[: 40 - none], np.zeros(none, int)]))
        assert len(later) == documents


def test_where_no_label_is_lost_all_stays() -> None:
    split = held([[0], [1]], 2)
    assert without_orphaned_labels(split, np.array([1, 2]))[0] is split
