"""Labels whose words no document has are found where a language model knows words of documents that mean the same."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from tiny_bert import write_lookup_bert

from longtail import Dataset, recipes
from longtail.testing.planted import made_up_words

CONCEPTS, UNSEEN, WIDTH = 120, 40, 32
SMALL = {"epochs": 3, "batch": 64, "width": 128, "random_negatives": 64, "warmup": 10, "device": "cpu"}


def pair(words: list[str], concept: int, first: int, last: int) -> str:
    """The words of a concept and of the next one of a ring."""
    following = first + (concept + 1 - first) % (last - first)
    return f"{words[concept]} {words[following]}"


def synonyms() -> tuple[Dataset, list[str], torch.Tensor]:
    """A data set in which documents and labels have different words for the same concepts, and vectors of all words.

    A label is of two concepts. No training document has one of the last labels, whose concepts no other label is of;
    their documents' words are known from where they say nothing.
    """
    rng = np.random.default_rng(0)
    words = made_up_words(rng, 2 * CONCEPTS)
    spoken, written = words[:CONCEPTS], words[CONCEPTS:]
    seen = CONCEPTS - UNSEEN
    ranges = [(i, 0, seen) if i < seen else (i, seen, CONCEPTS) for i in range(CONCEPTS)]
    labels = [pair(written, *at) for at in ranges]
    noise = rng.integers(seen, CONCEPTS, (8 * seen))
    train = [f"{pair(spoken, *ranges[i % seen])} {spoken[noise[i]]}" for i in range(8 * seen)]
    dataset = Dataset.from_texts(train, [[i % seen] for i in range(8 * seen)], labels)
    test = Dataset.from_texts([pair(spoken, *at) for at in ranges], [[i] for i in range(CONCEPTS)], labels)
    concepts = rng.standard_normal((CONCEPTS, WIDTH))
    vectors = np.concatenate([concepts, concepts]) + 0.3 * rng.standard_normal((2 * CONCEPTS, WIDTH))
    return replace(dataset, test=test.train), words, torch.from_numpy(vectors.astype(np.float32))


@pytest.mark.parametrize("recipe", ["dpr", "unidec"])
def test_labels_without_a_word_in_training_are_found_by_what_is_known(recipe, tmp_path):
    data, words, vectors = synonyms()
    write_lookup_bert(tmp_path, words, vectors)
    found = {}
    for knowledge in ("none", str(tmp_path)):
        model = recipes.RECIPES[recipe](data, **SMALL, knowledge=knowledge, knowledge_weight=4.0)
        ranked = model.rank(data.test.documents, 1, kind="encoder")
        unseen = np.arange(CONCEPTS) >= CONCEPTS - UNSEEN
        right = ranked.ids[:, 0] == np.arange(CONCEPTS)
        found[knowledge] = 100 * right[unseen].mean(), 100 * right[~unseen].mean()
    without, known = found["none"], found[str(tmp_path)]
    assert without[0] < 15
    assert known[0] > 70
    assert known[1] >= without[1] - 5
