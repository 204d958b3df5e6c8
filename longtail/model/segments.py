"""Labels in parts: a large one that stays as it is, and small ones for what was added; removed labels are hidden.

A new label goes into the last part. Parts are merged so that each is many times as large as the next: a change costs
little however many went before, and a search asks few parts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import NamedTuple

import numpy as np

from longtail.data.texts import Strings, Texts
from longtail.model import Model
from longtail.model.catalogue import Change
from longtail.search.base import Index
from longtail.topk import FloatArray, IntArray, TopK, rank

RATIO = 16  # a part is at least this many times as large as the next


class Label(NamedTuple):
    """A label of a text, as it is answered.

    Attributes:
        uid: its identifier.
        text: its title.
        score: higher is better; comparable within one text and one score kind.
    """

    uid: str
    text: str
    score: float


class Names:
    """Finds strings in a sequence of n distinct ones, at 16 bytes each.

    Args:
        strings: the sequence.
    """

    def __init__(self, strings: Strings) -> None:
        hashes = np.fromiter(map(hash, strings), np.int64, len(strings))
        self._strings, self._order = strings, np.argsort(hashes)
        self._hashes = hashes[self._order]

    def __call__(self, text: str) -> int | None:
        """The place of a string, or None."""
        start, end = (int(np.searchsorted(self._hashes, hash(text), side)) for side in ("left", "right"))
        places = (int(i) for i in self._order[start:end])
        return next((i for i in places if self._strings[i] == text), None)


@dataclass(frozen=True, slots=True)
class Part:
    """Some labels of a model, of which some are hidden.

    Attributes:
        bundle: the labels.
        names: their places by uid.
        lowered: their titles one after the other, ASCII letters in lower case, for `containing`.
        hidden: places of labels that are not there any more.
        indexes: an approximate index by score kind; exact search where there is none.
    """

    bundle: Model
    names: Names
    lowered: bytes
    hidden: frozenset[int] = frozenset()
    indexes: Mapping[str, Index] = field(default_factory=dict)

    @classmethod
    def of(cls, bundle: Model, indexes: Mapping[str, Index] | None = None) -> Part:
        """All labels of a bundle."""
        return cls(
            bundle,
            Names(bundle.labels.uids),
            bundle.labels.fields["title"].blob.tobytes().lower(),
            indexes=indexes or {},
        )

    def __len__(self) -> int:
        return len(self.bundle.labels)

    def find(self, uid: str) -> int | None:
        """The place of a label that is not hidden, or None."""
        place = self.names(uid)
        return None if place in self.hidden else place

    def without(self, uids: Iterable[str]) -> Part:
        """The same with some labels hidden; uids of other labels are of no effect."""
        found = {place for place in map(self.names, uids) if place is not None} - self.hidden
        return replace(self, hidden=self.hidden | found) if found else self

    def shown(self) -> Model:
        """The labels that are not hidden."""
        return self.bundle.take(np.setdiff1d(np.arange(len(self)), list(self.hidden))) if self.hidden else self.bundle

    def search(self, vectors: FloatArray, k: int, kind: str, excluded: Collection[int] = ()) -> TopK:
        """Rank the labels that are neither hidden nor excluded.

        More than k are asked for until k are left, so that no index needs to know of hidden labels.

        Args:
            vectors: (n, D) from ``bundle.encode``.
            k: labels a text.
            kind: the score kind.
            excluded: places of labels that are not to be ranked.
        """
        index, queries = self.indexes.get(kind) or self.bundle.index(kind), self.bundle.queries(vectors, kind)
        if not self.hidden and not excluded:
            return index.search(queries, k)
        hidden = np.array([*self.hidden, *excluded], np.int64)
        most = min(len(self), k + len(hidden))
        asked = min(most, 2 * k + 8)
        while True:
            top = index.search(queries, asked)
            left = (top.ids >= 0) & ~np.isin(top.ids, hidden)  # (n, asked)
            if asked >= most or (left.sum(1) >= k).all():
                return rank(np.where(left, top.ids, -1), top.scores, k)
            asked = min(most, 4 * asked)

    def containing(self, query: str, limit: int) -> list[int]:
        """Places of up to ``limit`` labels with ``query`` in the title; upper and lower case of ASCII are the same."""
        wanted, found, at = query.encode().lower(), list[int](), 0
        offsets = self.bundle.labels.fields["title"].offsets
        while len(found) < limit and 0 <= (at := self.lowered.find(wanted, at)) < len(self.lowered):
            place = int(np.searchsorted(offsets, at, "right")) - 1
            inside = at + len(wanted) <= offsets[place + 1]
            if inside and place not in self.hidden:
                found.append(place)
            at = int(offsets[place + 1]) if inside else at + 1
        return found


@dataclass(frozen=True, slots=True)
class View:
    """The labels of a model at one moment: what one batch of requests sees.

    Attributes:
        parts: the model as it was built, then what was added, each part much smaller than the one before.
        number: of the last change that is in here.
    """

    parts: tuple[Part, ...]
    number: int

    @property
    def model(self) -> Model:
        """The model as it was built."""
        return self.parts[0].bundle

    @property
    def counts(self) -> dict[str, int]:
        """Labels: those of the model, and of these hidden; those added."""
        base, *rest = self.parts
        return {
            "model": len(base),
            "hidden": len(base.hidden),
            "added": sum(len(part) - len(part.hidden) for part in rest),
        }

    def __len__(self) -> int:
        return sum(len(part) - len(part.hidden) for part in self.parts)

    def changed(self, number: int, changes: Sequence[Change]) -> View:
        """The view after some changes, the last of which has this number."""
        if not changes:
            return self
        parts = [part.without(change.uid for change in changes) for part in self.parts]
        if added := [change for change in changes if change.text is not None]:
            parts.append(Part.of(_bundle(self.model, added)))
        while len(parts) > 2 and RATIO * len(parts[-1]) >= len(parts[-2]):
            last = parts.pop().shown()
            parts[-1] = Part.of(parts[-1].shown().followed_by(last))
        return View(tuple(parts), number)

    def folded(self) -> Model:
        """One model of all labels that are there."""
        return reduce(Model.followed_by, [part.shown() for part in self.parts])

    def find(self, uid: str) -> tuple[int, int] | None:
        """The part and place of a label, or None."""
        places = ((i, part.find(uid)) for i, part in enumerate(self.parts))
        return next(((i, place) for i, place in places if place is not None), None)

    def among(self, uids: Iterable[str]) -> Model:
        """A model of the labels with these uids; those that are not there are left out."""
        found = sorted({place for place in map(self.find, uids) if place is not None})
        taken = [self.parts[i].bundle.take(_ids(j for part, j in found if part == i)) for i in {i for i, _ in found}]
        return reduce(Model.followed_by, taken) if taken else self.model.take(_ids(()))

    def rank(self, vectors: FloatArray, k: int, kind: str, excluded: Collection[str] = ()) -> list[list[Label]]:
        """The k best labels of each text, best first.

        Args:
            vectors: (n, D) from ``model.encode``.
            k: labels a text.
            kind: the score kind.
            excluded: uids that are not to be ranked.
        """
        out = {place for place in map(self.find, excluded) if place is not None}
        starts = np.cumsum([0, *map(len, self.parts[:-1])])
        tops = [
            part.search(vectors, k, kind, [place for j, place in out if j == i]) for i, part in enumerate(self.parts)
        ]
        ids = np.concatenate(
            [np.where(top.ids < 0, -1, top.ids + start) for top, start in zip(tops, starts, strict=True)], axis=1
        )
        best = rank(ids, np.concatenate([top.scores for top in tops], axis=1), k)
        return [
            [self._label(starts, i, score) for i, score in zip(row, scores, strict=True) if i >= 0]
            for row, scores in zip(best.ids.tolist(), best.scores.tolist(), strict=True)
        ]

    def _label(self, starts: IntArray, i: int, score: float) -> Label:
        part = int(np.searchsorted(starts, i, "right")) - 1
        labels, place = self.parts[part].bundle.labels, i - int(starts[part])
        return Label(labels.uids[place], labels.fields["title"][place], score)


def _ids(places: Iterable[int]) -> IntArray:
    return np.array(list(places), np.int64)


def _bundle(model: Model, added: Sequence[Change]) -> Model:
    """A model of labels that were added."""
    labels = Texts.of([change.text or "" for change in added], uids=[change.uid for change in added])
    names = model.per_label()
    return model.over(labels, {name: np.concatenate([change.rows[name] for change in added]) for name in names})
