"""Tables of the documentation are those that a script makes of kept figures."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))
import tables  # noqa: E402

PAGES = [path for path in sorted((ROOT / "docs").rglob("*.md")) if "<!-- table " in path.read_text()]


def test_there_are_tables_that_are_made() -> None:
    assert PAGES


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_tables_are_those_of_kept_figures(page: Path) -> None:
    text = page.read_text()
    assert text.count("<!-- table ") == len(tables.BLOCK.findall(text)), "a table has no end, or its first line is off"
    assert tables.made(text) == text, "run python benchmarks/tables.py"


def test_a_table_by_hand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results = {
        "date": "2026-01-01",
        "machine": "two cores",
        "data": {"name": "pages", "train": 3, "propensity": None},
        "rows": {
            "unidec": {"headline": "fused", "kinds": {"fused": {"P@1": {"seeds": [50.004, 51.0]}}, "encoder": {}}},
            "bm25": {"headline": "peer", "kinds": {"peer": {"P@1": {"seeds": [40.0]}}}},
        },
    }
    monkeypatch.setattr(tables, "RESULTS", tmp_path)
    (tmp_path / "one.json").write_text(json.dumps(tables.kept(results)))
    page = "before\n<!-- table one: P@1 P@5 -->\nold\n<!-- end of table -->\nafter"
    assert tables.made(page).splitlines() == [
        "before",
        "<!-- table one: P@1 P@5 -->",
        "| method | score | seeds | P@1 | P@5 |",
        "|---|---|---|---|---|",
        "| `unidec` | fused | 2 | **50.5** |  |",
        "| `bm25` |  | 1 | 40.0 |  |",
        "<!-- end of table -->",
        "after",
    ]
    assert "| pages | `unidec` |" in tables.made(page.replace("table one", "table one one"))
