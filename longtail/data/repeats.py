"""Documents with the same text: within a split, and in training and test."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from longtail.data.sparse import CSR
from longtail.data.split import Split
from longtail.data.texts import Texts
from longtail.topk import BoolArray, IntArray

SHOWN = 3  # examples of each kind
_LONGEST = 160  # characters of an example


@dataclass(frozen=True, slots=True)
class Repeats:
    """Documents of a split whose text another one has, too; empty texts are none.

    Attributes:
        documents: that share their text.
        texts: that they share.
        differing: of these texts, those whose documents do not all have the same labels.
        examples: text, how many documents have it, labels of the first, labels of the last.
    """

    documents: int
    texts: int
    differing: int
    examples: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Leakage:
    """Test documents whose text a training document has, too; empty texts are none.

    Attributes:
        documents: such test documents.
        same_labels: those that have the labels of such a training document, and some.
        examples: text, labels in training, labels in test.
    """

    documents: int
    same_labels: int
    examples: tuple[tuple[str, ...], ...]


def readings(texts: Texts) -> dict[str, tuple[str, ...]]:
    """The fields that a model may read: those of its ``title``, and, where there are more, of its ``whole text``."""
    return {"title": ("title",)} | ({} if len(texts.fields) == 1 else {"whole text": tuple(texts.fields)})


def repeats(split: Split, labels: Texts, fields: Sequence[str]) -> Repeats:
    """Find the documents of a split that share their text.

    Args:
        split: n documents.
        labels: L texts, for the examples.
        fields: that a text is made of.
    """
    texts, sets = text_keys(split.documents, fields), _label_keys(split.targets)
    found, first_row, group, counts = np.unique(texts, return_index=True, return_inverse=True, return_counts=True)
    shared = (counts > 1) & (found != 0)
    kinds = np.bincount(np.unique(np.stack([group, sets]), axis=1)[0], minlength=len(found))  # label sets of each text
    differing = shared & (kinds > 1)
    examples = []
    for i in np.lexsort((first_row, -counts, ~differing, ~shared))[: min(SHOWN, int(shared.sum()))]:
        rows = np.flatnonzero(group == i)
        first, last = rows[0], rows[sets[rows] != sets[rows[0]]][-1] if differing[i] else rows[-1]
        said = (labels_of(split, row, labels) for row in (first, last))
        examples.append((_text_of(split, first, fields), f"{counts[i]:,}", *said))
    return Repeats(int(counts[shared].sum()), int(shared.sum()), int(differing.sum()), tuple(examples))


def leakage(train: Split, test: Split, labels: Texts, fields: Sequence[str]) -> Leakage:
    """Find the test documents whose text a training document has.

    Args:
        train: N documents.
        test: n documents.
        labels: L texts, for the examples.
        fields: that a text is made of.
    """
    texts = [text_keys(split.documents, fields) for split in (train, test)]
    sets = [_label_keys(split.targets) for split in (train, test)]
    leaked = np.isin(texts[1], texts[0]) & (texts[1] != 0)
    pairs = [_both(*keys) for keys in zip(texts, sets, strict=True)]
    same = leaked & np.isin(pairs[1], pairs[0]) & (np.diff(test.targets.indptr) > 0)
    examples = []
    for row in np.lexsort((~same, ~leaked))[: min(SHOWN, int(leaked.sum()))]:
        there = np.flatnonzero(texts[0] == texts[1][row])
        like = there[sets[0][there] == sets[1][row]]
        other = (like if len(like) else there)[0]
        said = labels_of(train, other, labels), labels_of(test, row, labels)
        examples.append((_text_of(test, row, fields), *said))
    return Leakage(int(leaked.sum()), int(same.sum()), tuple(examples))


def text_keys(texts: Texts, fields: Sequence[str]) -> IntArray:
    """(n,) int64 that are equal where texts are; 0 for an empty one. Others agree by chance, once in 2**64 pairs."""
    return np.fromiter((hash(text) if text.strip() else 0 for text in texts.joined(fields)), np.int64, len(texts))


def cut(text: str) -> str:
    """The beginning of a text, on one line."""
    line = " ".join(text[: 4 * _LONGEST].split())
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"


def _label_keys(targets: CSR) -> IntArray:
    """(n,) int64 that are equal where the sets of labels are: sums of a random number for each label."""
    numbers: IntArray = np.random.default_rng(0).integers(-(2**62), 2**62, targets.shape[1])
    sums = np.zeros(targets.nnz + 1, np.int64)
    np.cumsum(numbers[targets.indices], out=sums[1:])  # which may overflow: differences do not mind
    keys: IntArray = sums[targets.indptr[1:]] - sums[targets.indptr[:-1]]
    return keys


def _both(texts: IntArray, sets: IntArray) -> IntArray:
    """(n,) int64 that are equal where text and labels are."""
    keys: IntArray = texts * np.int64(6_364_136_223_846_793_005) + sets
    return keys


def labels_of(split: Split, row: int, labels: Texts) -> str:
    """A document's labels on one line, each by its text and its id."""
    ids = split.targets.indices[split.targets.indptr[row] : split.targets.indptr[row + 1]].tolist()
    return cut("; ".join(f"{labels.fields['title'][i]} [{i}]" for i in ids[:8])) if ids else "none"


def _text_of(split: Split, row: int, fields: Sequence[str]) -> str:
    return cut(next(split.documents.take(np.array([row])).joined(fields)))


def empty(texts: Texts) -> dict[str, int]:
    """Texts without a word, by field."""
    return {name: sum(not text.strip() for text in column) for name, column in texts.fields.items()}


def marked(keys: IntArray) -> BoolArray:
    """(n,) which keys are not 0 and occur again."""
    _, group, counts = np.unique(keys, return_inverse=True, return_counts=True)
    shared: BoolArray = (counts[group] > 1) & (keys != 0)
    return shared
