"""Pieces of HTML that reports are made of, and the page around them."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Collection, Iterable, Mapping, Sequence
from hashlib import sha256
from html import escape
from importlib.resources import files
from typing import Any


def document(title: str, about: str, sections: Mapping[str, str], shown: Mapping[str, Any] | None = None) -> str:
    """A page that needs nothing else.

    Args:
        title: of the page.
        about: HTML below it.
        sections: HTML by heading, "" for what comes first; each heading is a link at the top.
        shown: what the script of the page shows; without anything there is no script.
    """
    links = "".join(f'<a href="#{anchor(heading)}">{heading}</a>' for heading in sections if heading)
    body = f"<h1>{escape(title)}</h1>{about}<nav>{links}</nav>"
    for heading, content in sections.items():
        named = f'<h2 id="{anchor(heading)}">{heading}</h2>' if heading else ""
        body += f"<section>{named}{content}</section>"
    style, script = (files("longtail.report").joinpath(name).read_text("utf-8") for name in ("page.css", "page.js"))
    embedded = json.dumps(shown, ensure_ascii=False).replace("<", "\\u003c")
    allowed = b64encode(sha256(script.encode()).digest()).decode()  # no other script runs, and nothing is asked for
    policy = f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{allowed}'"
    script = f'<script type="application/json" id="data">{embedded}</script><script>{script}</script>' if shown else ""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{style}</style></head>"
        f"<body><main>{body}</main>{script}</body></html>\n"
    )


def anchor(heading: str) -> str:
    """What a heading is called in a link."""
    return heading.lower().replace(" ", "-")


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
    return _table(cells, "".join(rows))


def row_of(label: str, cells: Iterable[str], kind: str = "", below: str = "") -> str:
    """A row of a table: the name of a method, with something in small letters below it, and cells."""
    name = breakable(label) + (f"<small>{escape(below)}</small>" if below else "")
    return f'<tr class="{kind}"><th scope="row">{name}</th>{"".join(cells)}</tr>'


def cell_of(value: str, below: str, bold: bool, name: str = "") -> str:  # noqa: FBT001
    """A value with its interval below it; ``name`` is the metric."""
    kind = " ".join([*(["best"] if bold else []), *(["first"] if name.endswith("@1") else [])])
    return f'<td class="{kind}">{value}<small>{below}</small></td>'


def text_table(header: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: Collection[str] = ()) -> str:
    """A table of texts, which are broken where they are long; ``numbers`` are the columns that have none."""
    kinds = ["number" if name in numbers else "text" for name in header]
    cells = "".join(f'<th class="{kind}">{escape(name)}</th>' for kind, name in zip(kinds, header, strict=True))
    lines = ""
    for row in rows:
        shown = (escape(cell) if kind == "number" else breakable(cell) for kind, cell in zip(kinds, row, strict=True))
        inside = (f'<td class="{kind}">{cell}</td>' for kind, cell in zip(kinds, shown, strict=True))
        lines += f"<tr>{''.join(inside)}</tr>"
    return _table(cells, lines)


def _table(header: str, lines: str) -> str:
    """A table that scrolls sideways, also by the keyboard."""
    table = f"<table><thead><tr>{header}</tr></thead><tbody>{lines}</tbody></table>"
    return f'<div class="scroll" tabindex="0" role="group" aria-label="a table that may scroll">{table}</div>'


def bar(name: str, length: float, value: str, colour: int = 0) -> str:
    """A bar with its name before it and its value behind it; ``length`` is in [0, 1]."""
    fill = f'<div class="fill" style="width:{100 * length:.1f}%;--c:var(--s{colour % 10})"></div>'
    label = f'<div class="name" title="{escape(name)}">{escape(name)}</div>'
    return f'<div class="bar">{label}<div class="track">{fill}</div><div class="value">{value}</div></div>'


def card(title: str, content: str) -> str:
    """A box with a title; both are HTML."""
    return f'<div class="card"><h3>{title}</h3>{content}</div>'


def grid(cards: Iterable[str], kind: str = "") -> str:
    """Boxes side by side, as many as fit; ``kind`` is ``wide`` or ``small`` for other widths."""
    return f'<div class="grid {kind}">{"".join(cards)}</div>'


def figure_card(title: str, value: str, below: str = "") -> str:
    """A box with one number; all three are HTML."""
    return f'<div class="card"><div class="note">{title}</div><div class="big">{value}</div>{below}</div>'
