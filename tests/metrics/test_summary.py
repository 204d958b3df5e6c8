"""The report: numbers, JSON and tables at several widths."""

from __future__ import annotations

import io
import json
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from longtail.data.dataset import Propensity
from longtail.data.sparse import csr_of_lists
from longtail.errors import LongtailError
from longtail.metrics.bins import by_bin, label_bins
from longtail.metrics.places import place
from longtail.metrics.propensity import inverse_propensity
from longtail.metrics.ranking import METRICS, metrics_of
from longtail.metrics.summary import Evaluation, Ranked, bin_table, measure
from longtail.topk import TopK

TRAIN = csr_of_lists([[i % 7, 7 + i % 3] for i in range(67_087)], 10)
TRUTH = csr_of_lists([[i % 10, (i * i) % 10] for i in range(60)], 10)
KINDS = ("encoder", "classifier", "fused")
CONSTANTS = "A 0.55, B 1.5, N 67,087"


def tops() -> dict[str, TopK]:
    generator = np.random.default_rng(0)
    ids = {kind: np.argsort(generator.random((60, 10)), axis=1)[:, :5] for kind in KINDS}
    return {kind: TopK(ids[kind], np.zeros((60, 5), np.float32)) for kind in KINDS}


def ranked() -> Ranked:
    return Ranked(np.zeros((60, 3), np.float32), tops(), dict.fromkeys(KINDS, 0.1))


@pytest.fixture(scope="module")
def report() -> Evaluation:
    return measure(
        ranked(), TRUTH, TRAIN, [Propensity(0.55, 1.5)], headline="fused", generator=np.random.default_rng(1)
    )


def printed(report: Evaluation, width: int) -> str:
    console = Console(width=width, file=io.StringIO())
    console.print(report)
    text = console.file.getvalue()
    assert max(map(len, text.splitlines())) <= width
    return text


def test_the_numbers_are_those_of_evaluate(report: Evaluation) -> None:
    q = inverse_propensity(TRAIN, 0.55, 1.5)
    for kind, top in tops().items():
        assert report.kinds[kind] == metrics_of(top, TRUTH, inverse_propensity=q)
        assert {name: it.value for name, it in report.intervals[kind].items()} == report.kinds[kind]


def test_json_has_the_documented_form(report: Evaluation) -> None:
    content = json.loads(json.dumps(report.as_dict(), allow_nan=False))
    assert list(content) == ["n", "A", "B", "N", "kinds", "intervals"]
    assert [content[key] for key in ("n", "A", "B", "N")] == [60, 0.55, 1.5, 67_087]
    assert list(content["kinds"]) == ["fused", "encoder", "classifier"]
    names = [f"{name}@{k}" for name in ("P", "nDCG", "PSP", "PSnDCG", "R", "C") for k in (1, 3, 5)]
    macro = [f"{name}@{k}" for name in ("macroP", "macroF1", "microF1") for k in (1, 3, 5)]
    assert list(content["kinds"]["fused"]) == names + macro
    low, high = content["intervals"]["encoder"]["PSP@3"]
    assert low < content["kinds"]["encoder"]["PSP@3"] < high


def test_json_without_intervals_and_constants() -> None:
    content = measure(ranked(), TRUTH, TRAIN, [], headline="encoder", ks=(2,)).as_dict()
    assert list(content) == ["n", "A", "B", "N", "kinds"]
    assert content["A"] is None
    assert list(content["kinds"]["encoder"]) == ["P@2", "nDCG@2", "R@2", "C@2", "macroP@2", "macroF1@2", "microF1@2"]


def test_printed_without_a_console_it_is_the_table(report: Evaluation) -> None:
    assert str(report) == printed(report, 100)
    assert "\x1b" not in str(report)
    assert "vectors" not in repr(report)


@pytest.mark.parametrize("width", [80, 100])
def test_every_value_its_interval_and_the_constants_are_printed(report: Evaluation, width: int) -> None:
    lines, asked = printed(report, width).splitlines(), printed(report.macro(), width).splitlines()
    for name in report.kinds["fused"]:
        table, other = (asked, lines) if METRICS[name.partition("@")[0]].macro else (lines, asked)
        line = next(line for line in table if line.split()[:1] == [name])
        assert line.count("±") == 3
        assert all(f"{report.kinds[kind][name]:.2f}" in line for kind in KINDS)
        assert (CONSTANTS in line) == name.startswith("PS")
        assert not any(line.split()[:1] == [name] for line in other), "what is asked for is not printed unasked"
    assert lines[1].split() == ["encoder", "classifier", "fused", "*"]
    assert "…" not in "".join(lines)


def test_intervals_give_way_on_a_narrow_terminal(report: Evaluation) -> None:
    text = printed(report, 62)
    assert "±" not in text
    assert "wider terminal" in text
    assert all(
        f"{of[name]:.2f}" in text
        for of in report.kinds.values()
        for name in of
        if not METRICS[name.partition("@")[0]].macro
    )
    assert "95 %" not in printed(replace(report, intervals={}), 62)


