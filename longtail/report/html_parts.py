"""Pieces of HTML that the report is made of."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape


def breakable(label: str) -> str:
    """A method's name, which may be broken between its arguments."""
    return re.sub(r"([:,=])", r"\1<wbr>", escape(label))


def paragraph(text: str) -> str:
    """A paragraph that explains a table or a figure; ``text`` is HTML."""
    return f'<p class="note">{text}</p>'


def table_of(header: Sequence[str], rows: Iterable[str], tips: Mapping[str, str] | None = None) -> str:
    """A table that scrolls sideways where it is too wide, by arrow keys, too.

    Args:
        header: names of columns.
        rows: as HTML.
        tips: what a column is, by its name, for who points at it.
    """
    titles = {name: f' title="{escape(tip)}"' for name, tip in (tips or {}).items()}
    cells = "".join(f"<th{titles.get(name, '')}>{escape(name)}</th>" for name in header)
    table = f"<table><thead><tr>{cells}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
    return f'<div class="scroll" tabindex="0" role="group" aria-label="a table that may scroll">{table}</div>'


def row_of(label: str, cells: Iterable[str], kind: str = "", below: str = "") -> str:
    """A row of a table: the name of a method, with something in small letters below it, and cells."""
    name = breakable(label) + (f"<small>{escape(below)}</small>" if below else "")
    return f'<tr class="{kind}"><th scope="row">{name}</th>{"".join(cells)}</tr>'


def cell_of(value: str, below: str, bold: bool, name: str = "") -> str:  # noqa: FBT001
    """A value with its interval below it; ``name`` is the metric."""
    kind = " ".join([*(["best"] if bold else []), *(["first"] if name.endswith("@1") else [])])
    return f'<td class="{kind}">{value}<small>{below}</small></td>'
