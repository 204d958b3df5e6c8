"""Words, word pairs and character n-grams with tf-idf weights: the tokens of a bag encoder."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import numpy as np
import torch

from longtail.data.ragged import Ragged
from longtail.data.sparse import gather
from longtail.data.tokens import BagTokens
from longtail.topk import FloatArray, IntArray

_RUN = re.compile(r"[^\W_]+")
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_BLOCK = 16_384  # texts that are worked on at a time


def words_of(run: str) -> tuple[str, ...]:
    """The words in a run of letters and digits, in lower case: parts of camel case, then the run if it has parts.

    Only runs of ASCII are cut: beyond it, letters without a case and letters of other alphabets may mix in one word.

    >>> words_of("GetFileAttributes"), words_of("linux")
    (('get', 'file', 'attributes', 'getfileattributes'), ('linux',))
    """
    parts = _PART.findall(run) if run.isascii() else ()
    whole = run.lower()
    return (whole,) if len(parts) < 2 else (*(part.lower() for part in parts), whole)


def character_ngrams(word: str, n: int) -> list[str]:
    """The character n-grams of a word between its borders, ``<word>``; none for a word that is one n-gram or less."""
    bordered = f"<{word}>"
    return [bordered[i : i + n] for i in range(len(bordered) - n + 1)] if len(bordered) > n else []


@dataclass(slots=True)
class Occurrences:
    """The words of some texts, in the order of the texts."""

    words: list[str]  # the distinct ones
    word: IntArray  # (W,) index into ``words`` of each occurrence
    text: IntArray  # (W,) the text it stands in


def occurrences(texts: Iterable[str], split: dict[str, tuple[str, ...]]) -> Occurrences:
    """Split texts into words; ``split`` remembers what each run of letters was split into."""
    index: dict[str, int] = {}
    flat: list[int] = []
    counts: list[int] = []
    for text in texts:
        before = len(flat)
        for run in _RUN.findall(text):
            parts = split.get(run)
            if parts is None:
                parts = split[run] = words_of(run)
            flat.extend([index.setdefault(word, len(index)) for word in parts])
        counts.append(len(flat) - before)
    return Occurrences(
        list(index), np.asarray(flat, np.int64), np.repeat(np.arange(len(counts), dtype=np.int64), counts)
    )


def blocks_of(texts: Iterable[str]) -> Iterator[list[str]]:
    """The texts, some thousand at a time."""
    iterator = iter(texts)
    while block := list(islice(iterator, _BLOCK)):
        yield block


@dataclass(frozen=True, slots=True)
class BagTokenizer:
    """Maps texts to bags of features: words (camel case split), pairs of neighbours, character n-grams of words.

    A feature's weight in a text is (1 + ln tf) idf, rows have unit length, and idf = 1 + ln(n / df) over the texts that
    the tokeniser was fitted on. Features that were never seen are left out.

    Attributes:
        features: V names in order of their ids: words as they are, pairs as ``left right``, n-grams as ``#abcd``.
        idf: (V,) float32.
        ngram: characters of an n-gram; 0 for none.
    """

    features: tuple[str, ...]
    idf: FloatArray
    ngram: int
    _index: dict[str, int] = field(init=False, repr=False, compare=False)
    _pair_keys: IntArray = field(init=False, repr=False, compare=False)
    _pair_ids: IntArray = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        index = {name: i for i, name in enumerate(self.features)}
        pairs = {i: name.split(" ") for i, name in enumerate(self.features) if " " in name}
        keys = np.asarray([(index[left] << 32) | index[right] for left, right in pairs.values()], np.int64)
        order = np.argsort(keys)
        object.__setattr__(self, "_index", index)
        object.__setattr__(self, "_pair_keys", keys[order])
        object.__setattr__(self, "_pair_ids", np.asarray(list(pairs), np.int64)[order])

    @classmethod
    def fit(cls, texts: Iterable[str], *, ngram: int = 4, minimum: int = 2, limit: int = 400_000) -> BagTokenizer:
        """Choose the features of a collection of texts.

        Args:
            texts: read once.
            ngram: characters of an n-gram; 0 for none.
            minimum: a feature is kept if it occurs in at least so many texts.
            limit: the most features kept: words and n-grams by the texts they occur in, then pairs.
        """
        frequency: Counter[str] = Counter()
        split: dict[str, tuple[str, ...]] = {}
        n = 0
        for block in blocks_of(texts):
            n += len(block)
            found = occurrences(block, split)
            for name, count in _document_frequencies(found, ngram):
                frequency[name] += count
        words = {name for name, count in frequency.items() if count >= minimum and " " not in name}
        kept = [
            (count, name)
            for name, count in frequency.items()
            if count >= minimum and (" " not in name or all(word in words for word in name.split(" ")))
        ]
        kept.sort(key=lambda item: (" " in item[1], -item[0], item[1]))  # a pair only where both its words are kept
        kept = kept[:limit]
        counts = np.asarray([count for count, _ in kept], np.float64)
        idf = (1.0 + np.log(max(n, 1) / counts)).astype(np.float32)
        return cls(tuple(name for _, name in kept), idf, ngram)

    def __len__(self) -> int:
        return len(self.features)

    @property
    def fingerprint(self) -> str:
        """A hash of features, weights and settings."""
        state = hashlib.sha256(f"bag {self.ngram}\n".encode())
        state.update("\n".join(self.features).encode("utf-8", "surrogatepass"))
        state.update(self.idf.tobytes())
        return state.hexdigest()

    def __call__(self, texts: Iterable[str]) -> Ragged:
        """The features of n texts as a table of n rows; a text without any known feature is an empty row."""
        split: dict[str, tuple[str, ...]] = {}
        return Ragged.concatenated([self._block(block, split) for block in blocks_of(texts)])

    def _block(self, texts: list[str], split: dict[str, tuple[str, ...]]) -> Ragged:
        found = occurrences(texts, split)
        word_ids = np.asarray([self._index.get(word, -1) for word in found.words], np.int64)
        grams = [[self._index[g] for g in _named_ngrams(word, self.ngram) if g in self._index] for word in found.words]
        gram_offsets = np.cumsum([0, *(len(row) for row in grams)], dtype=np.int64)
        gram_flat = np.asarray([i for row in grams for i in row], np.int64)
        positions, counts = gather(gram_offsets, found.word)
        unigram = word_ids[found.word]
        pair_text, pair = self._pairs(unigram, found.text)
        text = np.concatenate([found.text, pair_text, np.repeat(found.text, counts)])
        feature = np.concatenate([unigram, pair, gram_flat[positions]])
        return self._weighted(text[feature >= 0], feature[feature >= 0], len(texts))

    def _pairs(self, word: IntArray, text: IntArray) -> tuple[IntArray, IntArray]:
        """Known pairs of neighbouring known words: the text and the feature of each."""
        if not len(self._pair_keys):
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        near = text[1:] == text[:-1]
        keys = (word[:-1][near] << 32) | word[1:][near]  # negative where a word is unknown, -1
        at = np.minimum(np.searchsorted(self._pair_keys, keys), len(self._pair_keys) - 1)
        known = self._pair_keys[at] == keys
        return text[1:][near][known], self._pair_ids[at[known]]

    def _weighted(self, text: IntArray, feature: IntArray, n: int) -> Ragged:
        """Count features in each text, weight them, and give rows unit length."""
        keys, counts = np.unique(text * len(self) + feature, return_counts=True)
        rows, ids = keys // max(len(self), 1), keys % max(len(self), 1)
        weights = (1.0 + np.log(counts)) * self.idf[ids]
        norms = np.sqrt(np.bincount(rows, weights**2, minlength=n))
        offsets = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=n))]).astype(np.int64)
        return Ragged(ids.astype(np.int32), offsets, (weights / norms[rows]).astype(np.float32))

    def batch(self, table: Ragged, rows: IntArray) -> BagTokens:
        """The bags at ``rows`` of a table."""
        part = table.take(rows)
        arrays = (part.ids.astype(np.int64), part.offsets, part.weights)
        return BagTokens(*(torch.from_numpy(array) for array in arrays))

    def save(self, folder: Path) -> None:
        """Write ``bag.json`` into a folder."""
        state = {"ngram": self.ngram, "features": self.features, "idf": [float(x) for x in self.idf]}
        (folder / "bag.json").write_text(json.dumps(state, ensure_ascii=True), encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> BagTokenizer:
        """Read what `save` wrote."""
        state = json.loads((folder / "bag.json").read_text(encoding="utf-8"))
        return cls(tuple(state["features"]), np.asarray(state["idf"], np.float32), int(state["ngram"]))


def _named_ngrams(word: str, n: int) -> list[str]:
    return [f"#{gram}" for gram in character_ngrams(word, n)] if n else []


def _document_frequencies(found: Occurrences, ngram: int) -> Iterator[tuple[str, int]]:
    """In how many texts of a block each word, pair and n-gram occurs."""
    size = len(found.words)
    gram_index: dict[str, int] = {}
    grams = [[gram_index.setdefault(g, len(gram_index)) for g in _named_ngrams(word, ngram)] for word in found.words]
    offsets = np.cumsum([0, *(len(row) for row in grams)], dtype=np.int64)
    flat = np.asarray([i for row in grams for i in row], np.int64)
    positions, counts = gather(offsets, found.word)
    names = list(gram_index)
    for key, count in _distinct(np.repeat(found.text, counts), flat[positions]):
        yield names[key], count
    for key, count in _distinct(found.text, found.word):
        yield found.words[key], count
    near = found.text[1:] == found.text[:-1]
    pairs = found.word[:-1][near] * size + found.word[1:][near]
    for key, count in _distinct(found.text[1:][near], pairs):
        yield f"{found.words[key // size]} {found.words[key % size]}", count


def _distinct(text: IntArray, feature: IntArray) -> Iterator[tuple[int, int]]:
    """Each feature with the number of distinct texts it occurs in."""
    unique, index = np.unique(feature, return_inverse=True)
    pairs = np.sort(text * max(len(unique), 1) + index)
    pairs = pairs[np.diff(pairs, prepend=-1) > 0]  # np.unique of NumPy 2.3 and later hashes, which takes much longer
    counts = np.bincount(pairs % max(len(unique), 1), minlength=len(unique))
    yield from zip(unique.tolist(), counts.tolist(), strict=True)
