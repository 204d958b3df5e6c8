"""What recipes with shortlists share: centroids, surrogate labels and shortlists by hand, and the classifiers."""

from __future__ import annotations

import numpy as np
import pytest

from longtail.data.sparse import csr, csr_of_lists
from longtail.data.split import Split
from longtail.data.texts import Strings, Texts
from longtail.stages.shortlists import (
    ShortlistOptions,
    clusters_of,
    label_centroids,
    shortlists,
    train_on_shortlists,
    with_neighbours,
)
from longtail.stages.surrogate import cluster_texts, surrogate_labels
from longtail.train import fit as module
from longtail.train.run import Run


def run_of(seed: int) -> Run:
    run = Run()
    run.seed = seed
    return run


def split(lists: list[list[int]], labels: int, filtered: list[list[int]] | None = None) -> Split:
    pairs = None if filtered is None else csr_of_lists(filtered, labels)
    return Split(Texts.of([str(i) for i in range(len(lists))]), csr_of_lists(lists, labels), pairs)


def test_centroids_are_weighted_means_of_unit_length() -> None:
    targets = csr(np.array([0, 1, 1]), np.array([0, 0, 1]), (3, 3), np.array([1, 0.5, 1], np.float32))
    documents = np.array([[1, 0], [0, 1], [1, 0]], np.float32)
    expected = [[1 / 1.25**0.5, 0.5 / 1.25**0.5], [0, 1], [0, 0]]
    np.testing.assert_allclose(label_centroids(targets, documents), expected, rtol=1e-6)


def test_a_label_with_neighbours_is_halfway_between_itself_and_their_mean() -> None:
    graph = csr(np.array([0, 0, 1]), np.array([1, 2, 1]), (3, 3), np.array([0.4, 0.4, 0.5], np.float32))
    labels = np.array([[1, 0, 0], [0, 1, 0], [0, 1, 0]], np.float32)
    found = with_neighbours(graph, labels)
    np.testing.assert_allclose(found, [[0.5**0.5, 0.5**0.5, 0], [0, 1, 0], [0, 1, 0]], rtol=1e-6)


def test_a_surrogate_label_has_the_largest_target_of_its_labels() -> None:
    targets = csr(np.array([0, 0, 0, 1]), np.array([0, 1, 2, 3]), (2, 4), np.array([0.25, 0.5, 1, 0.125], np.float32))
    made = surrogate_labels(Split(Texts.of(["a", "b"]), targets), np.array([1, 1, 0, 1]))
    assert made.targets.toarray().tolist() == [[1, 0.5], [0, 0.125]]


def test_a_cluster_with_a_filtered_label_and_no_true_one_is_filtered() -> None:
    """Document 0 is label 1, whose cluster has label 0 of another one; document 1 is label 2, beside its true label."""
    truth = split([[4], [3], []], 5, [[1], [2], [3, 4]])
    made = surrogate_labels(truth, np.array([0, 0, 1, 1, 2]))
    assert made.filtered is not None
    assert made.filtered.toarray().tolist() == [[1, 0, 0], [0, 0, 0], [0, 1, 1]]
    assert made.targets.toarray().tolist() == [[0, 0, 1], [0, 1, 0], [0, 0, 0]]
    assert surrogate_labels(split([[4]], 5), np.array([0, 0, 1, 1, 2])).filtered is None


def test_clusters_are_of_limited_size_and_the_seed_decides() -> None:
    labels = np.random.default_rng(0).normal(size=(37, 5)).astype(np.float32)
    made = clusters_of(run_of(1), labels, 3)
    assert np.bincount(made).max() <= 3
    assert (made == clusters_of(run_of(1), labels, 3)).all()
    assert (made != clusters_of(run_of(2), labels, 3)).any()


def test_a_shortlist_is_the_wrong_labels_of_the_nearest_clusters() -> None:
    labels = np.array([[1, 0], [0, 1], [1, 0], [0, 1], [-1, 0]], np.float32)
    clusters = np.array([0, 1, 0, 1, 2])
    documents = np.array([[1, 0.5], [0.5, 1], [-1, 0.1]], np.float32)
    truth = split([[0], [], [1, 3]], 5, [[], [3], []])
    assert shortlists(Run(), truth, documents, labels, clusters, 1).tolist() == [[2, -1], [1, -1], [4, -1]]
    two = shortlists(Run(), truth, documents, labels, clusters, 2)
    assert two.tolist() == [[2, 1, 3, -1], [1, 0, 2, -1], [4, -1, -1, -1]]
    assert shortlists(Run(), truth, documents, labels, clusters, 9).shape == (3, 6)  # there are three clusters


def test_texts_of_clusters_are_those_of_their_labels_in_order() -> None:
    labels = Texts(Strings.of([""] * 3), {"title": Strings.of(["a", "b", "c"]), "content": Strings.of(["x", "", "z"])})
    found = cluster_texts(labels, ("title", "content"), np.array([1, 0, 1]))
    assert list(found.fields["title"]) == ["b", "a x c z"]


