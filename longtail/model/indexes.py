"""The approximate indexes of a model: how they are built, and those that are kept with it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np

from longtail.model.base import Model
from longtail.search import build_index, open_index
from longtail.search.base import Index
from longtail.search.faiss import Approximate

_SAMPLE = 2_000  # label texts that an index is measured with


def index_of(
    model: Model, kind: str, target: float, method: str | None = None, memory: float | None = None
) -> Approximate:
    """Build an index over the labels of a model, as `longtail.search.build_index` does.

    Args:
        model: whose texts of labels measure the index.
        kind: the score kind.
        target: recall at 10 that is asked for.
        method: an approximate one of `longtail.search.INDEXES`; the first that fits in ``memory`` if left out.
        memory: GiB that the index may take.
    """
    places = np.random.default_rng(0).permutation(len(model.labels))[:_SAMPLE]
    queries = model.queries(model.encode(model.labels.take(places)), kind)
    rows = partial(model.table, kind)
    return build_index(rows, len(model.labels), queries, method=method, memory=memory, target=target)


def kept_indexes(model: Model, folder: Path) -> Iterator[tuple[str, Index]]:
    """The indexes in a folder that is kept with a model, by score kind."""
    for kind in model.kinds:
        if (folder / kind).is_dir():
            yield kind, open_index(folder / kind, partial(model.table, kind))
