"""What a model knows of each of its labels: rows of arrays, the documents that it remembers, the tree above them.

All can be taken apart by label, as a catalogue of changes keeps them, and put together again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from scipy.sparse import issparse

from longtail.data.sparse import csr, stacked
from longtail.topk import AnyArray

PerLabel: TypeAlias = Any
"""An array of m rows, sparse or not, a `Memory` of documents that have some of m labels, or a `Tree`; all take rows in
brackets.
"""


def followed(known: PerLabel, others: PerLabel) -> PerLabel:
    """What is known of some labels, and then of others."""
    if isinstance(known, np.ndarray):
        return np.concatenate([known, others])
    return stacked([known, others]) if issparse(known) else known.followed_by(others)


def by_label(known: PerLabel, labels: int) -> Sequence[AnyArray]:
    """What is known of each of m labels as an array: its row, (1, ...), or what a memory or a tree says of it.

    Of a sparse row that is (2, E) float64, columns and values.
    """
    if isinstance(known, np.ndarray):
        return np.split(known, labels)
    if issparse(known):
        return np.split(np.stack([known.indices.astype(np.float64), known.data]), known.indptr[1:-1], axis=1)
    parts: Sequence[AnyArray] = known.by_label()
    return parts


def together(known: PerLabel, parts: Sequence[AnyArray]) -> PerLabel:
    """What `by_label` made, of m other labels, as it is ``known`` of those of the model."""
    if isinstance(known, np.ndarray):
        return np.concatenate(parts)
    if not issparse(known):
        return known.of_parts(parts)
    owners = np.repeat(np.arange(len(parts)), [part.shape[1] for part in parts])
    columns, values = np.concatenate(parts, axis=1)
    return csr(owners, columns.astype(np.int64), (len(parts), known.shape[1]), values)


def without_strays(known: PerLabel) -> PerLabel:
    """The same without documents that have none of the labels any more."""
    return known if isinstance(known, np.ndarray) or issparse(known) else known.labelled()
