"""The bag tokeniser: by hand, and against a twin that is written with loops and dictionaries."""

from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from longtail.errors import BadInput
from longtail.text.bag import BagTokenizer, character_ngrams, words_of
from longtail.text.ragged import Ragged
from longtail.text.words import WordTokenizer


def rows(tokenizer: BagTokenizer, texts: list[str]) -> list[dict[str, float]]:
    """The features of each text by name, with their weights."""
    table = tokenizer(texts)
    assert len(table) == len(texts)
    names = [tokenizer.features[i] for i in table.ids]
    pairs = list(zip(names, table.weights.tolist(), strict=True))
    return [dict(pairs[start:end]) for start, end in pairwise(table.offsets)]


def naive_features(text: str, n: int, ends: bool = True) -> list[str]:
    """Every occurrence of a word, a pair and an n-gram, by name."""
    runs = "".join(c if c.isalnum() else " " for c in text).split()
    words = [word for run in runs for word in words_of(run)]
    grams = [f"#{gram}" for word in words for gram in (character_ngrams(word, n) if n else [])]
    between = ["^", *words, "$"] if words and ends else words
    return words + [f"{left} {right}" for left, right in pairwise(between)] + grams


def naive_fit(texts: list[str], n: int, minimum: int, limit: int, ends: bool = True) -> dict[str, float]:
    """Inverse document frequency by name, in order of the ids."""
    frequency = Counter(name for text in texts for name in set(naive_features(text, n, ends)))
    words = {name for name, count in frequency.items() if " " not in name and count >= minimum} | {"^", "$"}
    kept = [name for name, count in frequency.items() if count >= minimum and words.issuperset(name.split(" "))]
    kept.sort(key=lambda name: (" " in name, -frequency[name], name))
    return {name: 1 + math.log(len(texts) / frequency[name]) for name in kept[:limit]}


def naive_row(text: str, idf: dict[str, float], n: int) -> dict[str, float]:
    counts = Counter(name for name in naive_features(text, n) if name in idf)
    weights = {name: (1 + math.log(count)) * idf[name] for name, count in counts.items()}
    norm = math.sqrt(sum(weight**2 for weight in weights.values()))
    return {name: weight / norm for name, weight in weights.items()}


def sentences(seed: int, n: int = 60) -> list[str]:
    """Texts of few words, so that all kinds of features recur; one in ten is empty."""
    rng = np.random.default_rng(seed)
    words = ["get", "File", "GetFile", "HTTPServer2", "naïve", "東京", "x", "snake_case", "C++", "straße", "42", "--"]
    return [" ".join(rng.choice(words, size=rng.integers(6) * (rng.random() < 0.9))) for _ in range(n)]


@pytest.mark.parametrize(
    ("run", "words"),
    [
        ("linux", ("linux",)),
        ("Linux", ("linux",)),
        ("GetFileAttributes", ("get", "file", "attributes", "getfileattributes")),
        ("HTTPServer", ("http", "server", "httpserver")),
        ("win32", ("win", "32", "win32")),
        ("2024", ("2024",)),
        ("Müller", ("müller",)),
        ("東京", ("東京",)),
        ("ÉcoleNormale", ("écolenormale",)),
    ],
)
def test_words_of_a_run(run: str, words: tuple[str, ...]) -> None:
    assert words_of(run) == words


def test_character_ngrams_lie_between_borders() -> None:
    assert character_ngrams("fish", 4) == ["<fis", "fish", "ish>"]
    assert character_ngrams("ab", 4) == []  # <ab> is one n-gram: it would only repeat the word
    assert character_ngrams("abc", 4) == ["<abc", "abc>"]


def test_features_and_weights_by_hand() -> None:
    """Of 3 texts, get, file and "get file" are in 2, and 2 begin with get; everything else is in 1."""
    tokenizer = BagTokenizer.fit(["GetFile get", "get_file", "other"], ngram=0, ends=True, minimum=2)
    assert tokenizer.features == ("file", "get", "^ get", "get file")
    np.testing.assert_allclose(tokenizer.idf, 1 + math.log(3 / 2), rtol=1e-6)
    twice = 1 + math.log(2)  # "GetFile get" is get, file, getfile, get
    norm = math.sqrt(twice**2 + 1 + 1 + 1)
    first, second, third = rows(tokenizer, ["GetFile get", "get file", "other"])
    assert first == pytest.approx({"get": twice / norm, "file": 1 / norm, "^ get": 1 / norm, "get file": 1 / norm})
    assert second == pytest.approx(dict.fromkeys(["get", "file", "^ get", "get file"], 1 / 2))
    assert third == {}


