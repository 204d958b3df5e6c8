"""The label changes of a run, durable in SQLite beside its model: what was acknowledged survives a crash."""

from __future__ import annotations

import json
import os
import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from safetensors import SafetensorError
from safetensors.numpy import load, save

from longtail.cards import read_card
from longtail.errors import BadInput, LongtailError
from longtail.files import must_be_a_file, replacing
from longtail.hashes import sha256
from longtail.model import integrity
from longtail.model.integrity import BACKUP, LABELS, NAME, RESTORE, Unusable, broken, checked, unusable
from longtail.topk import AnyArray

_PRAGMAS = "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"
_FOLDER = re.compile(r"model(-[0-9]+)?")  # that a model of a run has
_OF_THE_FILE = {sqlite3.OperationalError, sqlite3.DatabaseError}  # other errors are faults of a program
_BUSY = 30.0  # seconds to wait for another process that writes

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


class Catalogue:
    """The changes of a run's labels, in ``RUN/labels.sqlite``; any number of processes may read and write it.

    A change is one transaction, on the disk (write-ahead log, full synchronisation) before `put` returns. The table
    ``ids`` keeps the id of every label that was ever changed. A file of an earlier version, which lacks tables or
    columns, is brought up to date in place. Not for use by two threads at once.

    In a folder that cannot be written the catalogue is only read, as it is when it is opened: there, SQLite cannot tell
    others that it reads. Where another process is just writing it elsewhere, its changes are seen.

    Every row is checked when the catalogue is opened, and again when it is read (`longtail.model.integrity`).

    Args:
        run: the run folder; the catalogue is made where there never was one.

    Raises:
        BadInput: the catalogue was made for another model than the run's, or is not as it was written.
    """

    def __init__(self, run: Path) -> None:
        integrity.must_be_there(run)
        self.path, self._delta = run / NAME, 0
        trained = sha256(run / "model" / "bundle.json")
        must_be_a_file(self.path, remedy=RESTORE)
        self._is_fixed = not all(os.access(path, os.W_OK) for path in (run, self.path) if path.exists())
        if not self.path.exists():
            self._must_be_writable()
        try:
            self._connection = sqlite3.connect(
                _address(self.path) if self._is_fixed else self.path,
                uri=self._is_fixed,
                timeout=_BUSY,
                isolation_level=None,
                check_same_thread=False,
                cached_statements=32,
            )
        except sqlite3.Error as error:
            raise unusable(self.path, error) from error
        try:
            self._connection.execute("PRAGMA trusted_schema = OFF")
            if not self._is_fixed:
                self._connection.executescript(_PRAGMAS)
            with self._transaction("BEGIN" if self._is_fixed else "BEGIN IMMEDIATE"):
                if not self._is_fixed:
                    integrity.bring_up_to_date(self._connection, self.path, trained)
                found, last, self._identity = integrity.check(self._connection, self.path)
            self._must_be_of(run / "model" / "bundle.json", trained, found)
        except (sqlite3.Error, UnicodeDecodeError) as error:  # the latter of a message with a name that is broken
            self.close()
            raise unusable(self.path, error) from error
        except LongtailError:
            self.close()
            raise
        if not self._is_fixed:
            integrity.remember(self.path, self._identity, last)
        self._version, self._file = -1, _file(self.path)

    def _must_be_of(self, card: Path, trained: str, found: str) -> None:
        """Refuse the changes of another model; or, if that is why it seems to be another, a card that is broken."""
        if found != trained:
            read_card(card, remedy="copy the model folder again, whole")
            problem = f"expected changes of this model ({trained[:12]}), found those of another ({found[:12]})"
            raise BadInput(self.path, problem, remedy="move it away, and add its labels to this model")

    def _must_be_writable(self) -> None:
        if self._is_fixed:
            problem = "expected a catalogue that this process may write, found one that it may only read"
            raise BadInput(self.path, problem, remedy="change labels where the run folder can be written")

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """A transaction that changes rows."""
        self._must_be_writable()
        with self._transaction():
            yield
            integrity.sign(self._connection, self._delta)
            if _file(self.path) != self._file:  # what is written to a file without a name is lost
                problem = "expected the catalogue that was opened, found that it was removed or replaced meanwhile"
                raise Unusable(self.path, problem, remedy=RESTORE)

    @contextmanager
    def _transaction(self, begin: str = "BEGIN IMMEDIATE") -> Iterator[None]:
        self._delta = 0
        try:
            self._connection.execute(begin)
            yield
            self._connection.execute("COMMIT")
        except BaseException as error:
            if self._connection.in_transaction:  # SQLite ends it by itself where the disk fails
                self._connection.execute("ROLLBACK")
            if isinstance(error, Exception) and type(error) in _OF_THE_FILE:
                raise unusable(self.path, error) from error
            raise

    def _rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        """The rows of a query."""
        try:
            return self._connection.execute(query, values).fetchall()
        except sqlite3.Error as error:
            raise unusable(self.path, error) from error

    def touched(self) -> bool:
        """Whether anybody else has changed the catalogue since this was last asked; some microseconds."""
        before, ((self._version,),) = self._version, self._rows("PRAGMA data_version")
        return before != self._version

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

    def put(self, changes: Sequence[Change], known: Known = lambda _: None, first: int = 0) -> None:
        """Record changes, all of them or none; they are on the disk when this returns.

        A label that had an id before keeps it; another that is added gets the next one that no label ever had.

        Args:
            changes: without ids.
            known: gives the id of a label of the model that the changes come on top of, or None.
            first: no label of that model has this id or a higher one.
        """
        with self._changing():
            self._number([(change.uid, change.text is not None) for change in changes], known, first)
            (last,) = self._connection.execute("SELECT last FROM state").fetchone()
            for number, change in enumerate(changes, last + 1):
                row = (change.uid, number, change.text, json.dumps(list(change.examples)), save(dict(change.rows)))
                self._drop(f"{LABELS} WHERE uid = ?", change.uid)
                values = (*row, self._counted(*row))
                self._connection.execute("INSERT OR REPLACE INTO labels VALUES (?, ?, ?, ?, ?, ?)", values)
            self._connection.execute("UPDATE state SET last = ?", (last + len(changes),))
        integrity.remember(self.path, self._identity, last + len(changes))

    def _counted(self, *row: object) -> str:
        """The digest of a row that comes, which the end of the transaction counts."""
        digest = integrity.digest(*row)
        self._delta ^= int(digest, 16)
        return digest

    def _drop(self, query: str, value: object) -> None:
        """Count the rows of a query as gone."""
        for row in self._connection.execute(query, (value,)).fetchall():
            self._delta ^= checked(self.path, row)

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

    def back_up(self) -> None:
        """Write a copy of the catalogue beside it, whole or not at all."""
        with replacing(self.path.with_name(BACKUP)) as temporary:
            self._rows("VACUUM INTO ?", str(temporary))


def _address(path: Path) -> str:
    """Of a catalogue that is only read. Without a log beside it nobody has it open, and SQLite needs no lock."""
    log = path.with_name(f"{NAME}-wal")
    return f"{path.absolute().as_uri()}?mode=ro{'' if log.exists() else '&immutable=1'}"


def _file(path: Path) -> tuple[int, int]:
    """Which file has a name."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return 0, 0
    return status.st_dev, status.st_ino


def _arrays(blob: bytes) -> Mapping[str, AnyArray]:
    try:
        rows: Mapping[str, AnyArray] = load(blob)
    except SafetensorError as error:
        raise BadInput(NAME, f"expected the vectors of a label, found {error}", remedy="add the label again") from error
    return rows
