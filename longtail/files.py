"""Files and folders that are there whole or not at all."""

from __future__ import annotations

import ctypes
import json
import os
import platform
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from glob import escape
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from safetensors import SafetensorError

from longtail import ending
from longtail.errors import BadInput, NotWritten

PARTIAL = ".partial"  # ends the name of whatever is not whole yet
COPY_AGAIN = "copy the model folder again, whole"  # the remedy where one is not as it was saved
Kept = TypeVar("Kept")
Kinds: TypeAlias = type | tuple[type, ...]
_FAILED = (OSError, SafetensorError)  # the latter is what the library of that name makes of the former
_WINDOWS = os.name == "nt"
_QUERY = 0x1000  # PROCESS_QUERY_LIMITED_INFORMATION of Windows
_FORGOTTEN = 24 * 3600  # seconds after which what another machine left half-written is taken for a killed process's
_HOST = platform.node().replace(".", "-").replace("@", "-")
_in_use: set[Path] = set()  # by this process


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary file that takes the place of ``path`` once the block has ended well.

    The content reaches the disk before the name does (fsync, rename, fsync of the folder), so that after a crash at any
    moment ``path`` holds the old content or the new one, whole.

    Raises:
        BadInput: it is a folder, a pipe or a device.
        NotWritten: something went wrong with the file, as on a full disk.
    """
    must_be_a_file(path, remedy="choose another place")  # who may write in /dev would have no more null
    with _partial(path) as folder:  # a library that has temporary files of its own leaves them there
        yield folder / path.name
        _sync(folder / path.name)
        (folder / path.name).replace(path)
        _sync(path.parent)


@contextmanager
def new_folder(folder: Path, *, instead: bool = False) -> Iterator[Path]:
    """A temporary folder that becomes ``folder`` once the block has ended well; like `replacing`, for a new folder.

    Args:
        folder: to make.
        instead: of what is there already; a crash leaves that, the new one, or none.

    Raises:
        BadInput: the folder is there already, and is not empty.
        NotWritten: something went wrong with a file in it, as on a full disk.
    """
    if not instead:
        must_be_free(folder)
    with _partial(folder) as temporary:
        yield temporary
        for path in (*temporary.rglob("*"), temporary):
            _sync(path)
        if folder.exists():
            remove_partial(folder)
        gone = _temporary(folder.with_name(f"{folder.name}-before"))
        if instead and folder.exists():
            folder.replace(gone)
        temporary.replace(folder)
        _sync(folder.parent)
        _remove(gone)


@contextmanager
def scratch_folder(name: str) -> Iterator[Path]:
    """A folder where the system keeps temporary ones, which goes with this process; those of killed ones go first."""
    place = Path(tempfile.gettempdir())
    _remove_dead(place.glob(f".{name}.*{PARTIAL}"))
    folder = _temporary(place / name)
    folder.mkdir(mode=0o700)
    _in_use.add(folder)
    try:
        yield folder
    finally:
        _remove(folder)
        _in_use.discard(folder)


@contextmanager
def _partial(path: Path) -> Iterator[Path]:
    """A folder beside ``path`` for what is not whole yet, whose name says which process has it; it goes at the end."""
    temporary = _temporary(path)
    try:
        make_folder(path.parent)
        _remove_dead(path.parent.resolve().glob(f".{escape(path.name)}.*{PARTIAL}"))
        _in_use.add(temporary)
        temporary.mkdir()
        yield temporary
    except _FAILED as error:
        raise NotWritten(path, error) from error
    finally:
        _remove(temporary)
        _in_use.discard(temporary)


def make_folder(folder: Path) -> None:
    """Make a folder, and those above it, where they are not there; their names are on the disk when this returns."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for path in reversed(missing):
        _sync(path.parent)


def _temporary(path: Path) -> Path:
    owner = f"{threading.get_native_id()}.{os.getpid()}@{_HOST}"  # two threads may write one file at once, too
    return path.parent.resolve() / f".{path.name}.{owner}{PARTIAL}"


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():  # what a link leads to stays
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()


def _remove_own() -> None:
    """Remove what this process has not made whole."""
    for path in tuple(_in_use):
        _remove(path)


