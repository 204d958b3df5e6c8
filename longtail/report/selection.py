"""What of ``results.json`` is shown: columns, their best values, and runs that have no result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from longtail.metrics.ranking import columns


def unfinished(results: Mapping[str, Any]) -> list[tuple[str, str, str, str]]:
    """The runs without a result: "failed" or "stopped", the label, the seed, and why."""
    return [
        (what, label, seed, why + ("; a larger budget lets it go on" if what == "stopped" else ""))
        for what in ("failed", "stopped")
        for label, of in results[what].items()
        for seed, why in of.items()
    ]


def best_of(rows: Mapping[str, Any]) -> dict[str, float]:
    """The best value of each metric of a table of accuracy, over all methods and score kinds."""
    found = [of for row in rows.values() for of in row["kinds"].values()]
    names = columns(lambda metric: metric.table, found[0])
    return {name: max(of[name]["mean"] for of in found) for name in names}


def differing(differences: Mapping[str, Any]) -> list[str]:
    """The metrics of a table of differences."""
    return [*columns(lambda metric: metric.differences, next(iter(differences.values())))]
