"""A label among the others: by hand, and as counts that loops make."""

from __future__ import annotations

import numpy as np
import pytest

from longtail.data.dataset import Dataset
from longtail.data.one_label import describe_label
from longtail.errors import BadInput
from longtail.testing.planted import planted

DATASET = Dataset.from_texts(
    ["a", "b", "c", "d"],
    [[0, 1], [0, 1, 2], [0], [2, 3]],
    [{"title": title, "uid": f"l{i}"} for i, title in enumerate(["red apple", "Red Apples!", "pear", "red pear"])],
)


def test_a_label_by_hand() -> None:
    found = describe_label(DATASET, "l0")
    assert (found.label, found.text, found.documents, found.test_documents) == (0, "red apple", 3, None)
    assert [(other.uid, other.together) for other in found.correlated] == [("l1", 2), ("l2", 1)]
    assert [other.correlation for other in found.correlated] == pytest.approx([2 / 3, 1 / 3], abs=1e-4)
    # of the nine trigrams of " red apple " eight are in " red apples ", which has ten
    assert [other.uid for other in found.alike] == ["l1", "l3"]
    assert found.alike[0].similarity == pytest.approx(8 / 11, abs=1e-4)
    assert found.alike[0].correlation == pytest.approx(2 / 3, abs=1e-4)
    assert describe_label(DATASET, "red pear").correlated[0].uid == "l2"
    assert len(describe_label(DATASET, "l0", most=1).alike) == 1


def test_counts_are_those_of_loops() -> None:
    dataset = planted(1, documents=120, labels=30).dataset
    rows = [set(np.flatnonzero(row)) for row in dataset.train.targets.toarray()]
    for label in range(0, 30, 7):
        found = describe_label(dataset, dataset.labels.uids[label], most=30)
        expected = {m: sum({label, m} <= row for row in rows) for m in range(30) if m != label}
        assert {other.label: other.together for other in found.correlated} == {m: c for m, c in expected.items() if c}
        counts = [other.together for other in found.correlated]
        assert counts == sorted(counts, reverse=True)
        assert found.documents == sum(label in row for row in rows)


def test_a_name_that_no_label_has_is_refused() -> None:
    with pytest.raises(BadInput, match="label: expected the uid or the title of a label, found red aple; did you mean"):
        describe_label(DATASET, "red aple")
