from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from longtail.data import describe as module
from longtail.data.dataset import Dataset, Propensity
from longtail.data.describe import Band, Words, bands, describe, words
from longtail.data.texts import Strings
from longtail.report.description import sections


def test_numbers_by_hand(fruit: Path) -> None:
    found = describe(Dataset.read(fruit))
    assert (found.name, found.licence, found.propensity) == ("fruit", "CC0", Propensity(0.55, 1.5))
    assert (found.labels, found.never, found.once, found.documents_a_label) == (4, 1, 2, 1.0)
    assert found.label_words == {"title": Words(0.75, 1)}
    assert found.bands == (Band("head", 1, 2, 2), Band("torso", 1, 1, 1), Band("tail", 1, 1, 1))
    train = found.train
    assert train.words == {"title": Words(1.75, 2), "content": Words(0.5, 1)}
    assert (train.documents, train.pairs, train.labels_a_document) == (4, 4, 1.0)
    assert (train.unlabelled, train.unseen, train.filtered) == (1, 0, 1)
    test = found.test
    assert (test.documents, test.pairs, test.labels_a_document) == (2, 3, 1.5)
    graph = found.graphs["tree"]
    assert (graph.nodes, graph.train_edges, graph.train_linked) == (3, 4, 3)
    assert (graph.label_edges, graph.label_linked) == (2, 2)


def test_pairs_by_hand() -> None:
    dataset = Dataset.from_texts(["a", "b", "c"], [[1], [0, 2], [2]], ["a", "b", "c", "d"])
    train = describe(dataset).train
    assert (train.identity, train.reciprocal, train.filtered) == (2, 1, None)  # c is its own label; c -> b
    assert (train.identity_filtered, train.reciprocal_filtered) == (0, 0)


def test_bands_hold_a_third_of_the_pairs_each() -> None:
    assert bands(np.array([1, 0, 6, 1, 3, 3, 1, 1, 1, 1])) == (
        *(Band("head", 1, 6, 6), Band("torso", 2, 3, 3)),
        Band("tail", 6, 1, 1),
    )
    assert bands(np.array([0, 0])) == ()
    assert bands(np.array([5])) == (Band("head", 1, 5, 5),)


@pytest.mark.parametrize("block", [1, 5, 1 << 22])
def test_words_are_counted_as_split_does(monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    monkeypatch.setattr(module, "_BLOCK", block)
    texts = ["", "one", " two words ", "a\tb\nc", "   ", "", "\u00e9t\u00e9 \u2028x", "y", ""]
    assert words(Strings.of(texts)).tolist() == [len(text.encode().split()) for text in texts]


def test_tables_of_a_data_set_without_test_and_graphs() -> None:
    documents, labels = sections(describe(Dataset.from_texts(["a b", "c"], [[0], [0]], ["x", "y", "z"])))
    assert documents.header == ("documents", "train")
    assert ("words a title (mean, 95th percentile)", "1.5, 1") in documents.rows
    assert ("all pairs in the filter file", "no file") in documents.rows
    assert ("never seen in training", "2 (66.7 %)") in labels.rows
    assert ("propensity", "no A and B: no PSP") in labels.rows


def test_tables_have_a_cell_for_each_column(fruit: Path) -> None:
    for section in sections(describe(Dataset.read(fruit))):
        assert {len(row) for row in section.rows} == {len(section.header)}
