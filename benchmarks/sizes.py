"""The tables of docs/guides/scale.md: runs on paper, from a laptop to a cluster.

    python benchmarks/sizes.py

Each table of the page, from ``<!-- sizes NAME -->`` to ``<!-- end of sizes -->``, is made anew; a test says so where
the page is not what this writes. ``growth`` compares plans with the runs that ``benchmarks/results/*.json`` hold.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from scale import named

from longtail.on_paper.plan import OnPaper, on_paper
from longtail.units import duration, size

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "guides" / "scale.md"
RESULTS = ROOT / "benchmarks" / "results"
BLOCK = re.compile(r"(<!-- sizes (\w+) -->\n).*?(<!-- end of sizes -->)", re.DOTALL)
PLACES = (("cpu", 1), ("a100", 1), ("h200", 1), ("h200", 8), ("h200", 64))  # the first that holds a run is taken
TITLES: dict[str, Any] = {
    "words": 2.06,
    "labels_of": 6,
}  # titles of an encyclopaedia, and the other titles of the same article
QUERIES: dict[str, Any] = {"words": 6, "labels_of": 5}
SIZES: tuple[tuple[float, float, dict[str, Any], dict[str, Any]], ...] = (
    (5e4, 4.5e4, TITLES, {}),
    (1.35e6, 1.22e6, TITLES, {}),
    (1e7, 1e7, QUERIES, {}),
    (1e8, 1e8, QUERIES, {}),
    (1e8, 1e8, QUERIES, {"width": 64}),
    (4.5e8, 4.5e8, QUERIES, {}),
    (4.5e8, 4.5e8, QUERIES, {"width": 64}),
)
PAPERS: tuple[tuple[str, str, str, dict[str, Any], dict[str, Any]], ...] = (
    (
        "UniDEC, chapter 2 of the thesis: 455 million labels, 52 million queries",
        "its encoder (`depsl`) within 48 h on 8 V100",
        "depsl",
        {"encoder": "distilbert", "batch": 2048, "max_length": 12, "positives": 3, "validation": 0.0},
        {"labels": 454_608_650, "documents": 52_029_024, "labels_of": 34.61, "words": 4, "device": "v100", "world": 8},
    ),
    (
        "RAMEN: 360 million ads, 540 million queries",
        "its machines are not said",
        "ngame",
        {"encoder": "distilbert", "batch": 1024},
        {"labels": 3.6e8, "documents": 5.4e8, "labels_of": 5, "words": 4, "device": "h200", "world": 64},
    ),
    (
        "Renee: 120 million labels",
        "16 V100",
        "renee",
        {"encoder": "distilbert", "batch": 1024},
        {"labels": 1.2e8, "documents": 1.2e8, "labels_of": 5, "words": 4, "device": "v100", "world": 16},
    ),
)


_HEAD = ("machines", "device, in a step", "between epochs, or ranking", "main memory", "run", "most of it", "fits")


def of_sizes() -> Iterator[list[str]]:
    """Which size needs what, for `unidec` with the encoder that trains from nothing."""
    yield ["labels", "documents", "width", *_HEAD]
    for labels, documents, texts, given in SIZES:
        plans = (
            on_paper("unidec", given, labels=labels, documents=documents, **texts, device=device, world=world)
            for device, world in PLACES
        )
        plan = last = next(plans)
        for last in plans:
            if not [*plan.refusals()]:
                break
            plan = last
        yield [f"{labels:,.0f}", f"{documents:,.0f}", str(given.get("width", 256)), *_figures(plan)]


def of_papers() -> Iterator[list[str]]:
    """What papers report, and the nearest recipe on paper on the same machines."""
    yield ["paper", "it says", "recipe", *_HEAD]
    for paper, says, recipe, given, task in PAPERS:
        yield [paper, says, f"`{recipe}`", *_figures(on_paper(recipe, given, **task))]


def _figures(plan: OnPaper) -> list[str]:
    peaks = {moment: plan.peak(moment) for moment in plan.memory}
    steps, others = (
        [peak.device for at, peak in peaks.items() if at.startswith("a step") is of] for of in (True, False)
    )
    times = {name: part.times * part.seconds for name, part in plan.run.items() if name != "evaluation"}
    longest = max(times, key=lambda name: times[name])
    first = [line.removeprefix("does not fit: ").partition(" takes ")[0] for line in plan.refusals()]
    return [
        f"{plan.world} x {plan.machine}",
        size(max(steps)),
        size(max(others)),
        size(max(peak.host for peak in peaks.values())) if plan.machine != "cpu" else "",
        duration(plan.seconds),
        f"{longest} {times[longest] / plan.seconds:.0%}",
        "yes" if not first else f"no: {', '.join(dict.fromkeys(first))}",
    ]


def of_limits() -> Iterator[list[str]]:
    """The most labels, with as many documents, of which eight processes of a device still hold tables and vectors."""
    yield ["device, eight of them", "width 256", "width 64"]
    for device in ("cpu", "v100", "a100", "h100", "h200"):
        yield [device, *(f"{_most(device, width):,.1f} million" for width in (256, 64))]


def _most(device: str, width: int) -> float:
    """Millions of labels that fit."""
    low, high = 1e4, 1e10
    while high / low > 1.001:
        middle = (low * high) ** 0.5
        plan = on_paper("unidec", {"width": width}, labels=middle, documents=middle, **QUERIES, device=device, world=8)
        low, high = (low, middle) if [*plan.refusals()] else (middle, high)
    return low / 1e6


def grown() -> list[dict[str, Any]]:
    """Runs of growing sets that are kept, the smallest first."""
    found = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(RESULTS.glob("*.json"))]
    runs = [
        one | {name: kept[name] for name in ("recipe", "machine")}
        for kept in found
        if "sizes" in kept
        for one in kept["sizes"]
    ]
    return sorted(runs, key=lambda one: one["labels"])


def planned(run: Mapping[str, Any]) -> OnPaper:
    """A run that was measured, on paper: with the test documents and the scores that it was evaluated on, on a core."""
    learns = "learning on held-out documents" in run["parts"]
    documents = run["documents"] + (min(5000, run["documents"] / 19) if learns else 0)
    fusion = {"memory": run["memory"], "refit": False} if learns else {"validation": 0.0}
    settings = {"batch": 512, **fusion}  # the default when they were measured
    task: dict[str, Any] = {"documents": documents, "labels": run["labels"], "tests": run["evaluated"]}
    return on_paper(run["recipe"], settings, **task, **TITLES)


def compared(run: Mapping[str, Any]) -> dict[str, tuple[float, float]]:
    """What was said on paper, and what was measured: processor seconds and bytes."""
    plan = planned(run)
    *_, last = plan.memory
    return {
        "training, s": (plan.seconds, run["training"]["processor_seconds"]),
        "evaluation, s": (plan.run["evaluation"].seconds, run["evaluation"]["processor_seconds"]),
        "peak of training": (max(sum(plan.peak(at)) for at in plan.memory), run["training"]["peak_memory"]),
        "peak of evaluation": (sum(plan.peak(last)), run["evaluation"]["peak_memory"]),
    }


def of_growth() -> Iterator[list[str]]:
    """Plans beside what was measured."""
    runs = grown()
    yield ["on paper / measured", *(named(run, run) for run in runs)]
    every = [compared(run) for run in runs]
    for name in every[0]:
        form: Callable[[float], str] = size if name.startswith("peak") else lambda value: f"{value:,.0f}"
        yield [name, *(" / ".join(form(value) for value in one[name]) for one in every)]


TABLES = {"sizes": of_sizes, "papers": of_papers, "limits": of_limits, "growth": of_growth}


def made(page: str) -> str:
    """A page with its tables made anew."""

    def table(found: re.Match[str]) -> str:
        head, *rows = ("| " + " | ".join(cells) + " |" for cells in TABLES[found[2]]())
        return "\n".join([f"{found[1]}{head}", "|" + "---|" * (head.count(" | ") + 1), *rows, found[3]])

    return BLOCK.sub(table, page)


if __name__ == "__main__":
    PAGE.write_text(made(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
