"""Where the biases of one-versus-all classifiers start: against loops, and what they are there for."""

from __future__ import annotations

import math

import numpy as np

from longtail.data.sparse import csr_of_lists
from longtail.data.split import Split
from longtail.data.texts import Texts
from longtail.stages.biases import Start, some_rows
from longtail.train.run import Run


def split(lists, labels, filtered=None):
    pairs = None if filtered is None else csr_of_lists(filtered, labels)
    return Split(Texts.of([str(i) for i in range(len(lists))]), csr_of_lists(lists, labels), pairs)


def test_against_loops(monkeypatch) -> None:
    """Label 0 is true or filtered everywhere: there is nothing to take the mean of."""
    monkeypatch.setattr("longtail.stages.biases._LABELS", 3)
    generator = np.random.default_rng(0)
    documents, vectors = (generator.normal(size=(n, 5)).astype(np.float32) for n in (4, 7))
    lists, filtered = [[0, 1], [0], [0, 3], []], [[], [5], [], [0]]
    train = split(lists, 7, filtered)
    found = Start(train, some_rows(train), documents, vectors, 0.5).biases(Run())
    for label, count in enumerate([3, 1, 0, 1, 0, 0, 0]):
        others = [x for x, *y in zip(documents, lists, filtered, strict=True) if label not in (*y[0], *y[1])]
        mean = sum(math.exp(float(x @ vectors[label]) / 0.5) for x in others) / 4 if others else 1
        assert math.isclose(found[label], math.log((count + 0.5) / 4) - math.log(mean), rel_tol=1e-5, abs_tol=1e-5)


def test_a_rare_label_is_expected_as_often_as_documents_have_it() -> None:
    generator = np.random.default_rng(1)
    documents, vectors = (generator.normal(size=(n, 8)).astype(np.float32) / 3 for n in (500, 3))
    train = split([[0]] * 4 + [[1]] * 2 + [[]] * 494, 3)
    logits = documents @ vectors.T / 0.5 + Start(train, some_rows(train), documents, vectors, 0.5).biases(Run())
    expected = np.where(train.targets.toarray() > 0, 0, 1 / (1 + np.exp(-logits))).sum(0)
    assert np.all(expected < [4.5, 2.5, 0.5])
    assert np.all(expected > 0.7 * np.array([4.5, 2.5, 0.5]))


def test_one_bias_against_loops(monkeypatch) -> None:
    monkeypatch.setattr("longtail.stages.biases._LABELS", 3)
    generator = np.random.default_rng(0)
    documents, vectors = (generator.normal(size=(n, 5)).astype(np.float32) for n in (4, 7))
    lists, filtered = [[0, 1], [0], [0, 3], [*range(7)]], [[], [5], [], []]  # the last has every label: none to expect
    train = split(lists, 7, filtered)
    found = Start(train, some_rows(train), documents, vectors, 0.5).bias(Run())
    expected = 0.0
    for x, *y in zip(documents, lists, filtered, strict=True):
        others = [z for label, z in enumerate(vectors) if label not in (*y[0], *y[1])]
        expected += sum(math.exp(float(x @ z) / 0.5) for z in others) / 4
    assert found.tolist() == [found[0]] * 7
    assert math.isclose(found[0], math.log(12 / 4) - math.log(expected), rel_tol=1e-5)
    full = split([[*range(7)]] * 4, 7)
    assert not Start(full, some_rows(full), documents, vectors, 0.5).bias(Run()).any()


def test_with_one_bias_a_document_is_expected_to_have_as_many_labels_as_documents_have() -> None:
    generator = np.random.default_rng(1)
    documents, vectors = (generator.normal(size=(n, 8)).astype(np.float32) / 3 for n in (500, 900))
    train = split([[i % 300, i % 7] for i in range(500)], 900)
    logits = documents @ vectors.T / 0.5 + Start(train, some_rows(train), documents, vectors, 0.5).bias(Run())
    expected = np.where(train.targets.toarray() > 0, 0, 1 / (1 + np.exp(-logits))).sum(1).mean()
    assert math.isclose(expected, train.targets.nnz / 500, rel_tol=0.05)


def test_some_rows_stand_for_all() -> None:
    assert some_rows(split([[]] * 3, 1)).tolist() == [0, 1, 2]
    rows = some_rows(split([[]] * 10_000, 1))
    assert len(np.unique(rows)) == 2048
    assert rows[[0, -1]].tolist() == [0, 9999]
