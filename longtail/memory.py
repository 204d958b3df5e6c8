"""The memory of this process and of the machine, on every system, with nothing but the standard library.

The program of a peer reads this file too, under a Python that has no longtail (`longtail.compare.peers`).
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from pathlib import Path
from typing import Any

PROC = Path("/proc")  # where Linux says it
_NO_MEMORY = (
    "allocate memory",  # torch's allocator, and the loader of shared libraries
    "out of memory",  # of a GPU, and of SQLite
    "bad_alloc",
    "start new thread",  # its stack had no room
    "failed to map segment",
)


def peak_bytes() -> int:
    """The most memory that this process has held, in bytes."""
    if (status := PROC / "self" / "status").exists():  # what Linux says elsewhere starts from the parent's memory
        return _bytes_of(status, "VmHWM")
    if sys.platform == "win32":
        return int(_process_counters().PeakWorkingSetSize)
    import resource  # noqa: PLC0415 - Windows has none

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def resident_bytes() -> int:
    """The memory that this process holds now, in bytes; the most that it has held where a system says no more."""
    if (status := PROC / "self" / "status").exists():
        return _bytes_of(status, "VmRSS")
    return int(_process_counters().WorkingSetSize) if sys.platform == "win32" else peak_bytes()


def free_memory_bytes() -> int:
    """The memory that processes can still take, in bytes; all that the machine has where a system says no more."""
    if (meminfo := PROC / "meminfo").exists():
        return _bytes_of(meminfo, "MemAvailable")
    if sys.platform == "win32":
        return int(_memory_status().AvailPhys)
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def return_freed() -> None:
    """Return what this process has freed to the system, where its allocator keeps that until told so (glibc does)."""
    if sys.platform == "linux" and (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)) is not None:
        trim(0)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that there was no more memory, in whatever words its library has for that."""
    if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM):
        return True
    said = str(error).lower()
    return any(words in said for words in _NO_MEMORY)


def _bytes_of(path: Path, field: str) -> int:
    """A field of one of Linux' tables, whose lines are ``name: number kB``."""
    fields = dict(line.split(":", 1) for line in path.read_text(encoding="utf-8").splitlines())
    return int(fields[field].split()[0]) * 1024


class _ProcessCounters(ctypes.Structure):
    """PROCESS_MEMORY_COUNTERS of Windows."""

    _fields_ = (
        ("size", ctypes.c_uint32),
        ("PageFaultCount", ctypes.c_uint32),
        ("PeakWorkingSetSize", ctypes.c_size_t),
        ("WorkingSetSize", ctypes.c_size_t),
        ("others", ctypes.c_size_t * 6),
    )


class _MemoryStatus(ctypes.Structure):
    """MEMORYSTATUSEX of Windows."""

    _fields_ = (
        ("size", ctypes.c_uint32),
        ("MemoryLoad", ctypes.c_uint32),
        ("TotalPhys", ctypes.c_uint64),
        ("AvailPhys", ctypes.c_uint64),
        ("others", ctypes.c_uint64 * 5),
    )


def _process_counters() -> Any:
    kernel: Any = ctypes.WinDLL("kernel32")  # type: ignore[attr-defined]
    kernel.GetCurrentProcess.restype = ctypes.c_void_p
    kernel.K32GetProcessMemoryInfo.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint32)
    counters = _ProcessCounters(size=ctypes.sizeof(_ProcessCounters))
    if not kernel.K32GetProcessMemoryInfo(kernel.GetCurrentProcess(), ctypes.byref(counters), counters.size):
        raise OSError("Windows does not say how much memory this process holds")
    return counters


def _memory_status() -> Any:
    kernel: Any = ctypes.WinDLL("kernel32")  # type: ignore[attr-defined]
    kernel.GlobalMemoryStatusEx.argtypes = (ctypes.c_void_p,)
    status = _MemoryStatus(size=ctypes.sizeof(_MemoryStatus))
    if not kernel.GlobalMemoryStatusEx(ctypes.byref(status)):
        raise OSError("Windows does not say how much memory is free")
    return status
