"""The word tokeniser: by hand, and against a twin with loops."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from longtail.errors import BadInput
from longtail.text.bag import words_of
from longtail.text.words import WordTokenizer

TEXTS = ["red fish, blue fish", "Red GetFile", "", "blue-red unseen", "naïve 東京 東京", "one red two red"]


def named(tokenizer: WordTokenizer, texts: list[str]) -> list[list[str]]:
    table = tokenizer(texts)
    assert len(table.weights) == 0
    rows = [table.take(np.array([i])).ids for i in range(len(texts))]
    return [[tokenizer.words[i] for i in row] for row in rows]


def test_words_are_in_order_of_frequency_then_name() -> None:
    assert WordTokenizer.fit(TEXTS, minimum=2).words == ("red", "blue", "fish", "東京")
    assert WordTokenizer.fit(TEXTS, minimum=2, limit=2).words == ("red", "blue")
    every = WordTokenizer.fit(TEXTS, minimum=1)
    assert len(every) == 11
    assert every.words[4:7] == ("file", "get", "getfile")


def test_sequences_keep_order_and_repeats_and_leave_unknown_words_out() -> None:
    tokenizer = WordTokenizer.fit(TEXTS, minimum=2)
    found = named(tokenizer, [*TEXTS, "nothing known", "Fish! two red red"])
    assert found == [
        ["red", "fish", "blue", "fish"],
        ["red"],
        [],
        ["blue", "red"],
        ["東京", "東京"],
        ["red", "red"],
        [],
        ["fish", "red", "red"],
    ]


def test_what_is_too_long_is_cut_off() -> None:
    tokenizer = WordTokenizer.fit(TEXTS, minimum=2, max_length=3)
    assert named(tokenizer, ["unseen red red fish red", "blue", "fish red blue red"]) == [
        ["red", "red", "fish"],
        ["blue"],
        ["fish", "red", "blue"],
    ]


@pytest.mark.parametrize("block", [1, 3, 100])
def test_against_loops_in_blocks_of_any_size(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("longtail.text.tokens._BLOCK", block)
    generator = np.random.default_rng(0)
    words = ["get", "File", "GetFile", "HTTPServer2", "naïve", "x", "snake_case", "--"]
    texts = [" ".join(generator.choice(words, size=generator.integers(7))) for _ in range(40)]
    split = [[w for run in "".join(c if c.isalnum() else " " for c in t).split() for w in words_of(run)] for t in texts]
    counts = Counter(w for row in split for w in row)
    tokenizer = WordTokenizer.fit(iter(texts), minimum=14, max_length=5)
    expected = sorted((w for w in counts if counts[w] >= 14), key=lambda w: (-counts[w], w))
    assert list(tokenizer.words) == expected
    assert 0 < len(expected) < len(counts)
    assert named(tokenizer, texts) == [[w for w in row if w in expected][:5] for row in split]


def test_a_batch_is_padded_to_its_longest_row() -> None:
    tokenizer = WordTokenizer.fit(TEXTS, minimum=2)
    batch = tokenizer.batch(tokenizer(TEXTS), np.array([3, 2, 0]))
    assert batch.ids.tolist() == [[1, 0, 0, 0], [0, 0, 0, 0], [0, 2, 1, 2]]
    assert batch.mask.tolist() == [[True, True, False, False], [False] * 4, [True] * 4]


def test_saved_and_loaded_it_is_the_same(tmp_path: Path) -> None:
    tokenizer = WordTokenizer.fit(TEXTS, max_length=7)
    tokenizer.save(tmp_path)
    assert WordTokenizer.load(tmp_path) == tokenizer
    assert WordTokenizer.load(tmp_path).fingerprint == tokenizer.fingerprint
    prints = {
        tokenizer.fingerprint,
        WordTokenizer.fit(TEXTS, minimum=2).fingerprint,
        WordTokenizer.fit(TEXTS, limit=3).fingerprint,
    }
    assert len(prints) == 3


@pytest.mark.parametrize("content", ["", "{", "[]", "{}"], ids=["empty", "cut", "a list", "without keys"])
def test_a_broken_file_is_refused_in_one_line(tmp_path: Path, content: str) -> None:
    (tmp_path / "words.json").write_text(content)
    with pytest.raises(BadInput, match=r"words\.json: expected .*; copy the model folder again, whole$"):
        WordTokenizer.load(tmp_path)
