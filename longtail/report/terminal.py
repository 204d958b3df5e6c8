"""The results of a comparison, short enough for a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from longtail.metrics.ranking import columns
from longtail.report.names import short_names
from longtail.units import duration, mean


def summary(results: Mapping[str, Any]) -> Table:
    """The headline of each method, for a terminal."""
    rows = results["rows"]
    measured = {name for row in rows.values() for name in row["kinds"][row["headline"]]}
    names, called = columns(lambda metric: metric.summary, measured), short_names(rows)
    table = Table(box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    table.add_column(overflow="fold")  # where it is narrow, names break, and no figure is cut
    for header in ("score", "seeds", *names, "training"):
        table.add_column(header, justify="right", no_wrap=True)
    for label, row in rows.items():
        of, runs = row["kinds"][row["headline"]], row["runs"]
        cells = [f"{of[name]['mean']:.2f}" for name in names]
        taken = duration(mean([run["seconds"] for run in runs]))
        table.add_row(escape(called[label]), row["headline"], str(len(runs)), *cells, taken)
    return table
