"""What methods cost, beside the first of them: the cells of a table of costs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

from longtail.units import duration, mean, size

Row: TypeAlias = Mapping[str, Any]
NOTE = (
    "Batch: documents; pool: labels that they are scored against, in the first epoch. Memory is the peak of the "
    "training process. Time a text: from text to labels, all test documents at once, which is the throughput upside "
    "down; p50 and p99 are the latency of single texts, one after the other. With a value is how many times that of "
    "the first method it is."
)


class Cost(NamedTuple):
    """A cost of a method: as it is written, and how many times that of the first method; empty where it is unknown."""

    said: str
    ratio: str


def costs(rows: Mapping[str, Row]) -> dict[str, dict[str, Cost]]:
    """The costs of each method by column; columns that no method has are left out.

    Args:
        rows: of ``results.json``; ratios are to the first.
    """
    first = next(iter(rows.values()))
    there = {name: kind for name, kind in _COLUMNS.items() if any(kind.of(row) for row in rows.values())}
    return {
        label: {name: _cost(kind.of(row), kind.of(first), kind) for name, kind in there.items()}
        for label, row in rows.items()
    }


class _Column(NamedTuple):
    of: Callable[[Row], float | None]
    write: Callable[[float], str]
    compared: bool = True


def _cost(value: float | None, first: float | None, kind: _Column) -> Cost:
    if not value:
        return Cost("", "")
    return Cost(kind.write(value), times(value / first) if first and kind.compared else "")


def times(ratio: float) -> str:
    """A ratio, for people."""
    return f"{ratio:,.0f}x" if ratio >= 99.5 else f"{ratio:.2g}x"


def _of_runs(name: str, take: Callable[[list[float]], float]) -> Callable[[Row], float]:
    return lambda row: take([run[name] for run in row["runs"]])


def _of_text(row: Row) -> float:
    return mean([run["milliseconds_a_text"][row["headline"]] for run in row["runs"]])


def _single(name: str) -> Callable[[Row], float | None]:
    def of(row: Row) -> float | None:
        known = [run["latency"][name] for run in row["runs"] if run.get("latency")]
        return mean(known) if known else None

    return of


def _milliseconds(value: float) -> str:
    return f"{value:.3g} ms"


def _count(value: float) -> str:
    return f"{value:,.0f}"


_COLUMNS = {
    "batch": _Column(lambda row: row["batch"], _count, compared=False),
    "pool": _Column(lambda row: row["pool"], _count, compared=False),
    "training": _Column(_of_runs("seconds", mean), duration),
    "peak memory": _Column(_of_runs("peak_memory", max), size),
    "GPU memory": _Column(_of_runs("peak_gpu_memory", max), size),
    "model": _Column(_of_runs("model_bytes", mean), size),
    "time a text": _Column(_of_text, _milliseconds),
    "p50": _Column(_single("p50"), _milliseconds),
    "p99": _Column(_single("p99"), _milliseconds),
}
