"""The layer between a program and the C library (layer.c): compiled, and told what to do."""

from __future__ import annotations

import ctypes
import enum
import mmap
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

PAGE = "LONGTAIL_FAULT_PAGE"  # the environment variable that names the page
COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
REASON = "needs Linux and a C compiler"


class Mode(enum.IntEnum):
    """What becomes of a call; the names are those of layer.c."""

    OFF = 0
    COUNT = enum.auto()
    SIGNAL = enum.auto()  # comes first; SIGKILL among them
    TEAR = enum.auto()  # half of what is written, then SIGKILL; this, SHORT and FLIP come to the next call that writes
    FAIL = enum.auto()
    SHORT = enum.auto()  # half of what is written, and that is said
    FLIP = enum.auto()  # a bit of what is written will be wrong for who reads later: `Page.inode` and `at` say which
    DENY = enum.auto()  # a file cannot be opened


@dataclass(frozen=True)
class Fault:
    """What is to happen.

    Attributes:
        mode: the kind.
        target: the number of the call that it happens to, from 1.
        error: an errno, or the number of a signal.
        lasting: whether it happens to all later calls, too, as on a full disk.
        denied: the file that cannot be opened.
        journal: a folder for notes of what was done and synced.
    """

    mode: Mode
    target: int = 0
    error: int = 0
    lasting: bool = False
    denied: str = ""
    journal: str = ""


class Page(ctypes.Structure):
    """The memory that the layer reads: the fields are those of layer.c."""

    _fields_ = [
        *((name, ctypes.c_char * 1024) for name in ("root", "journal", "denied")),
        *((name, ctypes.c_int64) for name in ("mode", "target", "count", "error", "lasting", "fired", "inode", "at")),
    ]

    def arm(self, root: Path, fault: Fault) -> None:
        """From now on, the fault is to happen below a folder."""
        self.mode = Mode.OFF
        self.root, self.journal, self.denied = (os.fsencode(str(x)) for x in (root, fault.journal, fault.denied))
        self.target, self.error, self.lasting, self.count, self.fired = fault.target, fault.error, fault.lasting, 0, 0
        self.inode, self.at = 0, 0
        self.mode = fault.mode


def page_of(path: Path) -> Page:
    """The page in a file, which is made where it is not there."""
    with path.open("a+b") as file:
        file.truncate(max(mmap.PAGESIZE, ctypes.sizeof(Page)))
        return Page.from_buffer(mmap.mmap(file.fileno(), ctypes.sizeof(Page)))


def compiled(folder: Path) -> Path:
    """The layer as a library in a folder."""
    assert COMPILER
    library = folder / "layer.so"
    source = Path(__file__).with_name("layer.c")
    subprocess.run([COMPILER, "-O1", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    return library
