"""Starts that fail, and processes of a server that end together."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time

import pytest

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
    content = bytearray(table.read_bytes())
    content[-1] ^= 1
    table.write_bytes(content)
    lines = refused(run, "--workers", workers)
    assert len(lines) == 1, lines
    assert lines[0].startswith("longtail: ")
    assert table.name in lines[0]


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
