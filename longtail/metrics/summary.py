"""The metrics of a model's score kinds: measured, as a value that prints as a table, and as JSON."""

from __future__ import annotations

import io
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from longtail.data.dataset import Propensity
from longtail.data.sparse import CSR
from longtail.errors import BadInput
from longtail.metrics.above import Above
from longtail.metrics.bins import Bins
from longtail.metrics.groups import Group, Groups, by_group
from longtail.metrics.intervals import Interval, intervals
from longtail.metrics.places import Ratio, place
from longtail.metrics.propensity import inverse_propensity
from longtail.metrics.ranking import KS, metric_of, score
from longtail.metrics.reliability import calibration_errors
from longtail.topk import Float64Array, FloatArray, IntArray, TopK
from longtail.units import printable

_UNLIMITED = 10_000  # columns: wider than any table
_IN_USE = (
    "In use are 0.55,1.5 (most sets), 0.6,2.6 (Amazon) and 0.5,0.4 (Wikipedia): evaluate with "
    '--propensity 0.55,1.5, or write "propensity": {"A": 0.55, "B": 1.5} there (docs/reference/metrics.md).'
)
_WIDTH = 100  # columns of an evaluation as a string


class Ranked(NamedTuple):
    """Test documents ranked by every score kind of a model.

    Attributes:
        vectors: float32 of the n documents, one row each, as the model encodes them.
        tops: (n, K) rankings by score kind, the best kind last, filtered pairs left out.
        milliseconds: a document, from text to labels, by score kind, where all of them are ranked at once: the
            throughput upside down, and not the latency of a single one.
        probabilities: (n, K) float32 of the ranked labels, by score kind, where the model has learned them.
    """

    vectors: FloatArray
    tops: Mapping[str, TopK]
    milliseconds: Mapping[str, float]
    probabilities: Mapping[str, FloatArray] = MappingProxyType({})


