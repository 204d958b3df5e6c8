"""Each block of the planted data set is what it claims, shown by counting words: no model, no training."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from longtail.data.sparse import CSR
from longtail.data.texts import Strings, Texts
from longtail.testing.planted import GROUP, NODES, Planted, planted, planted_links


@pytest.fixture(scope="module", params=[0, 1])
def example(request: pytest.FixtureRequest) -> Planted:
    return planted(request.param)


def words(texts: Texts | Strings) -> list[set[str]]:
    return [set(text.split()) for text in (texts.fields["title"] if isinstance(texts, Texts) else texts)]


def ids(matrix: CSR) -> list[set[int]]:
    return [set(row.tolist()) for row in np.split(matrix.indices, matrix.indptr[1:-1])]


def overlap(rows: list[set[str]], columns: list[set[str]]) -> np.ndarray:
    """(rows, columns) words in common."""
    return np.array([[len(row & column) for column in columns] for row in rows])


def precision(scores: np.ndarray, truth: list[set[int]], filtered: list[set[int]] | None = None) -> float:
    """P@1, lower label first on a tie."""
    scores = scores.astype(float)
    for row, labels in enumerate(filtered or []):
        scores[row, list(labels)] = -1
    return float(np.mean([int(best) in labels for best, labels in zip(scores.argmax(1), truth, strict=True)]))


def rows_of(example: Planted, block: str) -> tuple[list[set[str]], list[set[int]], list[set[int]]]:
    """Words, truth and filtered labels of a block's test documents."""
    test = example.dataset.test
    assert test is not None
    assert test.filtered is not None
    chosen = np.flatnonzero(example.blocks == block)
    columns = words(test.documents), ids(test.targets), ids(test.filtered)
    return tuple([column[i] for i in chosen] for column in columns)


def test_shapes_and_shares(example: Planted) -> None:
    data = example.dataset
    assert data.test is not None
    assert (len(data.train), len(data.test), len(data.labels)) == (2000, 500, 300)
    assert Counter(example.blocks.tolist()) == {"A": 200, "B": 200, "C": 100}
    assert all(ids(data.train.targets))
    assert all(ids(data.test.targets))
    for texts in (data.train.documents, data.test.documents, data.labels):
        assert len(set(texts.uids)) == len(texts)
    graph = data.graphs["topic"]
    assert graph.train is not None
    assert graph.label is not None
    assert graph.train.shape == (2000, len(graph.nodes))
    assert graph.label.shape == (300, len(graph.nodes))


def test_block_a_is_found_by_words_in_common(example: Planted) -> None:
    documents, truth, filtered = rows_of(example, "A")
    scores = overlap(documents, words(example.dataset.labels))
    assert all(scores[row, label] >= 2 for row, labels in enumerate(truth) for label in labels)
    assert precision(scores, truth, filtered) == 1
    assert 1.3 < np.mean([len(labels) for labels in truth]) < 1.6


def test_block_b_is_not_found_by_text_but_by_its_examples(example: Planted) -> None:
    documents, truth, _ = rows_of(example, "B")
    labels, train = words(example.dataset.labels), example.dataset.train
    assert overlap(documents, labels).max() == 0
    same = Counter(frozenset(text) for text in labels)
    assert {same[frozenset(labels[label])] for targets in truth for label in targets} == {GROUP}
    examples = Counter(label for targets in ids(train.targets) for label in targets)
    assert min(examples[label] for targets in truth for label in targets) >= 1.6 * 2000 / 300 - 1
    votes = overlap(documents, words(train.documents)) @ train.targets.toarray()
    assert precision(votes, truth) == 1


def test_block_b_asks_for_each_label_of_a_group_equally_often(example: Planted) -> None:
    """So the best guess from the text alone is right in 1 of GROUP cases."""
    _, truth, _ = rows_of(example, "B")
    asked = Counter(label for targets in truth for label in targets)
    assert max(asked.values()) - min(asked.values()) <= 1


def test_block_c_is_found_by_the_document_side_of_the_graph_alone(example: Planted) -> None:
    documents, truth, _ = rows_of(example, "C")
    data, graph = example.dataset, example.dataset.graphs["topic"]
    labels, train = words(data.labels), words(data.train.documents)
    assert overlap(documents, labels).max() == 0
    assert overlap(documents, words(graph.nodes)).max() == 0
    assert not set.union(*truth) & set.union(*ids(data.train.targets)), "no label of block C has an example"
    assert graph.train is not None
    nodes = overlap(documents, train) @ graph.train.toarray()
    assert precision(nodes @ overlap(words(graph.nodes), labels), truth) > 0.95


def test_graph_edges(example: Planted) -> None:
    data, graph = example.dataset, example.dataset.graphs["topic"]
    assert graph.train is not None
    assert graph.label is not None
    _, truth, _ = rows_of(example, "C")
    of_c = set.union(*truth)
    label_edges = ids(graph.label)
    assert {label for label, nodes in enumerate(label_edges) if nodes} == of_c
    common = overlap(words(data.labels), words(graph.nodes))
    assert all(
        len(label_edges[label]) == 2 and common[label, list(label_edges[label])].tolist() == [3, 3] for label in of_c
    )
    counts = Counter(len(nodes) for nodes in ids(graph.train))
    assert counts[1] + counts[2] == 400
    assert 20 <= counts[2] <= 60, "about one in ten has a wrong edge as well"


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_wrong_edges_are_as_many_as_asked_for(share: float) -> None:
    graph = planted(3, wrong_edges=share).dataset.graphs["topic"]
    assert graph.train is not None
    several = np.mean([len(nodes) > 1 for nodes in ids(graph.train) if nodes])
    assert several == 0 if share == 0 else several > 0.95


