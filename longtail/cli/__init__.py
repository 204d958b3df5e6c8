"""The command line: every verb is a thin call of the library, and every error that a user can mend is one line."""

from __future__ import annotations

import os

from longtail.ending import listen


def main() -> None:
    """Run the command line; exit status 1 with one clear line where a user can mend what is wrong.

    Signals are listened to before anything is imported that takes time.

    Threads that wait for work sleep here, unless ``OMP_WAIT_POLICY`` says otherwise: where they spin, a step is
    some ten times as slow as soon as another process wants a core. OpenMP reads it when PyTorch is first imported.
    """
    listen()
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    from longtail.cli.verbs import run  # noqa: PLC0415 - see above

    run()
