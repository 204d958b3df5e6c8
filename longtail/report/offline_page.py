"""What records say of a run, as one HTML page."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from itertools import groupby

from longtail.metrics.intervals import Interval
from longtail.report.html_parts import cell_of, document, paragraph, row_of, table_of
from longtail.report.offline import CANNOT, Figure, Offline
from longtail.units import printable

_ABOUT = {
    "found": "What the test documents' true labels say: precision and recall among the first k, in percent.",
    "given": (
        "Labels that a query is given (filtered density), the share of queries that are given one at least, and the "
        "share of all labels that are given to one."
    ),
    "judged": (
        "Of what is given: the share that was judged, and of that the share of each grade. Agreement: of two labels of "
        "a query with different grades, how often the better one is ranked first."
    ),
    "contradicting the query": (
        "Of what is given to queries that have a value of the attribute: the share of labels that have another one "
        "(bad match rate); less is better."
    ),
    "estimated from the log": (
        "What would be shown and clicked, by inverse propensity scoring: right where the log was made with these "
        "propensities, where what is given could be shown, and where keywords do not take clicks from each other."
    ),
    "against the control": (
        "New is what is given and the control does not give, in percent of what is given; lost is the reverse. Right "
        "are those of them that are true labels."
    ),
}


def page_of_offline(found: Offline) -> str:
    """The page: one HTML file that needs nothing else."""
    beside = f" beside the control {found.control}" if found.control else ""
    intervals = "Under each value is half the width of its 95 % interval; a difference is bold where 0 is not in it."
    about = printable(f"{found.run}{beside}: {found.about} {intervals}")
    sections = {"": paragraph(escape(CANNOT))}
    for section, figures in groupby(found.figures, lambda figure: figure.section):
        sections[section.capitalize()] = paragraph(escape(_ABOUT[section])) + _table(list(figures))
    if found.notes:
        sections["Records"] = "".join(paragraph(escape(printable(note))) for note in found.notes)
    return document(f"{found.data}: offline", f'<p class="muted">{escape(about)}</p>', sections)


def _table(figures: Sequence[Figure]) -> str:
    paired = figures[0].control is not None
    header = ["", "run", *(["control", "difference"] if paired else [])]
    lines = []
    for one in figures:
        cells = [_cell(it, one) for it in (one.run, one.control) if it is not None]
        if one.difference is not None:
            cells.append(_cell(one.difference, one, "+", bold=one.difference.is_sure))
        lines.append(row_of(printable(one.name), cells))
    return table_of(header, lines)


def _cell(it: Interval, of: Figure, sign: str = "", *, bold: bool = False) -> str:
    decimals = 2 if of.percent else 4
    return cell_of(f"{it.value:{sign},.{decimals}f}", f"±{it.half:.{decimals}f}", bold)
