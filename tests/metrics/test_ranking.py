"""Metrics: the worked example of docs/reference/metrics.md, loop twins, napkinXC, corner cases, real size and time."""

from __future__ import annotations

import gzip
import math
import os
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from longtail.data.sparse import csr, csr_of_lists
from longtail.errors import BadInput
from longtail.metrics.bins import by_bin, label_bins
from longtail.metrics.places import place
from longtail.metrics.propensity import inverse_propensity
from longtail.metrics.ranking import metrics_of, score
from longtail.topk import TopK, rank

TRUTH = [[0, 1], [1, 2, 4], []]
RANKED = [[0, 3, 1], [4, 0], [2, 1, 0]]
TRAIN = [[0, *([1] if i < 4 else []), *([2] if 4 <= i < 7 else []), *([3] if i == 8 else [])] for i in range(9)]
TRAIN += [[]] * 11  # N = 20; labels 0 to 4 occur 9, 4, 3, 1 and 0 times


def top_of(ranked: list[list[int]], k: int) -> TopK:
    """Ranked lists, padded."""
    ids = np.full((len(ranked), k), -1, np.int64)
    for i, row in enumerate(ranked):
        ids[i, : len(row)] = row
    return TopK(ids, np.where(ids < 0, -np.inf, -np.arange(k)).astype(np.float32))


def loops(ranked: list[list[int]], truth: list[list[int]], q: np.ndarray, k: int) -> dict[str, float]:
    """Every metric as its definition reads."""
    n = len(truth)
    total = dict.fromkeys(["P", "nDCG", "R", "psp", "best_psp", "psndcg", "best_psndcg"], 0.0)
    found: set[int] = set()
    for row, labels in zip(ranked, truth, strict=True):
        hits = [(r, label) for r, label in enumerate(row[:k], start=1) if label in labels]
        best = list(enumerate(sorted((q[label] for label in labels), reverse=True)[:k], start=1))
        total["P"] += len(hits) / k / n
        total["psp"] += sum(q[label] for _, label in hits)
        total["best_psp"] += sum(weight for _, weight in best)
        found |= {label for _, label in hits}
        if labels:
            ideal = sum(1 / math.log2(r + 1) for r in range(1, min(k, len(labels)) + 1))
            total["nDCG"] += sum(1 / math.log2(r + 1) for r, _ in hits) / ideal / n
            total["R"] += len(hits) / len(labels) / n
            total["psndcg"] += sum(q[label] / math.log2(r + 1) for r, label in hits) / ideal
            total["best_psndcg"] += sum(weight / math.log2(r + 1) for r, weight in best) / ideal
    values = {
        "P": total["P"],
        "nDCG": total["nDCG"],
        "PSP": total["psp"] / total["best_psp"],
        "PSnDCG": total["psndcg"] / total["best_psndcg"],
        "R": total["R"],
        "C": len(found) / len({label for labels in truth for label in labels}),
        **loops_by_label(ranked, truth, k),
    }
    return {f"{name}@{k}": 100 * value for name, value in values.items()}


def loops_by_label(ranked: list[list[int]], truth: list[list[int]], k: int) -> dict[str, float]:
    """The macro-averaged view: a table of right and wrong for each label of the truth."""
    precisions, f1s = [], []
    for label in sorted({label for labels in truth for label in labels}):
        right = sum(label in row[:k] and label in labels for row, labels in zip(ranked, truth, strict=True))
        given, has = sum(label in row[:k] for row in ranked), sum(label in labels for labels in truth)
        precision, recall = right / given if given else 0.0, right / has
        precisions.append(precision)
        f1s.append(2 * precision * recall / (precision + recall) if right else 0.0)
    right = sum(label in labels for row, labels in zip(ranked, truth, strict=True) for label in row[:k])
    precision, recall = right / (k * len(ranked)), right / sum(map(len, truth))
    micro = 2 * precision * recall / (precision + recall) if right else 0.0
    return {"macroP": float(np.mean(precisions)), "macroF1": float(np.mean(f1s)), "microF1": micro}


def random_case(seed: int) -> tuple[list[list[int]], list[list[int]], TopK, np.ndarray]:
    """Rankings from few distinct scores (ties) with short and empty rows, truths with empty rows, and weights."""
    generator = np.random.default_rng(seed)
    n, L, K = 61, 37, 11
    truth = [sorted(generator.choice(L, generator.integers(0, 8), replace=False).tolist()) for _ in range(n)]
    scores = generator.integers(0, 4, (n, L)).astype(np.float32)
    scores[generator.random((n, L)) < 0.5] = -np.inf
    scores[generator.random(n) < 0.2, 3:] = -np.inf
    scores[7] = -np.inf
    top = rank(np.tile(np.arange(L), (n, 1)), scores, K)
    ranked = [[label for label in row if label >= 0] for row in top.ids.tolist()]
    return ranked, truth, top, 1 + 9 * generator.random(L)


