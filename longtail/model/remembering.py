"""What a model remembers of documents: by which vectors, and with which labels; and what they say of labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from longtail.arrays import load_arrays, save_arrays
from longtail.data.cooccurrence import related_labels
from longtail.data.filters import identity_pairs
from longtail.data.sparse import CSR, csr, row_of_entry
from longtail.data.texts import Strings, Texts
from longtail.errors import BadInput
from longtail.files import remove_folder
from longtail.model.base import Model
from longtail.model.scorers import Scorer, fused, remembered
from longtail.search.keys import Keys, keys_of
from longtail.search.memory import Memory
from longtail.search.narrow import Narrowing
from longtail.search.related import Related
from longtail.search.remembering import Part, Remembering
from longtail.topk import Float64Array, FloatArray, IntArray

DOCUMENTS = "documents"  # in a run folder: the titles of what its model remembers, which the model works without
_BLOCK = 16_384  # documents that are encoded at a time
_TITLE = 200  # characters of a title that are kept
_LEAST = 0.1  # share of a label's documents that is kept, delta of the thesis, eq. 1.6
_ARRAYS = ("blob", "offsets")


def key_width(model: Model) -> int:
    """The width of the vectors by which a model's documents are near each other."""
    return int(np.arange(model.width)[model.key_columns].size)


def remember(model: Model, documents: Texts, targets: CSR, weights: Float64Array) -> Memory:
    """A memory of n documents, as a model sees them: those of equal keys are one.

    Args:
        model: encodes them.
        documents: n texts.
        targets: (n, L) CSR of ones, their labels.
        weights: of the S scorers that a fusion mixes, the memory and the constant, (S + 2, F), or with a row for what
            goes with labels behind that of the memory. No document is kept where the memory's is 0.
    """
    S = len(model.mixed)
    kept = np.arange(len(documents) if weights[S].any() else 0)
    titles = documents.fields["title"].take(kept)
    keys = Keys(_keys(model, documents.take(kept)), model.device, titles)
    related = LabelTexts.of(model).related(documents, targets) if len(weights) == S + 3 else None
    return Memory(keys, CSR(targets[kept]), weights, related).merged()


class LabelTexts(NamedTuple):
    """The texts of labels, as a model sees them where they are asked about, as documents.

    Attributes:
        labels: L texts.
        keys: (L, W) unit rows, their keys.
    """

    labels: Texts
    keys: FloatArray

    @classmethod
    def of(cls, model: Model) -> LabelTexts:
        """Those of a model."""
        return cls(model.labels, _keys(model, model.labels))

    def related(self, documents: Texts, targets: CSR) -> Related:
        """What n documents say of these texts: r of `longtail.search.related`, where that is above a tenth.

        r(l, m) is 1 where a document that is label m has label l, and otherwise the share of the documents with l that
        have m, too.

        Args:
            documents: n texts.
            targets: (n, L) CSR of ones, their labels.
        """
        L = len(self.labels)
        back = CSR(targets.T @ identity_pairs(documents, self.labels))  # (L, L)
        beside = related_labels(targets, np.arange(L), threshold=_LEAST)
        rows = np.concatenate([row_of_entry(back), row_of_entry(beside)])
        columns = np.concatenate([back.indices, beside.indices])
        values = np.concatenate([np.ones(back.nnz, np.float32), beside.data])
        others = rows != columns
        return Related.of(self.keys, csr(rows[others], columns[others], (L, L), values[others]))


def _keys(model: Model, texts: Texts) -> FloatArray:
    """The keys of n texts, (n, W) unit rows."""
    keys = np.empty((len(texts), key_width(model)), np.float32)
    for start in range(0, len(texts), _BLOCK):  # what is encoded is several times as wide
        some = np.arange(start, min(start + _BLOCK, len(texts)))
        keys[some] = keys_of(model.encode(texts.take(some)), model.key_columns)
    return keys


def keep_titles(run: Path, memory: Memory | None) -> None:
    """Keep the titles of the documents of a memory with a run, to name them where a ranking is explained."""
    remove_folder(run / DOCUMENTS)
    if memory is not None and memory.keys.titles is not None:
        kept = Strings.of(title[:_TITLE] for title in memory.keys.titles)
        if len(kept.blob):
            save_arrays(run / DOCUMENTS, dict(zip(_ARRAYS, (kept.blob, kept.offsets), strict=True)))


def titles_of(run: Path, memory: Memory) -> Strings | None:
    """The titles that `keep_titles` kept, memory-mapped; None where there are none.

    Raises:
        BadInput: they are not as they were written, or not those of this memory.
    """
    folder, remedy = run / DOCUMENTS, f"remove {run / DOCUMENTS}: rankings are then explained without titles"
    if not folder.is_dir():
        return None
    titles = Strings(*load_arrays(folder, _ARRAYS, mapped=True, remedy=remedy))
    if len(titles) > (documents := len(memory.keys.vectors)):
        raise BadInput(folder, f"expected titles of {documents:,} documents, found {len(titles):,}", remedy=remedy)
    return titles


def remembering(model: Model, memory: Memory) -> Remembering:
    """What a memory of documents says of the labels of a model with a fusion."""
    assert model.fusion is not None
    part = Part(memory, memory.shares(model.fusion.frequency))
    return Remembering([part], model.key_columns, len(model.labels))


def said_of_labels(model: Model, documents: Texts, targets: CSR, vectors: FloatArray) -> CSR:
    """(n, L) what goes with those of n encoded texts that are labels, weighted.

    Args:
        model: asks what goes with labels (`longtail.search.related`).
        documents: N texts that say what goes with labels, in place of those that the model remembers.
        targets: (N, L) CSR of ones, their labels.
        vectors: of the n texts, as the model encodes them.
    """
    assert model.memory is not None
    related, none = LabelTexts.of(model).related(documents, targets), np.zeros(0, np.int64)
    asked = remembering(model, replace(model.memory.of_documents(none), related=related))
    keys = keys_of(vectors, model.key_columns)
    return asked.votes(asked.neighbours(keys), keys)


def memory_of(model: Model, examples: FloatArray, owners: IntArray, labels: int) -> Memory | None:
    """What a model remembers of e examples of m other labels, if it has a memory.

    Args:
        model: knows other labels.
        examples: (e, width + 1), as the model encodes them.
        owners: (e,) int64, the label of each.
        labels: m.
    """
    if model.memory is None:
        return None
    keys = keys_of(examples, model.key_columns)
    return model.memory.of_parts([keys[owners == i] for i in range(labels)])


def fused_scorers(model: Model, mixed: Sequence[Scorer], narrow: Narrowing | None = None) -> list[Scorer]:
    """The kinds ``fused`` and ``memory`` of a model that has them, by the scorers that are mixed."""
    if model.fusion is None:
        return []
    scorers = [fused(model.fusion, mixed, model.width, model.device, narrow)]
    if model.memory is not None:
        linear = fused(model.memory.linear(model.fusion.frequency), mixed, model.width, model.device, narrow)
        scorers.append(remembered(linear, remembering(model, model.memory)))
    return scorers
