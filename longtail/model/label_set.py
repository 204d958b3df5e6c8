"""The labels of a run as they are now: the trained model, and the changes that its catalogue holds."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from longtail.data.texts import MEND_TEXT, STORABLE, Texts, storable
from longtail.devices import choose_device
from longtail.errors import BadInput, LongtailError
from longtail.files import remove_folder, remove_partial
from longtail.locks import alone
from longtail.model.base import Model
from longtail.model.catalogue import Catalogue, Change, Correction, Example, State, state_of
from longtail.model.corrections import checked
from longtail.model.exports import keep_exports, open_to_answer
from longtail.model.indexes import index_of, kept_indexes
from longtail.model.integrity import NAME, must_be_there
from longtail.model.narrowing import narrowing_of, still_narrowed
from longtail.model.opening import open_model
from longtail.model.per_label import by_label
from longtail.model.remembering import titles_of
from longtail.model.saved import CARD, must_be_trained
from longtail.model.segments import Segment
from longtail.model.snapshot import Snapshot
from longtail.search.faiss import Approximate, Measured


class NewLabel(NamedTuple):
    """A label to add.

    Attributes:
        uid: its identifier; a label that has it already is replaced.
        text: its title.
        examples: documents that have it, by field.
    """

    uid: str
    text: str
    examples: Sequence[Example] = ()


class LabelSet:
    """The label set of a run as it is now. Every change goes through the catalogue, also those of this process.

    It is what `longtail.load`, ``longtail predict`` and the server answer with. The catalogue is made by the first
    change: to open a run without changes writes nothing. One thread may call `refresh`, and another `add` and `remove`.

    Args:
        run: the run folder.
        device: a torch device, or ``auto``.
        exact: leave aside the approximate indexes that are kept with the model, and look for labels by all numbers.

    Attributes:
        run: the run folder, links resolved.
        snapshot: the labels, as of the last `refresh`.
        compacted: whether the run has a model by now that holds changes of this snapshot: it should be opened anew.

    Raises:
        BadInput: the folder has no trained model, or its catalogue is of another.
    """

    def __init__(self, run: Path, *, device: str = "auto", exact: bool = False) -> None:
        self.run, self._device, self._exact = run.resolve(), choose_device(device), exact
        must_be_trained(self.run)
        must_be_there(self.run)
        self._path = str(self.run / NAME)
        self._reader: Catalogue | None = None
        self._made_writer: Catalogue | None = None
        self.compacted = False
        reader = self._opened_reader()
        self.state = State() if reader is None else reader.state()
        self.snapshot = self._opened(self.state)
        self.refresh()

    def close(self) -> None:
        """Let go of the catalogue."""
        for catalogue in (self._reader, self._made_writer):
            if catalogue is not None:
                catalogue.close()

    @property
    def model(self) -> Model:
        """What answers: the snapshot, or the model as it was built where that is the same."""
        return self.snapshot.base if self.snapshot.is_base else self.snapshot

    def refresh(self) -> Snapshot:
        """The labels with every change that was acknowledged before this call; some microseconds if there is none."""
        reader = self._opened_reader()
        if reader is not None and reader.touched():
            found, state = reader.since(self.snapshot.number), reader.state()
            while state.dropped > self.snapshot.number:  # what this snapshot lacks is only in the newer model
                self.snapshot = self._opened(state)
                found, state = reader.since(self.snapshot.number), reader.state()
            self.snapshot = self.snapshot.changed(*found)
            kept = self.snapshot.corrections
            there, new = reader.corrections(kept.number)
            if new or len(there) < len(kept.kept):
                self.snapshot = self.snapshot.corrected(kept.updated(there, new))
            self.compacted = state.folder != self.state.folder
        return self.snapshot

    def add(self, labels: Sequence[NewLabel]) -> None:
        """Add labels, or replace those with the same uid: all of them or none, on the disk when this returns.

        Raises:
            BadInput: a uid is given twice, or something is empty or no text that UTF-8 can hold.
        """
        _check(labels)
        self._put(_changes(self.snapshot.base, labels))

    def remove(self, uids: Sequence[str]) -> int:
        """Remove labels, as `add` adds them, and say how many; one that was removed before does not count."""
        return self._put([Change(uid) for uid in uids])

    def correct(self, corrections: Sequence[Correction]) -> list[Correction]:
        """Keep what a person says of texts and labels: all of it or nothing, on the disk when this returns.

        A text that has a label is a document that a model with a memory asks from now on; a label that is wrong for a
        text is not given to it any more. Both stay over compactions, until they are withdrawn. Of the same text and
        label the newest correction stays.

        Returns:
            The same with their numbers, and the vectors by which texts are remembered.

        Raises:
            BadInput: there is no such label, or a text is empty or none that UTF-8 can hold.
        """
        kept = checked(self.snapshot.base, corrections, self.snapshot.find)
        return self._writer.correct(kept)

    def withdraw(self, number: int) -> bool:
        """Take a correction back, as `correct` keeps it, and say whether it was there."""
        return self._writer.withdraw(number)

    def corrected_texts(self) -> list[dict[str, Any]]:
        """The texts of corrections, each with title, perhaps content, labels and uids, wrong and wrong_uids, and ids.

        As JSON lines they are a table of documents that `longtail train` reads, and ``labels correct --input``, too.
        """

        def text_of(uid: str) -> str | None:
            row = snapshot.find(uid)
            return None if row is None else snapshot.label(row)[2]

        snapshot = self.refresh()
        return snapshot.corrections.texts(text_of)

    def _put(self, changes: Sequence[Change]) -> int:
        trained = self.snapshot.segments[0].lookup
        return self._writer.put(changes, trained.id_of, trained.next_id)

    def changes(self) -> list[Change]:
        """The newest change of every label that was changed since the model was built."""
        reader = self._opened_reader()
        return [] if reader is None else reader.since(self.state.folded)[1]

    def compact(self) -> None:
        """Fold the changes into a new model folder, while others go on reading and changing the labels.

        Raises:
            LongtailError: they were compacted after they were opened here.
        """
        with self._alone():
            if self._reader is None:
                return
            if self.snapshot.number > self.state.folded:
                self._fold(self.state, self.snapshot)
            self._writer.back_up()  # also where a crash came between the two

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Work in the run alone, on the model that was opened: who works on an older one would remove the run's."""
        with alone(self.run):
            self.refresh()
            if self.compacted:
                raise LongtailError("the labels were compacted after this process opened them; start again")
            remove_partial(self.run)
            yield

    def folded(self, snapshot: Snapshot) -> Model:
        """One model of all labels of a snapshot, to be saved: it looks for labels as the one that was built."""
        model = snapshot.folded
        looks = narrowing_of(model) is not None
        return model if looks else still_narrowed(model, self._narrow, snapshot.counts["added"])

    def _fold(self, before: State, snapshot: Snapshot) -> None:
        folder = self.run / f"model-{snapshot.number:09d}"
        remove_folder(folder)  # a crash left it
        model = self.folded(snapshot)
        model.save(folder)
        keep_exports(self.run / before.folder, folder)
        for kind, index in snapshot.segments[0].indexes.items():
            assert isinstance(index, Approximate)
            index_of(model, kind, index.measured.target, index.measured.method).save(folder / "index" / kind)
        self._writer.fold(before, snapshot.number, folder.name)
        for old in self.run.glob("model-*"):
            if old.name not in (folder.name, before.folder):
                with suppress(OSError):  # Windows keeps what another process has mapped
                    remove_folder(old)

    def index(
        self,
        kind: str | None = None,
        *,
        target: float = 0.95,
        method: str | None = None,
        memory: float | None = None,
    ) -> Measured:
        """Build an approximate index over the model's labels and keep it with the model.

        Args:
            kind: the score kind; the best one if left out.
            target: recall at 10 that is asked for, measured with texts of labels as queries.
            method: an approximate one of `longtail.search.INDEXES`; by default the first of hnsw, ivfpq and ivfpq-disk
                that fits in ``memory``.
            memory: GiB that the index may take.

        Raises:
            LongtailError: the labels were compacted after they were opened here.
        """
        with self._alone():
            name = self.snapshot.scorer(kind).name
            folder = self.run / self.state.folder / "index" / name
            built = index_of(self.snapshot.base, name, target, method, memory)
            remove_folder(folder)
            built.save(folder)
            return built.measured

    @property
    def _writer(self) -> Catalogue:
        if self._made_writer is None:
            remove_partial(self.run)
            self._made_writer = Catalogue(self.run)
        return self._made_writer

    def _opened_reader(self) -> Catalogue | None:
        """The catalogue, once there is one."""
        if self._reader is None and os.path.exists(self._path):  # noqa: PTH110  (asked for at every request)
            self._reader = Catalogue(self.run)
        return self._reader

    def _opened(self, state: State) -> Snapshot:
        folder = self.run / state.folder
        model = open_to_answer(folder, device=self._device)
        if model.memory is not None:
            model.memory.keys.titles = titles_of(self.run, model.memory)
        if not state.numbered and state.folder != "model":
            model = self._numbered(model)
        self._narrow = narrowing_of(model)
        if self._exact:
            model = model.over(model.labels, model.per_label(), model.ids)  # looks for labels by all numbers
        indexes = {} if self._exact else dict(kept_indexes(model, folder / "index"))
        first = Segment.of(model, indexes)
        if self._reader is not None:
            self._reader.number(first.lookup.id_of, first.lookup.next_id)
        return Snapshot([first], state.folded)

    def _numbered(self, model: Model) -> Model:
        """A model that an earlier version compacted, which left the ids of its labels out.

        Labels that were trained have their rows in the trained model again; those that were added follow in their
        order, as no answer has told anyone their ids for good.
        """
        trained = open_model(self.run / "model", device=self._device)
        known = dict(zip(trained.labels.uids, trained.ids.tolist(), strict=True))
        following = count(trained.next_id)
        ids = [known.pop(uid) if uid in known else next(following) for uid in model.labels.uids]
        if self._reader is not None:
            self._reader.keep(known)
        return model.over(model.labels, model.per_label(), np.array(ids, np.int64))


