"""Label-frequency bins: hand cases, sums and a loop twin."""

from __future__ import annotations

import numpy as np
import pytest

from longtail.data.sparse import csr_of_lists
from longtail.metrics.bins import by_bin, label_bins
from longtail.metrics.places import place
from longtail.metrics.propensity import label_frequency
from longtail.metrics.ranking import metrics_of
from longtail.topk import TopK


def train_of(frequencies: list[int]) -> list[list[int]]:
    """Training rows in which label j occurs frequencies[j] times."""
    return [[label] for label, count in enumerate(frequencies) for _ in range(count)]


def test_each_bin_holds_the_same_share_of_the_training_pairs() -> None:
    bins = label_bins(csr_of_lists(train_of([1, 0, 4, 1, 2, 4, 1, 2, 4, 0, 1]), 11))  # 20 pairs: 4 a bin
    assert bins.names == ("1 head", "2", "3", "4", "5 tail", "unseen")
    assert bins.of_label.tolist() == [4, 5, 0, 4, 3, 1, 4, 3, 2, 5, 4]
    assert bins.labels.tolist() == [1, 1, 1, 2, 4, 2]
    assert bins.frequency.tolist() == [4, 4, 4, 2, 1, 0]


def test_a_label_with_more_than_a_bin_of_pairs_leaves_bins_empty() -> None:
    bins = label_bins(csr_of_lists(train_of([8, 1, 1]), 3))  # the middle of label 0 is pair 4 of 10: bin 3
    assert bins.of_label.tolist() == [2, 4, 4]
    assert bins.labels.tolist() == [0, 0, 1, 0, 2, 0]
    assert bins.frequency.tolist() == [0, 0, 8, 0, 1, 0]


def test_labels_are_never_seen_where_train_is_empty() -> None:
    assert label_bins(csr_of_lists([[], []], 3)).labels.tolist() == [0, 0, 0, 0, 0, 3]


def test_volumes_are_nearly_equal_on_a_long_tail() -> None:
    generator = np.random.default_rng(0)
    frequencies = np.minimum(generator.zipf(1.6, 3000), 500) - 1
    targets = csr_of_lists(train_of(frequencies.tolist()), 3000)
    bins = label_bins(targets)
    volume = np.bincount(bins.of_label, label_frequency(targets))
    np.testing.assert_allclose(volume[:5], frequencies.sum() / 5, atol=500)
    assert volume[5:].sum() == 0
    assert (np.diff(bins.frequency) <= 0).all()
    assert (np.diff(bins.labels[:5]) >= 0).all()


def test_the_worked_example_of_the_documentation() -> None:
    bins = label_bins(csr_of_lists(train_of([9, 4, 3, 1, 0]), 5), count=2)
    assert dict(zip(bins.names, bins.labels.tolist(), strict=True)) == {"1 head": 1, "2 tail": 3, "unseen": 1}
    ids = np.array([[0, 3, 1], [4, 0, -1], [2, 1, 0]])
    pairs = place(TopK(ids, np.zeros((3, 3), np.float32)), csr_of_lists([[0, 1], [1, 2, 4], []], 5))
    scores = by_bin(pairs, bins, ks=(3,))
    assert scores["P@3"].tolist() == pytest.approx([100 / 9, 100 / 9, 100 / 9])
    assert scores["R@3"].tolist() == pytest.approx([100, 100 / 3, 100])


def test_contributions_sum_to_the_metric_and_recall_is_over_pairs() -> None:
    generator = np.random.default_rng(1)
    n, L, ks = 200, 50, (1, 3, 7)
    truth = csr_of_lists([generator.choice(L, generator.integers(0, 6), replace=False).tolist() for _ in range(n)], L)
    train = csr_of_lists(train_of((40 - np.arange(L)).clip(0).tolist()), L)
    ids = np.argsort(generator.random((n, L)), axis=1)[:, :7]
    top, bins = TopK(ids, np.zeros((n, 7), np.float32)), label_bins(train)
    scores, metrics = by_bin(place(top, truth), bins, ks=ks), metrics_of(top, truth, ks=ks)
    for k in ks:
        assert scores[f"P@{k}"].sum() == pytest.approx(metrics[f"P@{k}"])
        for b in range(6):
            pairs = [(row, label) for row, label in zip(*truth.nonzero(), strict=True) if bins.of_label[label] == b]
            found = sum(label in ids[row, :k] for row, label in pairs)
            assert scores[f"R@{k}"][b] == pytest.approx(100 * found / len(pairs))
    assert bins.labels[5] > 0
