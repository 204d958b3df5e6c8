"""Ranked labels: padding, ties and bad shapes, by hand and against a sort of tuples."""

from __future__ import annotations

import numpy as np
import pytest

from longtail.topk import TopK, rank

INF = float("inf")


def ids(*rows: list[int]) -> np.ndarray:
    return np.array(rows, np.int64)


def scores(*rows: list[float]) -> np.ndarray:
    return np.array(rows, np.float32)


def test_best_first() -> None:
    found = rank(ids([7, 3, 9, 5]), scores([0.1, 0.4, 0.3, 0.2]), 3)
    assert found.ids.tolist() == [[3, 9, 5]]
    np.testing.assert_array_equal(found.scores, scores([0.4, 0.3, 0.2]))
    assert (found.ids.dtype, found.scores.dtype) == (np.int64, np.float32)


def test_the_lower_label_comes_first_on_a_tie() -> None:
    assert rank(ids([9, 2, 5, 1]), scores([1, 1, 2, 1]), 3).ids.tolist() == [[5, 1, 2]]
    assert rank(ids([4, 3]), scores([0.0, -0.0]), 2).ids.tolist() == [[3, 4]]


def test_empty_places_and_minus_infinity_are_never_ranked() -> None:
    found = rank(ids([-1, 4, 6], [-1, -1, -1]), scores([9, -INF, -5], [1, 2, 3]), 2)
    assert found.ids.tolist() == [[6, -1], [-1, -1]]
    np.testing.assert_array_equal(found.scores, scores([-5, -INF], [-INF, -INF]))


def test_rows_with_too_few_candidates_are_padded() -> None:
    found = rank(ids([2, 1]), scores([1, 2]), 4)
    assert found.ids.tolist() == [[1, 2, -1, -1]]
    np.testing.assert_array_equal(found.scores, scores([2, 1, -INF, -INF]))
    none = rank(np.zeros((2, 0), np.int64), np.zeros((2, 0), np.float32), 3)
    assert none.ids.tolist() == [[-1] * 3] * 2


def test_no_queries() -> None:
    found = rank(np.zeros((0, 5), np.int64), np.zeros((0, 5), np.float32), 3)
    assert found.ids.shape == found.scores.shape == (0, 3)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("k", [1, 4, 11, 15])
def test_against_a_sort_of_tuples(seed: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    labels = np.stack([rng.permutation(30)[:11] for _ in range(7)])
    labels[rng.random((7, 11)) < 0.2] = -1
    values = rng.integers(-2, 3, size=(7, 11)).astype(np.float32)
    found = rank(labels, values, k)
    for row in range(7):
        pairs = zip(labels[row].tolist(), values[row].tolist(), strict=True)
        best = sorted((-score, label) for label, score in pairs if label >= 0)[:k]
        best += [(INF, -1)] * (k - len(best))
        assert found.ids[row].tolist() == [label for _, label in best]
        assert found.scores[row].tolist() == [-score for score, _ in best]


def test_inputs_are_left_alone() -> None:
    labels, values = ids([3, -1]), scores([1, 2])
    rank(labels, values, 5)
    assert labels.tolist() == [[3, -1]]
    assert values.tolist() == [[1, 2]]


def test_the_first_of_each_row() -> None:
    found = TopK(ids([3, 1, 2], [6, 5, -1]), scores([3, 2, 1], [2, 1, -INF]))
    assert (len(found), found.k) == (2, 3)
    first = found.first(2)
    assert (first.k, first.ids.tolist()) == (2, [[3, 1], [6, 5]])
    np.testing.assert_array_equal(first.scores, scores([3, 2], [2, 1]))


@pytest.mark.parametrize("shapes", [((2, 3), (2, 2)), ((2, 3), (3, 2)), ((3,), (3,))])
def test_shapes_that_disagree_are_refused(shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    with pytest.raises(ValueError, match="must be one"):
        TopK(np.zeros(shapes[0], np.int64), np.zeros(shapes[1], np.float32))


def test_rankings_of_some_queries_and_then_of_others() -> None:
    parts = [TopK(np.full((rows, 2), rows), np.full((rows, 2), 0.5, np.float32)) for rows in (1, 0, 2)]
    whole = TopK.stacked(parts)
    assert whole.ids.tolist() == [[1, 1], [2, 2], [2, 2]]
    assert whole.scores.shape == (3, 2)
