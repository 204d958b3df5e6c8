"""Trees find labels that stand far apart, as far as their beam reaches; links that are learned bring them together."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from longtail import Dataset, recipes
from longtail.metrics.ranking import metrics_of
from longtail.testing.planted import made_up_words

WORDS, LABELS, EACH = 30, 60, 4
SMALL: dict[str, Any] = {"batch": 64, "width": 32, "warmup": 20, "learning_rate": 0.02, "cluster_size": 4, "beam": 8}
SMALL |= {"epochs": 8, "device": "cpu"}


@pytest.fixture(scope="module")
def data() -> Dataset:
    """Each word says four of sixty labels, which are drawn: no clusters hold those of a word and no others."""
    rng = np.random.default_rng(0)
    words = made_up_words(rng, WORDS + 40)
    said = [sorted(rng.choice(LABELS, EACH, replace=False).tolist()) for _ in range(WORDS)]

    def documents(count: int) -> Dataset:
        others = rng.integers(WORDS, len(words), (count, 2)).tolist()
        texts = [" ".join([words[i % WORDS], *(words[j] for j in pair)]) for i, pair in enumerate(others)]
        return Dataset.from_texts(texts, [said[i % WORDS] for i in range(count)], [str(i) for i in range(LABELS)])

    return replace(documents(600), test=documents(120).train)


def recall(recipe: str, data: Dataset, **options: object) -> float:
    """R@4."""
    model = recipes.RECIPES[recipe](data, **{**SMALL, **options})
    assert data.test is not None
    return metrics_of(model.rank(data.test.documents, EACH), data.test.targets, ks=[EACH])[f"R@{EACH}"]


@pytest.mark.parametrize("recipe", ["lightxml", "cascadexml"])
def test_a_tree_finds_what_its_beam_reaches(recipe: str, data: Dataset) -> None:
    assert recall(recipe, data) > 90
    assert recall(recipe, data, beam=1) < 60  # four labels in four clusters, of which one is looked at
    assert recall(recipe, data, classifier_learning_rate=0.0, epochs=1) < 30  # the most frequent labels


def test_labels_that_attend_find_the_word_that_says_them(data: Dataset) -> None:
    """Two of three words of a text say nothing; where all weigh the same, the most frequent labels are found."""
    attention = {"levels": 1, "hidden": 32, "classifier_learning_rate": 0.1, "epochs": 16}
    assert recall("attentionxml", data, **attention) > 85
    assert recall("attentionxml", data, **{**attention, "classifier_learning_rate": 0.0}) < 30


def test_links_that_are_learned_bring_together_what_documents_have_together(data: Dataset) -> None:
    elias = {"beam": 1, "shortlist": 40}
    assert recall("elias", data, **elias, links=20, link_scale=8.0) > 75
    assert recall("elias", data, **elias, links=4, link_scale=4.0) < 60  # those of its own cluster alone
