"""Fusing encoder and classifier: candidates by hand, and one search for the fused score."""

from __future__ import annotations

import numpy as np
import pytest

from longtail.data.sparse import csr_of_lists
from longtail.search.fusion import Candidates, Fusion, by_frequency
from longtail.topk import FloatArray, IntArray, TopK, rank


def unit(*shape: int, seed: int) -> FloatArray:
    rows = np.random.default_rng(seed).normal(size=shape)
    return (rows / np.linalg.norm(rows, axis=-1, keepdims=True)).astype(np.float32)


def fusion(frequency: IntArray, seed: int = 0) -> Fusion:
    return Fusion(np.random.default_rng(seed).normal(size=(3, 5)), frequency)


def test_candidates_of_two_searches_by_hand() -> None:
    """Label l has place l in every vector; the classifiers are ten times as long."""
    tops = (
        TopK(np.array([[2, 0], [1, -1]]), np.zeros((2, 2), np.float32)),
        TopK(np.array([[3, 2], [0, 3]]), np.zeros((2, 2), np.float32)),
    )
    queries = np.array([[0.1, 0.2, 0.3, 0.4], [0.5, 0.6, 0.7, 0.8]], np.float32)
    table = np.eye(4, dtype=np.float32)
    found = Candidates.of(tops, (queries, queries), (table, 10 * table), csr_of_lists([[2, 1], [3]], 4))
    expected = [
        {0: (0.1, 1.0, False), 2: (0.3, 3.0, True), 3: (0.4, 4.0, False)},
        {0: (0.5, 5.0, False), 1: (0.6, 6.0, False), 3: (0.8, 8.0, True)},
    ]
    for i, labels in enumerate(expected):
        places = np.flatnonzero(found.ids[i] >= 0)
        assert sorted(found.ids[i][places].tolist()) == sorted(labels)
        for place in places:
            encoder, classifier, true = labels[int(found.ids[i, place])]
            assert found.scores[0, i, place] == pytest.approx(encoder)
            assert found.scores[1, i, place] == pytest.approx(classifier)
            assert bool(found.truth[i, place]) == true
        assert not found.truth[i][found.ids[i] < 0].any()


def test_weights_of_labels_by_hand() -> None:
    weights, points = np.array([[2.0, 3, 5, 7, 11], [0, 0, 1, 0, 0]]), np.array([0, 1, 3])
    one, three = 2 + 3 * np.log(2) + 7 / 2 + 11 * np.log(2) ** 2, 2 + 3 * np.log(4) + 21 / 4 + 11 * np.log(4) ** 2
    np.testing.assert_allclose(by_frequency(weights, points), [[7, one, three], [1, 0, 0]])
    of_earlier_models = [[7, 2 + 3 * np.log(2), 2 + 3 * np.log(4)], [1, 0, 0]]
    np.testing.assert_allclose(by_frequency(weights[:, :3], points), of_earlier_models)


def test_how_many_labels_are_candidates_by_hand() -> None:
    found = Candidates(np.array([[-1, 2, 5], [-1, -1, 7]]), np.zeros((1, 2, 3)), np.zeros((2, 3), bool))
    assert found.coverage(np.array([[5, 7], [7, -1]])) == pytest.approx(2 / 3), "7 is a candidate of the second alone"
    assert found.coverage(np.full((2, 2), -1)) == 1


def test_pair_scores_do_not_depend_on_the_number_of_documents() -> None:
    n, L, D = 300, 11, 5
    queries, tables = unit(n, D, seed=0), (unit(L, D, seed=1), unit(L, D, seed=2))
    top = rank(np.broadcast_to(np.arange(L), (n, L)), queries @ tables[0].T, 4)
    found = Candidates.of((top, top), (queries, queries), tables, csr_of_lists([[]] * n, L))
    rows = np.arange(n)[:, None]
    there = found.ids >= 0
    assert there.sum() == n * 4
    for scores, table in zip(found.scores, tables, strict=True):
        np.testing.assert_allclose(scores[there], (queries @ table.T)[rows, found.ids][there], rtol=1e-4, atol=1e-6)


def test_weights_of_a_label_by_hand() -> None:
    """Label 0 has no training points, label 1 has 6: ln(1 + 6)."""
    made = Fusion(np.array([[1, 10, 100], [2, 20, 200], [3, 30, 300.0]]), np.array([0, 6]))
    grown = np.log(7)
    expected = [[101, 1 + 10 * grown], [202, 2 + 20 * grown], [303, 3 + 30 * grown]]
    np.testing.assert_allclose(made.label_weights(), expected, rtol=1e-6)


def test_searching_the_fused_table_is_fusing_the_scores_of_pairs() -> None:
    """Two scorers that read other columns of a document, as two heads do, and two that read the same."""
    n, L, D = 13, 37, 6
    made = fusion(np.random.default_rng(0).integers(0, 5, size=L) ** 2)
    vectors, encoder, classifier = unit(n, 2 * D, seed=1), unit(L, D, seed=2), unit(L, D, seed=3)
    every = np.broadcast_to(np.arange(L), (n, L))
    for columns in (slice(D, 2 * D), slice(0, D)):
        scores = np.stack([vectors[:, :D] @ encoder.T, vectors[:, columns] @ classifier.T])
        pairs = made(Candidates(every, scores, np.zeros((n, L), bool)))
        table = made.table([(encoder, slice(0, D)), (classifier, columns)], 2 * D)
        assert table.dtype == np.float32
        assert table.shape == (L, 2 * D + 1)
        by_table = np.pad(vectors, ((0, 0), (0, 1)), constant_values=1) @ table.T
        np.testing.assert_allclose(by_table, pairs, rtol=1e-5, atol=1e-5)
        np.testing.assert_array_equal(rank(every, by_table, 5).ids, rank(every, pairs, 5).ids)


def test_a_bias_of_the_classifiers_adds_to_that_of_the_fusion() -> None:
    """Classifiers (w, bias) read the document's columns and the 1 at its end, where c is put too."""
    made = Fusion(np.array([[2.0, 0, 0], [3, 0, 0], [5, 0, 0]]), np.array([1, 1]))
    encoder, classifier = np.array([[1], [10]], np.float32), np.array([[1, 7], [10, 70]], np.float32)
    table = made.table([(encoder, slice(0, 1)), (classifier, slice(1, 3))], 2)
    assert table.tolist() == [[2, 3, 3 * 7 + 5], [20, 30, 3 * 70 + 5]]


def test_where_there_is_no_candidate_the_score_is_minus_infinity() -> None:
    ids = np.array([[1, -1], [-1, -1]])
    ones = np.ones((2, 2), np.float32)
    scores = fusion(np.array([3, 4]))(Candidates(ids, np.stack([ones, ones]), np.zeros((2, 2), bool)))
    assert np.isfinite(scores).tolist() == [[True, False], [False, False]]
