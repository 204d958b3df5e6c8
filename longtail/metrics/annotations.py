"""Which labels of documents are likely wrong or missing: confident disagreement of a model that has not seen them.

Confident learning (Northcutt et al., 2021, section 3) compares the probability of a label with the mean over the
examples that are given it, label by label. Here a document has several labels, most labels have few documents, and what
is not given may be missing; so each pair of document and label is judged on its own, and the mean of a label is drawn
to that of labels of its frequency.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from longtail.data.sparse import CSR, row_of_entry
from longtail.topk import BoolArray, Float64Array, FloatArray, IntArray

LIKELY, SURE = 0.5, 0.7  # probabilities, of what is rather there than not, and of what is there in most cases
_GROUPS = 64  # of frequencies
_PRIOR = 2.0  # documents that the mean of labels of a frequency counts for, beside those of a label


@dataclass(frozen=True, slots=True)
class Unseen:
    """Documents, and what a model says of them that was trained without them.

    Attributes:
        targets: (n, L) the labels that they are given.
        ids: (n, K) the labels that it ranks first, filtered ones left out; -1 where there is none.
        chances: (n, K) float32, how probable each is.
        frequency: (L,) documents of each label that it was trained on.
    """

    targets: CSR
    ids: IntArray
    chances: FloatArray
    frequency: IntArray


class Doubt(NamedTuple):
    """A label of a document that is likely wrong, or one that is likely missing.

    Attributes:
        kind: which of the two.
        document: its place among all that were asked.
        label: the label.
        chance: how probable it is by the model; 0 where it is not among the labels that were ranked.
        typical: how probable the label is where it is given, other documents than this one.
        rank: of the label among those of the document, from 1; 0 where it is not ranked.
    """

    kind: Literal["wrong", "missing"]
    document: int
    label: int
    chance: float
    typical: float
    rank: int


def doubts(parts: Sequence[Unseen]) -> list[Doubt]:
    """Find labels that are likely wrong, and then those that are likely missing, the likeliest of each kind first.

    A given label is in doubt where it is no more probable than a ranked label that is not given is on average, though
    it is probable in the other documents that are given it (0.5 at least): what the model never finds is not in doubt.
    A label that is not given is in doubt where it is as probable as it is on average where it is given, and 0.7 at
    least.

    Args:
        parts: documents by the model that was asked about them, at least one part; a document is in one of them.
    """
    L = parts[0].targets.shape[1]
    starts = np.cumsum([0, *(part.targets.shape[0] for part in parts)]).tolist()
    ranked = _joined([_ranked(part, start) for part, start in zip(parts, starts, strict=False)])
    given = _joined([_given(part, start) for part, start in zip(parts, starts, strict=False)])
    at, there = _places(given, ranked, L)
    given.chances[there], given.ranks[there] = ranked.chances[at[there]], ranked.ranks[at[there]]
    others = np.ones(len(ranked.labels), bool)
    others[at[there]] = False
    usual = float(ranked.chances[others].mean()) if others.any() else 0.0
    typical = _Typical.of(given, L)
    elsewhere = typical(given, apart=given.chances)
    wrong = (given.chances <= usual) & (elsewhere >= LIKELY)
    expected = typical(ranked)
    missing = others & (ranked.chances >= np.maximum(expected, SURE))
    return [
        *_listed("wrong", given, elsewhere, wrong, elsewhere - given.chances),
        *_listed("missing", ranked, expected, missing, ranked.chances),
    ]


class _Pairs(NamedTuple):
    """E pairs of a document and a label, (E,) each; the rank is 0, and so is the chance, where a pair is not ranked."""

    documents: IntArray
    labels: IntArray
    chances: Float64Array
    ranks: IntArray
    frequency: IntArray


def _ranked(part: Unseen, start: int) -> _Pairs:
    rows, columns = np.nonzero(part.ids >= 0)
    labels = part.ids[rows, columns]
    return _Pairs(rows + start, labels, part.chances[rows, columns].astype(float), columns + 1, part.frequency[labels])


def _given(part: Unseen, start: int) -> _Pairs:
    labels, none = part.targets.indices.astype(np.int64), np.zeros(part.targets.nnz, np.int64)
    return _Pairs(row_of_entry(part.targets) + start, labels, none.astype(float), none, part.frequency[labels])


def _joined(parts: Sequence[_Pairs]) -> _Pairs:
    return _Pairs(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def _places(wanted: _Pairs, among: _Pairs, L: int) -> tuple[IntArray, BoolArray]:
    """Where each pair stands among others, and whether it does."""
    if not len(among.labels):
        return np.zeros(len(wanted.labels), np.int64), np.zeros(len(wanted.labels), bool)
    keys, sought = among.documents * L + among.labels, wanted.documents * L + wanted.labels
    order = np.argsort(keys)
    at = order[np.minimum(np.searchsorted(keys[order], sought), len(order) - 1)]
    return at, keys[at] == sought


@dataclass(frozen=True, slots=True)
class _Typical:
    """How probable labels are in the documents that are given them.

    Attributes:
        sums: (L,) of these probabilities.
        counts: (L,) of these documents.
        usual: (G,) their mean over all labels of a frequency.
    """

    sums: Float64Array
    counts: IntArray
    usual: Float64Array

    @classmethod
    def of(cls, given: _Pairs, L: int) -> _Typical:
        groups = _groups(given.frequency)
        sums = np.bincount(given.labels, given.chances, minlength=L).astype(np.float64, copy=False)
        of_group = np.bincount(groups, minlength=_GROUPS)
        usual = np.bincount(groups, given.chances, minlength=_GROUPS) / np.maximum(of_group, 1)
        return cls(sums, np.bincount(given.labels, minlength=L), usual)

    def __call__(self, pairs: _Pairs, apart: Float64Array | None = None) -> Float64Array:
        """(E,) the means for some pairs; ``apart`` are the pairs' own probabilities, where they are to be left out."""
        sums, counts = self.sums[pairs.labels], self.counts[pairs.labels]
        if apart is not None:
            sums, counts = sums - apart, counts - 1
        means: Float64Array = (sums + _PRIOR * self.usual[_groups(pairs.frequency)]) / (counts + _PRIOR)
        return means


def _groups(frequency: IntArray) -> IntArray:
    """Labels of 0, 1, 2 to 3, 4 to 7 training documents, and so on."""
    groups: IntArray = np.ceil(np.log2(frequency + 1)).astype(np.int64)
    return groups


def _listed(
    kind: Literal["wrong", "missing"], pairs: _Pairs, typical: Float64Array, chosen: BoolArray, score: Float64Array
) -> Iterator[Doubt]:
    there = np.flatnonzero(chosen)
    for i in there[np.argsort(-score[there], kind="stable")].tolist():
        pair = int(pairs.documents[i]), int(pairs.labels[i])
        yield Doubt(kind, *pair, float(pairs.chances[i]), float(typical[i]), int(pairs.ranks[i]))
