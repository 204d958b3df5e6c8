"""The page that a verb writes, in the same place for every verb."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from longtail.files import replacing


def write_page(folder: Path, page: str, console: Console) -> None:
    """Write a report into a folder, and say where it is."""
    with replacing(folder / "report.html") as path:
        path.write_text(page, encoding="utf-8")
    console.print(f"The report is in {folder / 'report.html'}.", highlight=False, markup=False, soft_wrap=True)
