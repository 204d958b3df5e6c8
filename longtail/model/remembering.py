"""What a model remembers of documents: by which vectors, and with which labels."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from longtail.arrays import load_arrays, save_arrays
from longtail.data.sparse import CSR
from longtail.data.texts import Strings, Texts
from longtail.errors import BadInput
from longtail.files import remove_folder
from longtail.model.base import Model
from longtail.model.scorers import Scorer, fused, remembered
from longtail.search.keys import Keys, keys_of
from longtail.search.memory import Memory, Part, Remembering
from longtail.search.narrow import Narrowing
from longtail.topk import Float64Array, FloatArray, IntArray

DOCUMENTS = "documents"  # in a run folder: the titles of what its model remembers, which the model works without
_BLOCK = 65_536  # documents that are encoded at a time
_TITLE = 200  # characters of a title that are kept
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
        weights: (S + 2, 3) of the scorers that a fusion mixes, the memory and the constant.
    """
    keys = np.empty((len(documents), key_width(model)), np.float32)
    for start in range(0, len(documents), _BLOCK):  # what is encoded is several times as wide
        some = np.arange(start, min(start + _BLOCK, len(documents)))
        keys[some] = keys_of(model.encode(documents.take(some)), model.key_columns)
    return Memory(Keys(keys, model.device, documents.fields["title"]), targets, weights).merged()


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
