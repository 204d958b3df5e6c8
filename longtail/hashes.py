"""Files that are known again by their hashes."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from longtail.errors import BadInput


def sha256(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    state, block = hashlib.sha256(), memoryview(bytearray(2**20))
    with path.open("rb") as file:
        while count := file.readinto(block):
            state.update(block[:count])
    return state.hexdigest()


def hashes(folder: Path, *, card: str) -> dict[str, str]:
    """The SHA-256 of every file in a folder and below it, by its path from there.

    Args:
        folder: the files are in it, and in folders below it.
        card: the name of a file that holds such hashes: of a folder below that has one, it is all that is looked at.
    """
    inner = {path.parent for path in folder.rglob(card)} - {folder}

    def is_seen(path: Path) -> bool:
        return inner.intersection(path.parents) <= ({path.parent} if path.name == card else set())

    files = (path for path in sorted(folder.rglob("*")) if path.is_file() and is_seen(path))
    return {path.relative_to(folder).as_posix(): sha256(path) for path in files}


def check_hashes(folder: Path, expected: Mapping[str, str], *, remedy: str = "copy the folder again, whole") -> None:
    """Compare files with what `hashes` said of them; others may be there too.

    Args:
        folder: they are in it.
        expected: by path from there.
        remedy: what to do where they differ.

    Raises:
        BadInput: a file is missing, or is another, or a name leads out of the folder.
    """
    for name, hash_then in expected.items():
        path = folder / name
        if Path(name).anchor or ".." in Path(name).parts:
            raise BadInput(folder, f"expected names of files in it, found {name!r}", remedy=remedy)
        found = sha256(path) if path.is_file() else "no such file"
        if found != hash_then:
            raise BadInput(path, f"expected SHA-256 {str(hash_then)[:12]}..., found {found[:12]}", remedy=remedy)
