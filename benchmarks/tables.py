"""Tables of the documentation, made of the figures that comparisons have kept.

    longtail compare SET unidec ... --out COMPARISON
    python benchmarks/tables.py keep COMPARISON NAME
    python benchmarks/tables.py

``keep`` writes what a table needs of ``COMPARISON/results.json`` to ``benchmarks/results/NAME.json``. Without it, each
table of a page in ``docs/`` is made anew: the lines from ``<!-- table NAME ...: P@1 PSP@1 ... -->``, with the names of
one or more comparisons and the columns, to ``<!-- end of table -->``. Of each method it has the score that the method
predicts with, the mean over its seeds, the best of a set in bold, whichever of its comparisons, which stand behind each
other, that was in; and what it costs, as ``training`` or ``time_a_text``, the columns of a report's table of costs; and
as ``published`` the P@1 of the same system on another data set, LF-WikiSeeAlsoTitles-320K, by
`benchmarks/published.csv`: that of RAMEN's Table 6, which has most systems beside each other, or else that of another
paper. A test says so where a page is not what this writes.
``<!-- differences NAME ...: P@1 PSP@1 ... -->`` has what each method has more than the first, in points, with the 95 %
interval that is paired over test documents, in bold where 0 is not in it; of several sets, whose first methods have one
name, a set behind another. ``<!-- bins NAME ...: R@5 -->`` has the recall of each method over labels that are as
frequent, the best in bold; a comparison that stands behind another may have further methods on the same data.
``<!-- table NAME: scale -->`` has what `benchmarks/scale.py --keep NAME` has kept; with several names, all of it beside
each other, without exponents.
"""

from __future__ import annotations

import argparse
import csv
import json
import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import scale

from longtail.files import read_json
from longtail.report.costs import costs
from longtail.units import half_width

ROOT = Path(__file__).parents[1]
RESULTS, PUBLISHED = ROOT / "benchmarks" / "results", ROOT / "benchmarks" / "published.csv"
PUBLISHED_SET = "LF-WikiSeeAlsoTitles-320K"
TABLES = (  # whose systems are beside each other on it; the first that has one counts
    "RAMEN: Table 6",
    "OAK: Table 2",
    "Gandalf: the thesis, Table 1.3",
    "UniDEC and DePSL: the thesis, Table 2.2",
)
BLOCK = re.compile(r"(<!-- (table|differences|bins) ([\w -]+): ([^>]+?) -->\n).*?(<!-- end of table -->)", re.DOTALL)


def kept(results: dict[str, Any]) -> dict[str, Any]:
    """What is kept of a comparison: for each method, its score, its costs, each metric by seed, and each difference."""
    spent = costs(results["rows"])
    rows = {
        name: {
            "score": row["headline"],
            "costs": {column: cost.said for column, cost in spent[name].items()},
            "metrics": {
                metric: [round(value, 2) for value in found["seeds"]]
                for metric, found in row["kinds"][row["headline"]].items()
            },
            "bins": {"R@5": [round(value, 2) for value in row["bins"][row["headline"]]["R@5"]]},
        }
        for name, row in results["rows"].items()
    }
    less_the_first = {
        name: {metric: {of: round(value, 3) for of, value in found.items()} for metric, found in metrics.items()}
        for name, metrics in results["differences"].items()
    }
    sizes = {name: value for name, value in results["data"].items() if isinstance(value, (str, int))}
    of_all = {"data": sizes, "bins": results["bins"], "date": results["date"], "machine": results["machine"]}
    return {**of_all, "rows": rows, "differences": less_the_first}


def table(names: Sequence[str], metrics: Sequence[str]) -> Iterator[str]:
    """The lines of a table of kept comparisons, or of what `benchmarks/scale.py` has kept."""
    if list(metrics) == ["scale"]:
        head, *rows = _scales([read_json(RESULTS / f"{name}.json", remedy="keep the figures") for name in names])
        yield from (_row(head), "|" + "---|" * len(head), *map(_row, rows))
        return
    columns = [metric.replace("_", " ") for metric in metrics]
    found = [read_json(RESULTS / f"{name}.json", remedy="keep the comparison") for name in names]
    sets = [(name, [*of]) for name, of in groupby(found, key=lambda one: one["data"]["name"])]
    several = ["set"] if len(sets) > 1 else []
    yield _row([*several, "method", "score", "seeds", *columns])
    yield "|" + "---|" * (len(several) + 3 + len(metrics))
    for name, comparisons in sets:
        methods = [(method, row) for one in comparisons for method, row in one["rows"].items()]
        shown = [[_cell(method, row, column) for column in columns] for method, row in methods]
        spent = {"published"} | {column for _, row in methods for column in row.get("costs", {})}
        best = [
            None if column in spent else max(cells, key=lambda cell: float(cell or 0))
            for column, cells in zip(columns, zip(*shown, strict=True), strict=True)
        ]
        for position, ((method, row), cells) in enumerate(zip(methods, shown, strict=True)):
            of_set = [name if position == 0 else ""] if several else []
            bold = (f"**{cell}**" if cell and cell == top else cell for cell, top in zip(cells, best, strict=True))
            seeds = str(len(next(iter(row["metrics"].values()))))
            yield _row([*of_set, f"`{method}`", row["score"].replace("peer", ""), seeds, *bold])


