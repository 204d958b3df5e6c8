"""What holds for every metric: a row of `METRICS` each, on rankings with short rows and documents without labels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from longtail.data.sparse import CSR, csr_of_lists
from longtail.metrics.places import Placed, Ratio, place
from longtail.metrics.ranking import COMPARED, KS, METRICS
from longtail.topk import TopK

n, L, MOST = 61, 37, 6  # documents, labels, true labels of a document at most
EVERY_K = (1, 2, 3, 5, MOST, 40)
every_metric = pytest.mark.parametrize("metric", METRICS.values(), ids=METRICS)
DOCUMENTATION = (Path(__file__).parents[2] / "docs" / "reference" / "metrics.md").read_text(encoding="utf-8")


def truth_of(seed: int) -> list[list[int]]:
    generator = np.random.default_rng(seed)
    return [sorted(generator.choice(L, generator.integers(0, MOST + 1), replace=False).tolist()) for _ in range(n)]


def ranked_of(seed: int) -> list[list[int]]:
    """Rankings of 0 to 11 labels."""
    generator = np.random.default_rng(100 + seed)
    return [generator.permutation(L)[: generator.integers(0, 12)].tolist() for _ in range(n)]


def top_of(ranked: list[list[int]], width: int = 0) -> TopK:
    """Ranked lists, padded to the longest or further."""
    ids = np.full((len(ranked), max(width, *map(len, ranked), 1)), -1, np.int64)
    for i, row in enumerate(ranked):
        ids[i, : len(row)] = row
    return TopK(ids, np.where(ids < 0, -np.inf, -np.arange(ids.shape[1])).astype(np.float32))


def pairs_of(ranked: list[list[int]], truth: list[list[int]], *, width: int = 0, columns: int = L) -> Placed:
    """Places, weighted by label, as a metric takes them."""
    matrix: CSR = csr_of_lists(truth, columns)
    weights = 1 + 9 * np.random.default_rng(7).random(columns + L)[:columns]
    return place(top_of(ranked, width), matrix).weighted(weights)


def perfect(pairs: Placed) -> list[list[int]]:
    """The true labels of each document, those of most weight first."""
    ranked: list[list[int]] = [[] for _ in range(pairs.n)]
    for e in np.lexsort((pairs.best, pairs.rows)):
        ranked[pairs.rows[e]].append(int(pairs.labels[e]))
    return ranked


@every_metric
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("k", EVERY_K)
def test_values_are_percent_of_what_is_possible(metric, seed: int, k: int) -> None:
    found: Ratio = metric.of(pairs_of(ranked_of(seed), truth_of(seed)), k)
    assert isinstance(found, Ratio)
    assert 0 <= found.value <= 100
    assert found.gained.shape == found.possible.shape
    assert found.gained.dtype == found.possible.dtype == np.float64
    assert np.isfinite(found.gained).all()
    assert np.isfinite(found.possible).all()
    assert (found.gained >= 0).all()
    assert (found.possible >= 0).all()
    labels = len({label for row in truth_of(seed) for label in row})
    assert len(found.gained) == {"document": n, "label": labels}[found.unit]


@every_metric
@pytest.mark.parametrize("seed", range(3))
def test_a_perfect_ranking_is_the_maximum(metric, seed: int) -> None:
    """At a cut-off that holds all true labels, no ranking is better, for any document or label."""
    truth = truth_of(seed)
    found, best = (
        metric.of(pairs_of(ranked, truth), MOST) for ranked in (ranked_of(seed), perfect(pairs_of([[]] * n, truth)))
    )
    assert found.value < best.value
    assert (found.each <= best.each + 1e-9).all()


@every_metric
@pytest.mark.parametrize("k", EVERY_K)
def test_an_empty_ranking_and_one_of_wrong_labels_are_worth_nothing(metric, k: int) -> None:
    truth = truth_of(0)
    wrong = [[label for label in range(L) if label not in row] for row in truth]
    assert metric.of(pairs_of([[]] * n, truth), k).value == 0
    assert metric.of(pairs_of(wrong, truth), k).value == 0


@every_metric
@pytest.mark.parametrize("k", EVERY_K)
def test_a_true_label_further_up_is_never_worse(metric, k: int) -> None:
    """In each ranking in turn, the first true label that has a wrong one above it changes places with it."""
    truth, ranked = truth_of(1), ranked_of(1)
    before, moved = metric.of(pairs_of(ranked, truth), k).value, 0
    for row, labels in zip(ranked, truth, strict=True):
        at = next((i for i in range(1, len(row)) if row[i] in labels and row[i - 1] not in labels), None)
        if at is not None:
            row[at - 1], row[at] = row[at], row[at - 1]
            now = metric.of(pairs_of(ranked, truth), k).value
            assert now >= before - 1e-9
            before, moved = now, moved + 1
    assert moved > 10


@every_metric
@pytest.mark.parametrize("k", EVERY_K)
def test_padding_and_labels_that_nobody_has_change_nothing(metric, k: int) -> None:
    truth, ranked = truth_of(2), ranked_of(2)
    plain = metric.of(pairs_of(ranked, truth), k)
    wider = metric.of(pairs_of(ranked, truth, width=50, columns=L), k)
    np.testing.assert_array_equal(wider.gained, plain.gained)
    np.testing.assert_array_equal(wider.possible, plain.possible)
    weights = 1 + 9 * np.random.default_rng(7).random(2 * L)[:L]
    more = place(top_of(ranked), csr_of_lists(truth, L + 5)).weighted(np.append(weights, np.full(5, 3.0)))
    np.testing.assert_array_equal(metric.of(more, k).gained, plain.gained)
    np.testing.assert_array_equal(metric.of(more, k).possible, plain.possible)


@every_metric
@pytest.mark.parametrize("k", EVERY_K)
def test_what_is_possible_does_not_depend_on_the_ranking(metric, k: int) -> None:
    """Paired differences rest on it."""
    one, other = (metric.of(pairs_of(ranked_of(seed), truth_of(0)), k) for seed in (0, 1))
    np.testing.assert_array_equal(one.possible, other.possible)
    assert one.unit == other.unit


@every_metric
def test_the_order_of_documents_does_not_matter(metric) -> None:
    truth, ranked = truth_of(3), ranked_of(3)
    backwards = metric.of(pairs_of(ranked[::-1], truth[::-1]), 5)
    assert backwards.value == pytest.approx(metric.of(pairs_of(ranked, truth), 5).value, abs=1e-9)


@every_metric
def test_only_a_metric_that_says_so_reads_the_weights(metric) -> None:
    truth, ranked = truth_of(4), ranked_of(4)
    weighted = pairs_of(ranked, truth)
    plain = place(top_of(ranked), csr_of_lists(truth, L))
    assert (metric.of(weighted, 3).value == metric.of(plain, 3).value) != metric.weighted


@pytest.mark.parametrize("name", METRICS)
def test_a_row_says_what_it_is_and_where_it_is_shown(name: str) -> None:
    metric = METRICS[name]
    assert "@" not in name
    assert metric.about
    assert "\n" not in metric.about
    shown = (metric.differences, metric.summary, metric.cost, metric.card)
    assert set(metric.table) <= set(COMPARED)
    assert {k for ks in shown for k in ks} <= set(KS)
    assert bool(metric.card) == bool(metric.best)
    assert f"| {name}@k | {metric.about.partition(':')[0]} |" in DOCUMENTATION
