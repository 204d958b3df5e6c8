"""The model of a run at one moment: as it was built, with the changes of its labels on top.

A new label goes into the last segment. Segments are merged so that each is many times as large as the next: a change
costs little however many went before, a search asks few segments, and the model that all began with is never copied.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial, reduce
from pathlib import Path

import numpy as np

from longtail.data.sparse import CSR, csr_of_lists
from longtail.data.texts import Texts, canonical
from longtail.errors import BadInput
from longtail.model.base import Model
from longtail.model.calibration import Calibration
from longtail.model.catalogue import Change
from longtail.model.corrections import NONE, Corrections
from longtail.model.per_label import PerLabel, together
from longtail.model.scorers import Encoded, Scorer
from longtail.model.segments import Excluded, Segment
from longtail.modules.encoders.base import Encoder
from longtail.modules.linker import Linked
from longtail.search.fusion import Fusion
from longtail.search.memory import Memory
from longtail.search.remembering import Part
from longtail.topk import FloatArray, IntArray, TopK, best_of

RATIO = 16  # a segment is at least this many times as large as the next


class Joined:
    """Ranks the labels of several segments by one score kind, as one table of them would.

    Args:
        segments: of one model.
        kind: the score kind.
    """

    def __init__(self, segments: Sequence[Segment], kind: str) -> None:
        self._segments, self._kind = segments, kind
        *self._starts, self._labels = _starts(segments).tolist()

    def search(self, queries: FloatArray, k: int, *, exclude: CSR | None = None) -> TopK:
        """The k best labels of each of (Q, W) queries, without those of the (Q, L) pairs to exclude."""
        expected = (queries.shape[0], self._labels)
        if exclude is not None and exclude.shape != expected:
            problem = f"expected shape {expected}, found {exclude.shape}"
            raise BadInput("exclude", problem, remedy="give one row for each query")
        if len(self._segments) == 1:
            return self._segments[0].search(self._kind, queries, k, Excluded(exclude))
        parts = zip(self._starts, self._segments, strict=True)
        found = [(start, one.search(self._kind, queries, k, Excluded(exclude, start))) for start, one in parts]
        return best_of(found, k)

    def rows(self, ids: IntArray | slice) -> FloatArray:
        """The (n, W) rows of some labels in the tables of their segments."""
        places, back = _by_segment(self._segments, np.arange(self._labels)[ids])
        found = [one.model.table(self._kind, some) for one, some in zip(self._segments, places, strict=True)]
        return np.concatenate(found)[back]


class Snapshot(Model):
    """The labels of a model at one moment: what one batch of requests sees.

    Args:
        segments: the model as it was built, then what was added, each segment much smaller than the one before.
        number: of the last change of a label that is in here.
        corrections: of texts and labels.
    """

    def __init__(self, segments: Sequence[Segment], number: int, corrections: Corrections = NONE) -> None:
        self.segments, self.number, self._starts = tuple(segments), number, _starts(segments)
        self.corrections = corrections
        base = self.base
        self.recipe, self.fields, self.device = base.recipe, base.fields, base.device
        self.calibrations = base.calibrations
        self.scorers, self.mixed = (tuple(map(self._joined, scorers)) for scorers in (base.scorers, base.mixed))

    def _joined(self, scorer: Scorer) -> Scorer:
        joined = Joined(self.segments, scorer.name)
        memory = scorer.memory
        if memory is not None:
            corrected = self.corrections.remembered(self, memory.parts[0].memory, self.find)
            memory = replace(memory, parts=[*self._parts(scorer.name), *corrected], labels=len(self))
        reranking = scorer.reranking and replace(scorer.reranking, described=self.described)
        return replace(scorer, index=joined, rows=scorer.rows and joined.rows, memory=memory, reranking=reranking)

    def _parts(self, kind: str) -> Iterator[Part]:
        """What each segment remembers, with the rows of its labels here."""
        for i, (start, segment) in enumerate(zip(self._starts.tolist(), self.segments, strict=False)):
            memory = segment.model.scorer(kind).memory
            assert memory is not None
            for one in memory.parts:
                part = one._replace(rows=partial(_rows_here, segment, start))
                is_whole = i == 0 or not len(segment.hidden)
                yield part if is_whole else part._replace(gone=part.memory.without(segment.places_shown()))

    @property
    def fusion(self) -> Fusion | None:  # type: ignore[override]
        """That of the labels that are there."""
        return self.folded.fusion

    @property
    def memory(self) -> Memory | None:  # type: ignore[override]
        """That of the labels that are there."""
        return self.folded.memory

    @property
    def key_columns(self) -> slice | IntArray:
        """Those of the model."""
        return self.base.key_columns

    @property
    def base(self) -> Model:
        """The model as it was built."""
        return self.segments[0].model

    @property
    def is_base(self) -> bool:
        """Whether all that answers is the model as it was built."""
        first, *rest = self.segments
        return not (rest or len(first.hidden) or first.indexes or self.corrections.kept)

    @property
    def encoders(self) -> tuple[Encoder, ...]:
        """Those of the model."""
        return self.base.encoders

    @property
    def width(self) -> int:
        """The width of a text's vector, before the 1 that `encode` puts at its end."""
        return self.base.width

    @property
    def linked(self) -> Linked | None:
        """What links a text to nodes that enrich it, if there is something."""
        return self.base.linked

    @cached_property
    def labels(self) -> Texts:  # type: ignore[override]
        """L texts: put together at the first use, which no search needs."""
        return reduce(Texts.followed_by, [segment.labels() for segment in self.segments])

    @cached_property
    def ids(self) -> IntArray:  # type: ignore[override]
        """(L,) int64, the stable id of each row: put together at the first use, as `labels` are."""
        return np.concatenate([one.model.ids[one.places(np.arange(len(one)))] for one in self.segments])

    @cached_property
    def folded(self) -> Model:
        """One model of all labels that are there, made at the first use."""
        first, *added = self.segments
        return reduce(Model.followed_by, [first.shown(), *(one.by_itself() for one in added)])

    @property
    def counts(self) -> dict[str, int]:
        """Labels: those of the model, and of these hidden; those added."""
        first, *rest = self.segments
        return {"model": len(first.model.labels), "hidden": len(first.hidden), "added": sum(map(len, rest))}

    def __len__(self) -> int:
        return int(self._starts[-1])

    def encode(self, texts: Texts, links: IntArray | None = None) -> Encoded:
        """The float32 vectors of n texts, (n, width + 1), as those of the model."""
        return self.base.encode(texts, links)

    def rejected(self, texts: Texts) -> CSR | None:
        """(n, L) pairs of n texts and labels that were said to be wrong, or None where there are none."""
        if not self._wrong:
            return None
        columns = [texts.fields.get(name, [""] * len(texts)) for name in self.fields]
        lists = [self._wrong.get(tuple(map(canonical, text)), []) for text in zip(*columns, strict=True)]
        return csr_of_lists(lists, len(self)) if any(lists) else None

    @cached_property
    def _wrong(self) -> dict[tuple[str, ...], list[int]]:
        """Rows of labels by the texts that they are wrong for."""
        return self.corrections.wrong(self.fields, self.find)

    def new_labels(self, labels: Texts, examples: Texts, owners: IntArray) -> Model:
        """The model over m labels that it was not trained with; their ids follow the largest that there is."""
        made = self.base.new_labels(labels, examples, owners)
        return made.over(made.labels, made.per_label(), self.next_id + np.arange(len(labels)))

    def per_label(self) -> dict[str, PerLabel]:
        """What the model knows of its labels, by name, one row a label."""
        return self.folded.per_label()

    def over(self, labels: Texts, rows: Mapping[str, PerLabel], ids: IntArray) -> Model:
        """The model over other labels."""
        return self.base.over(labels, rows, ids)

    def fused_by(self, fusion: Fusion, memory: Memory | None = None) -> Model:
        """One model of all labels, with the kind ``fused``, and with the kind ``memory`` where one is given."""
        return self.folded.fused_by(fusion, memory)

    def calibrated_by(self, calibrations: Mapping[str, Calibration]) -> Model:
        """One model of all labels, with probabilities."""
        return self.folded.calibrated_by(calibrations)

    def frequency(self, rows: IntArray) -> IntArray:
        """The training points of the labels in some rows; of one that was added, the number of its examples."""
        places, back = _by_segment(self.segments, rows)
        found = [one.model.frequency(some) for one, some in zip(self.segments, places, strict=True)]
        return np.concatenate(found)[back]

    def described(self, rows: IntArray) -> tuple[Texts, IntArray]:
        """The texts of the labels in some rows, and their training points."""
        places, back = _by_segment(self.segments, rows)
        found = [one.model.labels.take(some) for one, some in zip(self.segments, places, strict=True)]
        return reduce(Texts.followed_by, found).take(back), self.frequency(rows)

    def save(self, folder: Path) -> None:
        """Write one model of all labels into a new folder, which appears whole or not at all."""
        self.folded.save(folder)

    def label(self, row: int) -> tuple[int, str, str]:
        """The id, the uid and the text of the label in a row."""
        segment = self.segments[i := self._segment_of(row)]
        return segment.model.label(int(segment.places(np.array(row - self._starts[i]))))

    def is_added(self, row: int) -> bool:
        """Whether a label has come since the model was built."""
        return self._segment_of(row) > 0

    def _segment_of(self, row: int) -> int:
        return int(np.searchsorted(self._starts, row, "right")) - 1

    def find(self, uid: str) -> int | None:
        """The row of a label, or None."""
        rows = ((i, segment.find(uid)) for i, segment in enumerate(self.segments))
        return next((int(self._starts[i]) + row for i, row in rows if row is not None), None)

    def containing(self, query: str, limit: int) -> list[int]:
        """Rows of up to ``limit`` labels with ``query`` in the title; those of the last segment first."""
        found: list[int] = []
        for start, segment in reversed([*zip(self._starts.tolist(), self.segments, strict=False)]):
            found += [start + row for row in segment.containing(query, limit - len(found))]
        return found

    def found(self, query: str, limit: int) -> list[int]:
        """Rows of up to ``limit`` labels: the one with this uid, and those with the query in the title."""
        named, found = self.find(query), self.containing(query, limit)
        return found if named is None else [named, *(row for row in found if row != named)][:limit]

    def take(self, rows: IntArray) -> Model:
        """The model over the labels in some rows, in their order."""
        of = np.searchsorted(self._starts, rows, "right") - 1
        parts = [self._part(i, rows[of == i] - self._starts[i]) for i in np.unique(of).tolist() or [0]]
        together: Model = reduce(Model.followed_by, parts)
        return together.take(_back(of))

    def _part(self, i: int, rows: IntArray) -> Model:
        """The model over the labels in some rows of a segment."""
        segment = self.segments[i]
        return segment.by_itself().take(rows) if i else segment.model.take(segment.places(rows))

    def changed(self, number: int, changes: Sequence[Change]) -> Snapshot:
        """The snapshot after some changes of labels, the last of which has this number."""
        if not changes:
            return self
        segments = [segment.without(change.uid for change in changes) for segment in self.segments]
        if added := [change for change in changes if change.text is not None]:
            segments.append(Segment.of(_model_of(self.base, added)))
        while len(segments) > 2 and RATIO * len(segments[-1]) >= len(segments[-2]):
            last = segments.pop().by_itself()
            segments[-1] = Segment.of(segments[-1].by_itself().followed_by(last))
        return Snapshot(segments, number, self.corrections)

    def corrected(self, corrections: Corrections) -> Snapshot:
        """The snapshot with other corrections."""
        return Snapshot(self.segments, self.number, corrections)


