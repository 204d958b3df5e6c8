"""What a run has cost."""

from __future__ import annotations

import time

import pytest

from longtail.errors import BadInput
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


@pytest.mark.parametrize(
    "content",
    [
        "",
        '{"seconds": 3,',
        "[]",
        "{}",
        '{"seconds": "3", "peak_memory": 0, "peak_gpu_memory": 0}',
        '{"seconds": NaN, "peak_memory": 0, "peak_gpu_memory": 0}',
        '{"seconds": -1, "peak_memory": 0, "peak_gpu_memory": 0}',
    ],
)
def test_a_broken_cost_is_refused_in_one_line(tmp_path, content):
    path = tmp_path / "cost.json"
    path.write_text(content)
    with pytest.raises(BadInput, match=r"cost\.json: expected .*; remove the file") as refused:
        read_cost(path)
    assert "\n" not in str(refused.value)
