"""The page that a verb writes, in the same place for every verb."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from longtail.cli.places import must_take
from longtail.files import replacing

_NAME = "report.html"
Report = Annotated[Path | None, typer.Option("--report", help="Write a report into this folder: one HTML page.")]


def must_take_page(folder: Path | None) -> None:
    """Refuse a folder that can take no report, before there is one; None for no report.

    Raises:
        BadInput: it can take none.
    """
    if folder is not None:
        must_take(folder / _NAME)


def write_page(folder: Path, page: str, console: Console) -> None:
    """Write a report into a folder, and say where it is."""
    with replacing(folder / _NAME) as path:
        path.write_text(page, encoding="utf-8")
    console.print(f"The report is in {folder / _NAME}.", highlight=False, markup=False, soft_wrap=True)
