"""Words, word pairs and character n-grams with tf-idf weights: the tokens of a bag encoder."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from unicodedata import category

import numpy as np
import torch

from longtail.data.sparse import gather, offsets_of
from longtail.files import COPY_AGAIN, read_json
from longtail.text.ragged import Ragged
from longtail.text.tokens import BagTokens, blocks_of
from longtail.topk import FloatArray, IntArray

_MARKS = "".join(chr(code) for code in range(0x300, 0x20000) if category(chr(code)) in {"Mn", "Mc"})
# Letters and digits, with the marks on them: vowel signs of Indic scripts are no letters to the module re.
RUN = re.compile(rf"[^\W_]+(?:[{_MARKS}]+[^\W_]*)*")
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
ENDS = ("^", "$")  # stand for the begin and the end of a text in pairs; no word is called so
_FEW = 500  # texts, of which fewer leave too little to learn from without the words that occur once


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


class Words:
    """The words of texts, numbered as they are met; each run of letters and digits is split once.

    Args:
        ends: whether the words of a text stand between `ENDS`, which have the first numbers then.

    Attributes:
        names: of the words, in order of their numbers.
    """

    def __init__(self, *, ends: bool = False) -> None:
        self.names: list[str] = [*ENDS] if ends else []
        self._ends = ends
        self._numbers = {name: i for i, name in enumerate(self.names)}
        self._runs: dict[str, tuple[int, ...]] = {}

    def __call__(self, texts: Iterable[str]) -> tuple[IntArray, IntArray]:
        """The number of each occurring word, (W,), and the text that it stands in, (W,), in the order of the texts."""
        words: list[int] = []
        sizes: list[int] = []
        for text in texts:
            before = len(words)
            for run in RUN.findall(text):
                numbers = self._runs.get(run)
                words += self._numbered(run) if numbers is None else numbers
            if self._ends and len(words) > before:
                words[before:] = [0, *words[before:], 1]
            sizes.append(len(words) - before)
        return np.asarray(words, np.int64), np.repeat(np.arange(len(sizes), dtype=np.int64), sizes)

    def _numbered(self, run: str) -> tuple[int, ...]:
        words = words_of(run)
        for word in words:
            if self._numbers.setdefault(word, len(self.names)) == len(self.names):
                self.names.append(word)
        numbers = self._runs[run] = tuple(self._numbers[word] for word in words)
        return numbers


class _Rows:
    """Numbers for each word, row after row; rows of words that were met since are added behind."""

    def __init__(self, row_of: Callable[[str], list[int]]) -> None:
        self._row_of = row_of
        self._flat, self._offsets = np.zeros(0, np.int64), np.zeros(1, np.int64)

    def __call__(self, words: Words) -> tuple[IntArray, IntArray]:
        """The numbers of all words; those of word i are ``flat[offsets[i]:offsets[i + 1]]``."""
        new = [self._row_of(name) for name in words.names[len(self._offsets) - 1 :]]
        ends = self._offsets[-1] + np.cumsum([len(row) for row in new], dtype=np.int64)
        self._flat = np.concatenate([self._flat, np.fromiter(chain.from_iterable(new), np.int64)])
        self._offsets = np.concatenate([self._offsets, ends])
        return self._flat, self._offsets


def with_more(before: IntArray, now: IntArray) -> IntArray:
    """Add counts of some words to those of a block in which new ones were met; ``now`` becomes the sum."""
    now[: len(before)] += before
    return now


def least_of(texts: int) -> int:
    """In how many out of so many texts a word has to occur to be known: all words are where texts are few."""
    return 1 if texts < _FEW else 2


@dataclass(frozen=True, slots=True)
class BagTokenizer:
    """Maps texts to bags of features: words (camel case split), pairs of neighbours, character n-grams of words.

    A feature's weight in a text is (1 + ln tf) idf, rows have unit length, and idf = 1 + ln(n / df) over the texts that
    the tokeniser was fitted on. Features that were never seen are left out.

    Attributes:
        features: V names in order of their ids: words as they are, pairs as ``left right``, with ``^`` for the begin of
            a text and ``$`` for its end, n-grams as ``#abcd``.
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
        index = {name: i for i, name in enumerate(self.features)} | dict.fromkeys(ENDS, len(self.features))
        pairs = {i: name.split(" ") for i, name in enumerate(self.features) if " " in name}
        keys = np.asarray([(index[left] << 32) | index[right] for left, right in pairs.values()], np.int64)
        order = np.argsort(keys)
        object.__setattr__(self, "_index", index)
        object.__setattr__(self, "_pair_keys", keys[order])
        object.__setattr__(self, "_pair_ids", np.asarray(list(pairs), np.int64)[order])

    @classmethod
    def fit(
        cls,
        texts: Iterable[str],
        *,
        ngram: int = 4,
        ends: bool = False,
        minimum: int | None = None,
        limit: int = 400_000,
    ) -> BagTokenizer:
        """Choose the features of a collection of texts.

        Args:
            texts: read once.
            ngram: characters of an n-gram; 0 for none.
            ends: pairs of a text's begin and its first word, and of its last word and its end, are features, too.
            minimum: a feature is kept if it occurs in at least so many texts; `least_of` them if left out.
            limit: the most features kept: words and n-grams by the texts they occur in, then pairs.
        """
        words, numbers, n = Words(ends=ends), dict[str, int](), 0
        rows = _Rows(lambda word: [numbers.setdefault(gram, len(numbers)) for gram in _named_ngrams(word, ngram)])
        of_words, of_grams = np.zeros(len(words.names), np.int64), np.zeros(0, np.int64)
        of_pairs: list[tuple[IntArray, IntArray]] = []
        for block in blocks_of(texts):
            n += len(block)
            word, text = words(block)
            of_words = with_more(of_words, _texts_with(word, text, len(words.names)))
            grams, offsets = rows(words)
            positions, counts = gather(offsets, word)
            of_grams = with_more(of_grams, _texts_with(grams[positions], np.repeat(text, counts), len(numbers)))
            pair, where = _pairs(word, text)
            pairs, index = np.unique(pair, return_inverse=True)
            of_pairs.append((pairs, _texts_with(index, where, len(pairs))))
        minimum = minimum or least_of(n)
        start = len(ENDS) * ends
        counted = zip(words.names[start:], of_words[start:].tolist(), strict=True)
        kept = [(-count, name) for name, count in counted if count >= minimum]
        kept += [(-count, name) for name, count in zip(numbers, of_grams.tolist(), strict=True) if count >= minimum]
        kept = sorted(kept) + sorted(_frequent_pairs(of_pairs, words.names, of_words, minimum))
        kept = kept[:limit]
        frequency = -np.asarray([count for count, _ in kept], np.float64)
        idf = (1.0 + np.log(max(n, 1) / frequency)).astype(np.float32)
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
        words = Words(ends=True)  # who was fitted without ends knows none of their pairs
        rows = _Rows(self._features_of)
        return Ragged.concatenated([self._block(block, words, rows) for block in blocks_of(texts)])

    def _features_of(self, word: str) -> list[int]:
        """The feature of a word, -1 for none and V for an end, and those of its n-grams."""
        grams = [self._index[gram] for gram in _named_ngrams(word, self.ngram) if gram in self._index]
        return [self._index.get(word, -1), *grams]

    def _block(self, texts: list[str], words: Words, rows: _Rows) -> Ragged:
        word, text = words(texts)
        features, offsets = rows(words)
        positions, counts = gather(offsets, word)
        pair, pair_text = self._known_pairs(*_pairs(features[offsets[word]], text))
        feature = np.concatenate([features[positions], pair])
        where = np.concatenate([np.repeat(text, counts), pair_text])
        known = (feature >= 0) & (feature < len(self))
        return self._weighted(where[known], feature[known], len(texts))

    def _known_pairs(self, pair: IntArray, text: IntArray) -> tuple[IntArray, IntArray]:
        """The features of pairs, and the texts that they stand in; pairs that are none are left out."""
        if not len(self._pair_keys):
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        at = np.minimum(np.searchsorted(self._pair_keys, pair), len(self._pair_keys) - 1)
        known = self._pair_keys[at] == pair
        return self._pair_ids[at[known]], text[known]

    def _weighted(self, text: IntArray, feature: IntArray, n: int) -> Ragged:
        """Count features in each text, weight them, and give rows unit length."""
        keys, counts = np.unique(text * len(self) + feature, return_counts=True)
        rows, ids = keys // max(len(self), 1), keys % max(len(self), 1)
        weights = (1.0 + np.log(counts)) * self.idf[ids]
        norms = np.sqrt(np.bincount(rows, weights**2, minlength=n))
        offsets = offsets_of(np.bincount(rows, minlength=n))
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
        keys = {"features": list, "idf": list, "ngram": int}
        state = read_json(folder / "bag.json", keys=keys, remedy=COPY_AGAIN)
        return cls(tuple(state["features"]), np.asarray(state["idf"], np.float32), int(state["ngram"]))


