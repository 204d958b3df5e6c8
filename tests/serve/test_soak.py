"""The soak of `benchmarks/soak.py`, for some seconds."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "soak.py"


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_soak_of_some_seconds_has_no_error(run, tmp_path):
    times = ["--minutes", 4, "--row", 5, "--rate", 20, "--changes", 5, "--reload", 4, "--compact", 6]
    command = [sys.executable, SCRIPT, run, *times, "--json", tmp_path / "soak.json"]
    process = subprocess.Popen([*map(str, command)], start_new_session=True)
    try:
        process.wait(200)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # and the server
        process.wait()
    said = json.loads((tmp_path / "soak.json").read_text(encoding="utf-8"))
    assert len(said["minutes"]) == 4
    assert not any(minute["errors"] for minute in said["minutes"]), said["verdict"]
    assert said["minutes"][-1]["reloads"] > 2
    assert said["minutes"][-1]["compacted"] >= 1
    assert not [line for line in said["verdict"] if line.startswith(("logged", "a compaction", "the server"))]