def test_constants_give_way_to_a_line_on_a_narrower_one(report: Evaluation) -> None:
    text = printed(replace(report, intervals={}), 45)
    assert f"PSP and PSnDCG: {CONSTANTS}." in " ".join(text.split())
    assert all(len(line.split()) == 4 for line in text.splitlines() if line.startswith("PSP@"))
    assert "…" not in text
    wide = printed(replace(report, intervals={}), 80)
    assert "PSP and" not in wide


def test_further_constants_are_in_the_names_of_metrics_on_a_narrow_terminal(under_two: Evaluation) -> None:
    lines = [line.split("  ")[0].strip() for line in printed(under_two, 34).splitlines()]
    assert "PSP@1" in lines
    assert "PSP@1, A 2, B 1, N 20" in lines


def test_without_constants_there_is_no_psp_and_a_line_says_why() -> None:
    text = printed(measure(ranked(), TRUTH, TRAIN, [], headline="fused"), 80)
    assert "PSP@" not in text
    assert "No PSP: dataset.json gives no propensity constants A and B." in text


@pytest.fixture(scope="module")
def under_two() -> Evaluation:
    """The example of docs/reference/metrics.md (`tests/metrics/test_ranking.py`) under two pairs of constants."""
    train = csr_of_lists([[j for j, n in enumerate((9, 4, 3, 1, 0)) if i < n] for i in range(20)], 5)
    truth = csr_of_lists([[0, 1], [1, 2, 4], []], 5)
    top = TopK(np.array([[0, 3, 1], [4, 0, -1], [2, 1, 0]]), np.zeros((3, 3), np.float32))
    pairs = [Propensity(1, 1), Propensity(2, 1)]
    generator = np.random.default_rng(1)
    found = Ranked(np.zeros((3, 1), np.float32), {"fused": top}, {"fused": 0.1})
    return measure(found, truth, train, pairs, headline="fused", ks=(1, 3), generator=generator)


def test_each_pair_of_constants_has_a_psp_of_its_own(under_two: Evaluation) -> None:
    (other,) = under_two.others
    assert under_two.propensity == Propensity(1, 1)
    assert other.propensity == Propensity(2, 1)
    by_hand = ((94.12, 68.33), (97.68, 80.15))
    for found, psp in zip((under_two, other), by_hand, strict=True):
        assert [found.kinds["fused"][f"PSP@{k}"] for k in (1, 3)] == pytest.approx(psp, abs=0.005)
    assert list(other.kinds["fused"]) == ["PSP@1", "PSP@3", "PSnDCG@1", "PSnDCG@3"]
    assert under_two.kinds["fused"]["P@1"] == pytest.approx(200 / 3)


def test_json_and_table_have_all_pairs_of_constants(under_two: Evaluation) -> None:
    content = under_two.as_dict()
    assert [content[key] for key in ("A", "B")] == [1, 1]
    (other,) = content["others"]
    assert [other[key] for key in ("n", "A", "B", "N")] == [3, 2, 1, 20]
    assert other["kinds"]["fused"]["PSP@3"] == pytest.approx(80.15, abs=0.005)
    low, high = other["intervals"]["fused"]["PSP@1"]
    assert low <= other["kinds"]["fused"]["PSP@1"] <= high
    rows = [line.split() for line in str(under_two).splitlines()]
    shown = [" ".join([row[1], *row[3:]]) for row in rows if row[:1] == ["PSP@3"]]
    assert shown == ["68.33 A 1, B 1, N 20", "80.15 A 2, B 1, N 20"], "below one another, each with its constants"
    assert sum(row[:1] == ["P@1"] for row in rows) == 1


def test_further_constants_do_not_change_what_the_first_say(report: Evaluation) -> None:
    pairs, generator = [Propensity(0.55, 1.5), Propensity(0.5, 0.4)], np.random.default_rng(1)
    more = measure(ranked(), TRUTH, TRAIN, pairs, headline="fused", generator=generator)
    assert replace(more, others=()) == report
    alone = measure(ranked(), TRUTH, TRAIN, pairs[1:], headline="fused")
    for kind in KINDS:
        assert more.others[0].kinds[kind].items() < alone.kinds[kind].items()


def test_a_psp_without_its_constants_is_refused(report: Evaluation) -> None:
    with pytest.raises(LongtailError, match=r"dataset\.json: .*A and B are missing; add \"propensity\"") as caught:
        replace(report, propensity=None)
    assert "\n" not in str(caught.value)


def test_a_headline_must_be_one_of_the_kinds(report: Evaluation) -> None:
    with pytest.raises(ValueError, match="headline joint is none of the kinds encoder, classifier, fused"):
        replace(report, headline="joint")


def test_the_table_of_bins() -> None:
    bins = label_bins(TRAIN)
    kinds = {kind: by_bin(place(top, TRUTH), bins) for kind, top in tops().items()}
    console = Console(width=80, file=io.StringIO())
    console.print(bin_table(bins, kinds, "P@5"))
    lines = console.file.getvalue().splitlines()
    tail = next(line for line in lines if line.split()[:2] == ["5", "tail"])
    assert tail.split()[2] == str(bins.labels[4])
    assert tail.split()[-1] == f"{kinds['fused']['P@5'][4]:.2f}"
    assert max(map(len, lines)) <= 80
    assert "…" not in "".join(lines)
