"""A process that has imported longtail, and forks one child for each command that it is given.

A command then takes what it does, and not the seconds of an import. Started as a program it reads commands, as lines of
JSON, and answers each by a line; `Nursery` is the other end.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from faults.layer import PAGE, Fault, Mode, Page, compiled, page_of
from warm import end_with, import_verbs, run_longtail

LIMIT = 60.0  # seconds, after which a command hangs
NOTHING = Fault(Mode.OFF)


@dataclass(frozen=True)
class Ended:
    """How a command ended.

    Attributes:
        status: exit status; minus the number of the signal that ended it; None where it hung.
        output: what it printed.
        errors: what it printed on standard error.
        calls: how many calls it made that change a file.
        fired: how often the fault happened.
    """

    status: int | None
    output: str
    errors: str
    calls: int
    fired: int


class Nursery:
    """Runs commands of longtail in forked children of a warm process.

    Args:
        folder: for the library, the page and what commands print.
        root: faults happen to files below it.
    """

    def __init__(self, folder: Path, root: Path) -> None:
        page_of(folder / "page")
        environment = {**os.environ, "LD_PRELOAD": str(compiled(folder)), PAGE: str(folder / "page")}
        environment |= {"OMP_NUM_THREADS": "1", "COLUMNS": "200", "LONGTAIL_CACHE": "", "TMPDIR": str(folder / "tmp")}
        (folder / "tmp").mkdir(exist_ok=True)
        self.temporary = folder / "tmp"
        command = [sys.executable, "-W", "error", "-W", "ignore::ResourceWarning", __file__, str(folder), str(root)]
        self._process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def run(self, *arguments: Any, fault: Fault = NOTHING, program: str = "", limit: float = LIMIT) -> Ended:
        """Run ``longtail`` with arguments, or a program in Python, under a fault."""
        asked = {"arguments": [str(x) for x in arguments], "fault": asdict(fault), "program": program, "limit": limit}
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        return Ended(**json.loads(self._process.stdout.readline()))

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


def _do(root: Path, page: Page, asked: dict[str, Any]) -> None:
    """What is asked of a child."""
    os.setsid()
    page.arm(root, Fault(**asked["fault"]))
    if asked["program"]:
        exec(asked["program"], {})
    else:
        run_longtail(asked["arguments"])


def _serve(folder: Path, root: Path) -> None:
    """Answer commands until there are no more."""
    import faiss
    import pyarrow.parquet  # noqa: F401
    import torch
    import transformers.models.bert  # noqa: F401

    torch.set_num_threads(1)
    faiss.omp_set_num_threads(1)
    import_verbs()
    page = page_of(folder / "page")
    (folder / "in").touch()
    for line in sys.stdin:
        asked = json.loads(line)
        child = os.fork()
        if not child:
            end_with(partial(_do, root, page, asked), folder)
        descriptor = os.pidfd_open(child)
        over, _, _ = select.select([descriptor], [], [], asked["limit"])
        calls, fired, wrong = page.count, page.fired, (page.inode, page.at)
        page.mode = Mode.OFF
        with suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)  # and what it has started
        os.close(descriptor)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if over and wrong[0]:
            _flip(root, *wrong)
        texts = [(folder / name).read_text(errors="replace") for name in ("out", "err")]
        print(json.dumps(asdict(Ended(status if over else None, *texts, calls, fired))), flush=True)


def _flip(root: Path, inode: int, at: int) -> None:
    """Have a wrong bit in a file, if it is still there."""
    for path in root.rglob("*"):
        if path.is_file() and path.stat().st_ino == inode and at < path.stat().st_size:
            content = bytearray(path.read_bytes())
            content[at] ^= 1 << at % 8
            path.write_bytes(content)


if __name__ == "__main__":
    _serve(Path(sys.argv[1]), Path(sys.argv[2]))
