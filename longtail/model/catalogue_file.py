"""The SQLite file of a catalogue: how it is opened, changed in transactions, checked and copied."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from longtail.cards import read_card
from longtail.errors import BadInput, LongtailError
from longtail.files import COPY_AGAIN, must_be_a_file, replacing
from longtail.hashes import sha256
from longtail.model import integrity
from longtail.model.integrity import BACKUP, NAME, RESTORE, Unusable, checked, unusable
from longtail.model.saved import CARD

_PRAGMAS = "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"
_OF_THE_FILE = {sqlite3.OperationalError, sqlite3.DatabaseError}  # other errors are faults of a program
_BUSY = 30.0  # seconds to wait for another process that writes


class CatalogueFile:
    """A SQLite file beside the model of a run, for any number of processes.

    A change is one transaction, on the disk (write-ahead log, full synchronisation) before it is acknowledged. A file
    of an earlier version, which lacks tables or columns, is brought up to date in place. Not for use by two threads at
    once.

    In a folder that cannot be written the file is only read, as it is when it is opened: there, SQLite cannot tell
    others that it reads. Where another process is just writing it elsewhere, its changes are seen.

    Every row is checked when the file is opened, and again when it is read (`longtail.model.integrity`).

    Args:
        run: the run folder; the file is made where there never was one.

    Raises:
        BadInput: the file was made for another model than the run's, or is not as it was written.
    """

    def __init__(self, run: Path) -> None:
        integrity.must_be_there(run)
        self.path, self._delta = run / NAME, 0
        trained = sha256(run / "model" / CARD)
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
            self._must_be_of(run / "model" / CARD, trained, found)
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
            read_card(card, remedy=COPY_AGAIN)
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

    def _counted(self, *row: object) -> str:
        """The digest of a row that comes, which the end of the transaction counts."""
        digest = integrity.digest(*row)
        self._delta ^= int(digest, 16)
        return digest

    def _drop(self, query: str, *values: object) -> None:
        """Count the rows of a query as gone."""
        for row in self._connection.execute(query, values).fetchall():
            self._delta ^= checked(self.path, row)

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