def extreme(documents, base, truth, near=None, loss="decoupled_softmax", **options):
    settings = {
        "classifier_epochs": 15,
        "batch": 12,
        "shortlist_negatives": 1,
        "random_negatives": 4,
        "classifier_learning_rate": 0.1,
        "dropout": 0.0,
    }
    near = np.full((len(documents), 1), -1) if near is None else near
    o = ShortlistOptions(**{**settings, **options})
    return train_on_shortlists(Run(), truth, documents, base, near, truth.targets, o, loss, 0.1)


def test_classifiers_start_at_the_base_and_leave_it_for_their_examples() -> None:
    generator = np.random.default_rng(0)
    documents = (np.eye(8)[np.arange(24) % 5] + generator.normal(scale=0.2, size=(24, 8))).astype(np.float32)
    documents /= np.linalg.norm(documents, axis=1, keepdims=True)
    base = generator.normal(size=(6, 8)).astype(np.float32)
    truth = split([[i % 5] for i in range(24)], 6)  # label 5 has no document
    start = extreme(documents, base, truth, classifier_epochs=0)
    np.testing.assert_array_equal(start, np.pad(base, ((0, 0), (0, 1))))
    trained = extreme(documents, base, truth)
    scores = np.pad(documents, ((0, 0), (0, 1)), constant_values=1) @ trained.T
    assert (scores.argmax(1) == np.arange(24) % 5).mean() > 0.9
    assert np.abs(trained[:5] - start[:5]).max() > 0.5


def test_shortlisted_labels_are_in_the_pool(monkeypatch) -> None:
    plain, seen = module.take_step, []

    def step(objective, batch, optimizer, *, seed):
        seen.append(set(batch.label_ids.tolist()))
        return plain(objective, batch, optimizer, seed=seed)

    monkeypatch.setattr(module, "take_step", step)
    documents, truth = np.eye(4, dtype=np.float32), split([[0]] * 4, 9)
    near = np.array([[7, 8, -1]] * 4)
    extreme(documents, np.zeros((9, 4), np.float32), truth, near, classifier_epochs=20, random_negatives=0)
    assert {frozenset(labels) for labels in seen} <= {frozenset(s) for s in ({0, 7}, {0, 8}, {0, 7, 8})}
    assert set().union(*seen) == {0, 7, 8}


def test_rows_meet_their_own_shortlists_alone(monkeypatch) -> None:
    plain, seen = module.take_step, []

    def step(objective, batch, optimizer, *, seed):
        ids, places = batch.label_ids, batch.places
        of_rows = (sorted(ids[at[at >= 0]].tolist()) for at in places)
        seen.extend(zip(batch.rows.tolist(), of_rows, batch.targets.sum(1).tolist(), strict=True) if seed else [])
        return plain(objective, batch, optimizer, seed=seed)

    monkeypatch.setattr(module, "take_step", step)
    documents, truth = np.eye(4, dtype=np.float32), split([[0], [1, 2], [3], []], 9)
    near = np.array([[7, 8, 3], [0, -1, -1], [4, 5, -1], [6, -1, -1]])
    extreme(documents, np.zeros((9, 4), np.float32), truth, near, classifier_epochs=1, own_shortlists=True)
    assert sorted(seen) == [(0, [0, 3, 7, 8], 1), (1, [0, 1, 2], 2), (2, [3, 4, 5], 1), (3, [6], 0)]


@pytest.mark.parametrize("own_shortlists", [False, True])
def test_binary_cross_entropy_ranks_labels_that_no_pool_has_below_those_that_are_true(own_shortlists) -> None:
    """Labels 20 to 39 have no document; from a bias of 0 they stay above rare labels, whose scores are all low."""
    generator = np.random.default_rng(0)
    centres = generator.normal(size=(20, 8))
    documents = (centres[np.arange(60) % 20] + generator.normal(size=(60, 8))).astype(np.float32)
    documents /= np.linalg.norm(documents, axis=1, keepdims=True)
    truth = split([[i % 20] for i in range(60)], 40)
    near = np.array([[(i + j) % 20 for j in range(1, 20)] for i in range(60)])
    options = {"own_shortlists": own_shortlists, "random_negatives": 0, "classifier_epochs": 5}
    w = extreme(documents, np.zeros((40, 8), np.float32), truth, near, "binary_cross_entropy", **options)
    scores = np.pad(documents, ((0, 0), (0, 1)), constant_values=1) @ w.T
    assert (scores.argmax(1) < 20).all()


def test_the_regulariser_draws_labels_together_that_occur_together() -> None:
    documents = np.eye(4, dtype=np.float32)
    truth = split([[0, 1], [0, 1], [2], [3]], 4)
    base = np.eye(4, dtype=np.float32)
    cosines = []
    for weight in (0.0, 3.0):
        w = extreme(documents, base, truth, glas_weight=weight, classifier_learning_rate=0.03)[:, :-1]
        cosines.append(float(w[0] @ w[1]) / float(np.linalg.norm(w[0]) * np.linalg.norm(w[1])))
    assert cosines[1] > cosines[0]
