"""What a library prints past Python."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def unheard() -> Iterator[None]:
    """Leave aside what faiss prints of lists on the disk: it goes to standard output, as what is predicted does."""
    sys.stdout.flush()
    kept, flush = os.dup(1), ctypes.CDLL(None).fflush  # Windows, which has none, has no lists on the disk either
    with Path(os.devnull).open("wb") as nothing:
        os.dup2(nothing.fileno(), 1)
        try:
            yield
        finally:
            flush(None)
            os.dup2(kept, 1)
            os.close(kept)
