from __future__ import annotations

import numpy as np

from longtail.data.dataset import Dataset
from longtail.data.repeats import cut, leakage, readings, repeats
from longtail.data.split import Split

LABELS = ["x", "y", "z"]


def split(titles: list[object], targets: list[list[int]]) -> tuple[Split, Dataset]:
    dataset = Dataset.from_texts(titles, targets, LABELS)
    return dataset.train, dataset


def test_repeats_by_hand() -> None:
    rows, dataset = split(["a", "b", "a", "c", "b", " ", " ", "a"], [[0], [1], [0, 1], [2], [1], [0], [1], [0]])
    found = repeats(rows, dataset.labels, ("title",))
    assert (found.documents, found.texts, found.differing) == (5, 2, 1)
    assert found.examples == (("a", "3", "x [0]", "x [0]; y [1]"), ("b", "2", "y [1]", "y [1]"))


def test_leakage_by_hand() -> None:
    train, dataset = split(["a", "a", "b", "", "d"], [[0], [0, 2], [1], [0], []])
    test, _ = split(["a", "b", "c", "", "a", "d"], [[2, 0], [2], [0], [0], [1], []])
    found = leakage(train, test, dataset.labels, ("title",))
    assert (found.documents, found.same_labels) == (4, 1)
    assert found.examples[0] == ("a", "x [0]; z [2]", "x [0]; z [2]")
    assert ("b", "y [1]", "z [2]") in found.examples


def test_a_whole_text_is_all_fields() -> None:
    titles: list[object] = [{"title": "a", "content": "one"}, {"title": "a", "content": "two"}]
    rows, dataset = split([*titles, titles[1]], [[0], [0], [1]])
    fields = readings(rows.documents)
    assert fields == {"title": ("title",), "whole text": ("title", "content")}
    title, whole = (repeats(rows, dataset.labels, of) for of in fields.values())
    assert (title.documents, title.texts, whole.documents, whole.texts) == (3, 1, 2, 1)
    assert readings(dataset.labels) == {"title": ("title",)}


def test_sets_of_labels_are_told_apart_as_sets_are() -> None:
    generator = np.random.default_rng(0)
    targets = [sorted(set(generator.integers(0, 3, 3).tolist())) for _ in range(200)]
    titles = [f"t{i}" for i in generator.integers(0, 20, 200).tolist()]
    rows, dataset = split(list(titles), targets)
    of_text: dict[str, set[tuple[int, ...]]] = {}
    for title, labels in zip(titles, targets, strict=True):
        of_text.setdefault(title, set()).add(tuple(labels))
    found = repeats(rows, dataset.labels, ("title",))
    assert found.differing == sum(len(kinds) > 1 for kinds in of_text.values())


def test_examples_are_short_and_on_one_line() -> None:
    assert cut("a\n b") == "a b"
    assert len(cut("long " * 1000)) == 160
