"""How a memory is asked: the nearest documents of all its parts vote, each for labels of its own part.

What goes with a text that is a label votes beside them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

import numpy as np

from longtail.data.filters import apart
from longtail.data.sparse import CSR, csr, ranked, row_of_entry, values_at
from longtail.search.keys import NEIGHBOURS, keys_of
from longtail.search.memory import Memory
from longtail.topk import BoolArray, FloatArray, IntArray, TopK, rank

TEMPERATURE = 0.07  # of the softmax over neighbours, T
SHORTLIST = 100  # labels that the inner product ranks first; these are scored with the memory
RECALLED = 50  # further labels that are scored: those that the neighbours have most of
_BLOCK = 256  # texts at a time
_NONE: IntArray = np.zeros(0, np.int64)

Rows: TypeAlias = Callable[[IntArray], IntArray]


class Part(NamedTuple):
    """A memory, and how it is asked.

    Attributes:
        memory: of some labels.
        shares: (1, L) the weights of s for its labels, or (2, L) of s and r.
        rows: where these are among all labels: -1 for one that is hidden.
        gone: (d,) int64, documents that are not asked any more.
    """

    memory: Memory
    shares: FloatArray
    rows: Rows = lambda places: places
    gone: IntArray = _NONE


class Near(NamedTuple):
    """A document that is near to a text.

    Attributes:
        title: of the document, where it is known.
        similarity: of the document and the text, a cosine in [-1, 1].
    """

    title: str | None
    similarity: float


@dataclass(frozen=True, slots=True)
class Remembering:
    """Adds what is remembered to the scores of an inner product.

    Attributes:
        parts: memories of different labels; a text's neighbours are the nearest documents of all of them.
        columns: of an encoded text, those that are compared with keys.
        labels: L, of all parts.
    """

    parts: Sequence[Part]
    columns: slice | IntArray
    labels: int

    def among(self, rows: IntArray) -> Remembering:
        """The same for some labels alone, in their order: the same documents are asked, and vote for these."""
        order = np.argsort(rows)
        ascending, places = np.append(rows[order], self.labels), np.append(order, -1)

        def within(part: Part) -> Part:
            def found(of_part: IntArray) -> IntArray:
                here = part.rows(of_part)
                at = np.searchsorted(ascending, here)
                return np.where(ascending[at] == here, places[at], -1)

            return part._replace(rows=found)

        return replace(self, parts=[within(part) for part in self.parts], labels=len(rows))

    def says_of(self, vectors: FloatArray) -> BoolArray:
        """(n,) whether there is something to be said of n encoded texts: of all, by documents that count."""
        if any(part.shares[0].any() and len(part.memory.keys.vectors) > len(part.gone) for part in self.parts):
            return np.ones(len(vectors), bool)
        keys, said = keys_of(vectors, self.columns), np.zeros(len(vectors), bool)
        for part in self.parts:
            if part.memory.related is not None:
                said[part.memory.related.places(keys)[0]] = True
        return said

    def neighbours(self, queries: FloatArray) -> list[TopK]:
        """The nearest documents of each part to (n, W) keys."""
        return [part.memory.keys.nearest(queries, part.gone) for part in self.parts]

    def nearest_with(self, label: int, key: FloatArray, k: int) -> list[Near]:
        """The k documents with a label that are nearest to a text, whose key is (W,), best first."""
        found: dict[Near, None] = {}
        for part in self.parts:
            memory, places = part.memory, np.arange(part.memory.labels.shape[1])
            documents = np.setdiff1d(memory.having(np.flatnonzero(part.rows(places) == label)), part.gone)
            cosines = memory.keys.vectors[documents] @ key
            for i in np.argsort(-cosines, kind="stable")[:k].tolist():
                found[Near(memory.keys.title(int(documents[i])), round(float(cosines[i]), 6))] = None
        return sorted(found, key=lambda near: -near.similarity)[:k]

    def votes(self, found: Sequence[TopK], keys: FloatArray) -> CSR:
        """(n, L) s of n texts and all labels, and r, both weighted; stored where it is not 0.

        Args:
            found: the `neighbours` of the texts.
            keys: (n, W) of the texts.
        """
        weights = self._weights(found)  # (n, parts * K)
        ends = np.cumsum([0, *(top.k for top in found)])
        votes = csr(_NONE, _NONE, (len(keys), self.labels))
        for part, top, start, end in zip(self.parts, found, ends[:-1], ends[1:], strict=True):
            there = (top.ids >= 0) & (weights[:, start:end] > 0)
            shape = (len(top), part.memory.labels.shape[0])
            near = csr(there.nonzero()[0], top.ids[there], shape, weights[:, start:end][there])
            voted = [CSR(near @ part.memory.labels)]
            if part.memory.related is not None:
                voted.append(part.memory.related.votes(keys))
            for one, shares in zip(voted, part.shares, strict=True):
                places, values = part.rows(one.indices.astype(np.int64)), one.data * shares[one.indices]
                kept = places >= 0
                votes = CSR(votes + csr(row_of_entry(one)[kept], places[kept], votes.shape, values[kept]))
        return votes

    def _weights(self, found: Sequence[TopK]) -> FloatArray:
        """(n, parts * K) the weight of each neighbour; a document that several parts know is one, and votes in each."""
        scores = np.concatenate([top.scores for top in found], axis=1)
        if len(found) == 1:
            return _softmax(scores)
        ids, places = np.concatenate([top.ids for top in found], axis=1), np.arange(scores.shape[1])
        marks = [part.memory.keys.marks for part in self.parts]
        known = np.concatenate([of[top.ids] if len(of) else top.ids for of, top in zip(marks, found, strict=True)], 1)
        known = np.where(ids < 0, -1 - places, known)
        first = (known[:, :, None] == known[:, None, :]).argmax(2)  # the first place of the same document
        return np.take_along_axis(_softmax(np.where(first == places, scores, -np.inf)), first, 1)

    def rescored(
        self,
        vectors: FloatArray,
        top: TopK,
        inner: Callable[[IntArray, IntArray], FloatArray],
        k: int,
        exclude: CSR | None = None,
    ) -> TopK:
        """The k best of the labels that an inner product ranks first, and of those that neighbours have most of.

        Args:
            vectors: of n texts, as they were encoded.
            top: (n, C) labels, with their inner products.
            inner: the inner products of the texts in (p,) rows with the (p,) labels beside them.
            k: labels a text.
            exclude: (n, L) pairs that must not be ranked.
        """
        keys = keys_of(vectors, self.columns)
        near = self.neighbours(keys)  # at once, so that keys are read once
        found = [TopK.nothing(0, k)]
        for at in range(0, len(vectors), _BLOCK):
            block = slice(at, at + _BLOCK)
            votes = self.votes([TopK(one.ids[block], one.scores[block]) for one in near], keys[block])
            if exclude is not None:
                votes = apart(votes, exclude[block])
            further = ranked(votes, RECALLED).ids  # (B, R)
            further[(further[:, :, None] == top.ids[block, None, :]).any(2)] = -1
            there = further >= 0
            scores = np.full(further.shape, -np.inf, np.float32)
            scores[there] = inner(at + there.nonzero()[0], further[there])
            ids = np.concatenate([top.ids[block], further], axis=1)
            scores = np.concatenate([top.scores[block], scores], axis=1)
            found.append(rank(ids, scores + values_at(votes, np.arange(len(ids)), ids), k))
        return TopK.stacked(found)


def _softmax(scores: FloatArray) -> FloatArray:
    """Of the K best of each row; 0 for the others, and for -inf."""
    if scores.shape[1] > NEIGHBOURS:
        least = -np.partition(-scores, NEIGHBOURS - 1, axis=1)[:, NEIGHBOURS - 1 : NEIGHBOURS]
        scores = np.where(scores < least, -np.inf, scores)
    top = np.maximum(scores.max(1, keepdims=True, initial=-np.inf), np.float32(-1e30))
    weights = np.exp((scores - top) / TEMPERATURE)
    return np.asarray(weights / np.maximum(weights.sum(1, keepdims=True), 1e-30), np.float32)