def test_ngrams_by_hand() -> None:
    """cat is in 2 of 4 texts, its 3-grams <ca, cat and at> in 2, 3 and 2; 2 end with it."""
    tokenizer = BagTokenizer.fit(["cat", "a cat", "scats", "-"], ngram=3, ends=True, minimum=2)
    assert tokenizer.features == ("#cat", "#<ca", "#at>", "cat", "cat $")
    in_two, in_three = 1 + math.log(2), 1 + math.log(4 / 3)
    np.testing.assert_allclose(tokenizer.idf, [in_three, in_two, in_two, in_two, in_two], rtol=1e-6)
    norm = math.sqrt(4 * in_two**2 + in_three**2)
    expected = dict.fromkeys(["#<ca", "#at>", "cat", "cat $"], in_two / norm) | {"#cat": in_three / norm}
    cat, scat = rows(tokenizer, ["cat", "scat"])
    assert cat == pytest.approx(expected)
    assert set(scat) == {"#cat", "#at>"}


@pytest.mark.parametrize("ends", [False, True])
@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize(("ngram", "minimum", "limit"), [(4, 2, 10_000), (0, 1, 10_000), (3, 1, 29), (2, 5, 10_000)])
def test_against_loops(seed: int, ngram: int, minimum: int, limit: int, ends: bool) -> None:
    texts, others = sentences(seed), sentences(seed + 100)
    idf = naive_fit(texts, ngram, minimum, limit, ends)
    tokenizer = BagTokenizer.fit(iter(texts), ngram=ngram, ends=ends, minimum=minimum, limit=limit)
    assert tokenizer.features == tuple(idf)
    np.testing.assert_allclose(tokenizer.idf, list(idf.values()), rtol=1e-6)
    for made, text in zip(rows(tokenizer, texts + others), texts + others, strict=True):
        assert made == pytest.approx(naive_row(text, idf, ngram), rel=1e-5)


