"""SIGTERM and SIGINT at any moment of a server: it ends soon, by its status, without a traceback, and loses nothing.

``LONGTAIL_SIGNALS`` is how many servers are ended at random moments of each kind in place of 1.
"""

from __future__ import annotations

import http.client
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest
from waiting import until

from longtail.model.label_set import LabelSet
from longtail.serve.app import TOKEN

CASES = int(os.environ.get("LONGTAIL_SIGNALS", "1"))
SECONDS = 20  # in which a server must end
CHANGING = ("change", "reload", "compact", "twice")  # labels are added meanwhile
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="sends signals to groups of processes")


class Busy:
    """``longtail serve`` of a link, in a group of processes and with a folder for temporary files of its own."""

    def __init__(self, runs, folder, workers):
        self.runs, self.log, self.temporary = runs, folder / "log", folder / "temporary"
        self.link, self.acknowledged, self.beside = folder / "current", {}, []
        self.temporary.mkdir()
        self.link.symlink_to(runs[0])
        self.environment = {**os.environ, "OMP_NUM_THREADS": "1", TOKEN: "x", "TMPDIR": str(self.temporary)}
        with self.log.open("w") as log:
            self.process = self.start(log, "serve", self.link, "--port", 0, "--workers", workers, group=True)

    def start(self, log, *arguments, group=False):
        command = [sys.executable, "-m", "longtail", *map(str, arguments)]
        return subprocess.Popen(command, stderr=log, env=self.environment, start_new_session=group)

    def wait_until_ready(self):
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            with suppress(OSError, http.client.HTTPException):
                if (found := re.search(r"http://127.0.0.1:(\d+)", self.log.read_text())) and (
                    self.ask(int(found[1]), "GET", "/readyz") == 200
                ):
                    return int(found[1])
            time.sleep(0.02)
        raise AssertionError(self.log.read_text())

    def wait_until_it_listens(self):
        """Until it has handlers of its own: before, the interpreter's tell of an interrupt with a traceback."""
        status = Path(f"/proc/{self.process.pid}/status")
        until(lambda: int(re.search(r"SigCgt:\s*(\w+)", status.read_text())[1], 16) >> signal.SIGTERM - 1 & 1)

    def ask(self, port, method, path, content=None):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        try:
            heads = {"Authorization": "Bearer x", "Content-Type": "application/json"}
            connection.request(method, path, content and json.dumps(content), heads)
            return connection.getresponse().status
        finally:
            connection.close()

    def change_labels(self, port):
        """Add labels until the server ends, and note what is acknowledged; some of it is when this returns."""

        def change():
            with suppress(OSError, http.client.HTTPException):
                for i in range(10**6):
                    assert self.ask(port, "POST", "/v1/labels", {"uid": f"n{i}", "text": f"text {i}"}) == 201
                    self.acknowledged[f"n{i}"] = f"text {i}"

        self.beside.append(thread := threading.Thread(target=change))
        thread.start()
        until(lambda: self.acknowledged)

    def move(self):
        following = self.link.with_name("next")
        following.symlink_to(self.runs[1])
        following.replace(self.link)

    def compact(self):
        self.beside.append(self.start(subprocess.DEVNULL, "labels", "compact", self.link))

    def send(self, number, *, group):
        (os.killpg if group else os.kill)(self.process.pid, number)

    def end(self, number, *, group):
        """Send a signal, and return the exit status."""
        self.send(number, group=group)
        return self.process.wait(SECONDS)

    def check(self):
        """No traceback, nothing left, and nothing lost."""
        text = self.log.read_text()
        assert "Traceback" not in text, text
        lines = text.removeprefix("longtail: stopped\n").splitlines()  # as any command says before it has a log
        assert all(json.loads(line)["level"] in ("info", "warning") for line in lines), text
        deadline = time.monotonic() + SECONDS
        with suppress(ProcessLookupError):
            while time.monotonic() < deadline:  # the system's own ending of the others
                os.killpg(self.process.pid, 0)
                time.sleep(0.02)
            raise AssertionError("processes are left")
        for one in self.beside:
            one.join(60) if isinstance(one, threading.Thread) else one.wait(60)
        assert not [path for path in self.temporary.iterdir() if path.name.startswith(("longtail", ".longtail"))]
        assert not [path for run in self.runs for path in run.rglob("*.partial")]
        if self.acknowledged:
            known = {}
            for run in self.runs:
                labels = LabelSet(run, device="cpu")
                rows = {uid: labels.snapshot.find(uid) for uid in self.acknowledged}
                known |= {uid: labels.snapshot.label(row)[2] for uid, row in rows.items() if row is not None}
                labels.close()
            assert {uid: known.get(uid) for uid in self.acknowledged} == self.acknowledged


@pytest.fixture
def start_busy(trained, tmp_path):
    """Start a `Busy` server; what still runs at the end is killed."""
    made = []

    def start(workers):
        folder = tmp_path / str(len(made))
        made.append(Busy([shutil.copytree(trained, folder / name) for name in "ab"], folder, workers))
        return made[-1]

    yield start
    for server in made:
        with suppress(ProcessLookupError):
            os.killpg(server.process.pid, signal.SIGKILL)
        server.process.wait(60)
        for one in server.beside:
            if isinstance(one, subprocess.Popen):
                one.kill()
                one.wait(60)


def ended_at_random(start_busy, what, number):
    """A server that is ended at a random moment of some kind; how, and its status."""
    moments = random.Random(f"{what} {number}")
    sent, workers = moments.choice([signal.SIGTERM, signal.SIGINT]), moments.choice([1, 2])
    server = start_busy(workers)
    if what == "start":
        server.wait_until_it_listens()
        time.sleep(moments.uniform(0, 4.0))
    else:
        port = server.wait_until_ready()
        if what in CHANGING:
            server.change_labels(port)
        if what == "reload":
            server.move()
        elif what == "compact":
            server.compact()
        time.sleep(moments.uniform(0, 2.5))
    group = moments.random() < 0.5
    if what == "twice":
        server.send(sent, group=group)
        time.sleep(moments.choice([0, 0.01, 0.1, 0.3, 0.6]))
    status = server.end(sent, group=group)
    server.check()
    assert bool(server.acknowledged) == (what in CHANGING)
    assert status in ((0, -sent, 128 + sent) if what == "start" else (0,)), (what, status, server.log.read_text())
    return f"{what}, {workers} processes, {sent.name}: {status}"


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("what", ["start", "serve", *CHANGING])
def test_a_signal_at_any_moment_ends_a_server_well(start_busy, what):
    for number in range(CASES):
        print(ended_at_random(start_busy, what, number), flush=True)


@pytest.mark.parametrize(("workers", "seconds"), [(1, 0.1), (2, 0.1), pytest.param(2, 0.6, marks=pytest.mark.slow)])
def test_a_terminal_may_interrupt_a_server_twice(start_busy, workers, seconds):
    """After 0.6 s the processes are gone, and the one that started them is about to end."""
    server = start_busy(workers)
    server.change_labels(server.wait_until_ready())  # which one process is; another may still be at its imports
    until(lambda: server.log.read_text().count("Application startup complete") == workers)
    server.send(signal.SIGINT, group=True)
    time.sleep(seconds)
    assert server.end(signal.SIGINT, group=True) == 0
    server.check()
