"""Labels in segments: a large one that stays as it is, and small ones for what was added; removed labels are hidden."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice

import numpy as np

from longtail.data.filters import Same
from longtail.data.sparse import CSR, holds
from longtail.data.texts import Texts
from longtail.model.base import Model
from longtail.model.per_label import without_strays
from longtail.search.base import Index
from longtail.topk import BoolArray, FloatArray, IntArray, TopK, rank


class Lookup:
    """Finds labels by their uid and by their text; what that takes is made at the first use.

    Args:
        labels: L texts.
        ids: (L,) their stable ids.
    """

    def __init__(self, labels: Texts, ids: IntArray) -> None:
        self._labels, self._ids = labels, ids

    @cached_property
    def by_uid(self) -> Same:
        """Places of labels by uid."""
        return Same(self._labels.uids)

    @cached_property
    def next_id(self) -> int:
        """The lowest id above those of the labels."""
        return int(self._ids.max(initial=-1)) + 1

    def id_of(self, uid: str) -> int | None:
        """The stable id of a label, or None."""
        place = self.by_uid.first(uid)
        return None if place is None else int(self._ids[place])

    @cached_property
    def _lowered(self) -> bytes:
        return self._labels.fields["title"].blob.tobytes().lower()

    def containing(self, query: str) -> Iterator[int]:
        """Places of the labels with ``query`` in the title; upper and lower case of ASCII are the same."""
        wanted, offsets, at = query.encode().lower(), self._labels.fields["title"].offsets, 0
        while 0 <= (at := self._lowered.find(wanted, at)) < len(self._lowered):
            place = int(np.searchsorted(offsets, at, "right")) - 1
            inside = at + len(wanted) <= offsets[place + 1]
            if inside:
                yield place
            at = int(offsets[place + 1]) if inside else at + 1


@dataclass(frozen=True, slots=True)
class Segment:
    """Some labels of a model, of which some are hidden.

    Its labels have places, in [0, L); those that are not hidden have rows, in the same order.

    Attributes:
        model: all of the labels.
        lookup: finds them.
        hidden: places of labels that are not there any more, ascending.
        indexes: an approximate index by score kind; exact search where there is none.
    """

    model: Model
    lookup: Lookup
    hidden: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))
    indexes: Mapping[str, Index] = field(default_factory=dict)

    @classmethod
    def of(cls, model: Model, indexes: Mapping[str, Index] | None = None) -> Segment:
        """All labels of a model."""
        return cls(model, Lookup(model.labels, model.ids), indexes=indexes or {})

    def __len__(self) -> int:
        return len(self.model.labels) - len(self.hidden)

    def rows(self, places: IntArray) -> IntArray:
        """The rows of labels at some places; -1 for one that is hidden, and for a place that is -1."""
        if not len(self.hidden):
            return places
        before = np.searchsorted(self.hidden, places)
        is_hidden = self.hidden[np.minimum(before, len(self.hidden) - 1)] == places
        return np.where((places < 0) | is_hidden, -1, places - before)

    def places(self, rows: IntArray) -> IntArray:
        """The places of labels in some rows."""
        return rows + np.searchsorted(self.hidden - np.arange(len(self.hidden)), rows, "right")

    def find(self, uid: str) -> int | None:
        """The row of a label that is not hidden, or None."""
        place = self.lookup.by_uid.first(uid)
        row = -1 if place is None else int(self.rows(np.array(place)))
        return None if row < 0 else row

    def containing(self, query: str, limit: int) -> list[int]:
        """Rows of up to ``limit`` labels with ``query`` in the title; upper and lower case of ASCII are the same."""
        rows = (int(self.rows(np.array(place))) for place in self.lookup.containing(query))
        return list(islice((row for row in rows if row >= 0), limit))

    def without(self, uids: Iterable[str]) -> Segment:
        """The same with some labels hidden; uids of other labels are of no effect."""
        found = [place for place in map(self.lookup.by_uid.first, uids) if place is not None]
        return replace(self, hidden=np.union1d(self.hidden, np.array(found, np.int64))) if found else self

    def places_shown(self) -> IntArray:
        """The places of the labels that are not hidden, ascending."""
        return self.places(np.arange(len(self)))

    def shown(self) -> Model:
        """The model over the labels that are not hidden."""
        return self.model.take(self.places_shown()) if len(self.hidden) else self.model

    def by_itself(self) -> Model:
        """The same without documents that have none of these labels: the examples of an added label go with it."""
        if not len(self.hidden):
            return self.model
        model = self.shown()
        rows = {name: without_strays(known) for name, known in model.per_label().items()}
        return model.over(model.labels, rows, model.ids)

    def labels(self) -> Texts:
        """The labels that are not hidden."""
        labels = self.model.labels
        return labels.take(self.places_shown()) if len(self.hidden) else labels

    def search(self, kind: str, queries: FloatArray, k: int, excluded: Excluded) -> TopK:
        """Rank rows of the labels that are neither hidden nor excluded.

        More than k are asked for until k are left, so that no index needs to know of hidden labels.

        Args:
            kind: the score kind.
            queries: (n, W) of its scorer.
            k: labels a query.
            excluded: says of (n, C) rows which are not to be ranked.
        """
        index, gone = self.indexes.get(kind) or self.model.index(kind), len(self.hidden) + excluded.most
        if not gone:
            return index.search(queries, k)
        most = max(1, min(len(self.model.labels), k + gone))
        asked = min(most, 2 * k + 8)
        while True:
            top = index.search(queries, asked)
            rows = self.rows(top.ids)
            left = (rows >= 0) & ~excluded(rows)  # (n, asked)
            if asked >= most or (left.sum(1) >= k).all():
                return rank(np.where(left, rows, -1), top.scores, k)
            asked = min(most, 4 * asked)


class Excluded:
    """Pairs of queries and labels that are not to be ranked.

    Args:
        pairs: (n, L); None for no pair.
        start: the first of the labels that are asked for.

    Attributes:
        most: labels of a query that are excluded, at most.
    """

    def __init__(self, pairs: CSR | None, start: int = 0) -> None:
        self._pairs, self._start = pairs, start
        self.most = 0 if pairs is None else int(np.diff(pairs.indptr).max(initial=0))

    def __call__(self, rows: IntArray) -> BoolArray:
        """Which of some labels of each query, (n, C) rows from the first one on, are excluded."""
        if self._pairs is None:
            return np.zeros(rows.shape, np.bool_)
        return holds(self._pairs, np.where(rows < 0, -1, rows + self._start))
