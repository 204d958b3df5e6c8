"""A process that has imported longtail, and forks a child for each command: what takes time is the command.

Started as a program it reads commands, as lines of JSON, and answers each with its exit status; `Warm` is the other
end. Tests of how a process starts, ends and is killed start one of their own.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import select
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

LIMIT = 240.0  # seconds, after which a command hangs


class Warm:
    """Runs commands of longtail, one at a time.

    Args:
        folder: for what commands read and print.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "100", "LONGTAIL_CACHE": ""}
        command = [sys.executable, "-W", "error", __file__, str(folder)]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, text=True, env=environment, start_new_session=True
        )

    def run(
        self,
        *arguments: Any,
        stdin: str | bytes = b"",
        largest: int | None = None,
        folder: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> tuple[int, str, str]:
        """Run ``longtail`` to its end: exit status, output, errors.

        Args:
            arguments: of the command.
            stdin: what it reads.
            largest: bytes that a file of it may have.
            folder: that it is given in.
            environment: variables that it has besides.
        """
        assert self._process.stdin
        assert self._process.stdout
        (self._folder / "in").write_bytes(stdin.encode() if isinstance(stdin, str) else stdin)
        asked = {"arguments": list(map(str, arguments)), "largest": largest, "folder": folder and str(folder)}
        asked["environment"] = dict(environment or {})
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        if not select.select([self._process.stdout], [], [], LIMIT)[0]:
            os.killpg(self._process.pid, signal.SIGKILL)
            raise AssertionError(f"longtail {arguments} hangs")
        status = int(self._process.stdout.readline())
        return status, (self._folder / "out").read_text(), (self._folder / "err").read_text()

    def close(self) -> None:
        """End the process, and wait for it."""
        self._process.communicate()


def end_with(action: Callable[[], None], folder: Path) -> NoReturn:
    """Do something as the last thing in a forked child, whose status is then what the interpreter's would be.

    The child does not take the interpreter down, which would copy all that it shares.

    Args:
        action: with files of the folder as standard input, output and error.
        folder: with ``in``; ``out`` and ``err`` are written.
    """
    for number, name in enumerate(("in", "out", "err")):
        flags = os.O_RDONLY if name == "in" else os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        os.dup2(os.open(folder / name, flags, 0o600), number)
    sys.stdin = os.fdopen(0, closefd=False)  # the other one may have read ahead
    status = 1
    try:
        action()
        status = 0
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:  # noqa: BLE001  (what the interpreter does with it)
        traceback.print_exc()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except Exception:  # noqa: BLE001
        status = 120
    os._exit(status)


def run_longtail(arguments: Sequence[str]) -> None:
    """Run ``longtail`` in this process, to its end."""
    from longtail.cli import main

    sys.argv = ["longtail", *arguments]
    main()


def import_verbs() -> None:
    """Import what any command would import when it is given."""
    import scipy.optimize  # noqa: F401
    import torch  # noqa: F401
    import typer._adapters  # noqa: F401  (imported with the first option that is parsed)

    from longtail.cli.verbs import VERBS, command_of

    for verb in VERBS:
        command_of(verb)


def _do(arguments: Sequence[str], largest: int | None, folder: str | None, environment: Mapping[str, str]) -> None:
    """What is asked of a child."""
    os.environ.update(environment)
    if folder:
        os.chdir(folder)
    if largest:
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest, largest))
    run_longtail(arguments)


def _serve(folder: Path) -> None:
    """Answer commands until there are no more."""
    import_verbs()
    import transformers.models.bert.modeling_bert  # noqa: F401  (of the encoder that most tests of transformers have)

    os.fsync = os.fstat  # as `no_wait_for_the_disk` of the tests has it
    gc.freeze()  # a collection in a child would copy all that it shares
    for line in sys.stdin:
        child = os.fork()
        if not child:
            end_with(partial(_do, **json.loads(line)), folder)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


if __name__ == "__main__":
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # as `longtail.cli.main` has it before its imports
    _serve(Path(sys.argv[1]))