def test_identity_pairs_are_filtered_and_would_rank_first(example: Planted) -> None:
    data = example.dataset
    assert data.test is not None
    names = list(data.labels.uids)
    for split in (data.train, data.test):
        assert split.filtered is not None
        expected = [{names.index(uid)} if uid in names else set() for uid in split.documents.uids]
        assert ids(split.filtered) == expected
        assert sum(map(len, expected)) == 15
        assert not any(a & b for a, b in zip(ids(split.filtered), ids(split.targets), strict=True))
    documents, truth, filtered = rows_of(example, "A")
    pairs = [i for i, labels in enumerate(filtered) if labels]
    scores = overlap([documents[i] for i in pairs], words(data.labels))
    assert precision(scores, [truth[i] for i in pairs]) < 0.5
    assert precision(scores, [truth[i] for i in pairs], [filtered[i] for i in pairs]) == 1


def test_one_seed_gives_one_data_set() -> None:
    first, second, other = planted(5), planted(5), planted(6)
    assert first.dataset.train.documents.digest() == second.dataset.train.documents.digest()
    assert first.dataset.train.documents.digest() != other.dataset.train.documents.digest()
    assert (first.blocks == second.blocks).all()


@pytest.mark.parametrize("sizes", [(16, 4, 4), (50, 40, 13), (331, 503, 101)])
def test_other_sizes(sizes: tuple[int, int, int]) -> None:
    labels, documents, tests = sizes
    data = planted(0, labels=labels, documents=documents, test_documents=tests).dataset
    assert data.test is not None
    assert (len(data.labels), len(data.train), len(data.test)) == sizes


@pytest.mark.parametrize("sizes", [(15, 100, 100), (300, 74, 100), (300, 100, 74)])
def test_too_few_to_plant(sizes: tuple[int, int, int]) -> None:
    labels, documents, tests = sizes
    with pytest.raises(ValueError, match="too few"):
        planted(0, labels=labels, documents=documents, test_documents=tests)


@pytest.fixture(scope="module")
def linked() -> Planted:
    return planted_links(0)


def test_the_block_of_links_is_found_by_nodes_alone(linked: Planted) -> None:
    data, half = linked.dataset, len(linked.dataset.labels) // 2
    assert data.test is not None
    edges = data.graphs["kin"].train
    assert edges is not None
    train, test, labels = words(data.train.documents), words(data.test.documents), words(data.labels)
    common = set.intersection(*(set().union(*texts) for texts in (train, test))) - set().union(*labels)
    common = {word for word in common if sum(word in text for text in train) > len(train) / 100}
    targets, of_d = data.train.targets, linked.blocks == "D"
    assert of_d.mean() == 0.5
    with_label = np.flatnonzero(np.diff(targets.indptr) > 0)
    said = set().union(*(train[i] for i in with_label)) - common
    for text, label in zip(test, data.test.targets.indices, strict=True):
        assert (label >= half) == (not (text - common) & said)  # no labelled document has a word of block D's
        assert bool((text - common) & labels[label]) == (label < half)
    true = ids(targets)
    for i, row in enumerate(ids(edges)):
        (topic,) = {node // NODES for node in row}
        assert len(row) == NODES
        if i in with_label:
            assert true[i] == {topic}
        else:
            assert topic >= half
            assert train[i] - common


@pytest.mark.parametrize("share", [0.3, 0.9])
def test_wrong_links_are_as_many_as_asked_for(share: float) -> None:
    data = planted_links(1, wrong_links=share).dataset
    edges = data.graphs["kin"].train
    assert edges is not None
    some = np.flatnonzero(np.diff(data.train.targets.indptr) > 0)
    right = sum(len([n for n in row if n // NODES in label]) for row, label in zip(
        ids(edges[some]), ids(data.train.targets[some]), strict=True
    ))  # fmt: skip
    assert right / (NODES * len(some)) == pytest.approx(1 - share, abs=0.05)


def test_one_seed_gives_one_data_set_of_links() -> None:
    one, other, third = (planted_links(seed).dataset.fingerprint() for seed in (3, 3, 4))
    assert one == other
    assert one != third


def test_random_edges_replace_as_many_as_asked_for_and_change_nothing_else() -> None:
    clean, noisy = planted(3), planted(3, random_edges=0.6)
    for one, other in ((clean.dataset.train, noisy.dataset.train), (clean.dataset.test, noisy.dataset.test)):
        assert one is not None
        assert other is not None
        assert one.documents.digest() == other.documents.digest()
        assert (one.targets != other.targets).nnz == 0
    for side, least in (("train", 0.35), ("label", 0.3)):
        one, other = (getattr(data.dataset.graphs["topic"], side) for data in (clean, noisy))
        kept = other.multiply(one != 0).nnz / one.nnz
        assert least < kept < 0.5, side
        assert 0.95 < other.nnz / one.nnz <= 1, side  # some are drawn twice
    again = planted(3, random_edges=0.6).dataset.graphs["topic"].train
    assert again is not None
    assert noisy.dataset.graphs["topic"].train is not None
    assert (again != noisy.dataset.graphs["topic"].train).nnz == 0
