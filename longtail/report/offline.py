"""A run judged by records, before it goes live: what it finds and gives, what of that is new, judged and clicked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from longtail.data.dataset import Dataset
from longtail.data.io.folder import Folder
from longtail.data.sparse import CSR
from longtail.data.split import Split
from longtail.errors import BadInput
from longtail.metrics.intervals import Interval, change, intervals
from longtail.metrics.offline import (
    Logged,
    against,
    as_logged,
    contradicted,
    effective,
    given,
    judged,
    matches,
    recommended,
    replayed,
    weighed,
)
from longtail.metrics.places import Ratio, place
from longtail.metrics.ranking import must_be_cut_offs, score
from longtail.model import Model
from longtail.model.calibration import RIVALS
from longtail.model.evaluation import must_have_test
from longtail.model.same_labels import must_be_labels
from longtail.model.thresholds import must_be_threshold
from longtail.report.offline_records import Records, read_records
from longtail.topk import TopK

KS = (1, 5, 10, 20, 50, 100)
AT_MOST = 10
CANNOT = (
    "This is what records say. They cannot say what users do with keywords that they were never shown, what an auction "
    "makes of them, or what they take from each other: only an A/B test says what changes."
)
_NUMBERS = ("labels a query", "mean grade", "impressions a search", "clicks a search")  # others are in percent
_FEW = 100  # entries of a log, fewer of which say too little
_SHALLOW = 10  # the last place whose precision is shown, and the first whose recall is

Sections: TypeAlias = Mapping[str, Mapping[str, Ratio]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What to judge a run by.

    Attributes:
        ks: cut-offs of recall and precision.
        at_most: labels that a query is given.
        threshold: probability of a label that is given; None gives them all.
        weight: a column of the test documents that says how often each counts.
        judged: a table of query, keyword and grade.
        log: a table of query, keyword, propensity and, where they are known, impressions, clicks and event.
        attributes: a table of keyword and attributes, which columns of the test documents have, too.
    """

    ks: Sequence[int] = KS
    at_most: int = AT_MOST
    threshold: float | None = None
    weight: str | None = None
    judged: Path | None = None
    log: Path | None = None
    attributes: Path | None = None

    def __post_init__(self) -> None:
        must_be_cut_offs(self.ks)
        if self.threshold is not None:
            must_be_threshold(self.threshold)
        if self.at_most < 1:
            raise BadInput("at_most", f"expected at least 1 label, found {self.at_most}", remedy="give for example 10")


class Figure(NamedTuple):
    """A figure of the run, of the control where there is one, and their difference; in percent, or as numbers."""

    section: str
    name: str
    percent: bool
    run: Interval
    control: Interval | None = None
    difference: Interval | None = None


@dataclass(frozen=True, slots=True)
class Offline:
    """A run judged by records.

    Attributes:
        run: its folder.
        control: that of the run beside it, or None.
        data: the name of the data set.
        kind: the score kind that ranked.
        queries: test documents.
        asked: what it was judged by.
        figures: in the order in which they are shown.
        notes: sentences about the records.
    """

    run: str
    control: str | None
    data: str
    kind: str
    queries: int
    asked: Asked
    figures: Sequence[Figure]
    notes: Sequence[str] = field(default_factory=list)

    @property
    def about(self) -> str:
        """What was asked, as a sentence."""
        o = self.asked
        weighed = f", weighed by {o.weight}" if o.weight else ""
        sure = f", each at least {o.threshold:g} probable" if o.threshold is not None else ""
        given = f"{self.queries:,} queries{weighed}, given {o.at_most:,} labels at most{sure}"
        return f"{given}, by the score {self.kind}."

    def as_dict(self) -> dict[str, Any]:
        """As JSON."""
        asked = {name: str(value) if isinstance(value, Path) else value for name, value in asdict(self.asked).items()}
        figures = [
            {name: asdict(value) if isinstance(value, Interval) else value for name, value in one._asdict().items()}
            for one in self.figures
        ]
        return {**{name: getattr(self, name) for name in ("run", "control", "data", "kind", "queries")}, **asked} | {
            "figures": figures,
            "notes": [*self.notes, CANNOT],
        }


class _Ranked(NamedTuple):
    """What a run ranks for the test documents, and what of it they are given."""

    top: TopK
    pairs: CSR


