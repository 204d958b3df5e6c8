"""A closed set of labels: each has an example, and half of them one alone, which may be among those held out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from longtail import Dataset, recipes
from longtail.data.texts import Texts
from longtail.stages import remembering
from longtail.topk import IntArray

SMALL: dict[str, Any] = {"epochs": 6, "width": 32, "batch": 64, "validation": 0.2, "refit": False, "device": "cpu"}


def closed(labels: int = 200, asked: int = 400, others: int = 4) -> tuple[Dataset, Texts, IntArray]:
    """A data set of few words, so that labels are mistaken for each other; later documents, and the label of each."""
    rng = np.random.default_rng(0)
    words = [f"word{i}" for i in range(60)]
    topics = [rng.choice(words, 4, replace=False) for _ in range(labels)]

    def document(label: Any) -> str:
        return " ".join([*rng.choice(topics[label], 2, replace=False), *rng.choice(words, 1)])

    of = np.repeat(np.arange(labels), np.where(rng.random(labels) < 0.5, 1, others))
    data = Dataset.from_texts(
        [document(i) for i in of], [[int(i)] for i in of], [" ".join(topic[:3]) for topic in topics]
    )
    later = rng.choice(of, asked)
    return data, Texts.of([document(i) for i in later]), later


def test_labels_whose_example_is_held_out_are_ranked_first_as_often_as_they_are_right(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data, documents, later = closed()

    def without_example() -> tuple[float, float]:
        """Of later documents, the share whose label has none in training, and of what is ranked first."""
        model = recipes.unidec(data, memory=False, **SMALL)
        assert model.fusion is not None
        first = model.rank(documents, 1, kind="fused").ids[:, 0]
        none = model.fusion.frequency == 0
        return float(none[later].mean()), float(none[first].mean())

    right, first = without_example()
    assert right < 0.05
    assert first < right + 0.03
    monkeypatch.setattr(remembering, "without_orphaned_labels", lambda held, _: (held, np.arange(len(held))))
    assert without_example()[1] > right + 0.08, "the ablation"


def test_a_memory_has_the_pairs_that_nothing_was_learned_from() -> None:
    """Of labels whose only document was held out it is all that is known by example."""
    data, _, _ = closed(labels=400, others=8)
    model = recipes.unidec(data, tail_price=0, **SMALL | {"epochs": 1})
    assert model.memory is not None, "classifiers of one epoch know less than neighbours do"
    np.testing.assert_array_equal(np.unique(model.memory.labels.indices), np.arange(400))


@pytest.mark.parametrize("recipe", ["unidec", "ngame", "dismec"])
def test_where_every_label_has_one_example_nothing_is_left_to_learn_a_fusion_from(recipe: str) -> None:
    """The score of label texts is all that documents held out know the worth of."""
    data, documents, _ = closed(others=1)
    given = {key: SMALL[key] for key in ("validation", "device")}
    given |= {} if recipe == "dismec" else {"epochs": 1, "width": 32, "batch": 64, "refit": False}
    model = recipes.RECIPES[recipe](data, **given)
    top = model.rank(documents, 3)
    assert np.isfinite(top.scores).all()
    if recipe != "dismec":
        same = model.rank(documents, 3, kind="encoder")
        np.testing.assert_array_equal(model.rank(documents, 3, kind="fused").ids, same.ids)
