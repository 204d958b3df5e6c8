"""Numbers and texts for people: times, sizes, intervals and means; text that a terminal only shows."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

_COMMANDS = re.compile("[\\x00-\\x1f\\x7f-\\x9f\\u2028-\\u202e\\u2066-\\u2069]")


def printable(text: str) -> str:
    """A text as one line that a terminal shows and does not obey.

    Control characters, line ends and changes of direction are written as JSON writes them, so that JSON in which they
    stand unescaped stays the same JSON.
    """
    return _COMMANDS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def half_width(value: Mapping[str, float]) -> float:
    """Half the width of an interval."""
    return (value["high"] - value["low"]) / 2


def is_sure(value: Mapping[str, float]) -> bool:
    """Whether 0 is not in an interval."""
    return value["low"] > 0 or value["high"] < 0


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


def elapsed(seconds: float) -> str:
    """How long ago something was, roughly, for people."""
    if seconds < 48 * 3600:
        return duration(seconds) if seconds < 7200 else f"{seconds / 3600:.0f} h"
    return f"{seconds / 86_400:.0f} days"


_BARS = "▁▂▃▄▅▆▇█"
_WIDE = 40  # bars of a line


def spark(values: Sequence[float]) -> str:
    """At least one value as a line of bars, from the least to the largest; of more than 40, some of them."""
    last, low, high = len(values) - 1, min(values), max(values)
    shown = values if len(values) <= _WIDE else [values[i * last // (_WIDE - 1)] for i in range(_WIDE)]
    return "".join(
        _BARS[int((value - low) / (high - low) * (len(_BARS) - 1) + 0.5) if high > low else 0] for value in shown
    )
