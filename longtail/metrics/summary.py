"""The metrics of a model's score kinds: measured, as JSON, and as tables for a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from longtail.data.dataset import Propensity
from longtail.data.sparse import CSR
from longtail.errors import BadInput
from longtail.metrics.bins import Bins
from longtail.metrics.intervals import Interval, intervals
from longtail.metrics.places import place
from longtail.metrics.propensity import inverse_propensity
from longtail.metrics.ranking import score
from longtail.topk import Float64Array, TopK

_UNLIMITED = 10_000  # columns: wider than any table


@dataclass(frozen=True, slots=True)
class Report:
    """The metrics of every score kind of a model (encoder, classifier, fused) on one test set.

    Attributes:
        n: test documents.
        N: training documents, which the propensities depend on.
        propensity: A and B of the PSP, or None where the data set has none: no PSP is in the report then.
        kinds: metrics in percent by score kind.
        headline: the kind that predictions use.
        intervals: 95 % intervals by score kind; empty where none were drawn.

    Raises:
        BadInput: there is a PSP without A and B.
    """

    n: int
    N: int
    propensity: Propensity | None
    kinds: Mapping[str, Mapping[str, float]]
    headline: str
    intervals: Mapping[str, Mapping[str, Interval]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.headline not in self.kinds:
            raise ValueError(f"headline {self.headline} is none of the kinds {', '.join(self.kinds)}")
        names = {name for metrics in self.kinds.values() for name in metrics}
        if self.propensity is None and any(map(_is_propensity_scored, names)):
            raise BadInput(
                "dataset.json",
                "a PSP means nothing without its constants, and A and B are missing",
                remedy='add "propensity": {"A": ..., "B": ...}, the values that results are to be compared under',
            )


def measure(
    tops: Mapping[str, TopK],
    truth: CSR,
    train: CSR,
    propensity: Propensity | None,
    *,
    headline: str,
    ks: Sequence[int] = (1, 3, 5),
    generator: np.random.Generator | None = None,
) -> Report:
    """Evaluate every score kind of a model on the same test set.

    Args:
        tops: (n, K) ranked labels by score kind, filtered pairs left out.
        truth: (n, L) relevant labels.
        train: (N, L) labels of the original training documents, for the propensities.
        propensity: constants of the data set; without them there is no PSP.
        headline: the kind that predictions use.
        ks: cut-offs.
        generator: draws bootstrap intervals where it is given; every kind is judged on draws of its own.
    """
    weights = None if propensity is None else inverse_propensity(train, propensity.A, propensity.B)
    scores = {kind: score(place(top, truth), ks=ks, inverse_propensity=weights) for kind, top in tops.items()}
    return Report(
        n=truth.shape[0],
        N=train.shape[0],
        propensity=propensity,
        kinds={kind: {name: ratio.value for name, ratio in ratios.items()} for kind, ratios in scores.items()},
        headline=headline,
        intervals={} if generator is None else {kind: intervals(scores[kind], generator) for kind in scores},
    )


def as_json(report: Report) -> dict[str, Any]:
    """``{"n", "A", "B", "N", "kinds": {kind: {metric: percent}}}``, the headline kind first.

    A and B are null where the data set has none. ``"intervals": {kind: {metric: [low, high]}}`` follows where intervals
    were drawn.
    """
    order = sorted(report.kinds, key=lambda kind: kind != report.headline)
    constants = report.propensity
    content: dict[str, Any] = {
        "n": report.n,
        "A": None if constants is None else constants.A,
        "B": None if constants is None else constants.B,
        "N": report.N,
        "kinds": {kind: dict(report.kinds[kind]) for kind in order},
    }
    if report.intervals:
        drawn = report.intervals
        content["intervals"] = {kind: {name: [it.low, it.high] for name, it in drawn[kind].items()} for kind in order}
    return content


def show(report: Report, console: Console) -> None:
    """Print a report: metrics down, score kinds across, A, B and N beside every PSP; intervals where they fit."""
    full = _table(report, with_intervals=bool(report.intervals))
    fits = console.measure(full, options=console.options.update_width(_UNLIMITED)).maximum <= console.width
    lines = [f"{report.n:,} test documents, in percent; * marks {report.headline}, which predictions use."]
    if report.intervals and fits:
        lines.append("± is half the width of the 95 % bootstrap interval.")
    elif report.intervals:
        lines.append("The 95 % intervals need a wider terminal; the JSON has them.")
    if report.propensity is None:
        lines.append("No PSP: dataset.json gives no propensity constants A and B.")
    console.print(full if fits else _table(report, with_intervals=False))
    console.print("\n".join(lines), highlight=False)


def bin_table(bins: Bins, kinds: Mapping[str, Mapping[str, Float64Array]], metric: str) -> Table:
    """One metric of `longtail.metrics.bins.by_bin` ("P@5", "R@5") as a table: bins down, score kinds across."""
    table = Table("bin", box=SIMPLE_HEAD, pad_edge=False)
    for header in ("labels", "train rows\na label", *(f"{kind} {metric}" for kind in kinds)):
        table.add_column(header, justify="right")
    for b, name in enumerate(bins.names):
        values = (f"{scores[metric][b]:.2f}" for scores in kinds.values())
        table.add_row(name, f"{bins.labels[b]:,}", f"{bins.frequency[b]:,.1f}", *values)
    return table


def _is_propensity_scored(name: str) -> bool:
    return name.startswith("PS")


def _table(report: Report, *, with_intervals: bool) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 0, 0, 1))
    table.add_column(no_wrap=True)
    for kind in report.kinds:
        marked = kind == report.headline
        table.add_column(f"{kind} *" if marked else kind, justify="right", style="bold" if marked else "", no_wrap=True)
    constants = report.propensity
    if constants is not None:
        table.add_column()
    names = list(report.kinds[report.headline])
    for name, following in zip(names, [*names[1:], ""], strict=True):
        cells = [_cell(report, kind, name, with_intervals=with_intervals) for kind in report.kinds]
        if constants is not None and _is_propensity_scored(name):
            cells.append(f"A {constants.A:g}, B {constants.B:g}, N {report.N:,}")
        table.add_row(name, *cells, end_section=name.partition("@")[0] != following.partition("@")[0])
    return table


def _cell(report: Report, kind: str, name: str, *, with_intervals: bool) -> str:
    value = f"{report.kinds[kind][name]:.2f}"
    if not with_intervals:
        return value
    drawn = report.intervals[kind][name]
    return f"{value} ±{(drawn.high - drawn.low) / 2:.2f}"
