"""A memory of documents: what training documents say of a text's labels, on top of an inner product.

s(x, l) = the sum over the K documents i nearest to x of softmax(<k(x), k_i> / T) y_il: the share of x's neighbourhood
that has the label. Retrieval-augmented classification (RAE-XMC, Wang et al., 2025, arXiv 2502.10615) ranks texts of
labels and documents under one softmax; here s is a scorer beside the others, whose weight depends on the frequency of
the label, and is learned with theirs. So is r(x, l), of a text that is a label itself (`longtail.search.related`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
import torch
from scipy import sparse

from longtail.arrays import map_arrays, save_model_arrays
from longtail.data.filters import apart
from longtail.data.sparse import CSR, csr, ranked, row_of_entry, stacked, values_at, widened
from longtail.data.texts import Strings
from longtail.errors import BadInput
from longtail.search.fusion import Fusion
from longtail.search.keys import NEIGHBOURS, Keys, keys_of
from longtail.search.related import ARRAYS as RELATED_ARRAYS
from longtail.search.related import Related
from longtail.topk import Float64Array, FloatArray, IntArray, TopK, rank

TEMPERATURE = 0.07  # of their softmax, T
SHORTLIST = 100  # labels that the inner product ranks first; these are scored with the memory
RECALLED = 50  # further labels that are scored: those that the neighbours have most of
_BLOCK = 256  # texts at a time
_FILE = "memory.safetensors"
_ARRAYS = ("keys", "labels", "offsets", "weights")  # of a saved memory
_NONE: IntArray = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class Memory:
    """M documents with their labels, and what they are worth beside S other scorers.

    Attributes:
        keys: of the documents; who knows the same documents with other labels shares them.
        labels: (M, L) CSR of ones.
        weights: (S + 2, 3) float64, rows a_1, ..., a_S, that of s, and c, as those of a `Fusion`; of r, too, behind s.
        related: what goes with texts that are labels; None where that is worth nothing.
    """

    keys: Keys
    labels: CSR
    weights: Float64Array
    related: Related | None = None

    def __getitem__(self, rows: IntArray | slice) -> Memory:
        """The same documents, with what they have of some labels."""
        return replace(self, labels=CSR(self.labels[:, rows]), related=self.related and self.related[rows])

    def without(self, rows: IntArray) -> IntArray:
        """(d,) int64, the documents that have none of the labels in some rows."""
        return np.flatnonzero(np.diff(self[rows].labels.indptr) == 0)

    def of_documents(self, kept: IntArray) -> Memory:
        """The same with some of the documents, in ascending rows."""
        return replace(self, keys=self.keys.take(kept), labels=CSR(self.labels[kept]))

    def labelled(self) -> Memory:
        """Those of the documents that have a label."""
        return self.of_documents(np.flatnonzero(np.diff(self.labels.indptr)))

    def merged(self) -> Memory:
        """The same with documents of equal keys as one, at the place of the first, with the labels of all of them."""
        _, first, of = np.unique(self.keys.marks, return_index=True, return_inverse=True)
        if len(first) == len(of):
            return self
        kept = np.sort(first)  # (M',)
        rows = np.searchsorted(kept, first)[of][row_of_entry(self.labels)]
        labels = csr(rows, self.labels.indices, (len(kept), self.labels.shape[1]))
        return replace(self, keys=self.keys.take(kept), labels=labels)

    def followed_by(self, other: Memory) -> Memory:
        """The documents of both, over the labels of both."""
        labels = CSR(sparse.block_diag([self.labels, other.labels], format="csr"))
        keys = self.keys.followed_by(other.keys.vectors, other.keys.titles)
        related = self.related and other.related and self.related.followed_by(other.related)
        return replace(self, keys=keys, labels=labels, related=related).merged()

    def also(self, vectors: FloatArray, labels: CSR, titles: Strings | None = None) -> Memory:
        """Of further documents, too: (n, W) unit rows, with (n, L') labels, where L' - L are new."""
        both = stacked([widened(self.labels, labels.shape[1]), labels])
        related = self.related and self.related.over(labels.shape[1])
        return replace(self, keys=self.keys.followed_by(vectors, titles), labels=both, related=related).merged()

    def of_others(self, keys: Keys, labels: CSR) -> Memory:
        """The memory of other documents with other labels, by the same weights."""
        related = self.related and self.related.of_new(labels.shape[1])
        return Memory(keys, labels, self.weights, related).merged()

    def having(self, labels: IntArray) -> IntArray:
        """(d,) int64, the documents that have one of some labels, ascending."""
        entries = np.flatnonzero(np.isin(self.labels.indices, labels))
        return np.unique(np.searchsorted(self.labels.indptr, entries, "right") - 1)

    def by_label(self) -> list[FloatArray]:
        """The (e, W) vectors of the documents of each label."""
        columns = self.labels.tocsc()
        ends = zip(columns.indptr[:-1], columns.indptr[1:], strict=True)
        return [self.keys.vectors[columns.indices[start:end]] for start, end in ends]

    def of_parts(self, examples: Sequence[FloatArray]) -> Memory:
        """The memory of other documents with the same weights: (e, W) vectors of those of each of m labels."""
        owners = np.repeat(np.arange(len(examples)), [len(one) for one in examples])
        labels = csr(np.arange(len(owners)), owners, (len(owners), len(examples)))
        vectors = np.concatenate([self.keys.vectors[:0], *examples])
        return self.of_others(Keys(vectors, self.keys.device), labels)

    def linear(self, frequency: IntArray) -> Fusion:
        """The part of the score that is an inner product, over labels of these frequencies."""
        return Fusion(np.delete(self.weights, self._voters, axis=0), frequency)

    def shares(self, frequency: IntArray) -> FloatArray:
        """(1, L) the weights of s for each label, or (2, L) of s and r."""
        shares: FloatArray = Fusion(self.weights, frequency).label_weights()[self._voters]
        return shares

    @property
    def _voters(self) -> slice:
        """The rows of s, and of r if there is one."""
        return slice(-2 if self.related is None else -3, -1)

    def save(self, folder: Path) -> None:
        """Write it into the folder of a model."""
        labels, offsets = self.labels.indices.astype(np.int64), self.labels.indptr.astype(np.int64)
        arrays = dict(zip(_ARRAYS, (self.keys.vectors, labels, offsets, self.weights), strict=True))
        save_model_arrays(folder / _FILE, arrays | (self.related.arrays() if self.related else {}))

    @classmethod
    def in_folder(cls, folder: Path, labels: int, device: torch.device) -> Memory | None:
        """What `save` wrote, memory-mapped; None where the folder has none.

        Args:
            folder: of a model.
            labels: L.
            device: where searches run.

        Raises:
            BadInput: it is no memory of L labels.
        """
        path = folder / _FILE
        if not path.is_file():
            return None
        found, remedy = map_arrays(path), "copy the model folder again, whole"
        if found.keys() not in (set(_ARRAYS), {*_ARRAYS, *RELATED_ARRAYS}):
            problem = f"expected the arrays {', '.join(_ARRAYS)}, found {', '.join(found) or 'none'}"
            raise BadInput(path, problem, remedy=remedy)
        keys, indices, offsets, weights = (found[name] for name in _ARRAYS)
        for ids in (indices, found.get("related", _NONE)):
            if len(ids) and not 0 <= ids.min() <= ids.max() < labels:
                problem = f"expected labels below {labels}, found {ids.min()} to {ids.max()}"
                raise BadInput(path, problem, remedy=remedy)
        matrix = CSR((np.ones(len(indices), np.float32), indices, offsets), shape=(len(keys), labels))
        related = Related.of_arrays(found, labels) if "related" in found else None
        return cls(Keys(keys, device), matrix, np.array(weights), related)


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
        found = [TopK(np.zeros((0, k), np.int64), np.zeros((0, k), np.float32))]
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
