"""Costs of methods, and their ratios to the first one: by hand, in Markdown and in the page."""

from __future__ import annotations

import pytest

from longtail.report.costs import Cost, costs, times


def row(seconds, memory, model, milliseconds, latency=None, gpu=0):
    runs = [
        {
            "seconds": one,
            "peak_memory": memory,
            "peak_gpu_memory": gpu,
            "model_bytes": model,
            "milliseconds_a_text": {"fused": milliseconds},
            "latency": latency and {"p50": latency[0], "p99": latency[1]},
        }
        for one in seconds
    ]
    return {"runs": runs, "headline": "fused", "batch": 64, "pool": None}


def test_ratios_are_to_the_first_method_by_hand():
    rows = {
        "a": row([10, 30], 2**30, 2**20, 0.5, (2.0, 8.0)),
        "b": row([5], 3 * 2**30, 2**19, 1.0, (3.0, 4.0)),
        "peer": row([2000], 2**29, 2**28, 0.25),
    }
    found = costs(rows)
    assert list(found["a"]) == ["batch", "training", "peak memory", "model", "time a text", "p50", "p99"]
    assert found["a"]["training"] == Cost("20 s", "1x")
    assert found["b"]["training"] == Cost("5 s", "0.25x")
    assert found["b"]["peak memory"] == Cost("3.00 GiB", "3x")
    assert found["peer"]["model"] == Cost("256.0 MiB", "256x")
    assert (found["b"]["p50"], found["b"]["p99"]) == (Cost("3 ms", "1.5x"), Cost("4 ms", "0.5x"))
    assert found["peer"]["p50"] == Cost("", "")
    assert {of["batch"] for of in found.values()} == {Cost("64", "")}
    older = row([1], 1, 1, 1.0)
    del older["runs"][0]["latency"]
    assert "p50" not in costs({"a": older})["a"]
    assert "GPU memory" in costs({"a": row([1], 1, 1, 1.0, gpu=5)})["a"]


@pytest.mark.parametrize(("ratio", "said"), [(1, "1x"), (0.123, "0.12x"), (34.6, "35x"), (1234.5, "1,234x")])
def test_a_ratio_is_short(ratio, said):
    assert times(ratio) == said
