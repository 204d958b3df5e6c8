"""The results of a comparison as tables: in Markdown, and shorter for a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from longtail.compare.methods import short_names
from longtail.compare.results import KS

METRICS = ("P", "nDCG", "PSP", "R", "C")


def markdown(results: Mapping[str, Any]) -> str:
    """Tables of accuracy, of differences to the first method, and of costs.

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


def unfinished(results: Mapping[str, Any]) -> list[tuple[str, str, str, str]]:
    """The runs without a result: "failed" or "stopped", the label, the seed, and why."""
    return [
        (what, label, seed, why + ("; a larger --budget lets it go on" if what == "stopped" else ""))
        for what in ("failed", "stopped")
        for label, of in results[what].items()
        for seed, why in of.items()
    ]


def summary(results: Mapping[str, Any]) -> Table:
    """The headline of each method, for a terminal."""
    names = ("P@1", "P@5", "PSP@1", "R@5", "C@5")
    called = short_names(results["rows"])
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column(no_wrap=True)
    for header in ("score", "seeds", *names, "training"):
        table.add_column(header, justify="right", no_wrap=True)
    for label, row in results["rows"].items():
        of, runs = row["kinds"][row["headline"]], row["runs"]
        cells = [f"{of[name]['mean']:.2f}" if name in of else "" for name in names]
        taken = duration(mean([run["seconds"] for run in runs]))
        table.add_row(escape(called[label]), row["headline"], str(len(runs)), *cells, taken)
    return table


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


def best_of(rows: Mapping[str, Any]) -> dict[str, float]:
    """The best value of each metric of a table of accuracy, over all methods and score kinds."""
    found = [of for row in rows.values() for of in row["kinds"].values()]
    names = (f"{metric}@{k}" for metric in METRICS for k in KS)
    return {name: max(of[name]["mean"] for of in found) for name in names if name in found[0]}


def differing(differences: Mapping[str, Any]) -> list[str]:
    """The metrics of a table of differences."""
    some = ("P@1", "P@5", "nDCG@5", "PSP@1", "PSP@5", "R@5", "C@5")
    return [name for name in some if name in next(iter(differences.values()))]


def _differences(results: Mapping[str, Any]) -> str:
    rows, differences = results["rows"], results["differences"]
    if not differences:
        return ""
    first = next(iter(rows))
    names = differing(differences)
    lines = []
    for label, of in differences.items():
        cells = [
            _bold(f"{of[n]['mean']:+.2f} ±{half_width(of[n]):.2f}", of[n]["low"] > 0 or of[n]["high"] < 0)
            for n in names
        ]
        lines.append([label, *cells])
    note = (
        f"Against {first}, in percentage points, with paired 95 % intervals over test documents; bold where 0 is not "
        "in the interval."
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
    lines = []
    for label, row in rows.items():
        runs, headline = row["runs"], row["headline"]
        gpu = max(run["peak_gpu_memory"] for run in runs)
        lines.append(
            [
                label,
                _count(row["batch"]),
                _count(row["pool"]),
                duration(mean([run["seconds"] for run in runs])),
                size(max(run["peak_memory"] for run in runs)),
                size(gpu) if gpu else "",
                size(mean([run["model_bytes"] for run in runs])),
                f"{mean([run['milliseconds_a_text'][headline] for run in runs]):.3g} ms",
            ]
        )
    note = (
        "Means over the seeds; memory is the peak of the training process. Pool: labels of a batch's pool, in the "
        "first epoch. Prediction: from text to labels, all test documents at once."
    )
    header = ["", "batch", "pool", "training", "peak memory", "peak GPU memory", "model", "prediction a text"]
    return note + "\n\n" + _table(header, lines)


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def _bold(text: str, chosen: bool) -> str:  # noqa: FBT001
    return f"**{text}**" if chosen else text


def _plus_minus(value: Mapping[str, float]) -> str:
    return f"{value['mean']:.2f} ±{half_width(value):.2f}"


def _spread(values: Sequence[float]) -> str:
    return f"{min(values):.2f} to {max(values):.2f}"


def half_width(value: Mapping[str, float]) -> float:
    """Half the width of an interval."""
    return (value["high"] - value["low"]) / 2


def mean(values: Sequence[float]) -> float:
    """The mean of at least one value."""
    return sum(values) / len(values)


def _count(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}"


def duration(seconds: float) -> str:
    """Seconds, for people."""
    if seconds < 120:
        return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.2g} s"
    return f"{seconds / 60:.1f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def size(count: float) -> str:
    """Bytes, for people."""
    if count >= 2**30:
        return f"{count / 2**30:,.2f} GiB"
    return f"{count / 2**20:,.1f} MiB" if count >= 2**20 else f"{count / 2**10:,.1f} KiB"
