"""What a server says of itself: counts and times for Prometheus, and one line of JSON for each event."""

from __future__ import annotations

import json
import logging
import os
import sys
import traceback
from datetime import datetime, timezone
from pathlib import Path

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

from longtail.files import is_of_another

_SECONDS = (0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.015, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_TEXTS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
FOLDER = "PROMETHEUS_MULTIPROC_DIR"  # where the processes of a server keep their counts


class Metrics:
    """The metrics of one process; `text` is of all processes of a server."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self.seconds = Histogram(
            "longtail_request_seconds",
            "Time from a request to its answer.",
            ("method", "route", "status"),
            buckets=_SECONDS,
            registry=self._registry,
        )
        self.batch = Histogram("longtail_batch_texts", "Texts of a batch.", buckets=_TEXTS, registry=self._registry)
        self.queue = Gauge(
            "longtail_queue_texts", "Texts that wait.", multiprocess_mode="livesum", registry=self._registry
        )
        self.labels = Gauge(
            "longtail_labels",
            "Labels of the model, how many of these are hidden, and labels that were added.",
            ("state",),
            multiprocess_mode="livemax",
            registry=self._registry,
        )
        self.changes = Counter("longtail_label_changes", "Labels changed.", ("change",), registry=self._registry)
        self.closed = Counter(
            "longtail_connections_closed",
            "Connections that were closed: their head was late, or they made room for others.",
            ("reason",),
            registry=self._registry,
        )
        self.reloads = Counter("longtail_reloads", "Models opened while serving.", ("result",), registry=self._registry)

    def text(self) -> bytes:
        """The metrics in Prometheus' format."""
        if FOLDER not in os.environ:
            return generate_latest(self._registry)
        registry = CollectorRegistry()
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return generate_latest(registry)


def forget_ended() -> None:
    """Let go of what processes of a server that have ended said of themselves; what they counted stays."""
    for path in Path(os.environ[FOLDER]).glob("gauge_live*.db"):
        process = path.stem.rpartition("_")[2]
        if process != str(os.getpid()) and not is_of_another(process):
            mark_process_dead(process)  # type: ignore[no-untyped-call]


class JsonLines(logging.Formatter):
    """One JSON object a line: time, level, logger, event, and what ``extra={"with": {...}}`` adds."""

    def format(self, record: logging.LogRecord) -> str:
        """The line of a record."""
        line = {
            "time": datetime.fromtimestamp(record.created, timezone.utc).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
            "process": record.process,
            **getattr(record, "with", {}),
        }
        if record.exc_info:
            line["traceback"] = "".join(traceback.format_exception(*record.exc_info))
        return json.dumps(line, default=str)


def log_as_json(level: str) -> None:
    """Send all logs of this process to standard error as lines of JSON."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    logging.basicConfig(handlers=[handler], level=level.upper(), force=True)
