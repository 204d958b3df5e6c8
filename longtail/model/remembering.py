"""What a model remembers of documents: by which vectors, and with which labels."""

from __future__ import annotations

from longtail.data.sparse import CSR
from longtail.data.texts import Texts
from longtail.model.base import Model
from longtail.search.memory import Keys, Memory, Part, Remembering, keys_of
from longtail.topk import Float64Array, IntArray


def remember(model: Model, documents: Texts, targets: CSR, weights: Float64Array) -> Memory:
    """A memory of n documents, as a model sees them.

    Args:
        model: encodes them.
        documents: n texts.
        targets: (n, L) CSR of ones, their labels.
        weights: (S + 2, 3) of the scorers that a fusion mixes, the memory and the constant.
    """
    return Memory(Keys(keys_of(model.encode(documents), model.key_columns), model.device), targets, weights)


def remembering(model: Model, memory: Memory) -> Remembering:
    """What a memory of documents says of the labels of a model with a fusion."""
    assert model.fusion is not None
    part = Part(memory, memory.shares(model.fusion.frequency))
    return Remembering([part], model.key_columns, len(model.labels))


def memory_of(model: Model, examples: Texts, owners: IntArray, labels: int) -> Memory | None:
    """What a model with a memory remembers of e examples of m other labels; None for a model without.

    Args:
        model: knows other labels.
        examples: e texts, as the model reads them.
        owners: (e,) int64, the label of each.
        labels: m.
    """
    if model.memory is None:
        return None
    keys = keys_of(model.encode(examples), model.key_columns)
    return model.memory.of_examples([keys[owners == i] for i in range(labels)])
