"""Starts that fail, and processes of a server that end together."""

from __future__ import annotations

import os
import platform
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from broken import flipped
from waiting import until

from longtail.serve import start
from longtail.serve.access import TOKEN
from longtail.serve.service import Settings

ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}


def refused(run, *options):
    """The standard error of a server that does not start, line by line."""
    command = [sys.executable, "-m", "longtail", "serve", str(run), "--port", "0", *map(str, options)]
    ended = subprocess.run(command, check=False, capture_output=True, text=True, env=ENVIRONMENT, timeout=60)
    assert ended.returncode == 1, ended.stderr
    return ended.stderr.splitlines()


@pytest.mark.parametrize("workers", [1, 2])
def test_a_model_that_cannot_be_opened_is_refused_in_one_line(run, workers):
    table = max((run / "model").glob("*.safetensors"), key=lambda path: path.stat().st_size)
    table.write_bytes(flipped(table.read_bytes(), -1))
    lines = refused(run, "--workers", workers)
    assert len(lines) == 1, lines
    assert lines[0].startswith("longtail: ")
    assert table.name in lines[0]


@pytest.mark.parametrize(("token", "said"), [("", "labels cannot be changed"), ("let me", "labels can be changed")])
def test_a_server_says_whether_labels_can_be_changed(monkeypatch, caplog, token, said):
    monkeypatch.setenv(TOKEN, token)
    monkeypatch.setattr(start, "application", lambda _: None)
    monkeypatch.setattr(start.uvicorn.Server, "run", lambda _: None)
    monkeypatch.setattr(start, "_end_well", lambda _: None)
    monkeypatch.setattr(start, "log_as_json", lambda _: None)
    with caplog.at_level("INFO", "longtail.serve"):
        start.serve(Settings(Path()), host="127.0.0.1", port=0, workers=1, level="info")
    assert [record.message[: len(said)] for record in caplog.records] == [said]


@pytest.mark.parametrize("workers", [1, 2])
def test_an_address_in_use_is_refused_in_one_line(run, workers):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        lines = refused(run, "--workers", workers, "--port", taken.getsockname()[1])
    assert len(lines) == 1, lines
    assert lines[0].startswith("longtail: ")
    assert "in use" in lines[0]


def test_the_processes_of_a_server_end_with_the_one_that_started_them(run, start_server):
    server = start_server(run, "--workers", 2)
    server.wait_until_ready()
    server.kill()
    again = None
    for _ in range(50):
        time.sleep(0.1)
        try:
            again = start_server(run, "--workers", 2, "--port", server.port)
        except AssertionError:  # the address is still in use
            continue
        break
    assert again is not None
    again.wait_until_ready()
    assert again.stop()


def children(server):
    """The numbers of the processes that serve."""
    found = []
    for task in Path(f"/proc/{server.process.pid}/task").iterdir():
        with suppress(OSError):  # it has ended meanwhile
            found += (task / "children").read_text().split()
    return [int(child) for child in found if b"spawn_main" in command_of(child)]


def command_of(process):
    """The command line of a process; nothing if it has ended."""
    with suppress(OSError):
        return Path(f"/proc/{process}/cmdline").read_bytes()
    return b""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_process_that_is_killed_is_started_again_and_counted_no_more(run, start_server, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    dead = tmp_path / "temporary" / f".longtail-serve.1.{2**22}@{platform.node().replace('.', '-')}.partial"
    dead.mkdir(parents=True)  # what a killed server left
    server = start_server(run, "--workers", 2)
    server.wait_until_ready()
    (folder,) = (tmp_path / "temporary").glob(".longtail-serve*")
    before = children(server)
    until(lambda: len([*folder.glob("gauge_livesum_*.db")]) == 2)
    os.kill(before[0], signal.SIGKILL)
    until(lambda: len(set(children(server)) - {before[0]}) == 2)
    for _ in range(6):
        assert server.ask("GET", "/readyz")[0] == 200  # the other one answers
    until(lambda: len(found := [*folder.glob("gauge_livesum_*.db")]) == 2 and str(before[0]) not in str(found))
    assert server.stop()
    assert not [*(tmp_path / "temporary").iterdir()]


@pytest.mark.skipif(sys.platform != "linux", reason="limits the memory of another process")
def test_too_little_memory_is_told_and_the_server_goes_on(run, start_server):
    import resource

    server = start_server(run, "--deadline", 60)
    small, large = {"texts": ["one"], "k": 2}, {"texts": ["word " * 3999] * 200, "k": 1000}
    label = {"uid": "n", "text": "new", "examples": ["word " * 3999] * 100}
    before = server.ask("POST", "/v1/predict", small)
    used = int(Path(f"/proc/{server.process.pid}/statm").read_text().split()[0]) * resource.getpagesize()
    for more in (2**25, 2**23):
        resource.prlimit(server.process.pid, resource.RLIMIT_AS, (used + more, resource.RLIM_INFINITY))
        for path, body in (("/v1/predict", large), ("/v1/labels", label)):
            with suppress(ConnectionError):  # there was none for a connection
                assert server.ask("POST", path, body)[0] in (200, 201, 400, 503)  # 400: there was none for reading it
    resource.prlimit(server.process.pid, resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert server.ask("POST", "/v1/predict", small)[0] == before[0] == 200
    assert server.ask("POST", "/v1/predict", large)[0] == 200
    assert server.stop()
    assert "not enough memory" in str(server.lines)
    assert not [line for line in server.lines if "traceback" in line]