class Drawn(NamedTuple):
    """Documents that were drawn at random, each once, of a test split.

    Attributes:
        rows: (n,) int64, ascending, which they are.
        of: how many the split has.
        seed: of the draw.
    """

    rows: IntArray
    of: int
    seed: int


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The metrics of every score kind of a model (encoder, classifier, fused) on one test set; it prints as a table.

    Attributes:
        n: test documents.
        N: training documents, which the propensities depend on.
        propensity: A and B of the PSP, or None where none were given: it has no PSP then.
        kinds: metrics in percent, by score kind (``fused``) and then by name (``P@1``).
        headline: the kind that predictions use.
        ranked: the rankings that were measured, with the documents' vectors and the time that they took.
        intervals: 95 % intervals by score kind; empty where none were drawn.
        reliability: ECE@1 and ECE@5 in percentage points by score kind, of kinds that have probabilities.
        others: the same rankings under further constants: those metrics that depend on them, and nothing else.
        drawn: the test documents among all of the split, where not all of them were ranked.
        by: groups of the test documents, by what they are grouped by.
        above: what the labels above a threshold are worth, by the headline, where one was asked for.

    Raises:
        BadInput: there is a PSP without A and B.
    """

    n: int
    N: int
    propensity: Propensity | None
    kinds: Mapping[str, Mapping[str, float]]
    headline: str
    ranked: Ranked = field(repr=False, compare=False)
    intervals: Mapping[str, Mapping[str, Interval]] = field(default_factory=dict)
    reliability: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    others: Sequence[Evaluation] = ()
    drawn: Drawn | None = field(default=None, repr=False, compare=False)
    by: Mapping[str, Sequence[Group]] = field(default_factory=dict)
    above: Above | None = None

    def __post_init__(self) -> None:
        if self.headline not in self.kinds:
            raise ValueError(f"headline {self.headline} is none of the kinds {', '.join(self.kinds)}")
        names = {name for metrics in self.kinds.values() for name in metrics}
        if self.propensity is None and any(metric_of(name).weighted for name in names):
            raise BadInput(
                "dataset.json",
                "a PSP means nothing without its constants, and A and B are missing",
                remedy='add "propensity": {"A": ..., "B": ...}, the values that results are to be compared under',
            )

    def as_dict(self) -> dict[str, Any]:
        """What ``longtail evaluate --json`` writes.

        ``{"n", "A", "B", "N", "kinds": {kind: {metric: percent}}}``, the headline kind first. A and B are None where
        none were given. ``"intervals": {kind: {metric: [low, high]}}`` follows where intervals were drawn,
        ``"reliability": {kind: {"ECE@1": points, ...}}`` where the model has probabilities, ``"others"`` where further
        constants were given: for each pair the same again, with the metrics that depend on it, and ``"by"`` where
        documents were grouped: ``{column: [{"group", "documents", "kinds": {kind: {metric: {low, value, high}}}}]}``.
        ``"drawn": {"of", "seed"}`` says that the n documents were drawn of so many. ``"above": {"threshold", "labels",
        "documents", "metrics": {"precision": {low, value, high}, ...}}`` is there where a threshold was asked for.
        """
        order = sorted(self.kinds, key=lambda kind: kind != self.headline)
        constants = self.propensity
        content: dict[str, Any] = {
            "n": self.n,
            "A": None if constants is None else constants.A,
            "B": None if constants is None else constants.B,
            "N": self.N,
            "kinds": {kind: dict(self.kinds[kind]) for kind in order},
        }
        if self.intervals:
            drawn = self.intervals
            content["intervals"] = {
                kind: {name: [it.low, it.high] for name, it in drawn[kind].items()} for kind in order
            }
        if self.reliability:
            content["reliability"] = {kind: dict(self.reliability[kind]) for kind in order if kind in self.reliability}
        if self.others:
            content["others"] = [other.as_dict() for other in self.others]
        if self.drawn is not None:
            content["drawn"] = {"of": self.drawn.of, "seed": self.drawn.seed}
        if self.by:
            content["by"] = {name: [group.as_dict() for group in groups] for name, groups in self.by.items()}
        if self.above is not None:
            content["above"] = self.above.as_dict()
        return content

    def __str__(self) -> str:
        console = Console(file=io.StringIO(), width=_WIDTH, color_system=None)
        with console.capture() as captured:
            console.print(self)
        return captured.get()

    def macro(self) -> Table:
        """Its macro-averaged view, as tagging tools have it: what it does not print by itself."""
        return _table(self, with_intervals=bool(self.intervals), macro=True)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        """Metrics down, score kinds across, A, B and N beside every PSP, or below; intervals where they fit."""

        def fitting(*, with_intervals: bool, constants: bool) -> Table | None:
            table = _table(self, with_intervals=with_intervals, constants=constants)
            wide = console.measure(table, options=options.update_width(_UNLIMITED)).maximum
            return table if wide <= options.max_width else None

        full = fitting(with_intervals=bool(self.intervals), constants=True)
        plain = full or fitting(with_intervals=False, constants=True)
        drawn = "" if self.drawn is None else f" of {self.drawn.of:,}, drawn at random (seed {self.drawn.seed})"
        documents = f"{self.n:,} test documents{drawn}"
        lines = [f"{documents}, in percent; * marks {self.headline}, which predictions use."]
        if plain is None and self.propensity is not None:
            lines.append(f"PSP and PSnDCG: {_constants(self)}.")
        if self.intervals and full is not None:
            lines.append("± is half the width of the 95 % bootstrap interval.")
        elif self.intervals:
            lines.append("The 95 % intervals need a wider terminal; the JSON has them.")
        if self.reliability:
            lines.append("ECE: how far probabilities are from the shares that are right, in points; less is better.")
        if self.above is not None:
            lines.append(str(self.above))
        if self.propensity is None:
            lines.append(f"No PSP: dataset.json gives no propensity constants A and B. {_IN_USE}")
        yield plain or _table(self, with_intervals=False, constants=False)
        yield Text("\n".join(lines))
        for name, groups in self.by.items():
            yield group_table(name, groups, self.headline)


def measure(
    ranked: Ranked,
    truth: CSR,
    train: CSR,
    propensities: Sequence[Propensity],
    *,
    headline: str,
    ks: Sequence[int] = KS,
    generator: np.random.Generator | None = None,
    by: Mapping[str, Groups] = MappingProxyType({}),
) -> Evaluation:
    """Measure every score kind of a model on the same test set.

    Args:
        ranked: n test documents, filtered pairs left out.
        truth: (n, L) relevant labels.
        train: (N, L) labels of the original training documents, for the propensities.
        propensities: constants, each of which has a PSP of its own; without any there is none.
        headline: the kind that predictions use.
        ks: cut-offs.
        generator: draws bootstrap intervals where it is given; every kind is judged on draws of its own.
        by: groups of the documents, which are judged under the first constants.

    Raises:
        BadInput: as `longtail.metrics.places.place` and `longtail.metrics.ranking.score` do.
    """
    pairs = {kind: place(top, truth) for kind, top in ranked.tops.items()}
    given: Sequence[Propensity | None] = propensities or [None]
    found: list[Evaluation] = []
    for propensity in given:
        weights = None if propensity is None else inverse_propensity(train, propensity.A, propensity.B)
        scores = {kind: score(places, ks=ks, inverse_propensity=weights) for kind, places in pairs.items()}
        if found:
            scores = {kind: _weighted(ratios) for kind, ratios in scores.items()}
        evaluation = Evaluation(
            n=truth.shape[0],
            N=train.shape[0],
            propensity=propensity,
            kinds={kind: {name: ratio.value for name, ratio in ratios.items()} for kind, ratios in scores.items()},
            headline=headline,
            ranked=ranked,
            intervals={} if generator is None else {kind: intervals(scores[kind], generator) for kind in scores},
            by={} if found else {name: by_group(scores, groups) for name, groups in by.items()},
        )
        found.append(evaluation)
    reliability = {
        kind: calibration_errors(ranked.tops[kind], chances, truth) for kind, chances in ranked.probabilities.items()
    }
    return replace(found[0], reliability=reliability, others=tuple(found[1:]))


def _weighted(ratios: Mapping[str, Ratio]) -> dict[str, Ratio]:
    """Those that depend on the constants of the propensities."""
    return {name: ratio for name, ratio in ratios.items() if metric_of(name).weighted}


def bin_table(bins: Bins, kinds: Mapping[str, Mapping[str, Float64Array]], metric: str) -> Table:
    """One metric of `longtail.metrics.bins.by_bin` ("P@5", "R@5") as a table: bins down, score kinds across."""
    table = Table("bin", box=SIMPLE_HEAD, pad_edge=False)
    for header in ("labels", "train rows\na label", *(f"{kind} {metric}" for kind in kinds)):
        table.add_column(header, justify="right")
    for b, name in enumerate(bins.names):
        values = (f"{scores[metric][b]:.2f}" for scores in kinds.values())
        table.add_row(name, f"{bins.labels[b]:,}", f"{bins.frequency[b]:,.1f}", *values)
    return table


def group_table(name: str, groups: Sequence[Group], kind: str) -> Table:
    """Groups of documents down, metrics of a score kind across, each with half the width of its interval."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 0, 0, 1))
    table.add_column(escape(printable(name)), overflow="fold")
    table.add_column("documents", justify="right", no_wrap=True)
    metrics = shown_of(groups[0].metrics[kind])
    for metric in metrics:
        table.add_column(metric, justify="right", no_wrap=True)
    for group in groups:
        cells = (f"{it.value:.2f} ±{it.half:.2f}" for it in (group.metrics[kind][metric] for metric in metrics))
        table.add_row(escape(printable(group.name)), f"{group.documents:,}", *cells)
    return table


