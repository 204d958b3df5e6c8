"""Groups of test documents on a page: by frequency, by length, by number of labels, by a column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from longtail.metrics.ranking import metric_of
from longtail.metrics.summary import shown_of
from longtail.report.html_parts import bar, card, cell_of, grid, paragraph, row_of, table_of
from longtail.units import half_width, printable


def groups_of_row(row: Mapping[str, Any]) -> str:
    """A table for each thing that the documents of a run were grouped by, of the score that it predicts with.

    Args:
        row: of ``results.json``, with ``by`` as `longtail.metrics.groups.Group.as_dict` has it.
    """
    note = (
        "Percent on the test documents of each group, with half the width of the 95 % interval over them. Groups of "
        "numbers hold about as many documents each; equal numbers are in one group."
    )
    tables = "".join(_table(name, groups, row["headline"]) for name, groups in row.get("by", {}).items())
    return paragraph(note) + tables if tables else ""


def _table(name: str, groups: Sequence[Mapping[str, Any]], kind: str) -> str:
    metrics = shown_of(groups[0]["kinds"][kind])
    lines = []
    for group in groups:
        of = [group["kinds"][kind][metric] for metric in metrics]
        cells = [cell_of(f"{it['value']:.2f}", f"±{half_width(it):.2f}", bold=False) for it in of]
        lines.append(row_of(printable(group["group"]), [f"<td>{group['documents']:,}</td>", *cells]))
    cards = []
    for metric in (metrics[0], metrics[2]):
        values = [(group["group"], group["kinds"][kind][metric]["value"]) for group in groups]
        cards.append(card(metric, "".join(bar(printable(of), value / 100, f"{value:.1f}") for of, value in values)))
    tips = {metric: metric_of(metric).about for metric in metrics}
    table = table_of(["group", "documents", *metrics], lines, tips)
    return f"<h3>By {escape(printable(name))}</h3>{grid(cards)}{table}"
