"""One process at a time in a folder: where a run is trained, compacted or indexed, and where runs are compared."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from rich.console import Console

from longtail.errors import BadInput
from longtail.files import make_folder

try:
    import fcntl

    LOCKS = True
except ImportError:  # Windows
    LOCKS = False

LOCK = ".lock"  # in a run folder, as long as a process works there; in that of a comparison for good
_MARK = ".working"  # in the folder of a comparison, where there are no file locks


@contextmanager
def alone(folder: Path | None) -> Iterator[None]:
    """Work in a folder alone; it is made if it is not there, and goes again if nothing came into it.

    The lock is the system's: it ends with the process that has it, however that ends. Where a file system, or Windows,
    has no locks, nobody is kept out.

    Args:
        folder: to work in; None for none.

    Raises:
        BadInput: another process works there.
    """
    if folder is None or not LOCKS:
        yield
        return
    is_new = not folder.exists()
    make_folder(folder)
    descriptor = _locked(folder / LOCK)
    try:
        yield
    finally:
        (folder / LOCK).unlink(missing_ok=True)
        os.close(descriptor)
        if is_new:
            with suppress(OSError):  # it holds something
                folder.rmdir()


def _locked(path: Path) -> int:
    """The descriptor of a file that this process has locked, and that still has its name."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(descriptor, 20).decode("ascii", "replace").strip() or "that is just starting"
            os.close(descriptor)
            problem = f"process {holder} works in this folder"
            raise BadInput(path.parent, problem, remedy="wait for it, or end it") from None
        except OSError:  # a file system without locks
            return descriptor
        with suppress(FileNotFoundError):
            if os.fstat(descriptor).st_ino == path.stat().st_ino:
                os.truncate(descriptor, 0)
                os.write(descriptor, f"{os.getpid()}\n".encode())
                return descriptor
        os.close(descriptor)  # who had it before has removed it meanwhile


@contextmanager
def in_turn(folder: Path, console: Console) -> Iterator[tuple[int, ...]]:
    """Work in a folder once no other process does; it is made if it is not there.

    A process that inherits the file descriptors has the lock as well: so a training process that outlives a killed
    comparison is waited for, not trained against. Where the system has no file locks, a file says who works there; one
    that a killed process left must be removed by hand.

    Args:
        folder: to work in.
        console: told where another process is waited for.

    Yields:
        The file descriptors that a process must inherit to have the lock, too; none where there are no file locks.

    Raises:
        BadInput: there are no file locks, and another process works in the folder, or was killed there.
    """
    make_folder(folder)
    if not LOCKS:
        with _marked(folder / _MARK):
            yield ()
        return
    descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            console.print(f"Waiting for another process that works in {folder}.", highlight=False, markup=False)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield (descriptor,)
    finally:
        os.close(descriptor)


@contextmanager
def _marked(path: Path) -> Iterator[None]:
    """A file that is there as long as the block."""
    try:
        with path.open("x", encoding="ascii") as file:
            file.write(f"{os.getpid()}\n")
    except FileExistsError:
        problem = f"process {path.read_text(encoding='ascii').strip()} works here, or was ended before it was done"
        remedy = "wait for it and what it trains; if neither runs any more, remove the file"
        raise BadInput(path, problem, remedy=remedy) from None
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