ending.acts.append(_remove_own)


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

    What a living process writes stays. One of another machine, or of a container that is gone, cannot be asked whether
    it lives: what it wrote goes once nothing of it has changed for a day.
    """
    for place, folders, files in os.walk(folder.resolve()):  # which takes no offence at a folder that goes meanwhile
        names = (name for name in (*folders, *files) if name.startswith(".") and name.endswith(PARTIAL))
        _remove_dead(Path(place, name) for name in names)


def _remove_dead(paths: Iterable[Path]) -> None:
    """Remove those of some temporary files and folders whose process has ended."""
    for path in [*paths]:
        process, _, host = path.name.removesuffix(PARTIAL).rpartition(".")[2].partition("@")
        lives = is_of_another(process) if host in ("", _HOST) else _changed(path) > time.time() - _FORGOTTEN
        if path not in _in_use and not lives:
            _remove(path)


def _changed(path: Path) -> float:
    """When a file, or a folder and what is in it, was last changed, in seconds since 1970; now where it just goes."""
    try:
        return max(one.lstat().st_mtime for one in (path, *path.rglob("*")))
    except OSError:
        return time.time()


def is_of_another(process: str) -> bool:
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
        _sync(folder.parent)  # else half of it may be there after a power loss
        _remove(temporary)


def remove_file(path: Path) -> None:
    """Remove a file, if it is there, also for the time after a power loss."""
    if path.exists():
        path.unlink()
        _sync(path.parent)


def write_json(path: Path, value: Any) -> None:
    """Write a value as indented JSON, whole or not at all."""
    with replacing(path) as temporary:
        temporary.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def must_be_a_file(path: Path, *, remedy: str) -> None:
    """Refuse a folder, a pipe or a device in the place of a file: to open a pipe may never end.

    A link to a file is one, and what is not there is for who opens it.

    Raises:
        BadInput: something else is there.
    """
    if path.exists() and not path.is_file():
        found = "a folder" if path.is_dir() else "a pipe, a socket or a device"
        raise BadInput(path, f"expected a file, found {found}", remedy=remedy)


def read_json(path: Path, *, remedy: str, keys: Collection[str] | Mapping[str, Kinds] = ()) -> dict[str, Any]:
    """The object in a JSON file.

    Args:
        path: of the file.
        remedy: what to do where it is not as it must be.
        keys: that it must have, and the types of their values where they are given, too (`must_hold`).

    Raises:
        BadInput: there is no such file, or it holds no JSON object with these keys and types.
    """
    must_be_a_file(path, remedy=remedy)
    try:
        value = json.loads(path.read_bytes().decode())  # of bytes it takes more than UTF-8
    except FileNotFoundError:
        raise BadInput(path, "expected a JSON file, found none", remedy=remedy) from None
    except (ValueError, RecursionError) as error:  # text that is no UTF-8 is a ValueError, too
        problem = f"expected JSON, found {str(error) or type(error).__name__}"
        raise BadInput(path, problem, remedy=remedy) from None
    if not isinstance(value, dict):
        raise BadInput(path, f"expected a JSON object, found {type(value).__name__}", remedy=remedy)
    must_hold(path, value, keys if isinstance(keys, Mapping) else dict.fromkeys(keys, object), remedy=remedy)
    return value


def must_hold(path: Path, value: Mapping[str, Any], kinds: Mapping[str, Kinds], *, remedy: str) -> None:
    """Refuse an object of a file that lacks a key, or has a value of another type there; true and false are no numbers.

    Args:
        path: of the file.
        value: the object.
        kinds: the type of each key.
        remedy: what to do where it is not so.

    Raises:
        BadInput: it is not.
    """
    if missing := [key for key in kinds if key not in value]:
        raise BadInput(path, f"expected {', '.join(kinds)}, found no {', '.join(missing)}", remedy=remedy)
    for key, kind in kinds.items():
        if not isinstance(value[key], kind) or (kind in (int, float) and isinstance(value[key], bool)):
            raise BadInput(path, f"expected another {key}, found {str(value[key])[:80]!r}", remedy=remedy)


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
