"""What the parts of a run take: each without those within it, also where one fails."""

from __future__ import annotations

import time

import pytest

from longtail.train import parts as module
from longtail.train.parts import Parts


def test_a_part_is_counted_without_those_within_it(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([(0.0, 0.0), (10.0, 5.0), (13.0, 9.0), (20.0, 11.0), (20.0, 11.0), (21.0, 13.0)])
    monkeypatch.setattr(module, "_now", lambda: next(clock))
    monkeypatch.setattr(module, "peak_bytes", iter([100, 200, 300]).__next__)
    parts = Parts()
    with parts("training"), parts("search"):
        pass
    with pytest.raises(ValueError, match="no"), parts("search"):
        raise ValueError("no")
    assert parts.as_json() == {
        "search": {"times": 2, "seconds": 4.0, "processor_seconds": 6.0, "peak_memory": 300},
        "training": {"times": 1, "seconds": 17.0, "processor_seconds": 7.0, "peak_memory": 200},
    }


def test_time_is_that_of_the_clock() -> None:
    parts = Parts()
    with parts("waiting"):
        time.sleep(0.02)
    waiting = parts.as_json()["waiting"]
    assert 0.02 <= waiting["seconds"] < 1
    assert waiting["peak_memory"] > 2**20
