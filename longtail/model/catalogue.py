"""The label changes of a run, durable in SQLite beside its model: what was acknowledged survives a crash."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from longtail.errors import BadInput, LongtailError
from longtail.model import integrity
from longtail.model.catalogue_file import CatalogueFile
from longtail.model.integrity import CORRECTIONS, LABELS, NAME, broken, checked
from longtail.topk import AnyArray, FloatArray

_FOLDER = re.compile(r"model(-[0-9]+)?")  # that a model of a run has

Example = Mapping[str, str]  # a document, by field
Known: TypeAlias = Callable[[str], "int | None"]  # the stable id of a label by its uid, or None


class Change(NamedTuple):
    """The newest change of one label.

    Attributes:
        uid: of the label.
        text: of the label, or None where it was removed.
        examples: documents that have the label.
        rows: its row of each array of `Model.per_label`, with a first dimension of 1, and the (e, W) vectors of its
            examples where the model has a memory; empty where it was removed.
        id: its stable id, which the catalogue gives it for good; -1 where it has none.
    """

    uid: str
    text: str | None = None
    examples: Sequence[Example] = ()
    rows: Mapping[str, AnyArray] = {}
    id: int = -1


class Correction(NamedTuple):
    """What a person says of a text and a label.

    Attributes:
        document: the text, by field.
        uid: of the label.
        is_right: whether the text has the label; where it has not, the label is not given to the text.
        vector: (W,) float32, the text's key in the model's memory; (0,) where none is kept.
        number: that the catalogue gives it; of the same text and label the newest one stays.
    """

    document: Example
    uid: str
    is_right: bool
    vector: FloatArray = np.zeros(0, np.float32)
    number: int = 0


class State(NamedTuple):
    """Where a catalogue stands. Changes are numbered from 1.

    Attributes:
        last: number of the last change.
        folded: changes up to here are in the model of ``folder``.
        dropped: changes up to here may no longer be in the catalogue.
        folder: of the model that changes come on top of, relative to the run.
        numbered: whether that model was compacted with the stable ids of its labels; earlier versions left them out.
    """

    last: int = 0
    folded: int = 0
    dropped: int = 0
    folder: str = "model"
    numbered: bool = True


class Catalogue(CatalogueFile):
    """The changes of a run's labels, in ``RUN/labels.sqlite``; any number of processes may read and write it.

    A change is on the disk before `put` returns, and a correction before `correct` does. The table ``ids`` keeps the id
    of every label that was ever changed.
    """

    def state(self) -> State:
        """Where the catalogue stands.

        Raises:
            BadInput: the model that it names is none of the run's.
        """
        (found,) = self._rows("SELECT last, folded, dropped, folder, numbered FROM state")
        state = State(*found)
        if not _FOLDER.fullmatch(str(state.folder)):
            raise broken(self.path, f"one on top of {state.folder!r}")
        return state

    def since(self, number: int) -> tuple[int, list[Change]]:
        """The number of the last change, and the newest change of each label among those after ``number``."""
        query = """
            SELECT labels.uid, number, text, examples, rows, labels.digest, id, ids.digest
            FROM labels LEFT JOIN ids USING (uid) WHERE number > ? ORDER BY number
        """
        changes = []
        for *row, known, digest in self._rows(query, number):
            checked(self.path, row)
            uid, number, text, examples, rows, _ = row
            if known is not None:
                checked(self.path, (uid, known, digest))
            elif text is not None:
                raise broken(self.path, f"no id of {uid}")
            given = -1 if known is None else known
            changes.append(Change(uid, text, json.loads(examples), _arrays(rows), given))
        return number, changes

    def put(self, changes: Sequence[Change], known: Known = lambda _: None, first: int = 0) -> int:
        """Record changes, all of them or none, and say how many; they are on the disk when this returns.

        A label that had an id before keeps it; another that is added gets the next one that no label ever had. One that
        was removed already, perhaps by somebody else a moment ago, is not removed again.

        Args:
            changes: without ids.
            known: gives the id of a label of the model that the changes come on top of, or None.
            first: no label of that model has this id or a higher one.
        """
        with self._changing():
            changes = [change for change in changes if change.text is not None or not self._is_removed(change.uid)]
            self._number([(change.uid, change.text is not None) for change in changes], known, first)
            numbers = self._further(len(changes))
            for number, change in zip(numbers, changes, strict=True):
                row = (change.uid, number, change.text, json.dumps(list(change.examples)), save(dict(change.rows)))
                self._replace("labels", f"{LABELS} WHERE uid = ?", (change.uid,), row)
        integrity.remember(self.path, self._identity, numbers.stop - 1)
        return len(changes)

    def _is_removed(self, uid: str) -> bool:
        """Whether the newest change of a label is that it was removed."""
        query = "SELECT 1 FROM labels WHERE uid = ? AND text IS NULL"
        return self._connection.execute(query, (uid,)).fetchone() is not None

    def _further(self, count: int) -> range:
        """Numbers of so many further changes."""
        following = self.state().last + 1
        self._connection.execute("UPDATE state SET last = last + ?", (count,))
        return range(following, following + count)

    def _replace(self, table: str, query: str, values: Sequence[object], row: Sequence[object]) -> None:
        """Put a row into a table of six columns, in the place of those of a query."""
        self._drop(query, *values)
        row = (*row, self._counted(*row))
        self._connection.execute(f"INSERT OR REPLACE INTO {table} VALUES (?, ?, ?, ?, ?, ?)", row)  # noqa: S608

    def corrections(self, after: int) -> tuple[list[int], list[Correction]]:
        """The numbers of all corrections, ascending, and those of them that were made after a number."""
        new = []
        for row in self._rows(f"{CORRECTIONS} WHERE number > ? ORDER BY number", after):
            checked(self.path, row)
            number, uid, document, is_right, vector, _ = row
            new.append(Correction(json.loads(document), uid, bool(is_right), np.frombuffer(vector, np.float32), number))
        return [number for (number,) in self._rows("SELECT number FROM corrections ORDER BY number")], new

    def correct(self, corrections: Sequence[Correction]) -> list[Correction]:
        """Record corrections, all of them or none, and give them numbers; they are on the disk when this returns."""
        with self._changing():
            numbers = self._further(len(corrections))
            for number, one in zip(numbers, corrections, strict=True):
                document = json.dumps(one.document, sort_keys=True)
                row = (number, one.uid, document, int(one.is_right), one.vector.astype(np.float32).tobytes())
                self._replace("corrections", f"{CORRECTIONS} WHERE uid = ? AND document = ?", row[1:3], row)
        integrity.remember(self.path, self._identity, numbers.stop - 1)
        return [one._replace(number=number) for number, one in zip(numbers, corrections, strict=True)]

    def withdraw(self, number: int) -> bool:
        """Remove a correction, as `correct` records it, and say whether it was there."""
        with self._changing():
            self._drop(f"{CORRECTIONS} WHERE number = ?", number)
            found = self._connection.execute("DELETE FROM corrections WHERE number = ?", (number,)).rowcount
            numbers = self._further(found)
        integrity.remember(self.path, self._identity, numbers.stop - 1)
        return bool(found)

    def number(self, known: Known, first: int) -> None:
        """Give ids to the labels of a catalogue that an earlier version made, in the order of their changes.

        Args:
            known: as for `put`.
            first: as for `put`.
        """
        query = "SELECT uid, text IS NOT NULL FROM labels WHERE uid NOT IN (SELECT uid FROM ids) ORDER BY number"
        found = self._connection.execute(query).fetchall()
        if missing := [(uid, is_there) for uid, is_there in found if is_there or known(uid) is not None]:
            with self._changing():
                self._number(missing, known, first)

    def keep(self, ids: Mapping[str, int]) -> None:
        """Keep the ids of labels that are in no model any more, for the day that they are added again."""
        with self._changing():
            self._number([(uid, False) for uid in ids], ids.get, 0)

    def _number(self, uids: Iterable[tuple[str, bool]], known: Known, first: int) -> None:
        """Give ids to labels that have none; to those that are removed (not True), only an id that was known."""
        (highest,) = self._connection.execute("SELECT COALESCE(MAX(id), -1) FROM ids").fetchone()
        following = max(first, highest + 1)
        for uid, is_there in uids:
            if self._connection.execute("SELECT 1 FROM ids WHERE uid = ?", (uid,)).fetchone() is None:
                given = known(uid)
                if given is None and is_there:
                    given, following = following, following + 1
                if given is not None:
                    row = (uid, given, self._counted(uid, given))
                    self._connection.execute("INSERT INTO ids VALUES (?, ?, ?)", row)

    def fold(self, before: State, number: int, folder: str) -> None:
        """From now on changes come on top of the model in ``folder``, which holds those up to ``number``.

        The changes that were folded the time before are dropped: nobody who reads this catalogue lacks them.

        Raises:
            LongtailError: somebody else has folded since ``before`` was read.
        """
        with self._changing():
            if self.state().folder != before.folder:
                raise LongtailError("another process has compacted the labels meanwhile; nothing is left to do")
            self._drop(f"{LABELS} WHERE number <= ?", before.folded)
            self._connection.execute("DELETE FROM labels WHERE number <= ?", (before.folded,))
            self._connection.execute(
                "UPDATE state SET folded = ?, dropped = ?, folder = ?, numbered = 1", (number, before.folded, folder)
            )


def _arrays(blob: bytes) -> Mapping[str, AnyArray]:
    try:
        rows: Mapping[str, AnyArray] = load(blob)
    except SafetensorError as error:
        raise BadInput(NAME, f"expected the vectors of a label, found {error}", remedy="add the label again") from error
    return rows


def state_of(run: Path) -> State:
    """Where the labels of a run stand: which model they come on top of, and how many changes they have seen."""
    integrity.must_be_there(run)
    if not (run / NAME).exists():
        return State()
    catalogue = Catalogue(run)
    state = catalogue.state()
    catalogue.close()
    return state