def test_the_worked_example_of_the_documentation() -> None:
    q = inverse_propensity(csr_of_lists(TRAIN, 5), A=1.0, B=1.0)
    np.testing.assert_allclose(q, [1.3991, 1.7983, 1.9979, 2.9957, 4.9915], atol=5e-5)
    metrics = metrics_of(top_of(RANKED, 3), csr_of_lists(TRUTH, 5), ks=(1, 3), inverse_propensity=q)
    by_hand = {
        "P@1": 66.67, "P@3": 33.33, "nDCG@1": 66.67, "nDCG@3": 46.30, "PSP@1": 94.12, "PSP@3": 68.33,
        "PSnDCG@1": 94.12, "PSnDCG@3": 75.04, "R@1": 27.78, "R@3": 44.44, "C@1": 50.00, "C@3": 75.00,
        "macroP@1": 50.00, "macroP@3": 45.83, "macroF1@1": 50.00, "macroF1@3": 50.00, "microF1@1": 50.00,
        "microF1@3": 42.86,
    }  # fmt: skip
    assert list(metrics) == list(by_hand)
    assert metrics == pytest.approx(by_hand, abs=0.005)


def test_the_example_document_by_document() -> None:
    q = inverse_propensity(csr_of_lists(TRAIN, 5), A=1.0, B=1.0)
    scores = score(place(top_of(RANKED, 3), csr_of_lists(TRUTH, 5)), ks=(1, 3), inverse_propensity=q)
    np.testing.assert_allclose(scores["P@3"].each, [200 / 3, 100 / 3, 0])
    np.testing.assert_allclose(scores["R@3"].each, [100, 100 / 3, 0])
    np.testing.assert_allclose(scores["PSP@3"].gained, [1.3991 + 1.7983, 4.9915, 0], atol=2e-4)
    np.testing.assert_allclose(scores["PSP@3"].possible, [1.3991 + 1.7983, 1.7983 + 1.9979 + 4.9915, 0], atol=2e-4)
    np.testing.assert_array_equal(scores["C@3"].each, [100, 100, 0, 100])  # labels 0, 1, 2 and 4; 3 is not in the truth
    np.testing.assert_allclose(scores["macroP@3"].each, [100 / 3, 50, 0, 100])
    np.testing.assert_allclose(scores["microF1@3"].each, [80, 100 / 3, 0])
    by_label = {name for name, ratio in scores.items() if ratio.unit == "label"}
    assert by_label == {f"{name}@{k}" for name in ("C", "macroP", "macroF1") for k in (1, 3)}


@pytest.mark.parametrize("seed", range(5))
def test_equal_to_the_definitions_as_loops(seed: int) -> None:
    ranked, truth, top, q = random_case(seed)
    ks = (1, 2, 3, 5, 11, 40)
    metrics = metrics_of(top, csr_of_lists(truth, len(q)), ks=ks, inverse_propensity=q)
    for k in ks:
        assert {name: metrics[name] for name in metrics if name.endswith(f"@{k}")} == pytest.approx(
            loops(ranked, truth, q, k), abs=1e-9
        )


