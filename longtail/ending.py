"""How a process of the command line ends when a signal asks it to: at once, in one line, with nothing half-written.

Whatever is written is there whole or not at all after a kill at any moment (`longtail.files`), so nothing has to be
unwound: the handler does what was left to it, says so, and ends the process. No exception goes through code that may
hold it, as imports do, and no thread is waited for.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import NoReturn, TypeAlias

Act: TypeAlias = Callable[[], "str | None"]
acts: list[Act] = []  # done at the end; what they return is said
_NAMES = ("SIGINT", "SIGTERM", "SIGHUP")  # Windows lacks the last


@contextmanager
def at_the_end(act: Act) -> Iterator[None]:
    """Do something if a signal ends this process within the block; a clause that it returns is said."""
    acts.append(act)
    try:
        yield
    finally:
        acts.remove(act)


def what_remains() -> str:
    """Do all that is left to do, and say it."""
    said = []
    for act in reversed(acts):
        with suppress(OSError):
            said.append(act())
    return "".join(f"; {clause}" for clause in said if clause)


def listen() -> None:
    """End this process in one line when a signal asks it to, with the exit status of a shell: 130, 143, 129.

    A signal that whoever started the process has it ignore, as nohup does, stays ignored.
    """
    for number in _signals():
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, end)


def nothing_is_left() -> None:
    """Ignore signals from now on: the interpreter takes itself down, which would otherwise be ended without a word."""
    for number in _signals():
        if signal.getsignal(number) is end:
            signal.signal(number, signal.SIG_IGN)


def _signals() -> list[signal.Signals]:
    return [getattr(signal, name) for name in _NAMES if hasattr(signal, name)]


def end(number: int, _: object = None) -> NoReturn:
    """End this process at once because of a signal: the handler that `listen` installs."""
    try:
        remains = what_remains()
        bar = "\x1b[?25h\n" if os.isatty(1) else ""  # a progress bar hides the cursor, and ends no line
        with suppress(OSError):
            os.write(2, f"{bar}longtail: stopped{remains}\n".encode())
    finally:
        os._exit(128 + number)
