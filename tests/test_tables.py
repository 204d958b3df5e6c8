"""Tables of the documentation are those that a script makes of kept figures."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))
import scale  # noqa: E402
import tables  # noqa: E402

PAGES = [path for path in sorted((ROOT / "docs").rglob("*.md")) if "<!-- end of table -->" in path.read_text()]


def test_there_are_tables_that_are_made() -> None:
    assert PAGES


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_tables_are_those_of_kept_figures(page: Path) -> None:
    text = page.read_text()
    begun = sum(text.count(f"<!-- {kind} ") for kind in tables.LINES)
    assert begun == len(tables.BLOCK.findall(text)), "a table has no end, or its first line is off"
    assert tables.made(text) == text, "run python benchmarks/tables.py"


def row(headline: str, kinds: dict[str, object], seconds: list[float]) -> dict[str, object]:
    spent = {"peak_memory": 2**30, "peak_gpu_memory": 0, "model_bytes": 2**20, "milliseconds_a_text": {headline: 0.5}}
    runs = [{"seconds": each, **spent} for each in seconds]
    bins = {kind: {"R@5": [10 * len(seconds), 5.06]} for kind in kinds}
    return {"headline": headline, "kinds": kinds, "bins": bins, "batch": 8, "pool": 9, "runs": runs}


def test_a_table_by_hand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results = {
        "date": "2026-01-01",
        "machine": "two cores",
        "data": {"name": "pages", "train": 3, "propensity": None},
        "bins": {"names": ["1 head", "unseen"], "labels": [7, 1200], "frequency": [1234.56, 0.0]},
        "differences": {
            "bm25": {
                "P@1": {"mean": -10.501, "low": -11.0, "high": -10.0},
                "P@5": {"mean": 0.25, "low": -0.5, "high": 1.0},
            }
        },
        "rows": {
            "unidec": row("fused", {"fused": {"P@1": {"seeds": [50.004, 51.0]}}, "encoder": {}}, [30, 50]),
            "bm25": row("peer", {"peer": {"P@1": {"seeds": [40.0]}}}, [3]),
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
    costs = tables.made("<!-- table one: P@1 training time_a_text model -->\n<!-- end of table -->").splitlines()
    assert costs[1:5] == [
        "| method | score | seeds | P@1 | training | time a text | model |",
        "|---|---|---|---|---|---|---|",
        "| `unidec` | fused | 2 | **50.5** | 40 s | 0.5 ms | 1.0 MiB |",
        "| `bm25` |  | 1 | 40.0 | 3 s | 0.5 ms | 1.0 MiB |",
    ]
    more = {**results, "rows": {"dexml": row("encoder", {"encoder": {"P@1": {"seeds": [60.0]}}}, [9])}}
    (tmp_path / "more.json").write_text(json.dumps(tables.kept(more)))
    (tmp_path / "other.json").write_text(json.dumps(tables.kept({**more, "data": {"name": "products"}})))
    assert tables.made(page.replace("table one", "table one more")).splitlines()[2:-2] == [
        "| method | score | seeds | P@1 | P@5 |",
        "|---|---|---|---|---|",
        "| `unidec` | fused | 2 | 50.5 |  |",
        "| `bm25` |  | 1 | 40.0 |  |",
        "| `dexml` | encoder | 1 | **60.0** |  |",
    ]
    assert tables.made(page.replace("table one", "table one more other")).splitlines()[4:-2] == [
        "| pages | `unidec` | fused | 2 | 50.5 |  |",
        "|  | `bm25` |  | 1 | 40.0 |  |",
        "|  | `dexml` | encoder | 1 | **60.0** |  |",
        "| products | `dexml` | encoder | 1 | **60.0** |  |",
    ]
    paired = tables.made("<!-- differences one: P@5 P@1 -->\nold\n<!-- end of table -->").splitlines()
    assert paired == [
        "<!-- differences one: P@5 P@1 -->",
        "| less `unidec` | P@5 | P@1 |",
        "|---|---|---|",
        "| `bm25` | +0.25 ± 0.75 | **-10.50 ± 0.50** |",
        "<!-- end of table -->",
    ]
    (tmp_path / "third.json").write_text(json.dumps(tables.kept({**results, "data": {"name": "queries"}})))
    several = tables.made("<!-- differences one third: P@1 -->\n<!-- end of table -->").splitlines()
    assert several[1:-1] == [
        "| set | less `unidec` | P@1 |",
        "|---|---|---|",
        "| pages | `bm25` | **-10.50 ± 0.50** |",
        "| queries | `bm25` | **-10.50 ± 0.50** |",
    ]
    with pytest.raises(ValueError, match="too many values"):  # what others are compared with is another there
        tables.made("<!-- differences one other: P@1 -->\n<!-- end of table -->")
    by_frequency = tables.made("<!-- bins one more other: R@5 -->\nold\n<!-- end of table -->").splitlines()
    assert by_frequency[1:-1] == [
        "| set | labels | documents a label | `unidec` | `bm25` | `dexml` |",
        "|---|---|---|---|---|---|",
        "| pages | 7 | 1,234.6 | **20.0** | 10.0 | 10.0 |",
        "|  | 1,200 | 0.0 | **5.1** | **5.1** | **5.1** |",
        "| products | 7 | 1,234.6 |  |  | **10.0** |",
        "|  | 1,200 | 0.0 |  |  | **5.1** |",
    ]


def test_what_is_published_is_of_one_set_and_of_the_first_table_before_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["unidec", "oak:enrich=depends", "astec", "bm25"]
    rows = {name: {"score": "peer", "metrics": {"P@1": [1.0]}} for name in names}
    kept = {"data": {"name": "pages"}, "rows": rows}
    (tmp_path / "one.json").write_text(json.dumps(kept))
    published = [
        ("RAMEN: Table 6", "LF-WikiSeeAlsoTitles-320K", "unidec:epochs=9", 3),
        ("OAK: Table 2", "LF-WikiSeeAlsoTitles-320K", "unidec", 4),
        ("OAK: Table 2", "LF-WikiSeeAlsoTitles-320K", "oak:enrich=category", 5),
        ("OAK: Table 2", "LF-WikiTitles-500K", "oak:enrich=category", 6),
        ("OAK: Table 2", "LF-WikiTitles-500K", "bm25", 7),
        ("Gandalf: the thesis, Table 1.3", "LF-WikiSeeAlsoTitles-320K", "astec", 8.44),
        ("Gandalf: the thesis, Table 1.3", "LF-WikiSeeAlsoTitles-320K", "astec:augment=gandalf", 9),
        ("RAMEN: Table 6", "LF-WikiSeeAlsoTitles-320K", "astec", 10, "so printed; of another set"),
        ("OAK: Table 8", "LF-WikiSeeAlsoTitles-320K", "oak:base=dpr", 11),
    ]
    lines = ["table,data,recipe,P@1,note", *(",".join(f'"{cell}"' for cell in [*row, ""][:5]) for row in published)]
    (tmp_path / "published.csv").write_text("\n".join(lines))
    monkeypatch.setattr(tables, "RESULTS", tmp_path)
    monkeypatch.setattr(tables, "PUBLISHED", tmp_path / "published.csv")
    printed = tables.made("<!-- table one: published -->\n<!-- end of table -->").splitlines()
    assert printed[1] == "| method | score | seeds | published |"
    assert [line.split("|")[4].strip() for line in printed[3:-1]] == ["3.0", "5.0", "8.4", ""]


def test_a_table_of_growing_sets_by_hand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def size(labels: int, seconds: float) -> dict[str, object]:
        process = {"seconds": 60.0, "processor_seconds": 2 * seconds, "peak_memory": 2**30}
        parts = {"joint": {"processor_seconds": seconds}}
        both = {"training": process, "evaluation": process, "evaluated": 10}
        return {"labels": labels, "parts": parts, "searches": [], **both}

    rows = scale.table([size(1000, 10.0), size(4000, 80.0)])
    monkeypatch.setattr(tables, "RESULTS", tmp_path)
    (tmp_path / "large.json").write_text(json.dumps({"scale": rows}))
    found = tables.made("<!-- table large: scale -->\nold\n<!-- end of table -->").splitlines()
    assert found[1:5] == [
        "| processor seconds | 1,000 labels | 4,000 labels | exponent |",
        "|---|---|---|---|",
        "| joint | 10 | 80 | 1.50 |",
        "| training, whole process | 20 | 160 | 1.50 |",
    ]
    assert "| test documents of it | 10 | 10 |  |" in found
    assert "| both, minutes of the clock | 2.0 | 2.0 | 0.00 |" in found
    assert found[-2] == "| most products of a search, % | 100.0 | 100.0 |  |"
    of = {"unidec": size(1000, 10.0), "depsl": size(1000, 30.0) | {"parts": {"encoder": {"processor_seconds": 30.0}}}}
    for recipe, one in of.items():
        kept = {"sizes": [one], "recipe": recipe, "machine": "1 thread, x86_64"}
        (tmp_path / f"{recipe}.json").write_text(json.dumps(kept))
    found = tables.made("<!-- table unidec depsl: scale -->\nold\n<!-- end of table -->").splitlines()
    assert found[1:6] == [
        "| processor seconds | `unidec`, 1 thread: 1,000 labels | `depsl`, 1 thread: 1,000 labels |",
        "|---|---|---|",
        "| joint | 10 |  |",
        "| encoder |  | 30 |",
        "| training, whole process | 20 | 60 |",
    ]
