"""Starts a server: one process, or several that share a port."""

from __future__ import annotations

import json
import logging
import multiprocessing
import os
import signal
import socket
import sys
import threading
from dataclasses import asdict
from pathlib import Path
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from longtail.devices import choose_device
from longtail.ending import end, what_remains
from longtail.errors import BadInput, LongtailError
from longtail.files import scratch_folder
from longtail.model.label_set import LabelSet
from longtail.serve.access import TOKEN
from longtail.serve.app import application
from longtail.serve.connections import Connection
from longtail.serve.service import Settings
from longtail.serve.telemetry import FOLDER, forget_ended, log_as_json

_log = logging.getLogger("longtail.serve")
_GRACE = 30  # seconds in which a server that is stopped finishes what it accepted
_FILES = 200  # that a process may have open beside its connections
_KEPT = 75  # seconds that an idle connection is kept: longer than load balancers keep theirs, mostly 60
_TURN = 5e-4  # seconds after which a thread may have Python that another one has: changes must not hold up searches
_SETTINGS = "LONGTAIL_SERVER"  # an environment variable: how each process of the server knows its settings
_PROBLEM = "problem"  # a file: why a process of the server did not start
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_FAILED = 3  # the exit status of such a process, after which uvicorn starts no other


def serve(settings: Settings, *, host: str, port: int, workers: int, level: str) -> None:
    """Serve until SIGTERM or SIGINT; what was accepted is answered before the end.

    Args:
        settings: how.
        host: the address to bind to.
        port: 0 takes a free one, which the log names.
        workers: processes; where there are several, they end with this one.
        level: of the log.

    Raises:
        LongtailError: the run cannot be opened, or the address is in use.
    """
    log_as_json(level)
    _allow_open_files(settings.connections + _FILES)
    _check_address(host, port)
    options: dict[str, Any] = {
        "host": host,
        "port": port,
        "workers": workers,
        "http": Connection,
        "ws": "none",  # there is none here, and a connection that became one would be counted no more
        "log_config": None,
        "access_log": False,
        "server_header": False,
        "date_header": False,
        "limit_concurrency": settings.connections + 1,
        "timeout_keep_alive": _KEPT,
        "timeout_graceful_shutdown": _GRACE,
    }
    if workers == 1:
        sys.setswitchinterval(_TURN)
        server = uvicorn.Server(uvicorn.Config(application(settings), **options))
        _say_what_is_allowed()
        _end_well(server)
        server.run()
        return
    choose_device(settings.device)
    LabelSet(settings.run, device="cpu", exact=settings.exact).close()  # once, rather than in vain in each process
    _say_what_is_allowed()
    said = asdict(settings) | {"run": str(settings.run)}
    with scratch_folder("longtail-serve") as folder:
        os.environ |= {_SETTINGS: json.dumps({"settings": said, "level": level}), FOLDER: str(folder)}
        uvicorn.run("longtail.serve.start:from_environment", factory=True, **options)
        _ignore_signals()
        if (problem := folder / _PROBLEM).is_file():
            raise LongtailError(problem.read_text(encoding="utf-8"))


def from_environment() -> ASGIApp:
    """The application of one of several processes of a server that `serve` started."""
    said = json.loads(os.environ[_SETTINGS])
    log_as_json(said["level"])
    forget_ended()
    signal.signal(signal.SIGINT, _interrupted)
    threading.Thread(target=_end_with_parent, name="parent", daemon=True).start()
    sys.setswitchinterval(_TURN)
    try:
        return application(Settings(**said["settings"] | {"run": Path(said["settings"]["run"])}))
    except (LongtailError, OSError) as error:
        (Path(os.environ[FOLDER]) / _PROBLEM).write_text(str(error), encoding="utf-8")
        sys.exit(_FAILED)


def threads_of(workers: int) -> int:
    """Threads of the model in each process, so that all processes together use the machine."""
    return max(1, (os.cpu_count() or 1) // workers)


def _say_what_is_allowed() -> None:
    """Say whether labels may be changed and corrected, which a server without a token refuses."""
    if os.environ.get(TOKEN):
        _log.info(f"labels can be changed and corrected, with the token of {TOKEN}")
    else:
        _log.info(f"labels cannot be changed or corrected here; set {TOKEN} to allow it")


def _end_well(server: uvicorn.Server) -> None:
    """Let this process end with 0 after a signal that a server has obeyed; uvicorn raises it again at the end."""

    def obeyed(number: int, _: object) -> None:
        if not server.started:  # nothing is accepted yet that could be lost
            end(number)
        if server.force_exit:  # told twice: requests under way would each tell with a traceback that they are let go
            what_remains()
            os._exit(0)
        _ignore_signals()
        sys.exit(0)

    for number in _SIGNALS:
        signal.signal(number, obeyed)


def _ignore_signals() -> None:
    """Ignore further signals: the server has ended, and so does the process."""
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def _interrupted(number: int, _: object) -> None:
    """Leave an interrupt, which a terminal sends to all processes, to the one that stops this; end at a second one."""
    signal.signal(number, lambda *_: os._exit(0))


def _end_with_parent() -> None:
    """Stop this process as SIGTERM does once the one that started it is gone, however that came about."""
    parent = multiprocessing.parent_process()
    assert parent is not None, "a process of a server is started by another"
    parent.join()
    _log.error("the process that started this one is gone")
    os.kill(os.getpid(), signal.SIGTERM)


def _check_address(host: str, port: int) -> None:
    """Refuse an address that a server could not bind to, before a model is opened for it."""
    try:
        socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET).close()
    except (OSError, OverflowError) as error:
        problem = f"expected an address that is free, found {error}"
        raise BadInput(f"{host}:{port}", problem, remedy="choose another host or port") from error


def _allow_open_files(wanted: int) -> None:
    """Raise the limit of this process and those that it starts, as far as the system lets it."""
    if sys.platform != "win32":
        import resource  # noqa: PLC0415  (not of every system)

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        if soft != resource.RLIM_INFINITY and soft < allowed:
            resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
