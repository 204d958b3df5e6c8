"""What a run has cost."""

from __future__ import annotations

import time

from longtail.train.cost import Cost, Meter, read_cost


def test_the_cost_of_an_earlier_process_is_added_to(tmp_path):
    path = tmp_path / "cost.json"
    assert read_cost(path) == Cost(0.0, 0, 0)
    first = Meter(path)
    time.sleep(0.02)
    one = first.write()
    assert 0.02 <= one.seconds < 5
    second = Meter(path)
    time.sleep(0.02)
    two = second.write()
    assert one.seconds + 0.02 <= two.seconds + 1e-9 < 5
    assert two.peak_memory >= one.peak_memory
    assert read_cost(path) == two


def test_what_was_not_written_is_not_counted(tmp_path):
    path = tmp_path / "cost.json"
    Meter(path).write()
    before = read_cost(path)
    Meter(path)
    time.sleep(0.05)
    assert Meter(path).write().seconds < before.seconds + 0.05
