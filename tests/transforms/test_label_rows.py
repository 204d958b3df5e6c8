"""Label texts as training rows: what is added, what stays as it was, and what is refused at the door."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from longtail.data.dataset import Dataset
from longtail.data.graph import Graph
from longtail.data.sparse import csr_of_lists
from longtail.data.split import Split
from longtail.data.texts import Strings, Texts
from longtail.errors import BadInput
from longtail.testing.planted import planted
from longtail.transforms import augmented

DOCUMENTS = ["red apple", "green pear", "blue plum", "red pear", "old plum"]
TARGETS = [[0, 1], [0, 1], [0], [0, 2], []]
LABELS = ["apple", "pear", "plum", "quince"]


@pytest.fixture
def fruit() -> Dataset:
    """Label 0 has four documents, two of them with label 1 and one with label 2; label 3 has none."""
    lists = Dataset.from_texts(DOCUMENTS, TARGETS, LABELS)
    train = replace(lists.train, filtered=csr_of_lists([[], [1], [], [1], [2]], 4))
    graph = Graph(Strings.of(["x", "y"]), csr_of_lists([[0], [], [1], [0, 1], []], 2), csr_of_lists([[0]] * 4, 2))
    return replace(lists, train=train, graphs={"g": graph})


def test_gandalf_by_hand(fruit: Dataset) -> None:
    rows = augmented(fruit, "gandalf", seed=0).train
    assert list(rows.documents.fields["title"]) == DOCUMENTS + LABELS
    soft = [[1, 2 / 4, 1 / 4, 0], [1, 1, 0, 0], [1, 0, 1, 0], [0, 0, 0, 1]]
    np.testing.assert_allclose(rows.targets.toarray(), [*fruit.train.targets.toarray().tolist(), *soft], rtol=1e-6)


def test_a_prior_count_shrinks_what_few_documents_say(fruit: Dataset) -> None:
    """Labels 1 and 2 always occur with label 0, in two documents and in one."""
    found = augmented(fruit, "gandalf:prior=1", seed=0).train.targets[5:].toarray()
    soft = [[1, 2 / 5, 1 / 5, 0], [2 / 3, 1, 0, 0], [1 / 2, 0, 1, 0], [0, 0, 0, 1]]
    np.testing.assert_allclose(found, soft, rtol=1e-6)
    strict = augmented(fruit, "gandalf:prior=100", seed=0).train.targets[5:].toarray()
    assert strict.tolist() == np.eye(4).tolist()  # nothing is above the threshold: each label alone


def test_none_is_the_data_set_itself(fruit: Dataset) -> None:
    assert augmented(fruit, "none", seed=0) is fruit


def test_one_hot_has_each_label_alone(fruit: Dataset) -> None:
    assert augmented(fruit, "one_hot", seed=0).train.targets[5:].toarray().tolist() == np.eye(4).tolist()


def test_glas_targets_are_the_logistic_of_the_mean_of_both_directions(fruit: Dataset) -> None:
    found = augmented(fruit, "glas", seed=0).train.targets[5:].toarray()
    related = np.array([[1, 3 / 4, 5 / 8, 0], [3 / 4, 1, 0, 0], [5 / 8, 0, 1, 0], [0, 0, 0, 1]])
    np.testing.assert_allclose(found, np.where(related > 0, 1 / (1 + np.exp(-related)), 0), rtol=1e-6)


def test_surrogate_has_label_rows_alone(fruit: Dataset) -> None:
    rows = augmented(fruit, "gandalf:rows=surrogate", seed=0).train
    assert list(rows.documents.fields["title"]) == LABELS
    assert rows.filtered is not None
    assert rows.filtered.shape == (4, 4)


def test_a_sample_has_as_many_rows_as_there_were_of_both_kinds() -> None:
    data = planted(0, documents=400, labels=200).dataset
    found = augmented(data, "gandalf:rows=sample", seed=3)
    titles = list(found.train.documents.fields["title"])
    assert len(titles) == 400
    of_labels = sum(title in set(data.labels.fields["title"]) for title in titles)
    assert 100 < of_labels < 170  # a third of all rows are label texts
    graph = found.graphs["topic"].train
    assert graph is not None
    assert graph.shape[0] == 400
    whole = augmented(data, "gandalf", seed=3).train
    places = {title: i for i, title in enumerate(whole.documents.fields["title"])}
    for i in (0, 399):
        np.testing.assert_array_equal(found.train.targets[[i]].toarray(), whole.targets[[places[titles[i]]]].toarray())


def test_tail_labels_come_first() -> None:
    """One label has half of all pairs, and 30 have one each: the tail is used up before the head is touched."""
    lists = [[0]] * 30 + [[i] for i in range(1, 31)]
    data = Dataset.from_texts([f"d{i}" for i in range(60)], lists, [f"l{i}" for i in range(31)])
    for count in (5, 29, 30):
        rows = augmented(data, f"one_hot:labels={count}:choose=tail", seed=0).train
        assert "l0" not in list(rows.documents.fields["title"])
        assert len(rows) == 60 + count
    assert "l0" in list(augmented(data, "one_hot:labels=31:choose=tail", seed=0).train.documents.fields["title"])
    drawn = [augmented(data, "one_hot:labels=10", seed=seed).train.targets[60:].indices.tolist() for seed in range(20)]
    assert any(0 in labels for labels in drawn)
    assert all(labels == sorted(set(labels)) and len(labels) == 10 for labels in drawn)
    assert drawn[0] != drawn[1]


def test_labels_without_a_document_come_after_the_head() -> None:
    data = Dataset.from_texts(["a", "b", "c"], [[0], [0], [0, 2]], [f"l{i}" for i in range(5)])
    of_three = {tuple(_own(data, "one_hot:labels=3:choose=tail", seed)) for seed in range(20)}
    assert all({0, 2} < set(labels) for labels in of_three)
    assert len(of_three) == 3  # one of three labels without a document, at random
    assert _own(data, "one_hot:labels=1:choose=tail", 0) == [2]


def _own(data: Dataset, augment: str, seed: int) -> list[int]:
    found: list[int] = augmented(data, augment, seed=seed).train.targets[3:].indices.tolist()
    return found


def test_more_labels_than_there_are_is_all_of_them(fruit: Dataset) -> None:
    assert len(augmented(fruit, "gandalf:labels=100", seed=0).train) == 9


def test_fields_that_one_side_lacks_are_empty() -> None:
    documents = Texts(
        Strings.of(["d0", "d1"]), {"title": Strings.of(["a", "b"]), "content": Strings.of(["long a", "long b"])}
    )
    data = Dataset("x", Split(documents, csr_of_lists([[0], [1]], 2)), Texts.of(["p", "q"], uids=["d0", "d9"]))
    rows = augmented(data, "gandalf", seed=0).train.documents
    assert list(rows.joined(["title", "content"])) == ["a long a", "b long b", "p", "q"]
    assert list(rows.uids) == ["d0", "d1", "", ""]  # a label row has no uid, which may be that of a document


@pytest.mark.parametrize(
    ("augment", "message"),
    [
        ("gandalv", "augment: expected one of none, gandalf, .*, found gandalv; choose one of those"),
        ("", "augment: expected one of none, .*, found ;"),
        ("gandalf:delta=0.1", "expected one of the options prior, threshold, labels, choose, rows, found 'delta'"),
        ("one_hot:threshold=0.1", "expected one of the options labels, choose, rows, found 'threshold'"),
        ("gandalf:threshold", "threshold: expected a number of at least 0, found ''"),
        ("gandalf:threshold=nan", "threshold: expected a number of at least 0, found 'nan'"),
        ("gandalf:threshold=1", "threshold: expected at least 0 and below 1, found 1"),
        ("gandalf:labels=1.5", "labels: expected an integer of at least 0, found '1.5'"),
        ("gandalf:labels=-3", "labels: expected an integer of at least 0, found '-3'"),
        ("gandalf:threshold=0.2,labels=9", "threshold: expected a number of at least 0, found '0.2,labels=9'"),
        ("gandalf:rows=none", "rows: expected one of all, surrogate, sample, found 'none'"),
    ],
)
def test_what_is_refused(fruit: Dataset, augment: str, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        augmented(fruit, augment, seed=0)
