"""What a system says of memory: Linux here, and the others as far as they can be played."""

from __future__ import annotations

import ctypes
import platform
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from longtail import memory
from longtail.memory import free_memory_bytes, peak_bytes, resident_bytes, return_freed


def test_the_peak_stays_when_the_memory_is_given_back():
    block = np.ones(2**25)  # 256 MiB
    peak = peak_bytes()
    size = block.nbytes
    assert peak > size
    del block
    assert peak_bytes() > peak - size // 8


def test_what_is_held_grows_with_what_is_used_and_is_no_more_than_the_peak():
    before = resident_bytes()
    block = np.ones(2**25)  # 256 MiB
    assert before + 2**27 < resident_bytes() <= peak_bytes()
    assert 2**20 < free_memory_bytes() < 2**50
    del block


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="glibc keeps what is freed")
def test_what_is_freed_is_returned():
    """Blocks that glibc takes from its heap, which has one in use above them."""
    return_freed()  # what other tests have freed, which the blocks would be taken from
    before = resident_bytes()
    blocks = [np.ones(2**13) for _ in range(2**12)]  # 64 KiB each, 256 MiB
    last = blocks[-1]
    del blocks
    assert resident_bytes() > before + 2**27
    return_freed()
    assert resident_bytes() < before + 2**26
    assert last[0] == 1


@pytest.mark.parametrize("system", ["linux", "darwin", "win32"])
def test_a_system_whose_allocator_cannot_be_told_is_left_alone(monkeypatch, system):
    def no_library(name):
        assert system == "linux"
        return SimpleNamespace()

    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setattr(ctypes, "CDLL", no_library)
    return_freed()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such calls")
def test_a_system_without_proc_is_asked_by_its_calls(monkeypatch, tmp_path):
    """What macOS would say, up to its unit."""
    linux = peak_bytes()
    monkeypatch.setattr(memory, "PROC", tmp_path)
    assert linux / 2 < peak_bytes() < 4 * linux
    assert resident_bytes() == peak_bytes()
    assert 2**26 < free_memory_bytes() < 2**50
    monkeypatch.setattr(sys, "platform", "darwin")
    assert peak_bytes() * 1024 > linux / 2  # whose calls say bytes


def test_windows_is_asked_by_its_own(monkeypatch, tmp_path):
    """A kernel that fills in what it is given, of the sizes that it wants."""

    def process_info(process, counters, size):
        assert (process, size) == (-1 % 2**64, 72)
        found = counters._obj
        found.PeakWorkingSetSize, found.WorkingSetSize = 5 * 2**30, 3 * 2**30
        return 1

    def memory_status(status):
        assert status._obj.size == 64
        status._obj.AvailPhys = 7 * 2**30
        return 1

    class Call:
        def __init__(self, function):
            self.function = function

        def __call__(self, *arguments):
            return self.function(*arguments)

    kernel = SimpleNamespace(
        GetCurrentProcess=Call(lambda: -1 % 2**64),
        K32GetProcessMemoryInfo=Call(process_info),
        GlobalMemoryStatusEx=Call(memory_status),
    )
    monkeypatch.setattr(ctypes, "WinDLL", lambda name: {"kernel32": kernel}[name], raising=False)
    monkeypatch.setattr(memory, "PROC", tmp_path)
    monkeypatch.setattr(sys, "platform", "win32")
    assert (peak_bytes(), resident_bytes(), free_memory_bytes()) == (5 * 2**30, 3 * 2**30, 7 * 2**30)
