"""One process at a time in a folder, on systems with file locks and without."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from longtail.errors import BadInput
from longtail.files import make_folder

try:
    import fcntl

    LOCKS = True
except ImportError:  # Windows
    LOCKS = False


@contextmanager
def alone(folder: Path, console: Console) -> Iterator[tuple[int, ...]]:
    """Work in a folder alone; it is made if it is not there.

    Where the system has file locks, another process is waited for, and a process that inherits the file descriptors has
    the lock as well: so a training process that outlives a killed comparison is waited for, not trained against.
    Without them, a file says who works there; one that a killed process left must be removed by hand.

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
        with _marked(folder / ".working"):
            yield ()
        return
    descriptor = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT, 0o644)
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