def judge_offline(
    run: Path, model: Model, folder: Path, asked: Asked, *, control: tuple[Path, Model] | None = None
) -> Offline:
    """Judge a run by the test split of a data set, and by what else is known of its queries and labels.

    Args:
        run: the folder of the run.
        model: of the run.
        folder: of the data set.
        asked: what to judge by.
        control: the folder and the model of another run, beside which this one is put.

    Raises:
        BadInput: there is no test split, a file is not as it must be, a model has no probabilities for a threshold, or
            is of other labels.
    """
    models = [model] if control is None else [model, control[1]]
    fields = dict.fromkeys(name for one in models for name in one.fields)
    dataset = Dataset.read(folder, fields=(*fields, *Folder.open(folder).columns("test")))
    for one in models:
        must_be_labels(one, dataset.labels, folder)
    records = read_records(dataset, asked.weight, asked.judged, asked.log, asked.attributes)
    ranked = [_ranked(one, must_have_test(dataset), asked) for one in models]
    ratios = [_ratios(one, records, asked.ks) for one in ranked]
    figures = _figures(*ratios)
    if control is not None:
        new = weighed(against(ranked[0].pairs, ranked[1].pairs, records.truth), records.weights)
        figures += _figures({"against the control": new})
    notes = [*records.notes, *([] if records.log is None else _notes(ranked[0].pairs, records.log))]
    return Offline(
        run=str(run),
        control=None if control is None else str(control[0]),
        data=dataset.name,
        kind=model.kinds[-1],
        queries=len(must_have_test(dataset)),
        asked=asked,
        figures=figures,
        notes=notes,
    )


def _ranked(model: Model, test: Split, asked: Asked) -> _Ranked:
    vectors = model.encode(test.documents)
    top = model.search(vectors, max([*asked.ks, asked.at_most, RIVALS]), exclude=test.filtered)
    chances = None if asked.threshold is None else model.probabilities(top)
    return _Ranked(top, recommended(top, len(model.labels), asked.at_most, chances, asked.threshold or 0.0))


def _ratios(ranked: _Ranked, records: Records, ks: Sequence[int]) -> dict[str, dict[str, Ratio]]:
    """The figures of one run by section."""
    scores = score(place(ranked.top, records.truth), ks=ks)
    wanted = [*(f"P@{k}" for k in ks if k <= _SHALLOW), *(f"R@{k}" for k in ks if k >= _SHALLOW or k == max(ks))]
    found = {"found": {name: scores[name] for name in wanted}, "given": given(ranked.pairs)}
    if records.judged is not None:
        found["judged"] = judged(ranked.top, ranked.pairs, records.judged)
    if records.attributes:
        found["contradicting the query"] = {
            name: contradicted(ranked.pairs, *values) for name, values in records.attributes.items()
        }
    found = {section: weighed(of, records.weights) for section, of in found.items()}
    if records.log is not None:
        found["estimated from the log"] = replayed(ranked.pairs, records.log)  # which says how often each is searched
    return found


def _figures(run: Sections, control: Sections | None = None) -> list[Figure]:
    """Values with intervals; those of a control have the same draws, so that differences are paired."""
    figures = []
    for section, of in run.items():
        other = {} if control is None else control[section]
        drawn, before, between = (
            intervals(of, np.random.default_rng(0)),
            intervals(other, np.random.default_rng(0)) if other else {},
            change(other, of, np.random.default_rng(0)) if other else {},
        )
        for name in of:
            percent = name not in _NUMBERS
            values = [
                found[name] if percent else _hundredth(found[name]) for found in (drawn, before, between) if found
            ]
            figures.append(Figure(section, name, percent, *values))
    return figures


def _hundredth(it: Interval) -> Interval:
    return Interval(it.low / 100, it.value / 100, it.high / 100)


def _notes(pairs: CSR, log: Logged) -> list[str]:
    """What the log says by itself, and how much of it says something of the run."""
    own = {name: ratio.value for name, ratio in as_logged(log).items()}
    counted, worth = int(matches(pairs, log).sum()), effective(pairs, log)
    few = f" That is too little to go by: {_FEW} at least are." if worth < _FEW else ""
    yields = (f"{own[f'{what} a search'] / 100:.4g} {what}" for what in ("impressions", "clicks"))
    rate = f"a search, and a click-through rate of {own['click-through rate']:.2f} %"
    said = f"{counted:,} of its {len(log.rows):,} entries show a keyword that the run gives"
    return [
        f"The log itself has {' and '.join(yields)} {rate}.",
        f"{said}; they say as much as {worth:,.0f} of equal weight.{few}",
    ]
