"""What a model knows of each of its labels: rows of arrays, and the documents that it remembers of them.

Both can be taken apart by label, as a catalogue of changes keeps them, and put together again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from longtail.search.memory import Memory
from longtail.topk import AnyArray

PerLabel: TypeAlias = Any
"""An array of m rows, or a `Memory` of documents that have some of m labels; both take rows in brackets."""


def followed(known: PerLabel, others: PerLabel) -> PerLabel:
    """What is known of some labels, and then of others."""
    return known.followed_by(others) if isinstance(known, Memory) else np.concatenate([known, others])


def by_label(known: PerLabel, labels: int) -> Sequence[AnyArray]:
    """What is known of each of m labels: its row, (1, ...), or the (e, W) vectors of the documents that have it."""
    return known.by_label() if isinstance(known, Memory) else np.split(known, labels)


def together(known: PerLabel, parts: Sequence[AnyArray]) -> PerLabel:
    """What `by_label` made, of m other labels, as it is ``known`` of those of the model."""
    return known.of_examples(parts) if isinstance(known, Memory) else np.concatenate(parts)


def without_strays(known: PerLabel) -> PerLabel:
    """The same without documents that have none of the labels any more."""
    return known.labelled() if isinstance(known, Memory) else known
