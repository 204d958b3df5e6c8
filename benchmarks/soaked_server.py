"""A server that `soak.py` asks, moves to other runs and compacts, and what its processes have."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from longtail.serve.load_test import TOKEN


@dataclass
class Sample:
    """What the processes of the server have at one moment, by process.

    Attributes:
        seconds: since the beginning.
        rss: MiB that are resident.
        private: MiB of these that are of no file, so that they do not change where another process maps a library, too.
        files: open descriptors but those of connections.
        sockets: those of connections.
        cpu: seconds of processors that were used so far.
    """

    seconds: float
    rss: dict[int, float] = field(default_factory=dict)
    private: dict[int, float] = field(default_factory=dict)
    files: dict[int, int] = field(default_factory=dict)
    sockets: dict[int, int] = field(default_factory=dict)
    cpu: dict[int, float] = field(default_factory=dict)


class Server:
    """``longtail serve`` of a link that leads to one of two copies of a run.

    Args:
        run: is copied.
        folder: for the copies, and for the server's log.
        workers: processes.
        pin: the core of the server, or None.
    """

    def __init__(self, run: Path, folder: Path, workers: int, pin: int | None) -> None:
        self.runs = [shutil.copytree(run, folder / name) for name in ("a", "b")]
        self.link, self.log, self.moves, self._pin = folder / "current", folder / "log.jsonl", 0, pin
        self.link.symlink_to(self.runs[0])
        os.environ[TOKEN] = "soak"
        with self.log.open("w") as log:
            command = self._command("serve", self.link, "--port", 0, "--workers", workers, "--threads", 1)
            self.process = subprocess.Popen(command, stderr=log)
        self.url = self._address()

    def _command(self, *arguments: object) -> list[str]:
        pinned = [] if self._pin is None else ["taskset", "-c", str(self._pin)]
        return [*pinned, sys.executable, "-m", "longtail", *map(str, arguments)]

    def _address(self) -> str:
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and self.process.poll() is None:
            for line in self.events():
                if "Uvicorn running on" in line["event"]:
                    return str(line["event"].split()[3])
            time.sleep(0.1)
        raise SystemExit(f"the server did not start:\n{self.log.read_text()}")

    def events(self) -> list[dict[str, Any]]:
        """The lines of the log so far."""
        return [json.loads(line) for line in self.log.read_text().splitlines(keepends=True) if line.endswith("\n")]

    def move(self) -> None:
        """Let the link lead to the other run."""
        self.moves += 1
        following = self.link.with_name("next")
        following.symlink_to(self.runs[self.moves % 2])
        following.replace(self.link)

    def compact(self) -> int:
        """Compact what is served, and return the exit status."""
        done = subprocess.run(self._command("labels", "compact", self.link), stderr=subprocess.PIPE, check=False)
        return done.returncode

    def sample(self, seconds: float) -> Sample:
        """What the processes have now; one that has just ended has nothing."""
        found = Sample(seconds)
        for process in _with_children(self.process.pid):
            with contextlib.suppress(OSError):
                folder = Path(f"/proc/{process}")
                sizes = _sizes((folder / "smaps_rollup").read_text())
                opened = [str(path.readlink()) for path in (folder / "fd").iterdir() if path.is_symlink()]
                times = (folder / "stat").read_text().rpartition(")")[2].split()[11:13]
                found.rss[process] = sizes["Rss"] / 1024
                found.private[process] = sizes["Anonymous"] / 1024
                found.sockets[process] = sum(name.startswith("socket:") for name in opened)
                found.files[process] = len(opened) - found.sockets[process]
                found.cpu[process] = sum(map(int, times)) / os.sysconf("SC_CLK_TCK")
        return found

    def stop(self) -> int:
        """SIGTERM, and the exit status."""
        self.process.terminate()
        return self.process.wait(60)


def _with_children(process: int) -> list[int]:
    try:
        tasks = [*Path(f"/proc/{process}/task").iterdir()]
        children = [int(child) for task in tasks for child in (task / "children").read_text().split()]
    except OSError:
        return []
    return [process, *(found for child in children for found in _with_children(child))]


def _sizes(text: str) -> dict[str, int]:
    """The sizes of an area of memory, in KiB."""
    lines = (line.split() for line in text.splitlines())
    return {words[0][:-1]: int(words[1]) for words in lines if len(words) == 3 and words[2] == "kB"}
