"""What shows that a catalogue is the one that was written: digests of its rows, and what the run knows of it.

Every row has a digest of itself, and the state one of itself and of all rows: the exclusive or of their digests, which
a change brings up to date without reading the others. Beside the catalogue the run keeps which one it has and how many
changes that has seen, so that one that was emptied, taken away, or lost its last changes is noticed.
"""

from __future__ import annotations

import hashlib
import secrets
import sqlite3
from collections.abc import Sequence
from pathlib import Path

from longtail.errors import BadInput
from longtail.files import read_json, replacing

NAME = "labels.sqlite"
KNOWN = "labels.json"  # what the run knows of its catalogue: which one it is, and how many changes it has seen
BACKUP = "labels.backup.sqlite"  # the catalogue as the last compaction left it
RESTORE = (  # a log that is left would be written over the copy
    f"remove {NAME}-wal, {NAME}-shm and {KNOWN}, and copy {BACKUP}, which the last compaction left, to {NAME}, or "
    f"remove {NAME}, too, to go on without its changes"
)
LABELS = "SELECT uid, number, text, examples, rows, digest FROM labels"
CORRECTIONS = "SELECT number, uid, document, is_right, vector, digest FROM corrections"
_BLOCKED = ("locked", "readonly", "unable to open", "is full", "I/O", "permission")  # SQLite, of a file that is whole
_IDS = "SELECT uid, id, digest FROM ids"
_STATE = "SELECT trained, last, folded, dropped, folder, numbered, identity, total, digest FROM state"
_TABLES = """
CREATE TABLE IF NOT EXISTS labels (
    uid TEXT PRIMARY KEY, number INTEGER NOT NULL UNIQUE, text TEXT, examples TEXT NOT NULL, rows BLOB NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS state (
    only INTEGER PRIMARY KEY CHECK (only = 1), trained TEXT NOT NULL, last INTEGER NOT NULL, folded INTEGER NOT NULL,
    dropped INTEGER NOT NULL, folder TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS ids (uid TEXT PRIMARY KEY, id INTEGER NOT NULL UNIQUE) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS corrections (
    number INTEGER PRIMARY KEY, uid TEXT NOT NULL, document TEXT NOT NULL, is_right INTEGER NOT NULL,
    vector BLOB NOT NULL, digest TEXT NOT NULL, UNIQUE (uid, document)
);
"""
_LATER = (  # columns that came later, and what they are in a catalogue of an earlier version
    ("labels", "digest TEXT NOT NULL DEFAULT ''"),
    ("state", "numbered INTEGER NOT NULL DEFAULT 0"),
    ("state", "identity TEXT NOT NULL DEFAULT ''"),
    ("state", "total TEXT NOT NULL DEFAULT '0'"),
    ("state", "digest TEXT NOT NULL DEFAULT ''"),
    ("ids", "digest TEXT NOT NULL DEFAULT ''"),
)


class Unusable(BadInput):
    """SQLite refuses a catalogue: it is broken, or cannot be used now."""


def must_be_there(run: Path) -> None:
    """Refuse a run that knows of a catalogue which is not there, or is empty.

    Raises:
        BadInput: it was taken away, or emptied.
    """
    path = run / NAME
    if (run / KNOWN).exists() and not (path.exists() and path.stat().st_size):
        raise broken(path, "none")


def broken(path: Path, found: str) -> BadInput:
    """The error of a catalogue that is not the one that was written."""
    return BadInput(path, f"expected the catalogue that this run has written, found {found}", remedy=RESTORE)


def unusable(path: Path, error: Exception) -> Unusable:
    """The error of a catalogue that SQLite refuses: a broken one, or one that this process cannot use now."""
    remedy = RESTORE
    if any(words in str(error) for words in _BLOCKED):
        remedy = "nothing of it is lost: see that this process may write there and no other one holds it, and try again"
    return Unusable(path, f"expected a catalogue of labels, found {error}", remedy=remedy)


