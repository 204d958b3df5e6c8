"""The labels of a run as they are now: the trained model, and the changes that its catalogue holds."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from longtail.data.texts import Strings, Texts
from longtail.devices import choose_device
from longtail.errors import BadInput
from longtail.model import Model, open_model
from longtail.model.catalogue import NAME, Catalogue, Change, Example, State
from longtail.model.segments import Part, View
from longtail.search.base import Index
from longtail.search.faiss import Approximate, Measured, build

_SAMPLE = 2_000  # label texts that an approximate index is measured with


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


class Live:
    """A run whose labels change. Every change goes through the catalogue, also those of this process.

    One thread may call `refresh`, and another `add` and `remove`.

    Args:
        run: the run folder; its catalogue is made if there is none.
        device: a torch device, or ``auto``.
        approximate: use the approximate indexes that are kept with the model, if there are any.

    Attributes:
        run: the run folder, links resolved.
        view: the labels, as of the last `refresh`.
        compacted: whether the run has a model by now that holds changes of this view: it should be opened anew.
    """

    def __init__(self, run: Path, *, device: str = "auto", approximate: bool = True) -> None:
        self.run, self._device, self._approximate = run.resolve(), choose_device(device), approximate
        if not (self.run / "model" / "bundle.json").is_file():
            raise BadInput(self.run / "model", "expected a trained model, found none", remedy="train one with --out")
        self._reader, self._writer = Catalogue(self.run), Catalogue(self.run)
        self.state = self._reader.state()
        self.view, self.compacted = self._opened(self.state), False
        self.refresh()

    def close(self) -> None:
        """Let go of the catalogue."""
        self._reader.close()
        self._writer.close()

    def refresh(self) -> View:
        """The labels with every change that was acknowledged before this call; some microseconds if there is none."""
        if self._reader.touched():
            state = self._reader.state()
            if state.dropped > self.view.number:  # what this view lacks is only in the newer model
                self.view = self._opened(state)
            self.view = self.view.changed(*self._reader.since(self.view.number))
            self.compacted = state.folder != self.state.folder
        return self.view

    def add(self, labels: Sequence[NewLabel]) -> None:
        """Add labels, or replace those with the same uid: all of them or none, on the disk when this returns.

        Raises:
            BadInput: a uid is given twice, or something is empty or no text that UTF-8 can hold.
        """
        _check(labels)
        self._writer.put(_changes(self.view.model, labels))

    def remove(self, uids: Sequence[str]) -> None:
        """Remove labels, as `add` adds them; a uid that is not there is of no effect."""
        self._writer.put([Change(uid) for uid in uids])

    def changes(self) -> list[Change]:
        """The newest change of every label that was changed since the model was built."""
        return self._writer.since(self.state.folded)[1]

    def compact(self) -> None:
        """Fold the changes into a new model folder, while others go on reading and changing the labels."""
        before, view = self.state, self.refresh()
        if view.number == before.folded:
            return
        folder = self.run / f"model-{view.number:09d}"
        shutil.rmtree(folder, ignore_errors=True)  # a crash left it
        model = view.folded()
        model.save(folder)
        for kind, index in view.parts[0].indexes.items():
            assert isinstance(index, Approximate)
            _index(model, kind, index.measured.target, index.measured.method).save(folder / "index" / kind)
        self._writer.fold(before, view.number, folder.name)
        for old in self.run.glob("model-*"):
            if old.name not in (folder.name, before.folder):
                shutil.rmtree(old, ignore_errors=True)

    def index(
        self, kind: str, *, target: float = 0.95, method: str | None = None, memory: float | None = None
    ) -> Measured:
        """Build an approximate index over the model's labels and keep it with the model.

        Args:
            kind: the score kind.
            target: recall at 10 that is asked for, measured with texts of labels as queries.
            method: hnsw or ivfpq; by default hnsw if it fits in ``memory``.
            memory: GiB that the index may take.
        """
        folder = self.run / self.state.folder / "index" / kind
        built = _index(self.view.model, kind, target, method, memory)
        shutil.rmtree(folder, ignore_errors=True)
        built.save(folder)
        return built.measured

    def _opened(self, state: State) -> View:
        folder = self.run / state.folder
        model = open_model(folder, device=self._device)
        if not any(model.labels.uids):  # labels without uids are known by their numbers
            names = Strings.of(map(str, range(len(model.labels))))
            model = model.over(Texts(names, model.labels.fields), model.per_label())
        indexes = dict(_kept(model, folder / "index")) if self._approximate else {}
        return View((Part.of(model, indexes),), state.folded)


def with_changes(run: Path, *, device: str = "auto") -> Model:
    """The model of a run with the changes of its labels, as one."""
    if not (run / NAME).exists():
        return open_model(run / "model", device=choose_device(device))
    live = Live(run, device=device, approximate=False)
    live.close()
    return live.view.folded()


def fingerprint(run: Path) -> tuple[object, ...]:
    """Changes when another run, or another model, stands behind a run's name."""
    resolved = run.resolve()
    status = (resolved / "model" / "bundle.json").stat()
    return resolved, status.st_ino, status.st_mtime_ns


def _changes(model: Model, labels: Sequence[NewLabel]) -> list[Change]:
    """What the catalogue keeps of new labels: their texts and examples, and their vectors."""
    texts = Texts.of([label.text for label in labels], uids=[label.uid for label in labels])
    examples = [example for label in labels for example in label.examples]
    owners = np.repeat(np.arange(len(labels)), [len(label.examples) for label in labels])
    rows = model.new_labels(texts, Texts.by_field(examples, model.fields), owners).per_label()
    return [
        Change(label.uid, label.text, label.examples, {name: array[i : i + 1].copy() for name, array in rows.items()})
        for i, label in enumerate(labels)
    ]


def _index(
    model: Model, kind: str, target: float, method: str | None = None, memory: float | None = None
) -> Approximate:
    places = np.random.default_rng(0).permutation(len(model.labels))[:_SAMPLE]
    queries = model.queries(model.encode(model.labels.take(places)), kind)
    rows = partial(model.table, kind)
    return build(rows, len(model.labels), queries, method=method, memory=memory, target=target)


def _kept(model: Model, folder: Path) -> Iterator[tuple[str, Index]]:
    """The approximate indexes that are kept with a model, by score kind."""
    for kind in model.kinds:
        if (folder / kind / "index.json").is_file():
            yield kind, Approximate.load(folder / kind, partial(model.table, kind))


def _check(labels: Sequence[NewLabel]) -> None:
    """Refuse what the catalogue cannot keep, or cannot tell apart."""
    uids = [label.uid for label in labels]
    if twice := [uid for uid in dict.fromkeys(uids) if uids.count(uid) > 1]:
        raise BadInput("uid", f"expected each once, found {twice[0]} twice", remedy="keep one of them")
    for uid, text, examples in labels:
        if not uid or not text.strip():
            raise BadInput("label", f"expected a uid and a text, found {uid!r}, {text!r}", remedy="give both")
        if not all(map(storable, (uid, text, *(part for example in examples for part in example.values())))):
            raise BadInput("label", f"expected UTF-8 without NUL in {uid!r}", remedy="mend its text and examples")


def storable(text: str) -> bool:
    """Whether UTF-8 can hold a text, and it has no NUL."""
    try:
        return b"\0" not in text.encode()
    except UnicodeEncodeError:
        return False
