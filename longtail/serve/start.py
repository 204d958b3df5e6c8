"""Starts a server: one process, or several that share a port."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

import uvicorn
from starlette.types import ASGIApp

from longtail.serve.app import application
from longtail.serve.connections import Connection
from longtail.serve.service import Settings
from longtail.serve.telemetry import FOLDER, log_as_json

_GRACE = 30  # seconds in which a server that is stopped finishes what it accepted
_KEPT = 75  # seconds that an idle connection is kept: longer than load balancers keep theirs, mostly 60
_FILES = 200  # that a process may have open beside its connections
_TURN = 5e-4  # seconds after which a thread may have Python that another one has: changes must not hold up searches
_SETTINGS = "LONGTAIL_SERVER"  # an environment variable: how each process of the server knows its settings


def serve(settings: Settings, *, host: str, port: int, workers: int, level: str) -> None:
    """Serve until SIGTERM or SIGINT; what was accepted is answered before the end.

    Args:
        settings: how.
        host: the address to bind to.
        port: 0 takes a free one, which the log names.
        workers: processes.
        level: of the log.
    """
    log_as_json(level)
    _allow_open_files(settings.connections + _FILES)
    said = asdict(settings) | {"run": str(settings.run)}
    with tempfile.TemporaryDirectory(prefix="longtail-") as folder:
        os.environ[_SETTINGS] = json.dumps({"settings": said, "level": level})
        if workers > 1:
            os.environ[FOLDER] = folder
        uvicorn.run(
            "longtail.serve.start:from_environment",
            factory=True,
            host=host,
            port=port,
            workers=workers,
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            http=Connection,
            ws="none",  # there is none here, and a connection that became one would be counted no more
            limit_concurrency=settings.connections + 1,
            timeout_keep_alive=_KEPT,
            timeout_graceful_shutdown=_GRACE,
        )


def from_environment() -> ASGIApp:
    """The application of one process of a server that `serve` started."""
    said = json.loads(os.environ[_SETTINGS])
    log_as_json(said["level"])
    sys.setswitchinterval(_TURN)
    return application(Settings(**said["settings"] | {"run": Path(said["settings"]["run"])}))


def threads_of(workers: int) -> int:
    """Threads of the model in each process, so that all processes together use the machine."""
    return max(1, (os.cpu_count() or 1) // workers)


def _allow_open_files(wanted: int) -> None:
    """Raise the limit of this process and those that it starts, as far as the system lets it."""
    if sys.platform != "win32":
        import resource  # noqa: PLC0415  (not of every system)

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        if soft != resource.RLIM_INFINITY and soft < allowed:
            resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