@pytest.mark.parametrize("block", [1, 7])
def test_blocks_do_not_show(monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    texts = sentences(0)
    whole = BagTokenizer.fit(texts, ends=True)
    table = whole(texts)
    monkeypatch.setattr("longtail.text.tokens._BLOCK", block)
    parts = BagTokenizer.fit(texts, ends=True)
    assert parts.fingerprint == whole.fingerprint
    assert_same(parts(iter(texts)), table)


def assert_same(one: Ragged, other: Ragged) -> None:
    for name in Ragged.__slots__:
        left, right = getattr(one, name), getattr(other, name)
        assert left.dtype == right.dtype
        np.testing.assert_array_equal(left, right)


def test_rows_are_sorted_and_of_unit_length() -> None:
    tokenizer = BagTokenizer.fit(sentences(0))
    table = tokenizer(sentences(1))
    assert table.ids.dtype == np.int32
    assert table.weights.dtype == np.float32
    for start, end in pairwise(table.offsets):
        assert (np.diff(table.ids[start:end]) > 0).all()
        assert start == end or np.linalg.norm(table.weights[start:end]) == pytest.approx(1, rel=1e-6)


@pytest.mark.parametrize("texts", [[], [""], ["", "--", "_"], ["unknown words only"]], ids=repr)
def test_texts_without_a_known_feature_are_empty_rows(texts: list[str]) -> None:
    table = BagTokenizer.fit(["some text", "some text"])(texts)
    assert len(table) == len(texts)
    assert len(table.ids) == len(table.weights) == 0


@pytest.mark.parametrize("texts", [[], ["", ""], ["each word once"]], ids=repr)
def test_a_tokeniser_may_know_nothing(texts: list[str]) -> None:
    tokenizer = BagTokenizer.fit(texts, minimum=2)
    assert len(tokenizer) == 0
    table = tokenizer(["some", "text"])
    assert len(table) == 2
    assert len(tokenizer.batch(table, np.array([1, 0]))) == 2


def test_an_unknown_word_parts_its_neighbours() -> None:
    tokenizer = BagTokenizer.fit(["red fish"] * 2, ngram=0, ends=True)
    assert set(rows(tokenizer, ["red fish"])[0]) == {"^ red", "red", "red fish", "fish", "fish $"}
    assert set(rows(tokenizer, ["red unknown fish"])[0]) == {"^ red", "red", "fish", "fish $"}
    assert set(rows(tokenizer, ["unknown red fish"])[0]) == {"red", "red fish", "fish", "fish $"}
    assert set(rows(tokenizer, ["fish red"])[0]) == {"red", "fish"}


def test_neighbours_do_not_reach_over_the_end_of_a_text() -> None:
    tokenizer = BagTokenizer.fit(["red fish"] * 2, ngram=0, ends=True)
    assert [set(row) for row in rows(tokenizer, ["red", "fish"])] == [{"^ red", "red"}, {"fish", "fish $"}]


def test_the_first_and_the_last_word_are_told_from_the_others() -> None:
    texts = ["Row.Height property", "Height.Row property", "Row object", "Height object"] * 2
    own, other, row, height = (set(row) for row in rows(BagTokenizer.fit(texts, ngram=0, ends=True), texts[:4]))
    assert own & row == {"row", "^ row"}
    assert own & height == {"height"}
    assert other & height == {"height", "^ height"}
    assert own & other == {"row", "height", "property", "property $"}


def test_saved_and_loaded(tmp_path: Path) -> None:
    tokenizer = BagTokenizer.fit(sentences(0), ends=True)
    tokenizer.save(tmp_path)
    loaded = BagTokenizer.load(tmp_path)
    assert loaded.fingerprint == tokenizer.fingerprint
    assert loaded.features == tokenizer.features
    assert_same(loaded(sentences(1)), tokenizer(sentences(1)))


def test_the_fingerprint_tells_tokenisers_apart() -> None:
    features, idf = ("a", "b"), np.array([1.5, 2.5], np.float32)
    tokenizers = [
        BagTokenizer(features, idf, 4),
        BagTokenizer(features, idf, 3),
        BagTokenizer(("a", "c"), idf, 4),
        BagTokenizer(features, idf[::-1].copy(), 4),
    ]
    assert len({tokenizer.fingerprint for tokenizer in tokenizers}) == 4
    assert BagTokenizer(features, idf.copy(), 4).fingerprint == tokenizers[0].fingerprint


@pytest.mark.parametrize("chosen", [[3, 0, 3, 1, 17], [], [5]])
def test_batch_is_the_rows_and_knows_which_bags_hold_a_feature(chosen: list[int]) -> None:
    tokenizer = BagTokenizer.fit(sentences(0))
    table = tokenizer(sentences(1))
    tokens = tokenizer.batch(table, np.asarray(chosen, np.int64))
    assert len(tokens) == len(chosen)
    flat = [
        (bag, table.ids[at], table.weights[at])
        for bag, row in enumerate(chosen)
        for at in range(table.offsets[row], table.offsets[row + 1])
    ]
    assert tokens.ids.tolist() == [feature for _, feature, _ in flat]
    assert tokens.weights.tolist() == [weight for *_, weight in flat]
    lengths = [table.offsets[row + 1] - table.offsets[row] for row in chosen]
    assert tokens.offsets.tolist() == np.cumsum([0, *lengths]).tolist()
    features, offsets, bags, weights = (tensor.tolist() for tensor in tokens.by_feature())
    assert features == sorted({feature for _, feature, _ in flat})
    for i, feature in enumerate(features):
        place = slice(offsets[i], offsets[i + 1])
        held = [(bag, weight) for bag, other, weight in flat if other == feature]
        assert list(zip(bags[place], weights[place], strict=True)) == held
    assert offsets[-1] == len(flat)


def test_batch_of_a_table_on_disk_without_a_known_feature(tmp_path: Path) -> None:
    """Its arrays are read-only, which tensors must not be."""
    tokenizer = BagTokenizer.fit(["some text", "some text"])
    tokenizer(["", ""]).save(tmp_path / "table")
    tokens = tokenizer.batch(Ragged.load(tmp_path / "table"), np.array([0, 1]))
    assert tokens.offsets.tolist() == [0, 0, 0]
    assert [tensor.tolist() for tensor in tokens.by_feature()] == [[], [0], [], []]


@pytest.mark.parametrize("content", ["", "{", "[]", "{}"], ids=["empty", "cut", "a list", "without keys"])
def test_a_broken_file_is_refused_in_one_line(tmp_path: Path, content: str) -> None:
    (tmp_path / "bag.json").write_text(content)
    with pytest.raises(BadInput, match=r"bag\.json: expected .*; copy the model folder again, whole$"):
        BagTokenizer.load(tmp_path)


@pytest.mark.parametrize(("texts", "known"), [(499, True), (500, False)])
def test_a_word_that_occurs_once_is_known_where_texts_are_few(texts: int, known: bool) -> None:
    given = ["red fish"] * (texts - 1) + ["blue fish"]
    assert ("blue" in BagTokenizer.fit(given).features) == known
    assert ("blue" in WordTokenizer.fit(given).words) == known