def shown_of(measured: Collection[str]) -> list[str]:
    """What is shown of a group: precision at the first place, and nDCG, recall and PSP at the last."""
    last = {name.partition("@")[0]: name for name in measured}
    first = next(name for name in measured if name.startswith("P@"))
    return [first, *(last[name] for name in ("nDCG", "R", "PSP") if name in last)]


def _table(evaluation: Evaluation, *, with_intervals: bool, constants: bool = True, macro: bool = False) -> Table:
    """All metrics, or the macro-averaged ones; constants of PSP are beside it, or else further ones in its name."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 0, 0, 1))
    table.add_column(no_wrap=True)
    for kind in evaluation.kinds:
        marked = kind == evaluation.headline
        table.add_column(f"{kind} *" if marked else kind, justify="right", style="bold" if marked else "", no_wrap=True)
    if evaluation.propensity is not None and constants and not macro:
        table.add_column(no_wrap=True)
    names = [name for name in evaluation.kinds[evaluation.headline] if metric_of(name).macro == macro]
    for name, following in zip(names, [*names[1:], ""], strict=True):
        for one in (evaluation, *evaluation.others) if metric_of(name).weighted else (evaluation,):
            cells = [_cell(one, kind, name, with_intervals=with_intervals) for kind in one.kinds]
            beside = [_constants(one)] if constants and metric_of(name).weighted else []
            further = "" if constants or one is evaluation else f", {_constants(one)}"
            table.add_row(name + further, *cells, *beside)
        if name.partition("@")[0] != following.partition("@")[0]:
            table.add_section()
    for name in {} if macro else dict.fromkeys(name for errors in evaluation.reliability.values() for name in errors):
        found = (evaluation.reliability.get(kind, {}).get(name) for kind in evaluation.kinds)
        table.add_row(name, *("" if value is None else f"{value:.2f}" for value in found))
    return table


def _constants(evaluation: Evaluation) -> str:
    """What PSP depends on."""
    constants = evaluation.propensity
    return "" if constants is None else f"A {constants.A:g}, B {constants.B:g}, N {evaluation.N:,}"


def _cell(evaluation: Evaluation, kind: str, name: str, *, with_intervals: bool) -> str:
    value = f"{evaluation.kinds[kind][name]:.2f}"
    if not with_intervals:
        return value
    drawn = evaluation.intervals[kind][name]
    return f"{value} ±{drawn.half:.2f}"