@pytest.mark.parametrize("seed", range(5))
def test_equal_to_napkinxc(seed: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        napkin = pytest.importorskip("napkinxc.metrics", reason="napkinxc of the test extra is not installed")
    ranked, truth, top, q = random_case(100 + seed)
    assert min(map(len, ranked)) == 0
    assert min(map(len, truth)) == 0
    ks = tuple(range(1, 14))
    metrics = metrics_of(top, csr_of_lists(truth, len(q)), ks=ks, inverse_propensity=q)
    theirs = {
        "P": napkin.precision_at_k(truth, ranked, k=13),
        "nDCG": napkin.ndcg_at_k(truth, ranked, k=13),
        "PSP": napkin.psprecision_at_k(truth, ranked, q, k=13),
        "PSnDCG": napkin.psndcg_at_k(truth, ranked, q, k=13),
        "R": napkin.recall_at_k(truth, ranked, k=13),
        "C": napkin.coverage_at_k(truth, ranked, k=13),
    }
    for name, values in theirs.items():
        np.testing.assert_allclose([metrics[f"{name}@{k}"] for k in ks], 100 * np.asarray(values), atol=1e-6)


def test_stored_values_of_the_truth_do_not_count() -> None:
    q = np.linspace(1, 3, 5)
    plain = csr_of_lists(TRUTH, 5)
    soft = csr_of_lists(TRUTH, 5)
    soft.data[:] = [0.1, 7.0, 0.5, 2.0, 1e-9]
    expected = metrics_of(top_of(RANKED, 3), plain, inverse_propensity=q)
    assert metrics_of(top_of(RANKED, 3), soft, inverse_propensity=q) == expected


def test_a_stored_zero_is_not_relevant() -> None:
    truth = csr_of_lists(TRUTH, 5)
    truth.data[0] = 0  # document 0 keeps label 1 only
    assert metrics_of(top_of(RANKED, 3), truth) == metrics_of(top_of(RANKED, 3), csr_of_lists([[1], *TRUTH[1:]], 5))


@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csr_matrix])
def test_sparse_arrays_and_matrices_unsorted_or_with_a_pair_twice(kind: type) -> None:
    truth = kind((np.ones(6, np.float32), np.array([1, 0, 4, 2, 1, 2]), np.array([0, 2, 6, 6])), shape=(3, 5))
    assert metrics_of(top_of(RANKED, 3), truth) == metrics_of(top_of(RANKED, 3), csr_of_lists(TRUTH, 5))


def test_an_empty_place_is_a_miss_and_never_a_label() -> None:
    truth = csr_of_lists([[4], [0]], 5)  # were -1 read as a label, it would be label 4 of a neighbouring row
    metrics = metrics_of(top_of([[], [0]], 2), truth, ks=(1, 2, 5))
    assert metrics["P@1"] == 50
    assert metrics["P@2"] == 25
    assert metrics["P@5"] == 10
    assert metrics["R@5"] == 50
    assert metrics_of(top_of([[], []], 0), truth, ks=(1,)) == dict.fromkeys(
        ["P@1", "nDCG@1", "R@1", "C@1", "macroP@1", "macroF1@1", "microF1@1"], 0.0
    )


def test_psp_is_a_ratio_of_sums_and_not_a_mean_of_ratios() -> None:
    q = np.array([1.0, 9.0])
    metrics = metrics_of(top_of([[0], [0]], 1), csr_of_lists([[0], [1]], 2), ks=(1,), inverse_propensity=q)
    assert metrics["PSP@1"] == pytest.approx(10)  # (1 + 0) / (1 + 9), and not the mean of 100 and 0


def test_a_perfect_ranking_by_weight_has_psp_and_psndcg_100_at_every_k() -> None:
    _, truth, _, q = random_case(3)
    ranked = [sorted(labels, key=lambda label: -q[label]) for labels in truth]
    metrics = metrics_of(top_of(ranked, 8), csr_of_lists(truth, len(q)), ks=(1, 3, 8), inverse_propensity=q)
    assert [metrics[f"{name}@{k}"] for name in ("PSP", "PSnDCG") for k in (1, 3, 8)] == pytest.approx([100] * 6)
    assert metrics["C@8"] == 100


def test_without_propensities_there_is_no_psp() -> None:
    found = metrics_of(top_of(RANKED, 3), csr_of_lists(TRUTH, 5), ks=(2,))
    assert list(found) == ["P@2", "nDCG@2", "R@2", "C@2", "macroP@2", "macroF1@2", "microF1@2"]