def changes_made(run: Path) -> int:
    """How many changes the labels of a run have seen since it was trained."""
    return state_of(run).last


def fingerprint(run: Path) -> tuple[object, ...]:
    """Changes when another run, or another model, stands behind a run's name."""
    resolved = run.resolve()
    status = (resolved / "model" / CARD).stat()
    return resolved, status.st_ino, status.st_mtime_ns


def _changes(model: Model, labels: Sequence[NewLabel]) -> list[Change]:
    """What the catalogue keeps of new labels: their texts and examples, and their vectors."""
    texts = Texts.of([label.text for label in labels], uids=[label.uid for label in labels])
    examples = [example for label in labels for example in label.examples]
    owners = np.repeat(np.arange(len(labels)), [len(label.examples) for label in labels])
    known = model.new_labels(texts, Texts.by_field(examples, model.fields), owners).per_label()
    rows = {name: by_label(rows, len(labels)) for name, rows in known.items()}
    return [
        Change(label.uid, label.text, label.examples, {name: of_label[i].copy() for name, of_label in rows.items()})
        for i, label in enumerate(labels)
    ]


def _check(labels: Sequence[NewLabel]) -> None:
    """Refuse what the catalogue cannot keep, or cannot tell apart."""
    uids = [label.uid for label in labels]
    if twice := [uid for uid in dict.fromkeys(uids) if uids.count(uid) > 1]:
        raise BadInput("uid", f"expected each once, found {twice[0]} twice", remedy="keep one of them")
    for uid, text, examples in labels:
        if not uid or not text.strip():
            raise BadInput("label", f"expected a uid and a text, found {uid!r}, {text!r}", remedy="give both")
        if not all(map(storable, (uid, text, *(part for example in examples for part in example.values())))):
            raise BadInput("label", f"{STORABLE}, in {uid!r} and its examples", remedy=MEND_TEXT)
