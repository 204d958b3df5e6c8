from __future__ import annotations

import numpy as np
import pytest

from longtail.data.dataset import Dataset
from longtail.data.filters import (
    Same,
    answers,
    apart,
    by_label,
    identity_pairs,
    matches,
    proposed_filter,
    reciprocal_pairs,
)
from longtail.data.sparse import csr, csr_of_lists
from longtail.data.split import Split
from longtail.data.texts import Strings, Texts


def linked(uids: bool) -> Dataset:
    """Documents a, b, c, d and labels a, b, c; p, q are tested. a -> b, c; b -> a; c -> a, b; p -> a; q -> c."""

    def named(names: str) -> Texts:
        return Texts.of(["same"] * len(names) if uids else list(names), uids=list(names) if uids else None)

    train = Split(named("abcd"), csr_of_lists([[1, 2, 3], [0, 4], [0, 1], [2]], 5))
    return Dataset("linked", train, named("abcpq"), Split(named("pqr"), csr_of_lists([[0, 1], [2], []], 5)))


@pytest.mark.parametrize("uids", [True, False])
def test_pairs_by_hand(uids: bool) -> None:
    dataset = linked(uids)
    itself = identity_pairs(dataset.train.documents, dataset.labels)
    np.testing.assert_array_equal(itself.toarray(), [[1, 0, 0, 0, 0], [0, 1, 0, 0, 0], [0, 0, 1, 0, 0], [0] * 5])
    train, test = proposed_filter(dataset.train, dataset.test, dataset.labels)
    # training: each itself; b -> c, for c -> b; a -> b, a -> c, b -> a and c -> a are reciprocal and true
    np.testing.assert_array_equal(train.toarray(), [[1, 0, 0, 0, 0], [0, 1, 1, 0, 0], [0, 0, 1, 0, 0], [0] * 5])
    # test: p itself (a -> p, but p -> a is true); q itself, and q -> b, for b -> q
    np.testing.assert_array_equal(test.toarray(), [[0, 0, 0, 1, 0], [0, 1, 0, 0, 1], [0] * 5])
    for pairs, split in ((train, dataset.train), (test, dataset.test)):
        assert pairs.multiply(split.targets).nnz == 0
        assert (pairs.data == 1).all()
        assert pairs.indices.dtype == pairs.indptr.dtype == np.int64


def test_pairs_against_loops() -> None:
    rng = np.random.default_rng(0)
    documents = [str(rng.integers(0, 60)) for _ in range(97)]
    tested = [str(rng.integers(0, 60)) for _ in range(41)]
    labels = [str(j) for j in rng.permutation(53)]
    targets = csr_of_lists([np.unique(rng.integers(0, 53, 3)).tolist() for _ in documents], 53)
    dense = targets.toarray()
    expected = np.zeros((41, 53))
    for i, one in enumerate(tested):
        for j, other in enumerate(labels):
            for d, document in enumerate(documents):
                if document == other and any(dense[d, k] and labels[k] == one for k in range(53)):
                    expected[i, j] = 1
    known = Texts.of(labels)
    found = reciprocal_pairs(
        identity_pairs(Texts.of(tested), known), identity_pairs(Texts.of(documents), known), targets
    )
    np.testing.assert_array_equal(found.toarray(), expected)
    assert expected.sum() > 20


def test_strings_that_are_asked_again_are_matched_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    left, right = (Strings.of(str(i) if i else "" for i in rng.integers(0, 30, 200)) for _ in range(2))
    expected = matches(left, right)
    assert expected.nnz > 1000
    for hashed in (hash, len):  # the second one: nearly all of them have the same hash
        monkeypatch.setattr("longtail.data.filters.hash", hashed, raising=False)
        np.testing.assert_array_equal(Same(right).pairs(left).toarray(), expected.toarray())
    assert Same(Strings.of([])).pairs(left).shape == (200, 0)


def test_edges_that_are_pairs_of_others_go_and_the_rest_keep_their_weights() -> None:
    edges = csr(np.array([0, 0, 1, 2]), np.array([0, 2, 1, 2]), (3, 3), np.array([2, 3, 4, 5], np.float32))
    left = apart(edges, csr_of_lists([[0, 1], [1], []], 3) * 7)
    np.testing.assert_array_equal(left.toarray(), [[0, 0, 3], [0, 0, 0], [0, 0, 5]])
    assert left.nnz == 2
    assert left.indices.dtype == left.indptr.dtype == np.int64


def test_a_true_pair_that_is_filtered_is_among_the_filtered_ones_of_its_label_alone() -> None:
    split = Split(Texts.of(["a", "b"]), csr_of_lists([[0, 1], [1]], 3), csr_of_lists([[1], [2]], 3))
    documents, neither = by_label(split)
    assert documents.toarray().tolist() == [[1, 0], [0, 1], [0, 0]]
    assert neither.toarray().tolist() == [[0, 0], [1, 0], [0, 1]]
    documents, neither = by_label(Split(split.documents, split.targets))
    assert documents.toarray().tolist() == [[1, 0], [1, 1], [0, 0]]
    assert not neither.nnz


def test_a_node_is_an_answer_where_it_is_a_true_label_by_text_or_uid() -> None:
    labels = Texts.of(["red", "green", "blue", "red"], uids=["/r", "/g", "", "/s"])
    nodes = Strings.of(["red", "/g", "blue", "", "other"])
    targets = csr_of_lists([[0], [1, 2], [3], []], 4)
    expected = [[1, 0, 0, 0, 0], [0, 1, 1, 0, 0], [1, 0, 0, 0, 0], [0, 0, 0, 0, 0]]
    np.testing.assert_array_equal(answers(targets, nodes, labels).toarray(), expected)


def test_the_empty_string_matches_nothing_and_repeats_match_all() -> None:
    found = matches(Strings.of(["", "a", "b", "a"]), Strings.of(["a", "", "c", "a"]))
    np.testing.assert_array_equal(found.toarray(), [[0, 0, 0, 0], [1, 0, 0, 1], [0, 0, 0, 0], [1, 0, 0, 1]])


def test_uids_of_one_side_alone_are_not_enough() -> None:
    documents, labels = Texts.of(["x", "y"], uids=["1", "2"]), Texts.of(["y", "1"])
    np.testing.assert_array_equal(identity_pairs(documents, labels).toarray(), [[0, 0], [1, 0]])


def test_a_data_set_without_test_split_has_no_test_filter() -> None:
    lists = Dataset.from_texts(["a", "b"], [[1], [0]], ["a", "b"])
    train, test = proposed_filter(lists.train, lists.test, lists.labels)
    np.testing.assert_array_equal(train.toarray(), np.eye(2))
    assert test is None


def test_the_first_of_some_strings_that_equals_one():
    words = [f"label {i}" for i in range(1000)] + ["ünï 東京", "🐟"]
    same = Same(Strings.of([*words, "label 7"]))
    assert [same.first(word) for word in words] == list(range(len(words)))
    assert same.first("label") is None
    assert same.first("") is None
    assert Same(Strings.of([])).first("a") is None


def test_strings_with_one_hash_for_all(monkeypatch):
    monkeypatch.setattr("longtail.data.filters.hash", lambda _: 7, raising=False)
    same = Same(Strings.of(["a", "b", "c", "b"]))
    assert [same.first(word) for word in "abcd"] == [0, 1, 2, None]
    np.testing.assert_array_equal(same.pairs(Strings.of(["b", "d"])).toarray(), [[0, 1, 0, 1], [0, 0, 0, 0]])
