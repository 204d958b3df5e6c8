"""The calibration error: by hand, with loops, and of probabilities that are what they say."""

from __future__ import annotations

import numpy as np
import pytest

from longtail.data.sparse import csr_of_lists
from longtail.metrics.reliability import Reliability, calibration_errors
from longtail.topk import TopK


def test_the_error_by_hand() -> None:
    """The documents of docs/reference/metrics.md, with probabilities; a stored 0 is no true label."""
    top = TopK(np.array([[0, 3, 1], [4, 0, -1], [2, 1, 0]]), np.zeros((3, 3), np.float32))
    truth = csr_of_lists([[0, 1], [1, 2, 4], [2]], 5)
    truth.data[-1] = 0
    chances = np.array([[0.95, 0.25, 0.3], [0.95, 0.1, 0], [0.5, 0.32, 0.1]], np.float32)
    one, three = (Reliability.of(top, chances, truth, k) for k in (1, 3))
    assert one.labels.tolist() == [0, 0, 0, 0, 0, 1, 0, 0, 0, 2]
    assert one.error == pytest.approx(100 * (1 * 0.5 + 2 * 0.05) / 3, abs=1e-5)
    assert three.labels.tolist() == [0, 2, 1, 2, 0, 1, 0, 0, 0, 2]
    expected = 100 * (2 * 0.1 + 1 * 0.25 + 2 * abs(0.31 - 0.5) + 1 * 0.5 + 2 * 0.05) / 8
    assert three.error == pytest.approx(expected, abs=1e-5)
    assert three.right[[1, 2, 3, 5, 9]].tolist() == [0, 0, 0.5, 0, 1]


def simulated(seed: int, n: int = 400) -> tuple[TopK, np.ndarray, np.ndarray]:
    """Rankings of at most 6 of 30 labels, with probabilities, and what is true by them."""
    generator = np.random.default_rng(seed)
    ids = np.stack([generator.permutation(30)[:6] for _ in range(n)])
    ids[generator.random(ids.shape) < 0.2] = -1
    chances = np.where(ids < 0, 0, generator.random(ids.shape)).astype(np.float32)
    return TopK(ids, np.zeros(ids.shape, np.float32)), chances, generator.random(ids.shape) < chances


@pytest.mark.parametrize("k", [1, 3, 6, 9])
def test_the_error_with_loops(k: int) -> None:
    top, chances, true = simulated(0, 60)
    truth = csr_of_lists([np.sort(row[hit & (row >= 0)]) for row, hit in zip(top.ids, true, strict=True)], 30)
    bins: dict[int, list[tuple[float, bool]]] = {}
    for i, row in enumerate(top.ids):
        for j, label in enumerate(row[:k]):
            if label >= 0:
                bins.setdefault(int(10 * chances[i, j]), []).append((float(chances[i, j]), bool(true[i, j])))
    count = sum(map(len, bins.values()))
    error = sum(abs(sum(p - hit for p, hit in inside)) for inside in bins.values()) / count
    assert Reliability.of(top, chances, truth, k).error == pytest.approx(100 * error)


def test_what_is_as_probable_as_it_says_has_no_error_but_chance() -> None:
    top, chances, true = simulated(1, 4000)
    truth = csr_of_lists([np.sort(row[hit & (row >= 0)]) for row, hit in zip(top.ids, true, strict=True)], 30)
    found = calibration_errors(top, chances, truth)
    assert list(found) == ["ECE@1", "ECE@5"]
    assert found["ECE@5"] < 1.5
    assert calibration_errors(top, np.sqrt(chances), truth)["ECE@5"] > 10


def test_nothing_ranked_has_no_error() -> None:
    top = TopK(np.full((2, 3), -1), np.full((2, 3), -np.inf, np.float32))
    assert Reliability.of(top, np.zeros((2, 3), np.float32), csr_of_lists([[0], []], 4), 1).error == 0