def bring_up_to_date(connection: sqlite3.Connection, path: Path, trained: str) -> None:
    """Make the tables of a new catalogue, and give one of an earlier version what it lacks.

    Args:
        connection: in a transaction.
        path: of the catalogue.
        trained: the hash of the run's model.

    Raises:
        BadInput: the catalogue has no tables, where the run knows that it had.
    """
    is_new = connection.execute("SELECT 1 FROM sqlite_master").fetchone() is None
    is_known = path.with_name(KNOWN).exists()
    if is_new and is_known:
        raise broken(path, "none")
    for statement in filter(str.strip, _TABLES.split(";")):
        connection.execute(statement)
    for table, column in _LATER:
        if column.split()[0] not in [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]:
            connection.execute(f"ALTER TABLE {table} ADD COLUMN {column}")
    if is_new:
        new = "INSERT INTO state (only, trained, last, folded, dropped, folder, numbered) VALUES (1, ?, 0, 0, 0, ?, 1)"
        connection.execute(new, (trained, "model"))
    if not is_known and connection.execute("SELECT 1 FROM state WHERE identity = ''").fetchone():
        total = 0
        for query, table in ((LABELS, "labels"), (_IDS, "ids")):
            for *row, _ in connection.execute(query).fetchall():
                total ^= int(found := digest(*row), 16)
                connection.execute(f"UPDATE {table} SET digest = ? WHERE uid = ?", (found, row[0]))  # noqa: S608
        connection.execute("UPDATE state SET identity = ?, total = '0'", (secrets.token_hex(16),))
        sign(connection, total)


def check(connection: sqlite3.Connection, path: Path) -> tuple[str, int, str]:
    """See that every row is as it was written, none is missing, and that it is the catalogue that the run knows.

    Args:
        connection: in a transaction.
        path: of the catalogue.

    Returns:
        The hash of the model that it is of, the number of its last change, and its identity.

    Raises:
        BadInput: something is not as it was written.
    """
    remedy = f"remove it, if {NAME} is this run's own, which is whole; it is then written again"
    known, told = path.with_name(KNOWN), {}
    if known.exists():  # read first: who only reads the rows does not keep others from changing them meanwhile
        told = read_json(known, remedy=remedy, keys={"identity": str, "last": int})
    (said,) = connection.execute("PRAGMA integrity_check(1)").fetchone()  # an index may lead past rows
    if said != "ok":
        raise broken(path, said.replace("\n", " "))
    total = 0
    for query in (LABELS, _IDS, CORRECTIONS):
        for row in connection.execute(query):
            total ^= checked(path, row)
    *state, signed = connection.execute(_STATE).fetchone() or [""]
    if signed != digest(*state) or state[-1] != f"{total:x}":
        raise broken(path, "another")
    trained, last, identity = state[0], state[1], state[6]
    if told and told["identity"] != identity:
        raise BadInput(known, f"expected the identity of {NAME}, found that of another", remedy=remedy)
    if told and told["last"] > last:
        raise broken(path, f"one of {last} changes, where {told['last']} were made")
    return trained, last, identity


def remember(path: Path, identity: str, last: int) -> None:
    """Let the run know of a catalogue, and how many changes it has: once they are there, as it may be too few.

    Args:
        path: of the catalogue.
        identity: of the catalogue.
        last: the number of its last change.
    """
    known = path.with_name(KNOWN)
    content = f'{{"identity": "{identity}", "last": {last:12d}}}\n'.encode()  # always as long, to be written over
    if known.exists():
        if known.read_bytes() != content:
            with known.open("r+b") as file:
                file.write(content)
    else:
        with replacing(known) as temporary:
            temporary.write_bytes(content)


def sign(connection: sqlite3.Connection, delta: int) -> None:
    """Count rows that have come and gone, the exclusive or of their digests, and sign the state."""
    *state, total, _ = connection.execute(_STATE).fetchone()
    total = f"{int(total, 16) ^ delta:x}"
    connection.execute("UPDATE state SET total = ?, digest = ?", (total, digest(*state, total)))


def digest(*values: object) -> str:
    """The digest of the values of a row, in hexadecimal."""
    plain = tuple(str(value) if isinstance(value, str) else value for value in values)  # NumPy's print otherwise
    return hashlib.blake2b(repr(plain).encode(), digest_size=16).hexdigest()


def checked(path: Path, row: Sequence[object]) -> int:
    """The digest of a row, which is its last value, as a number.

    Raises:
        BadInput: it is not the digest of the others.
    """
    *values, written = row
    if (found := digest(*values)) != written:
        problem = f"expected a row with the digest {str(written)[:12]}, found {found[:12]}: it is not as it was written"
        raise BadInput(path, problem, remedy=RESTORE)
    return int(found, 16)
