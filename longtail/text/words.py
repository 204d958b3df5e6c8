"""Sequences of words: the tokens of a convolution encoder."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from longtail.data.sparse import offsets_of
from longtail.files import COPY_AGAIN, read_json
from longtail.text.bag import Words, least_of, with_more
from longtail.text.ragged import Ragged
from longtail.text.tokens import PaddedTokens, blocks_of
from longtail.topk import IntArray


@dataclass(frozen=True, slots=True)
class WordTokenizer:
    """Maps texts to sequences of words, in lower case and with the parts of camel case (`longtail.text.bag.words_of`).

    Words that were never seen are left out, and what comes after ``max_length`` words is cut off.

    Attributes:
        words: V words in order of their ids.
        max_length: words that a text may have.
    """

    words: tuple[str, ...]
    max_length: int
    _index: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_index", {word: i for i, word in enumerate(self.words)})

    @classmethod
    def fit(
        cls, texts: Iterable[str], *, max_length: int = 32, minimum: int | None = None, limit: int = 400_000
    ) -> WordTokenizer:
        """Choose the words of a collection of texts.

        Args:
            texts: read once.
            max_length: words that a text may have.
            minimum: a word is kept if it occurs at least so often; `longtail.text.bag.least_of` the texts if left out.
            limit: the most words kept, the most frequent ones; of equally frequent ones the first by name.
        """
        words = Words()
        frequency, n = np.zeros(0, np.int64), 0
        for block in blocks_of(texts):
            n += len(block)
            word, _ = words(block)
            frequency = with_more(frequency, np.bincount(word, minlength=len(words.names)))
        minimum = minimum or least_of(n)
        counted = zip(words.names, frequency.tolist(), strict=True)
        kept = sorted((-count, word) for word, count in counted if count >= minimum)
        return cls(tuple(word for _, word in kept[:limit]), max_length)

    def __len__(self) -> int:
        return len(self.words)

    @property
    def fingerprint(self) -> str:
        """A hash of words and length."""
        names = "\n".join(self.words).encode("utf-8", "surrogatepass")
        return hashlib.sha256(f"words {self.max_length}\n".encode() + names).hexdigest()

    def __call__(self, texts: Iterable[str]) -> Ragged:
        """The words of n texts as a table of n rows; a text without any known word is an empty row."""
        words = Words()
        return Ragged.concatenated([self._block(block, words) for block in blocks_of(texts)])

    def _block(self, texts: list[str], words: Words) -> Ragged:
        word, text = words(texts)
        distinct, at = np.unique(word, return_inverse=True)
        ids = np.asarray([self._index.get(words.names[i], -1) for i in distinct.tolist()], np.int64)[at]
        ids, text = ids[ids >= 0], text[ids >= 0]
        sizes = np.bincount(text, minlength=len(texts))
        place = np.arange(len(ids)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        offsets = offsets_of(np.minimum(sizes, self.max_length))
        return Ragged(ids[place < self.max_length].astype(np.int32), offsets, np.zeros(0, np.float32))

    def batch(self, table: Ragged, rows: IntArray) -> PaddedTokens:
        """The words of B rows of a table, padded on the right to the longest of them."""
        return PaddedTokens.of(table, rows)

    def save(self, folder: Path) -> None:
        """Write ``words.json`` into a folder."""
        state = {"max_length": self.max_length, "words": self.words}
        (folder / "words.json").write_text(json.dumps(state, ensure_ascii=True), encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> WordTokenizer:
        """Read what `save` wrote."""
        keys = {"words": list, "max_length": int}
        state = read_json(folder / "words.json", keys=keys, remedy=COPY_AGAIN)
        return cls(tuple(state["words"]), int(state["max_length"]))
