"""Labels whose texts are equal, or nearly: people may mean one of them by the other."""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from longtail.data.repeats import SHOWN, cut, marked
from longtail.data.sparse import CSR, csr
from longtail.data.texts import Strings, caseless
from longtail.topk import Float64Array, IntArray

NEAR = 0.8  # Jaccard similarity of character trigrams
_BANDS, _ROWS = 24, 5  # of a MinHash signature: at 0.8 a pair shares one of the bands but for 1 in 15,000
_AHEAD = 3  # labels with the same hash that each is compared with
_BLOCK = 2**22  # trigrams hashed at a time

Keys = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class Alike:
    """Labels whose text another label has, by one of three readings.

    Of labels that are equal by one reading, the next ones compare the first with others.

    Attributes:
        labels: that have such another.
        examples: the texts of two, and how many training documents each has.
    """

    labels: int
    examples: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class LabelTexts:
    """Labels that a text alone does not tell apart, or hardly.

    Attributes:
        equal: with the same text; empty texts are none.
        folded: with the same text but for case, punctuation, spaces and compatible characters (Unicode NFKC).
        near: with at least 0.8 of their character trigrams, in that form, in common (Jaccard similarity).
        labels: that are among any of these, each counted once.
    """

    equal: Alike
    folded: Alike
    near: Alike
    labels: int


def label_texts(titles: Strings, frequency: IntArray) -> LabelTexts:
    """Find labels with equal and with nearly equal texts.

    Near ones are looked for with MinHash, and then compared: what is found is right, and next to nothing is missed
    while few labels resemble each other. Time and memory grow with the number of labels.

    Args:
        titles: L texts.
        frequency: (L,) training documents of each, for the examples.
    """
    forms = [folded(title) for title in titles]
    exact = np.fromiter((hash(title) if title.strip() else 0 for title in titles), np.int64, len(titles))
    form = np.fromiter((hash(text) if text else 0 for text in forms), np.int64, len(forms))
    equal = marked(exact)
    _, first = np.unique(exact, return_index=True)
    one_each = np.sort(first)  # of equal texts, the first one
    other = np.zeros(len(forms), bool)
    other[one_each] = marked(form[one_each])
    _, first = np.unique(form, return_index=True)
    distinct = np.sort(first[form[first] != 0])
    left, right, _ = near_pairs([forms[i] for i in distinct], NEAR)
    left, right = distinct[left], distinct[right]
    most = np.argsort(-np.minimum(frequency[left], frequency[right]), kind="stable")

    def said(pairs: Sequence[tuple[int, int]]) -> tuple[tuple[str, ...], ...]:
        return tuple(
            (cut(titles[i]), cut(titles[j]), f"{frequency[i]:,}", f"{frequency[j]:,}") for i, j in pairs[:SHOWN]
        )

    near = list(zip(left[most].tolist(), right[most].tolist(), strict=True))
    alike = equal | other
    alike[left] = alike[right] = True
    return LabelTexts(
        Alike(int(equal.sum()), said(_pairs(exact, equal, frequency))),
        Alike(int(other.sum()), said(_pairs(form, other, frequency))),
        Alike(len(np.unique(np.concatenate([left, right]))), said(near)),
        int(alike.sum()),
    )


def folded(text: str) -> str:
    """A text in Unicode NFKC, without case and punctuation, with one space between words."""
    plain = caseless(text)
    return " ".join(plain.translate(_punctuation()).split()) or plain.strip()


@cache
def _punctuation() -> dict[int, None]:
    return {i: None for i in range(sys.maxunicode + 1) if unicodedata.category(chr(i))[0] == "P"}


def _pairs(keys: IntArray, there: npt.NDArray[np.bool_], frequency: IntArray) -> list[tuple[int, int]]:
    """Two labels of each group of equal keys, of the groups with the most frequent labels first."""
    groups: dict[int, list[int]] = {}
    for row in np.flatnonzero(there).tolist():
        groups.setdefault(int(keys[row]), []).append(row)
    two = [sorted(rows, key=lambda row: -int(frequency[row]))[:2] for rows in groups.values()]
    two.sort(key=lambda rows: -int(frequency[rows[0]]))
    return [(one, other) for one, other in two[:SHOWN]]


def near_pairs(texts: Sequence[str], least: float) -> tuple[IntArray, IntArray, Float64Array]:
    """Pairs of texts with many trigrams of characters in common.

    A signature of each text is the least of its hashed trigrams under each of 120 hash functions (Broder, 1997). Texts
    that agree in one of its 24 bands of 5 are sorted by it and by what follows, and each is compared with the next
    three: so there are at most 72 comparisons a text, whatever the texts are.

    Args:
        texts: n of them, none empty.
        least: Jaccard similarity, above 0.

    Returns:
        Two (p,) int64 arrays of places, the first below the second, and (p,) float64 similarities of at least
        ``least``.
    """
    grams = trigrams(texts)
    bands = _bands(grams)  # (_BANDS, n)
    candidates = []
    for band, following in zip(bands, np.roll(bands, -1, axis=0), strict=True):
        order = np.lexsort((following, band))
        for step in range(1, min(_AHEAD, len(order) - 1) + 1):
            ahead = np.stack([order[:-step], order[step:]])
            candidates.append(ahead[:, band[ahead[0]] == band[ahead[1]]])
    if not candidates:
        none = np.zeros(0, np.int64)
        return none, none, np.zeros(0)
    pairs = np.sort(np.concatenate(candidates, axis=1), axis=0)
    left, right = np.divmod(np.unique(pairs[0] * len(texts) + pairs[1]), len(texts))
    sizes, common = np.diff(grams.indptr), np.zeros(len(left))
    for start in range(0, len(left), _BLOCK // 64):
        part = slice(start, start + _BLOCK // 64)
        common[part] = grams[left[part]].multiply(grams[right[part]]).sum(1)
    similarity = common / (sizes[left] + sizes[right] - common)
    enough = similarity >= least
    return left[enough], right[enough], similarity[enough]


def trigrams(texts: Sequence[str]) -> CSR:
    """(n, V) CSR of ones: which runs of three characters each text has, with a space before and behind it."""
    padded = [f" {text} " for text in texts]
    sizes = np.fromiter(map(len, padded), np.int64, len(padded))
    points = np.frombuffer("".join(padded).encode("utf-32-le", "surrogatepass"), np.uint32).astype(np.uint64)
    codes = points[:-2] << np.uint64(42) | points[1:-1] << np.uint64(21) | points[2:] if len(points) > 2 else points[:0]
    row = np.repeat(np.arange(len(padded)), sizes)[: len(codes)]
    inside = row == np.repeat(np.arange(len(padded)), sizes)[2:]
    kinds, of_code = np.unique(codes[inside], return_inverse=True)
    return csr(row[inside], of_code.astype(np.int64), (len(padded), max(1, len(kinds))))


def _bands(grams: CSR) -> Keys:
    """(_BANDS, n) one number for each band of each text's signature."""
    generator = np.random.default_rng(0)
    bands = np.zeros((_BANDS, grams.shape[0]), np.uint64)
    for band in range(_BANDS):
        for _ in range(_ROWS):
            number = generator.integers(2**64, size=grams.shape[1], dtype=np.uint64)  # a random order of the trigrams
            least = np.minimum.reduceat(number[grams.indices], grams.indptr[:-1]) if grams.nnz else bands[band]
            bands[band] = (bands[band] ^ least) * np.uint64(6_364_136_223_846_793_005)
    return bands
