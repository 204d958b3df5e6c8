"""A memory of documents: what training documents say of a text's labels, on top of an inner product.

s(x, l) = the sum over the K documents i nearest to x of softmax(<k(x), k_i> / T) y_il: the share of x's neighbourhood
that has the label. Retrieval-augmented classification (RAE-XMC, Wang et al., 2025, arXiv 2502.10615) ranks texts of
labels and documents under one softmax; here s is a scorer beside the others, whose weight depends on the frequency of
the label, and is learned with theirs. So is r(x, l), of a text that is a label itself (`longtail.search.related`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from scipy import sparse

from longtail.arrays import map_arrays, save_model_arrays
from longtail.data.sparse import CSR, csr, row_of_entry, stacked, widened
from longtail.data.texts import Strings
from longtail.errors import BadInput
from longtail.files import COPY_AGAIN
from longtail.search.fusion import Fusion
from longtail.search.keys import Keys
from longtail.search.related import ARRAYS as RELATED_ARRAYS
from longtail.search.related import Related
from longtail.topk import Float64Array, FloatArray, IntArray

_FILE = "memory.safetensors"
_ARRAYS = ("keys", "labels", "offsets", "weights")  # of a saved memory
_NONE: IntArray = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class Memory:
    """M documents with their labels, and what they are worth beside S other scorers.

    Attributes:
        keys: of the documents; who knows the same documents with other labels shares them.
        labels: (M, L) CSR of ones.
        weights: (S + 2, F) float64, rows a_1, ..., a_S, that of s, and c, as those of a `Fusion`; of r, too, behind s.
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
        return np.flatnonzero(np.diff(self.labels[:, rows].indptr) == 0)

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
        found, remedy = map_arrays(path), COPY_AGAIN
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
