"""Labels above a threshold: by hand, with loops, and in an interval."""

from __future__ import annotations

import numpy as np
import pytest

from longtail.data.sparse import csr_of_lists
from longtail.metrics.above import above
from longtail.topk import TopK


def top_of(ids: np.ndarray) -> TopK:
    return TopK(ids, np.zeros(ids.shape, np.float32))


def test_by_hand() -> None:
    """The documents of docs/reference/metrics.md; a stored 0 is no true label, an empty place no label."""
    top = top_of(np.array([[0, 3, 1], [4, 0, -1], [2, 1, 0]]))
    truth = csr_of_lists([[0, 1], [1, 2, 4], [2]], 5)
    truth.data[-1] = 0
    chances = np.array([[0.95, 0.25, 0.3], [0.95, 0.1, 0], [0.5, 0.32, 0.1]], np.float32)
    found = above(top, chances, truth, 0.3)
    assert (found.threshold, found.labels, found.documents) == (0.3, 5 / 3, 100)
    values = {name: it.value for name, it in found.metrics.items()}
    assert values == pytest.approx({"precision": 100 * 3 / 5, "recall": 100 * 3 / 5, "F1": 60})
    one = above(top, chances, truth, 0.9)
    assert one.labels == 2 / 3
    assert one.documents == pytest.approx(200 / 3)
    values = {name: it.value for name, it in one.metrics.items()}
    assert values == pytest.approx({"precision": 100, "recall": 40, "F1": 100 * 2 * 2 / (2 + 5)})
    none = above(top, chances, truth, 1)
    assert (none.labels, none.documents) == (0, 0)
    assert [it.value for it in none.metrics.values()] == [0, 0, 0]
    assert above(top, chances, truth, 0).labels == 8 / 3, "an empty place is not given"
    assert str(one).startswith("Labels at least 0.9 probable: precision 100.00 ±")
    assert str(one).endswith("(95 %); 0.67 labels a document, and 66.67 % of documents have one.")


def test_with_loops() -> None:
    generator = np.random.default_rng(0)
    ids = np.stack([generator.permutation(30)[:6] for _ in range(200)])
    ids[generator.random(ids.shape) < 0.2] = -1
    chances = generator.random(ids.shape).astype(np.float32)
    true = [set(generator.permutation(30)[: generator.integers(0, 5)].tolist()) for _ in ids]
    found = above(top_of(ids), chances, csr_of_lists([sorted(row) for row in true], 30), 0.4)
    given = [
        (d, int(label))
        for d, row in enumerate(ids)
        for place, label in enumerate(row)
        if label >= 0 and chances[d, place] >= 0.4
    ]
    right, relevant = sum(label in true[d] for d, label in given), sum(map(len, true))
    precision, recall = right / len(given), right / relevant
    expected = {"precision": precision, "recall": recall, "F1": 2 * precision * recall / (precision + recall)}
    for name, it in found.metrics.items():
        assert it.value == pytest.approx(100 * expected[name])
        assert it.low < it.value < it.high
    assert found.labels == pytest.approx(len(given) / 200)
    assert found.documents == pytest.approx(100 * len({d for d, _ in given}) / 200)
    assert found.as_dict()["metrics"]["F1"]["value"] == found.metrics["F1"].value