def differences(names: Sequence[str], metrics: Sequence[str]) -> Iterator[str]:
    """The lines of a table of what each method of kept comparisons has more than the first one of its comparison."""
    found = [read_json(RESULTS / f"{name}.json", remedy="keep the comparison") for name in names]
    several = ["set"] if len(found) > 1 else []
    (baseline,) = {next(iter(one["rows"])) for one in found}  # of one name in all of them
    yield _row([*several, f"less `{baseline}`", *metrics])
    yield "|" + "---|" * (len(several) + 1 + len(metrics))
    for one in found:
        for position, (method, of) in enumerate(one["differences"].items()):
            of_set = [one["data"]["name"] if position == 0 else ""] if several else []
            yield _row([*of_set, f"`{method}`", *(_difference(of[metric]) for metric in metrics)])


def bins(names: Sequence[str], metrics: Sequence[str]) -> Iterator[str]:
    """The lines of a table of one metric over labels that are as frequent: a row a bin, head to tail."""
    (metric,) = metrics
    found = [read_json(RESULTS / f"{name}.json", remedy="keep the comparison") for name in names]
    several = ["set"] if len({one["data"]["name"] for one in found}) > 1 else []
    methods = list(dict.fromkeys(method for one in found for method in one["rows"]))
    yield _row([*several, "labels", "documents a label", *(f"`{method}`" for method in methods)])
    yield "|" + "---|" * (len(several) + 2 + len(methods))
    for name, of in groupby(found, key=lambda one: one["data"]["name"]):
        first, *others = of
        rows = first["rows"] | {method: row for one in others for method, row in one["rows"].items()}
        sizes = zip(first["bins"]["labels"], first["bins"]["frequency"], strict=True)
        for position, (labels, frequency) in enumerate(sizes):
            cells = [f"{rows[method]['bins'][metric][position]:.1f}" if method in rows else "" for method in methods]
            top = max(cells, key=lambda cell: float(cell or 0))
            bold = (f"**{cell}**" if cell == top else cell for cell in cells)
            yield _row(
                [*([name if position == 0 else ""] if several else []), f"{labels:,}", f"{frequency:,.1f}", *bold]
            )


def _difference(of: dict[str, float]) -> str:
    said = f"{of['mean']:+.2f} ± {half_width(of):.2f}"
    return f"**{said}**" if of["low"] > 0 or of["high"] < 0 else said


def _scales(kept: Sequence[dict[str, Any]]) -> list[list[str]]:
    """The rows of what was kept of one recipe at several sizes, or of several recipes beside each other; head first."""
    if len(kept) == 1:
        rows: list[list[str]] = kept[0]["scale"]
        return rows
    sizes = [(scale.named(found, size), size) for found in kept for size in found["sizes"]]
    names, of_each = zip(*sizes, strict=True)
    (first, *_), *parts = scale.table(of_each)
    return [[first, *names], *(cells[:-1] for cells in parts)]  # without an exponent


def _cell(method: str, row: dict[str, Any], column: str) -> str:
    """What a table says of a method in one of its columns."""
    if column == "published":
        return _published().get(method.partition(":")[0], "")
    spent: str = row.get("costs", {}).get(column, "")
    return spent or _mean(row["metrics"].get(column, []))


def _published() -> dict[str, str]:
    """The P@1 of recipes on one set, by name: by the first of some tables that has it."""
    with PUBLISHED.open(encoding="utf-8", newline="") as file:
        of_set = [row for row in csv.DictReader(file) if row["data"] == PUBLISHED_SET and row["table"] in TABLES]
    rows = [row for row in of_set if "augment=" not in row["recipe"] and not row["note"].startswith("so printed")]
    rows.sort(key=lambda row: -TABLES.index(row["table"]))  # what is last counts
    return {row["recipe"].partition(":")[0]: f"{float(row['P@1']):.1f}" for row in rows}


LINES = {"table": table, "differences": differences, "bins": bins}


def made(page: str) -> str:
    """A page with its tables made anew."""

    def anew(found: re.Match[str]) -> str:
        first, kind, names, columns, last = found.groups()
        lines = LINES[kind](names.split(), columns.split())
        return "\n".join([first.rstrip("\n"), *lines, last])

    return BLOCK.sub(anew, page)


def _mean(values: Sequence[float]) -> str:
    return f"{sum(values) / len(values):.1f}" if values else ""


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    """Keep a comparison, or make all tables anew."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("keep", nargs="?", choices=["keep"])
    parser.add_argument("comparison", nargs="?", type=Path)
    parser.add_argument("name", nargs="?")
    given = parser.parse_args()
    if given.keep:
        if given.name is None:
            parser.error("expected keep COMPARISON NAME")
        results = read_json(given.comparison / "results.json", remedy="run the comparison")
        (RESULTS / f"{given.name}.json").write_text(json.dumps(kept(results), indent=1) + "\n", encoding="utf-8")
        return
    for path in sorted((ROOT / "docs").rglob("*.md")):
        before = path.read_text(encoding="utf-8")
        if made(before) != before:
            path.write_text(made(before), encoding="utf-8")
            print(f"{path.relative_to(ROOT)}: made anew")


if __name__ == "__main__":
    main()
