"""The figures of a report: bars from head to tail, accuracy against cost, training curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, TypeAlias

from longtail.metrics.ranking import columns
from longtail.report.html_parts import bar, breakable, card, grid, paragraph
from longtail.report.svg import Point, curves, reliability, scatter
from longtail.units import duration, mean, size

_TIMES: dict[float, str] = {0.01: "0.01 s", 0.03: "0.03 s", 0.1: "0.1 s", 0.3: "0.3 s"}
_TIMES |= {1: "1 s", 3: "3 s", 10: "10 s", 30: "30 s", 60: "1 min", 180: "3 min", 600: "10 min", 1800: "30 min"}
_TIMES |= {3600: "1 h", 10_800: "3 h", 36_000: "10 h", 108_000: "30 h", 360_000: "100 h"}
_SIZES = {2.0**power: f"{2 ** (power % 10)} {'KMGT'[power // 10 - 1]}iB" for power in range(10, 50)}
_NOT_CURVES = {"stage", "epoch", "step", "seconds", "rows_per_second", "pool", "graphs"}

Noted: TypeAlias = Mapping[str, Sequence[tuple[float, Mapping[str, Any]]]]


@dataclass(frozen=True, slots=True)
class Series:
    """What has a colour and a name on the page: a method by the score that it predicts with, or a score of an only run.

    Attributes:
        name: shown.
        row: of ``results.json``.
        kind: the score kind.
        colour: from 0.
    """

    name: str
    row: Mapping[str, Any]
    kind: str
    colour: int

    @property
    def metrics(self) -> Mapping[str, Any]:
        """Mean and interval by metric."""
        found: Mapping[str, Any] = self.row["kinds"][self.kind]
        return found

    def cost(self, name: str) -> float:
        """The mean over its runs of what ``results.json`` says of each, as ``seconds``."""
        return mean([run[name] for run in self.row["runs"]])


def bars(series: Sequence[Series], bins: Mapping[str, Sequence[Any]]) -> str:
    """A panel a bin, a bar a method: recall in the bin, then contributions to P@5 (the thesis, figure 1.3)."""
    recall = (
        "Recall at 5 over the test pairs of each bin, in percent. Bins hold equal shares of the training pairs, from "
        "the most frequent labels to the rarest; unseen labels have none."
    )
    share = (
        "What the hits on each bin's labels contribute to P@5, in percentage points; the bins add up to P@5 (thesis, "
        "figure 1.3)."
    )
    below = f"{paragraph(share)}{_panels(series, bins, 'P@5')}"
    whole = f"{paragraph(recall)}{_panels(series, bins, 'R@5')}"
    return f"{whole}<details><summary>Contributions to P@5</summary>{below}</details>"


def _panels(series: Sequence[Series], bins: Mapping[str, Sequence[Any]], metric: str) -> str:
    most = max(max(one.row["bins"][one.kind][metric]) for one in series) or 1.0
    panels = []
    for b, name in enumerate(bins["names"]):
        frequency = f", {bins['frequency'][b]:,.1f} documents a label" if bins["frequency"][b] else ""
        rows = ""
        for one in series:
            value = one.row["bins"][one.kind][metric][b]
            rows += bar(one.name, value / most, f"{value:.1f}", one.colour)
        title = f"Bin {name}" if name[0].isdigit() else name.capitalize()
        about = f'<span class="muted"> {bins["labels"][b]:,} labels{frequency}</span>'
        panels.append(card(f"{title}<br><small>{about}</small>", rows))
    return grid(panels)


def reliability_plot(series: Sequence[Series]) -> str:
    """How probable the first five labels of each document were said to be, and how many of them are right."""
    found = [(one.name, one.colour, one.row.get("reliability", {}).get(one.kind)) for one in series]
    shown = [(name, colour, of) for name, colour, of in found if of]
    if not shown:
        return ""
    note = (
        "The first five labels of each document, in ten bins by their probability: on the dashed line, as many are "
        "right as was said. ECE@5 is the mean distance from it, a label each, in percentage points. Small bins are off "
        "it by chance; a dot says how many labels it stands for."
    )
    above = dict.fromkeys(one.row["above"] for one in series if one.row.get("above"))
    lines = "".join(map(paragraph, (note, *map(escape, above))))
    return lines + grid([f'<div class="card">{reliability(shown)}</div>'], "wide")


def cost_plots(series: Sequence[Series]) -> str:
    """The first two metrics that are drawn so, against training time and model size."""
    names = [*columns(lambda metric: metric.cost, series[0].metrics)][:2]
    costs = (("training time", "seconds", _TIMES, duration), ("model size", "model_bytes", _SIZES, size))
    drawings = []
    for name in names:
        for title, field, ticks, write in costs:
            points = []
            for one in series:
                value = one.row["kinds"][one.kind][name]
                points.append(
                    Point(one.name, max(one.cost(field), 1e-2), value["mean"], value["low"], value["high"], one.colour)
                )
            drawing = scatter(points, ticks=ticks, write=write, cost=title, metric=name)
            drawings.append(card(f"{name}, in percent, against {title}", drawing))
    note = (
        "Up and to the left is better. Nothing is both better and cheaper than what the dashed line joins. Vertical "
        "lines are 95 % intervals; costs are on a logarithmic scale. A dot says what it is when it is pointed at."
    )
    return paragraph(note) + grid(drawings, "wide")


def training_curves(logs: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """Every number that the runs logged by epoch (loss terms, say), a panel a stage and group.

    Stages of one epoch are left out: they are no curves.
    """
    panels = []
    for label, log in logs.items():
        for (stage, group), of in _by_group(log).items():
            if max(map(len, of.values())) > 1:
                panels.append(_curves(label, escape(f"{stage}: {group}"), of, "epoch"))
    note = "Means of each epoch, of the run with the first seed; in the legends the last ones."
    return paragraph(note) + grid(panels) if panels else ""


def _curves(label: str, what: str, of: Mapping[str, Sequence[tuple[float, float]]], axis: str) -> str:
    """A panel of a method; ``what`` it shows is HTML."""
    return card(f'{breakable(label)}<br><small class="muted">{what}</small>', curves(of, title=axis))


def _by_group(log: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str], dict[str, list[tuple[float, float]]]]:
    """(epoch, value) pairs by stage and group, then by name."""
    found: dict[tuple[str, str], dict[str, list[tuple[float, float]]]] = {}
    for line in log:
        for field, value in line.items():
            if field in _NOT_CURVES or "epoch" not in line:
                continue
            group = "loss" if field == "terms" else field.replace("_", " ")
            for name, number in (value if isinstance(value, Mapping) else {group: value}).items():
                if isinstance(number, (int, float)):
                    of = found.setdefault((line["stage"], group), {})
                    of.setdefault(name, []).append((line["epoch"], number))
    return found


def graph_curves(noted: Mapping[str, Noted]) -> str:
    """Weights and kept edges of metadata graphs over epochs, a pair of panels a method.

    Args:
        noted: what `noted_of_graphs` finds, by method.
    """
    panels = []
    for label, of in noted.items():
        weights = {name: [(done, one["weight"]) for done, one in found] for name, found in of.items()}
        shares = {name: [(done, kept(one)) for done, one in found] for name, found in of.items()}
        for title, values in (("weights of the loss terms", weights), ("edges kept, in percent", shares)):
            if max(map(len, values.values())) > 1:
                panels.append(_curves(label, title, values, "epochs done"))
    return grid(panels) if panels else ""


def kept(noted: Mapping[str, Any]) -> float:
    """The share of a graph's edges that are kept, in percent."""
    return float(100 * noted["edges"] / max(noted["of"], 1))


def noted_of_graphs(log: Sequence[Mapping[str, Any]]) -> Noted:
    """What a run noted by graph and side: the epochs that were done, and the ``edges`` kept, ``of`` all, ``weight``."""
    found: dict[str, list[tuple[float, Mapping[str, Any]]]] = {}
    done: dict[str, float] = {}  # epochs by stage
    for line in log:
        stage = line.get("stage", "")
        for name, noted in line.get("graphs", {}).items():
            of = found.setdefault(name, [])
            edges = of[0][1]["of"] if of else noted["edges"]  # older logs do not say of how many
            of.append((done.get(stage, 0.0), {"of": edges, **noted}))
        done[stage] = line.get("epoch", done.get(stage, 0.0))
    return found