def _starts(segments: Sequence[Segment]) -> IntArray:
    """The first row of each segment, and the number of all rows."""
    return np.cumsum([0, *map(len, segments)])


def _rows_here(segment: Segment, start: int, places: IntArray) -> IntArray:
    """The rows of labels at some places of a segment whose first row is ``start``; -1 for one that is hidden."""
    rows = segment.rows(places)
    return np.where(rows < 0, -1, rows + start)


def _by_segment(segments: Sequence[Segment], rows: IntArray) -> tuple[list[IntArray], IntArray]:
    """The places in each segment of labels in some rows, and where each row is among these, segment after segment."""
    starts = _starts(segments)
    of = np.searchsorted(starts, rows, "right") - 1
    return [one.places(rows[of == i] - starts[i]) for i, one in enumerate(segments)], _back(of)


def _back(of: IntArray) -> IntArray:
    """Where things are that stood in an order, once they were sorted by the group that each is ``of``."""
    return np.argsort(np.argsort(of, kind="stable"))


def _model_of(model: Model, added: Sequence[Change]) -> Model:
    """A model of labels that were added."""
    labels = Texts.of([change.text or "" for change in added], uids=[change.uid for change in added])
    rows = {name: together(known, [change.rows[name] for change in added]) for name, known in model.per_label().items()}
    return model.over(labels, rows, np.array([change.id for change in added]))