def _named_ngrams(word: str, n: int) -> list[str]:
    return [f"#{gram}" for gram in character_ngrams(word, n)] if n and word not in ENDS else []


def _pairs(word: IntArray, text: IntArray) -> tuple[IntArray, IntArray]:
    """Each two words that stand side by side, left << 32 | right, and their text; below 0 where one of them is -1."""
    near = text[1:] == text[:-1]
    return (word[:-1][near] << 32) | word[1:][near], text[1:][near]


def _texts_with(feature: IntArray, text: IntArray, size: int) -> IntArray:
    """In how many texts each of ``size`` features stands, (size,)."""
    keys = np.sort(text * size + feature)
    distinct = keys[np.diff(keys, prepend=-1) > 0]
    return np.bincount(distinct % max(size, 1), minlength=size)


def _frequent_pairs(
    found: list[tuple[IntArray, IntArray]], words: list[str], of_words: IntArray, minimum: int
) -> Iterator[tuple[int, str]]:
    """The pairs of some blocks that are frequent, and whose words are: -count and name."""
    if not found:
        return
    pairs, index = np.unique(np.concatenate([pairs for pairs, _ in found]), return_inverse=True)
    counts = np.bincount(index, np.concatenate([counts for _, counts in found]), len(pairs)).astype(np.int64)
    left, right = pairs >> 32, pairs & 0xFFFFFFFF
    kept = (counts >= minimum) & (of_words[left] >= minimum) & (of_words[right] >= minimum)
    for count, one, other in zip(counts[kept].tolist(), left[kept].tolist(), right[kept].tolist(), strict=True):
        yield -count, f"{words[one]} {words[other]}"
