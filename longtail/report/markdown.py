"""The results of a comparison as tables in Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from longtail.report.costs import NOTE, costs
from longtail.report.selection import best_of, differing, unfinished
from longtail.units import half_width, is_sure


def markdown(results: Mapping[str, Any]) -> str:
    """Tables of accuracy, of differences to the baseline, the first method, and of costs.

    Args:
        results: what ``results.json`` holds.
    """
    data, rows = results["data"], results["rows"]
    constants = "no PSP: no A and B" if data["A"] is None else f"A = {data['A']:g}, B = {data['B']:g}"
    counts = ("documents", "test_documents", "labels")
    sizes = "{:,} training documents, {:,} test documents, {:,} labels".format(*(data[name] for name in counts))
    machine = f"{results['date']}, {results['machine']['processor']}, {results['machine']['cores']} cores"
    parts = [f"# {data['name']}", f"{sizes}; {constants}. {machine}."]
    if rows:
        parts += [_accuracy(rows), _differences(results), _costs(rows)]
    if notes := unfinished(results):
        parts += ["\n".join(f"- {label}, seed {seed}, {what}: {why}" for what, label, seed, why in notes)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _accuracy(rows: Mapping[str, Any]) -> str:
    best, lines = best_of(rows), []
    for label, row in rows.items():
        for kind, of in row["kinds"].items():
            cells = [_bold(_plus_minus(of[name]), of[name]["mean"] == value) for name, value in best.items()]
            lines.append([_bold(label, kind == row["headline"]), kind, str(len(row["runs"])), *cells])
    note = (
        "Percent on the test split: means over the seeds, with half the width of the 95 % interval over test documents "
        "(bootstrap). Bold: the score that a method predicts with, and the best of each column."
    )
    return note + "\n\n" + _table(["", "score", "seeds", *best], lines)


def _differences(results: Mapping[str, Any]) -> str:
    rows, differences = results["rows"], results["differences"]
    if not differences:
        return ""
    first = next(iter(rows))
    names = differing(differences)
    lines = []
    for label, of in differences.items():
        cells = [_bold(f"{of[n]['mean']:+.2f} ±{half_width(of[n]):.2f}", is_sure(of[n])) for n in names]
        lines.append([label, *cells])
    note = (
        f"Against the baseline, {first}, in percentage points, with paired 95 % intervals over test documents; bold "
        "where 0 is not in the interval."
    )
    table = note + "\n\n" + _table(["", *names], lines)
    if max(len(row["runs"]) for row in rows.values()) == 1:
        return table
    spread = [
        [label, *(_spread(row["kinds"][row["headline"]][name]["seeds"]) for name in names)]
        for label, row in rows.items()
    ]
    return table + "\n\nLowest to highest over the seeds:\n\n" + _table(["", *names], spread)


def _costs(rows: Mapping[str, Any]) -> str:
    found = costs(rows)
    header = ["", *next(iter(found.values()))]
    several = len(rows) > 1
    lines = [
        [label, *(f"{one.said} ({one.ratio})" if one.ratio and several else one.said for one in of.values())]
        for label, of in found.items()
    ]
    return f"Means over the seeds. {NOTE}\n\n{_table(header, lines)}"


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def _bold(text: str, chosen: bool) -> str:  # noqa: FBT001
    return f"**{text}**" if chosen else text


def _plus_minus(value: Mapping[str, float]) -> str:
    return f"{value['mean']:.2f} ±{half_width(value):.2f}"


def _spread(values: Sequence[float]) -> str:
    return f"{min(values):.2f} to {max(values):.2f}"
