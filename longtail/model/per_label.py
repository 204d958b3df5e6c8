"""What a model knows of each of its labels: rows of arrays, the documents that it remembers, the tree above them.

All can be taken apart by label, as a catalogue of changes keeps them, and put together again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from longtail.topk import AnyArray

PerLabel: TypeAlias = Any
"""An array of m rows, a `Memory` of documents that have some of m labels, or a `Tree`; all take rows in brackets."""


def followed(known: PerLabel, others: PerLabel) -> PerLabel:
    """What is known of some labels, and then of others."""
    return np.concatenate([known, others]) if isinstance(known, np.ndarray) else known.followed_by(others)


def by_label(known: PerLabel, labels: int) -> Sequence[AnyArray]:
    """What is known of each of m labels as an array: its row, (1, ...), or what a memory or a tree says of it."""
    parts: Sequence[AnyArray] = np.split(known, labels) if isinstance(known, np.ndarray) else known.by_label()
    return parts


def together(known: PerLabel, parts: Sequence[AnyArray]) -> PerLabel:
    """What `by_label` made, of m other labels, as it is ``known`` of those of the model."""
    return np.concatenate(parts) if isinstance(known, np.ndarray) else known.of_parts(parts)


def without_strays(known: PerLabel) -> PerLabel:
    """The same without documents that have none of the labels any more."""
    return known if isinstance(known, np.ndarray) else known.labelled()