@pytest.mark.parametrize("step", [1, 2, 7])
def test_blocks_do_not_change_the_places(step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    _, truth, top, _ = random_case(5)
    whole = place(top, csr_of_lists(truth, 37))
    monkeypatch.setattr("longtail.metrics.places._BLOCK", step * top.k)
    np.testing.assert_array_equal(place(top, csr_of_lists(truth, 37)).places, whole.places)


@pytest.mark.parametrize(
    ("ranked", "truth", "said"),
    [
        ([[0], [1]], [[0], [1], [2]], "3 documents, and rankings of 2"),
        ([[0], [5]], [[0], [1]], "5 labels, and label 5 was ranked"),
        ([[0], [1]], [[], []], "none of 2 documents has a label"),
    ],
)
def test_rankings_and_truths_that_disagree(ranked: list[list[int]], truth: list[list[int]], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        metrics_of(top_of(ranked, 1), csr_of_lists(truth, 5))


@pytest.mark.parametrize("ks", [(), (0,), (3, -1)])
def test_cut_offs_that_mean_nothing(ks: tuple[int, ...]) -> None:
    with pytest.raises(BadInput, match="cut-offs of at least 1"):
        metrics_of(top_of(RANKED, 3), csr_of_lists(TRUTH, 5), ks=ks)


def test_weights_of_another_data_set() -> None:
    with pytest.raises(BadInput, match=r"each of 5 labels, found shape \(6,\)"):
        metrics_of(top_of(RANKED, 3), csr_of_lists(TRUTH, 5), inverse_propensity=np.ones(6))


def test_28000_rows_with_everything_take_less_than_3_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    generator = np.random.default_rng(0)
    n, L, K, ks = 28_000, 53_000, 100, (1, 3, 5, 10, 50, 100)
    truth = csr(*generator.integers([[n], [L]], size=(2, 65_000)), (n, L))
    train = csr(*generator.integers([[67_000], [L]], size=(2, 154_000)), (67_000, L))
    ids = np.sort(generator.integers(0, L // K, (n, K))) + np.arange(K) * (L // K)
    top = TopK(ids, np.tile(-np.arange(K, dtype=np.float32), (n, 1)))
    start = time.perf_counter()
    q = inverse_propensity(train, 0.55, 1.5)
    pairs = place(top, truth)
    scores = score(pairs, ks=ks, inverse_propensity=q)
    each = {name: ratio.each for name, ratio in scores.items()}
    bins = by_bin(pairs, label_bins(train), ks=ks)
    seconds = time.perf_counter() - start
    with capsys.disabled():
        print(f"\n28,000 rows x top 100, 53,000 labels, {len(each)} metrics, bins, by document: {seconds:.2f} s")
    assert len(each) == len(ks) * 9
    assert len(bins) == len(ks) * 2
    assert seconds < 3


@pytest.fixture(scope="module")
def amazon() -> tuple[sparse.csr_array, sparse.csr_array]:
    """Truth and filter of the LF-AmazonTitles-131K test set."""
    folder = Path(os.environ.get("LONGTAIL_DATA", "")) / "LF-AmazonTitles-131K-fragment"
    if "LONGTAIL_DATA" not in os.environ or not folder.is_dir():
        pytest.skip("LONGTAIL_DATA names no folder with LF-AmazonTitles-131K-fragment")
    with gzip.open(folder / "tst_X_Y.txt.gz", "rt", encoding="utf-8") as file:
        rows, columns = map(int, next(file).split())
        truth = csr_of_lists([[int(pair.partition(":")[0]) for pair in line.split()] for line in file], columns)
    assert truth.shape == (rows, columns)
    pairs = np.loadtxt(folder / "tst_filter_labels.txt.gz", np.int64, ndmin=2)
    return truth, csr(pairs[:, 0], pairs[:, 1], truth.shape)


def test_an_oracle_on_a_real_test_set_with_and_without_its_filter(
    amazon: tuple[sparse.csr_array, sparse.csr_array],
) -> None:
    truth, filtered = amazon
    assert truth.shape == (134_835, 131_073)
    assert (truth.nnz, filtered.nnz) == (284_746, 79_663)
    assert truth.multiply(filtered).nnz == 0
    counts = np.diff(truth.indptr)
    # A ranker that finds every true label, and ranks the filtered pairs (the document itself) above them.
    both = (truth + 2 * filtered).tocsr()
    width = int(np.diff(both.indptr).max())
    rows = np.repeat(np.arange(len(counts)), np.diff(both.indptr))
    at = np.arange(both.nnz) - both.indptr[rows]
    ids, scores = np.full((len(counts), width), -1), np.zeros((len(counts), width), np.float32)
    ids[rows, at], scores[rows, at] = both.indices, both.data
    unfiltered = metrics_of(rank(ids, scores, 5), truth, inverse_propensity=np.ones(truth.shape[1]))
    kept = metrics_of(
        rank(np.where(scores == 2, -1, ids), scores, 5), truth, inverse_propensity=np.ones(truth.shape[1])
    )
    assert unfiltered["P@1"] == pytest.approx(100 * (1 - 38_808 / 134_835))
    assert kept["P@1"] == kept["nDCG@5"] == kept["PSP@3"] == pytest.approx(100)
    assert kept["P@5"] == pytest.approx(20 * np.minimum(counts, 5).mean())
    assert kept["R@5"] == pytest.approx(100 * (np.minimum(counts, 5) / counts).mean())
    assert kept["C@1"] < kept["C@3"] < kept["C@5"] <= 100
