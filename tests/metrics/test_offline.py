"""What records say of recommendations: the worked example of docs/reference/metrics.md, loop twins, planted logs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from longtail.data.sparse import csr_of_lists
from longtail.metrics.intervals import change, intervals
from longtail.metrics.offline import (
    Judged,
    Logged,
    against,
    as_logged,
    contradicted,
    effective,
    given,
    judged,
    recommended,
    replayed,
    weighed,
)
from longtail.topk import TopK

L = 5
TRUTH = csr_of_lists([[0, 1], [1, 2, 4], []], L)
TOP = TopK(np.array([[0, 3, 1], [4, 0, -1], [2, 1, 0]]), np.zeros((3, 3), np.float32))
CHANCES = np.array([[0.9, 0.2, 0.6], [0.8, 0.4, 0.0], [0.3, 0.3, 0.1]], np.float32)
PAIRS = recommended(TOP, L, 3, CHANCES, 0.4)  # 0 and 1 to the first, 4 and 0 to the second
CONTROL = csr_of_lists([[0], [1], [2]], L)


def values(ratios: Any) -> dict[str, float]:
    return {name: ratio.value for name, ratio in ratios.items()}


def rows(matrix: Any) -> list[list[int]]:
    return [sorted(part.tolist()) for part in np.split(matrix.indices, matrix.indptr[1:-1])]


def test_what_is_given_by_hand() -> None:
    assert rows(PAIRS) == [[0, 1], [0, 4], []]
    assert rows(recommended(TOP, L, 2)) == [[0, 3], [0, 4], [1, 2]]
    assert values(given(PAIRS)) == pytest.approx(
        {"labels a query": 400 / 3, "queries covered": 200 / 3, "labels covered": 60}
    )


def test_what_is_new_by_hand() -> None:
    expected = {
        "new": 75,
        "new and right": 200 / 3,
        "lost": 200 / 3,
        "lost and right": 50,
        "queries newly covered": 0,
    }
    assert values(against(PAIRS, CONTROL, TRUTH)) == pytest.approx(expected)
    nothing = csr_of_lists([[], [], [0]], L)
    assert values(against(PAIRS, nothing, TRUTH))["queries newly covered"] == pytest.approx(200 / 3)
    assert values(against(PAIRS, PAIRS, TRUTH)) == dict.fromkeys(expected, 0)


def test_what_judges_say_by_hand() -> None:
    of = Judged(
        np.array([0, 0, 0, 1, 1]), np.array([0, 3, 1, 1, 2]), ["3", "1", "2", "3", "1"], np.array([3.0, 1, 2, 3, 1])
    )
    expected = {"judged": 50, "grade 3": 50, "grade 2": 50, "grade 1": 0, "mean grade": 250, "agreement": 62.5}
    assert values(judged(TOP, PAIRS, of)) == pytest.approx(expected)
    named = Judged(of.rows, of.labels, ["good", "bad", "fair", "good", "bad"], None)
    assert list(judged(TOP, PAIRS, named)) == ["judged", "grade bad", "grade good", "grade fair"]


def test_contradictions_by_hand() -> None:
    documents = [frozenset("x"), frozenset(), frozenset("y")]
    labels = [frozenset("x"), frozenset("y"), frozenset(), frozenset("xy"), frozenset("y")]
    assert contradicted(recommended(TOP, L, 2), documents, labels).value == 0
    assert contradicted(recommended(TOP, L, 3), documents, labels).value == pytest.approx(100 / 3)
    assert contradicted(recommended(TOP, L, 3), [frozenset()] * 3, labels).value == 0


LOG = Logged(
    rows=np.array([0, 0, 0, 1, 1]),
    labels=np.array([0, 3, -1, 0, 1]),
    propensity=np.array([0.5, 0.25, 1, 0.5, 0.5]),
    impressions=np.array([1.0, 1, 0, 1, 1]),
    clicks=np.array([1.0, 0, 0, 1, 1]),
    searches=np.array([2.0, 2, 0]),
)


def test_a_log_by_hand() -> None:
    names = ("impressions a search", "clicks a search", "click-through rate")
    assert values(replayed(PAIRS, LOG)) == pytest.approx(dict(zip(names, (100, 100, 100), strict=True)))
    assert values(as_logged(LOG)) == pytest.approx(dict(zip(names, (100, 75, 75), strict=True)))
    assert effective(PAIRS, LOG) == pytest.approx(2)
    everything = csr_of_lists([list(range(L))] * 3, L)
    assert values(replayed(everything, LOG)) == pytest.approx(dict(zip(names, (250, 150, 60), strict=True)))
    assert effective(csr_of_lists([[], [], []], L), LOG) == 0


def test_queries_count_as_often_as_their_weight_says() -> None:
    plain = given(PAIRS)
    found = weighed(plain, np.array([1.0, 3, 4]))
    assert values(found) == {"labels a query": 100, "queries covered": 50, "labels covered": 60}
    assert values(weighed(plain, np.ones(3))) == values(plain)
    twice = weighed(against(PAIRS, CONTROL, TRUTH), np.array([2.0, 1, 1]))
    assert twice["new"].value == pytest.approx(100 * 4 / 6)


def chosen(generator: np.random.Generator, n: int, most: int) -> list[list[int]]:
    return [generator.choice(12, generator.integers(0, most), replace=False).tolist() for _ in range(n)]


@pytest.mark.parametrize("seed", range(3))
def test_loops_say_the_same(seed: int) -> None:
    generator, n = np.random.default_rng(seed), 25
    ranked = np.stack([generator.permutation(12)[:6] for _ in range(n)])
    top = TopK(ranked, np.zeros(ranked.shape, np.float32))
    truth, other = chosen(generator, n, 5), chosen(generator, n, 4)
    mine = [set(row[:4].tolist()) for row in ranked]
    pairs, control = recommended(top, 12, 4), csr_of_lists(other, 12)
    found = values(against(pairs, control, csr_of_lists(truth, 12)))
    new = [(i, j) for i in range(n) for j in mine[i] - set(other[i])]
    lost = [(i, j) for i in range(n) for j in set(other[i]) - mine[i]]
    assert found["new"] == pytest.approx(100 * len(new) / (4 * n))
    assert found["new and right"] == pytest.approx(100 * sum(j in truth[i] for i, j in new) / len(new))
    assert found["lost"] == pytest.approx(100 * len(lost) / sum(map(len, other)))
    assert found["lost and right"] == pytest.approx(100 * sum(j in truth[i] for i, j in lost) / len(lost))
    graded = {(int(i), int(j)): float(generator.integers(0, 3)) for i, j in generator.integers(0, [n, 12], (90, 2))}
    keys = np.array(list(graded))
    of = Judged(keys[:, 0], keys[:, 1], [f"{value:g}" for value in graded.values()], np.array([*graded.values()]))
    scores = values(judged(top, pairs, of))
    shown = [value for (i, j), value in graded.items() if j in mine[i]]
    assert scores["judged"] == pytest.approx(100 * len(shown) / (4 * n))
    assert scores["mean grade"] == pytest.approx(100 * np.mean(shown))
    assert scores["grade 2"] == pytest.approx(100 * shown.count(2) / len(shown))
    right = of_all = 0.0
    for (i, a), better in graded.items():
        for (other_query, b), worse in graded.items():
            if i == other_query and better > worse:
                place = [row.index(x) if x in row else 99 for row in [ranked[i].tolist()] for x in (a, b)]
                right, of_all = right + (1.0 if place[0] < place[1] else 0.5 * (place[0] == place[1])), of_all + 1
    assert scores["agreement"] == pytest.approx(100 * right / of_all)
    some = [frozenset(generator.choice(list("xyz"), 2)[: generator.integers(0, 3)]) for _ in range(n + 12)]
    brands = some[:n], some[n:]
    asked = [(brands[0][i], brands[1][j]) for i in range(n) for j in mine[i] if brands[0][i]]
    wrong = sum(bool(label) and not label & document for document, label in asked)
    assert contradicted(pairs, *brands).value == pytest.approx(100 * wrong / len(asked))


def simulated(seed: int) -> tuple[Logged, np.ndarray]:
    """A log of 20,000 searches of 40 queries, where clicks are known: (n, L) how probable one is."""
    generator = np.random.default_rng(seed)
    n, labels, searches = 40, 8, 20_000
    shown_with = generator.uniform(0.1, 0.9, (n, labels))
    clicked_with = generator.uniform(0, 0.3, (n, labels))
    clicked_with += 0.4 * (shown_with < 0.3)  # what was seldom shown is what users like
    queries = generator.integers(0, n, searches)
    shown = generator.random((searches, labels)) < shown_with[queries]
    clicks = shown & (generator.random((searches, labels)) < clicked_with[queries])
    event, label = np.nonzero(shown)
    rows = queries[event]
    log = Logged(
        rows,
        label,
        shown_with[rows, label],
        np.ones(len(rows)),
        clicks[event, label].astype(float),
        np.bincount(queries, minlength=n).astype(float),
    )
    return log, clicked_with


def test_a_log_says_what_would_be_clicked_if_other_labels_were_shown() -> None:
    log, clicked_with = simulated(0)
    n, labels = clicked_with.shape
    liked = [np.flatnonzero(row > 0.3).tolist() for row in clicked_with]
    pairs = csr_of_lists(liked, labels)
    share = log.searches / log.searches.sum()
    clicks = sum(share[i] * clicked_with[i, j] for i in range(n) for j in liked[i])
    shown = sum(share[i] * len(liked[i]) for i in range(n))
    found = values(replayed(pairs, log))
    assert found["clicks a search"] == pytest.approx(100 * clicks, rel=0.03)
    assert found["impressions a search"] == pytest.approx(100 * shown, rel=0.03)
    assert found["click-through rate"] == pytest.approx(100 * clicks / shown, rel=0.03)
    logged = values(as_logged(log))
    assert logged["click-through rate"] < 0.6 * found["click-through rate"], "who logged shows what users like least"
    blind = replayed(pairs, replace(log, propensity=np.ones(len(log.rows))))
    assert blind["clicks a search"].value < 0.4 * found["clicks a search"], "without propensities it is no estimate"


def test_intervals_cover_the_truth_and_pairing_makes_differences_surer() -> None:
    log, _ = simulated(1)
    first = csr_of_lists([[0, 1, 2, 3]] * 40, 8)
    second = csr_of_lists([[0, 1, 2, 4]] * 40, 8)
    systems = [replayed(pairs, log) for pairs in (first, second)]
    own = [intervals(of, np.random.default_rng(0)) for of in systems]
    between = change(*systems, np.random.default_rng(0))
    for name, it in between.items():
        assert it.value == pytest.approx(own[1][name].value - own[0][name].value)
        assert it.low <= it.value <= it.high
    name = "clicks a search"
    assert between[name].half < np.hypot(own[0][name].half, own[1][name].half)
