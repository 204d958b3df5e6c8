"""Servers over a small model."""

from __future__ import annotations

import gc
import http.client
import json
import os
import subprocess
import sys
import threading
import time

import pytest
import torch
from starlette.testclient import TestClient

from longtail.serve.app import TOKEN, application
from longtail.serve.service import Settings

SECRET = "let me"
TEXT = "text"  # the level of what a server says without its log


@pytest.fixture(autouse=True)
def nothing_else_to_look_through():
    """A server that starts collects garbage, which takes seconds among all that thousands of tests hold."""
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture
def bearer():
    """The header that allows changes."""
    return {"Authorization": f"Bearer {SECRET}"}


@pytest.fixture
def client(run, monkeypatch):
    """A client of a server whose labels can be changed with `bearer`."""
    monkeypatch.setenv(TOKEN, SECRET)
    threads = torch.get_num_threads()
    with TestClient(application(Settings(run, device="cpu", watch=0.05)), raise_server_exceptions=False) as made:
        yield made
    torch.set_num_threads(threads)


def logged(line):
    """A line of the log; what is none has a level of its own."""
    try:
        return json.loads(line)
    except json.JSONDecodeError:
        return {"level": TEXT, "event": line.rstrip("\n")}


class Server:
    """``longtail serve`` on a free port."""

    def __init__(self, run, *options):
        environment = {**os.environ, "OMP_NUM_THREADS": "1", TOKEN: SECRET}
        command = [sys.executable, "-m", "longtail", "serve", str(run), "--port", "0", *map(str, options)]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
        self.lines, self.port, started = [], 0, threading.Event()
        self._reader = threading.Thread(target=self._read, args=(started,), daemon=True)
        self._reader.start()
        started.wait(120)
        if not self.port:
            self.kill()
            raise AssertionError(f"the server did not start: {self.lines}")

    def _read(self, started):
        """Keep the log, which blocks a server that nobody reads."""
        try:
            for line in self.process.stderr:
                self.lines.append(logged(line))
                if "Uvicorn running on" in self.lines[-1]["event"]:
                    self.port = int(self.lines[-1]["event"].split("http://127.0.0.1:")[1].split()[0])
                    started.set()
        finally:
            started.set()

    def ask(self, method, path, content=None, timeout=120):
        """Status and body of an answer, over a connection of its own."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        body = None if content is None else json.dumps(content)
        headers = {"Authorization": f"Bearer {SECRET}", "Content-Type": "application/json"}
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def wait_until_ready(self):
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            try:
                if self.ask("GET", "/readyz")[0] == 200:
                    return
            except OSError:  # noqa: PERF203  (it is waited for)
                time.sleep(0.05)
        raise AssertionError("the server is not ready")

    def stop(self):
        """SIGTERM, and whether the server ended by itself, as that asks."""
        self.process.terminate()
        self._reader.join(120)
        return self.process.wait(120) == 0

    def kill(self):
        """SIGKILL."""
        self.process.kill()
        self.process.wait(60)
        self._reader.join(60)
        self.process.stderr.close()


@pytest.fixture
def start_server():
    """Start a `Server` for a run; what still runs at the end of the test is killed."""
    servers = []

    def start(run, *options):
        servers.append(Server(run, *options))
        return servers[-1]

    yield start
    for server in servers:
        server.kill()
    assert not [line for server in servers for line in server.lines if line["level"] == TEXT]
