"""One process at a time where a run is trained, compacted or indexed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from longtail.errors import BadInput
from longtail.files import make_folder

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

LOCK = ".lock"  # in a run folder, as long as a process works there


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
    if folder is None or fcntl is None:
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
            problem = f"process {holder} works in this run"
            raise BadInput(path.parent, problem, remedy="wait for it, or end it") from None
        except OSError:  # a file system without locks
            return descriptor
        with suppress(FileNotFoundError):
            if os.fstat(descriptor).st_ino == path.stat().st_ino:
                os.truncate(descriptor, 0)
                os.write(descriptor, f"{os.getpid()}\n".encode())
                return descriptor
        os.close(descriptor)  # who had it before has removed it meanwhile
