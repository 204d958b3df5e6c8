from __future__ import annotations

import time

import numpy as np
import pytest

from longtail.data.near_labels import NEAR, folded, label_texts, near_pairs, trigrams
from longtail.data.texts import Strings
from longtail.testing.planted import made_up_words


def grams(text: str) -> set[str]:
    padded = f" {text} "
    return {padded[i : i + 3] for i in range(len(padded) - 2)}


def jaccard(one: str, other: str) -> float:
    a, b = grams(one), grams(other)
    return len(a & b) / len(a | b)


def texts_with_near_ones(n: int, seed: int) -> list[str]:
    """n texts of six words, and as many in which one of the letters is another."""
    generator = np.random.default_rng(seed)
    words = made_up_words(generator, 500)
    texts = [" ".join(words[i] for i in generator.integers(0, 500, 6)) for _ in range(n)]
    return texts + [text[: (at := int(generator.integers(len(text))))] + "q" + text[at + 1 :] for text in texts]


@pytest.mark.parametrize(
    ("one", "other"),
    [("Café", "CAFE\u0301"), ("e-mail", "Email"), ("A  b", "a b"), ("ﬁle", "File"), ("Straße", "STRASSE")],
)
def test_texts_that_fold_to_one(one: str, other: str) -> None:
    assert folded(one) == folded(other)


def test_labels_that_look_alike_need_not_mean_the_same() -> None:  # those that docs/guides/errors.md names
    alike = near_pairs([f"get started with windows {version}" for version in (10, 11)], NEAR)
    assert len(alike[0]) == 1


def test_what_folding_keeps_apart() -> None:
    kinds = ["C++", "C", "हिंदी", "हदी", "1.5", "1.6", "???", "!!!"]
    assert len({folded(text) for text in kinds}) == len(kinds)


def test_trigrams_are_those_of_characters() -> None:
    texts = ["ab", "日本語", "aaaa", "x"]
    matrix = trigrams(texts)
    assert np.diff(matrix.indptr).tolist() == [len(grams(text)) for text in texts]
    assert (matrix @ matrix.T).toarray()[0, 3] == len(grams("ab") & grams("x"))


def test_near_pairs_are_those_that_comparing_all_finds() -> None:
    texts = texts_with_near_ones(150, 0)
    n = len(texts)
    truth = {(i, j) for i in range(n) for j in range(i + 1, n) if jaccard(texts[i], texts[j]) >= NEAR}
    left, right, similarity = near_pairs(texts, NEAR)
    found = set(zip(left.tolist(), right.tolist(), strict=True))
    assert len(truth) > 50
    assert found <= truth
    assert len(found) >= 0.98 * len(truth)
    assert similarity == pytest.approx([jaccard(texts[i], texts[j]) for i, j in zip(left, right, strict=True)])


@pytest.mark.parametrize("texts", [[], ["a"], ["a", "b"]])
def test_few_texts(texts: list[str]) -> None:
    assert [len(part) for part in near_pairs(texts, NEAR)] == [0, 0, 0]


def test_labels_by_hand() -> None:
    titles = ["red apple", "Red-apple", "red apple", "Red Apple", "the red apples", "the red apple", "", "", "pear"]
    found = label_texts(Strings.of(titles), np.array([5, 1, 2, 9, 3, 4, 0, 0, 1]))
    assert [found.equal.labels, found.folded.labels, found.near.labels] == [2, 2, 2]
    assert found.equal.examples == (("red apple", "red apple", "5", "2"),)
    assert found.folded.examples == (("Red Apple", "red apple", "9", "5"),)
    assert found.near.examples == (("the red apples", "the red apple", "3", "4"),)
    assert found.labels == 5


def test_a_label_that_is_alike_by_several_readings_is_counted_once_among_all() -> None:
    text = "garden furniture and outdoor chairs for kids"
    found = label_texts(Strings.of([text, text, text.title(), text[:-1], "pear"]), np.ones(5, np.int64))
    assert [found.equal.labels, found.folded.labels, found.near.labels] == [2, 2, 2]
    assert found.labels == 4


def test_thousands_of_equal_and_of_like_labels_take_no_time() -> None:
    titles = ["the same"] * 3000 + [f"template of part number {i}" for i in range(3000)]
    start = time.process_time()
    found = label_texts(Strings.of(titles), np.zeros(6000, np.int64))
    assert time.process_time() - start < 5
    assert found.equal.labels == 3000
    assert found.near.labels > 2500
