"""Numbers for people: times, sizes, intervals and means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def half_width(value: Mapping[str, float]) -> float:
    """Half the width of an interval."""
    return (value["high"] - value["low"]) / 2


def mean(values: Sequence[float]) -> float:
    """The mean of at least one value."""
    return sum(values) / len(values)


def duration(seconds: float) -> str:
    """Seconds, for people."""
    if seconds < 120:
        return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.2g} s"
    return f"{seconds / 60:.1f} min" if seconds < 7200 else f"{seconds / 3600:,.1f} h"


def size(count: float) -> str:
    """Bytes, for people."""
    if count >= 2**30:
        return f"{count / 2**30:,.2f} GiB"
    return f"{count / 2**20:,.1f} MiB" if count >= 2**20 else f"{count / 2**10:,.1f} KiB"
