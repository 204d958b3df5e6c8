"""Files and folders that are there whole or not at all, and are known again by their hashes."""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import platform
import shutil
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from safetensors import SafetensorError

from longtail.errors import BadInput, NotWritten

PARTIAL = ".partial"  # ends the name of whatever is not whole yet
Kept = TypeVar("Kept")
_FAILED = (OSError, SafetensorError)  # the latter is what the library of that name makes of the former
_WINDOWS = os.name == "nt"
_QUERY = 0x1000  # PROCESS_QUERY_LIMITED_INFORMATION of Windows
_HOST = platform.node().replace(".", "-").replace("@", "-")
_in_use: set[Path] = set()  # by this process


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary file that takes the place of ``path`` once the block has ended well.

    The content reaches the disk before the name does (fsync, rename, fsync of the folder), so that after a crash at any
    moment ``path`` holds the old content or the new one, whole.

    Raises:
        NotWritten: something went wrong with the file, as on a full disk.
    """
    with _partial(path) as folder:  # a library that has temporary files of its own leaves them there
        yield folder / path.name
        _sync(folder / path.name)
        (folder / path.name).replace(path)
        _sync(path.parent)


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """A temporary folder that becomes ``folder`` once the block has ended well; like `replacing`, for a new folder.

    Raises:
        BadInput: the folder is there already, and is not empty.
        NotWritten: something went wrong with a file in it, as on a full disk.
    """
    must_be_free(folder)
    with _partial(folder) as temporary:
        yield temporary
        for path in (*temporary.rglob("*"), temporary):
            _sync(path)
        if folder.exists():
            remove_partial(folder)
        temporary.replace(folder)
        _sync(folder.parent)


@contextmanager
def _partial(path: Path) -> Iterator[Path]:
    """A folder beside ``path`` for what is not whole yet, whose name says which thread has it; it goes at the end."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = _temporary(path)
    _remove(temporary)
    _in_use.add(temporary)
    try:
        temporary.mkdir()
        yield temporary
    except _FAILED as error:
        raise NotWritten(path, error) from error
    finally:
        _remove(temporary)
        _in_use.discard(temporary)


def _temporary(path: Path) -> Path:
    return path.parent.resolve() / f".{path.name}.{threading.get_ident()}.{os.getpid()}@{_HOST}{PARTIAL}"


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()


def must_be_free(folder: Path, *, besides: Collection[str] = ()) -> None:
    """Refuse a folder that holds something already, other than what a crash left half-written.

    Args:
        folder: may also not be there.
        besides: names in it that do not count.

    Raises:
        BadInput: it is no folder, or is not free.
    """
    if not folder.exists():
        return
    if not folder.is_dir() or any(path.suffix != PARTIAL and path.name not in besides for path in folder.iterdir()):
        raise BadInput(folder, "is there already, and is not empty", remedy="choose another folder or remove it")


def remove_partial(folder: Path) -> None:
    """Remove what killed processes left half-written, or half-removed, in a folder and below it.

    What a living process writes stays, and what one of another machine does, which cannot be asked whether it lives.
    """
    for path in [*folder.resolve().rglob(f".*{PARTIAL}")]:
        process, _, host = path.name.removesuffix(PARTIAL).rpartition(".")[2].partition("@")
        if path not in _in_use and host in ("", _HOST) and not _is_of_another(process):
            _remove(path)


def _is_of_another(process: str) -> bool:
    """Whether a process with this number lives, and is not this one."""
    number = int(process) if process.isdecimal() else 0
    if number in (0, os.getpid()):
        return False
    if _WINDOWS:  # where the signal below would end it
        kernel: Any = ctypes.WinDLL("kernel32")  # type: ignore[attr-defined]
        handle = kernel.OpenProcess(_QUERY, 0, number)
        return bool(handle and kernel.CloseHandle(handle))
    try:
        os.kill(number, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def remove_folder(folder: Path) -> None:
    """Remove a folder, if it is there: at once by its name, so that a crash leaves all of it or none."""
    if folder.is_dir():
        temporary = _temporary(folder)
        _remove(temporary)
        folder.rename(temporary)
        _remove(temporary)


def write_json(path: Path, value: Any) -> None:
    """Write a value as indented JSON, whole or not at all."""
    with replacing(path) as temporary:
        temporary.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def read_json(path: Path, *, remedy: str, keys: Collection[str] = ()) -> dict[str, Any]:
    """The object in a JSON file.

    Args:
        path: of the file.
        remedy: what to do where it is not as it must be.
        keys: that it must have.

    Raises:
        BadInput: there is no such file, or it holds no JSON object with these keys.
    """
    try:
        value = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise BadInput(path, "expected a JSON file, found none", remedy=remedy) from None
    except (ValueError, RecursionError) as error:  # text that is no UTF-8 is a ValueError, too
        problem = f"expected JSON, found {str(error) or type(error).__name__}"
        raise BadInput(path, problem, remedy=remedy) from None
    if not isinstance(value, dict):
        raise BadInput(path, f"expected a JSON object, found {type(value).__name__}", remedy=remedy)
    if missing := [key for key in keys if key not in value]:
        raise BadInput(path, f"expected {', '.join(keys)}, found no {', '.join(missing)}", remedy=remedy)
    return value


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
        BadInput: a file is missing, or is another.
    """
    for name, hash_then in expected.items():
        path = folder / name
        found = sha256(path) if path.is_file() else "no such file"
        if found != hash_then:
            raise BadInput(path, f"expected SHA-256 {hash_then[:12]}..., found {found[:12]}", remedy=remedy)


def kept(folder: Path, save: Callable[[], None], load: Callable[[Path], Kept]) -> Kept:
    """What a cache keeps in a folder that is named by content: saved where it is not there, or not whole, and loaded.

    Args:
        folder: of the cache.
        save: makes the content, and the folder.
        load: reads the folder, and raises BadInput where it is not what was saved.
    """
    if folder.is_dir():
        try:
            return load(folder)
        except BadInput:
            remove_folder(folder)
    remove_partial(folder.parent)
    try:
        save()
    except (NotWritten, BadInput):
        if not folder.is_dir():  # else another process was first, and its content is the same
            raise
    return load(folder)


def _sync(path: Path) -> None:
    """Make sure that what was written to a file or folder is on the disk.

    Windows writes the names in a folder without being asked, and syncs what is open for writing alone.
    """
    if _WINDOWS and path.is_dir():
        return
    descriptor = os.open(path, os.O_RDWR if _WINDOWS else os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
