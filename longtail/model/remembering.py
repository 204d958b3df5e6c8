"""What a model remembers of documents: by which vectors, and with which labels."""

from __future__ import annotations

from collections.abc import Sequence

from longtail.data.sparse import CSR
from longtail.data.texts import Texts
from longtail.model.base import Model
from longtail.model.scorers import Scorer, fused, remembered
from longtail.search.memory import Keys, Memory, Part, Remembering, keys_of
from longtail.topk import Float64Array, FloatArray, IntArray


def remember(model: Model, documents: Texts, targets: CSR, weights: Float64Array) -> Memory:
    """A memory of n documents, as a model sees them: those of equal keys are one.

    Args:
        model: encodes them.
        documents: n texts.
        targets: (n, L) CSR of ones, their labels.
        weights: (S + 2, 3) of the scorers that a fusion mixes, the memory and the constant.
    """
    return Memory(Keys(keys_of(model.encode(documents), model.key_columns), model.device), targets, weights).merged()


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
    return model.memory.of_examples([keys[owners == i] for i in range(labels)])


def fused_scorers(model: Model, mixed: Sequence[Scorer]) -> list[Scorer]:
    """The kinds ``fused`` and ``memory`` of a model that has them, by the scorers that are mixed."""
    if model.fusion is None:
        return []
    scorers = [fused(model.fusion, mixed, model.width, model.device)]
    if model.memory is not None:
        linear = fused(model.memory.linear(model.fusion.frequency), mixed, model.width, model.device)
        scorers.append(remembered(linear, remembering(model, model.memory)))
    return scorers
