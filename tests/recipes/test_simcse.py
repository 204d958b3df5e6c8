"""SimCSE: what stands together in texts comes together, by two views of each; true pairs are not read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from longtail import Dataset, recipes
from longtail.data.sparse import csr_of_lists
from longtail.errors import BadInput
from longtail.testing.planted import made_up_words

CONCEPTS = 100
SMALL = {"epochs": 8, "batch": 64, "width": 64, "warmup": 10, "device": "cpu"}


@pytest.fixture(scope="module")
def data() -> Dataset:
    """Training documents have both words of a concept, labels one, and test documents the other; no pair is true."""
    rng = np.random.default_rng(0)
    words = made_up_words(rng, 2 * CONCEPTS)
    spoken, written = words[:CONCEPTS], words[CONCEPTS:]
    pairs = [(i % CONCEPTS, int(j)) for i, j in enumerate(rng.integers(CONCEPTS, size=10 * CONCEPTS))]
    train = [f"{spoken[i]} {written[i]} {spoken[j]} {written[j]}" for i, j in pairs]
    wrong = rng.integers(CONCEPTS, size=(len(train), 1)).tolist()
    test = Dataset.from_texts(spoken, [[i] for i in range(CONCEPTS)], written)
    return replace(Dataset.from_texts(train, wrong, written), test=test.train)


def right(data: Dataset, **options: object) -> float:
    """P@1."""
    model = recipes.simcse(data, **SMALL, **options)
    assert model.kinds == ("encoder",)
    return 100 * float((model.rank(data.test.documents, 1).ids[:, 0] == np.arange(CONCEPTS)).mean())


def test_words_that_stand_together_come_together_and_not_without_two_views(data: Dataset) -> None:
    assert right(data) > 85
    assert right(data, left_out=0.0) < 40


def test_true_pairs_are_not_read(data: Dataset) -> None:
    none = replace(data.train, targets=csr_of_lists([[0]] * len(data.train), CONCEPTS))
    one, other = (recipes.simcse(some, **{**SMALL, "epochs": 1}) for some in (data, replace(data, train=none)))
    np.testing.assert_array_equal(one.vectors["encoder"], other.vectors["encoder"])


def test_words_are_not_left_out_of_texts_in_windows(data: Dataset, tiny_bert: Path) -> None:
    asked = {**SMALL, "encoder": str(tiny_bert), "max_length": 4, "windows": 2, "epochs": 0}
    recipes.simcse(data, **asked)
    recipes.simcse(data, **asked | {"windows": 1}, left_out=0.5)
    with pytest.raises(BadInput, match="left out would shift the 2 windows of a text, found"):
        recipes.simcse(data, **asked, left_out=0.5)
