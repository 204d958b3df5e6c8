"""One comparison at a time in a folder, and what a system without Linux' calls can do."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest
from rich.console import Console

from longtail import locks
from longtail.errors import BadInput
from longtail.locks import in_turn

QUIET = Console(quiet=True)
NO_CALLS = """
import os, sys
sys.modules["resource"] = sys.modules["fcntl"] = None  # importing them raises ImportError
del os.sysconf
"""


def test_another_process_is_waited_for(tmp_path):
    """It holds the lock as long as a process lives that has inherited it."""
    out = tmp_path / "out"
    with in_turn(out, QUIET) as inherited:
        sleeper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1)"], pass_fds=inherited)
    start = time.monotonic()
    console = Console(width=200)
    with console.capture() as captured, in_turn(out, console):
        assert time.monotonic() - start > 0.3
    assert f"Waiting for another process that works in {out}." in captured.get()
    sleeper.wait()
    with console.capture() as captured, in_turn(out, console):
        pass
    assert captured.get() == ""


def test_without_file_locks_a_file_keeps_comparisons_apart(tmp_path, monkeypatch):
    monkeypatch.setattr(locks, "LOCKS", False)
    with in_turn(tmp_path, QUIET) as inherited:
        assert inherited == ()
        with (
            pytest.raises(BadInput, match=rf"\.working: process {os.getpid()} works here, or was ended .*remove the"),
            in_turn(tmp_path, QUIET),
        ):
            pass
    with in_turn(tmp_path, QUIET):
        pass
    assert not [*tmp_path.iterdir()]


def test_what_only_some_systems_have_is_not_needed_to_import():
    program = f"""{NO_CALLS}
import longtail.recipes, longtail.cli.train, longtail.cli.compare
from longtail.memory import peak_bytes
assert peak_bytes() > 2**20
"""
    done = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_comparison_goes_without_them(tmp_path):
    """Whole, with a peer in a process of its own."""
    program = f"""{NO_CALLS}
import json
from longtail.compare.comparison import compare
from longtail.compare.methods import Method
from longtail.testing.planted import planted

planted(0, documents=60, test_documents=20, labels=20).dataset.write({str(tmp_path / "data")!r})
results = compare({str(tmp_path / "data")!r}, [Method.parse("neighbours")], {str(tmp_path / "out")!r})
assert results["failed"] == {{}}, results
assert list(results["rows"]) == ["neighbours"]
"""
    done = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "out" / ".working").exists()
