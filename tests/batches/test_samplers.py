"""Which documents share a batch; what holds for every sampler is in tests/contracts."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from longtail.batches.clusters import balanced_clusters
from longtail.batches.samplers import ByLabel, Clustered, Sampler, Shuffled
from longtail.data.sparse import csr, csr_of_lists
from longtail.topk import FloatArray, IntArray

TARGETS = csr_of_lists([[0, 1], [1], [], [1, 3], [5, 3], [0]], 7)  # labels 2, 4 and 6 have no document


def near(vectors: FloatArray, size: int, *, epoch: int) -> IntArray:
    generator = np.random.default_rng([0, epoch])
    return balanced_clusters(vectors, size, generator=generator, device=torch.device("cpu"))


def regrouped(n: int, size: int, seed: int, cluster: int) -> Clustered:
    sampler = Clustered(n, size, seed=seed)
    vectors = np.random.default_rng(0).normal(size=(n, 3)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    sampler.regroup(near(vectors, cluster, epoch=3))
    return sampler


def batches(sampler: Sampler, epoch: int = 0) -> list[list[int]]:
    return [draw.rows.tolist() for draw in sampler.epoch(epoch)]


def order(sampler: Sampler, epoch: int = 0) -> list[int]:
    return [row for batch in batches(sampler, epoch) for row in batch]


def test_a_shuffle_is_uniform() -> None:
    """Each of 4 documents is first in about a quarter of the epochs, also before documents are clustered."""
    for sampler in (Shuffled(4, 2, seed=0), Clustered(4, 2, seed=0)):
        firsts = np.bincount([order(sampler, epoch)[0] for epoch in range(2000)], minlength=4)
        np.testing.assert_allclose(firsts, 500, atol=80)


def test_clusters_stay_together_in_an_order_that_changes() -> None:
    """16 groups of 4 equal vectors; batches hold two whole groups each."""
    group = np.random.default_rng(1).permutation(np.repeat(np.arange(16), 4))
    sampler = Clustered(64, 8, seed=0)
    sampler.regroup(near(np.eye(16, dtype=np.float32)[group], 4, epoch=0))
    clusters = sampler.state_dict()["clusters"].numpy()
    assert np.bincount(clusters).tolist() == [4] * 16
    neighbours, orders, within = set(), set(), set()
    for epoch in range(5):
        made = batches(sampler, epoch)
        for batch in made:
            assert np.bincount(np.unique(clusters[batch], return_inverse=True)[1]).tolist() == [4, 4]
            neighbours.add(frozenset(clusters[batch].tolist()))
        orders.add(tuple(clusters[order(sampler, epoch)].tolist()))
        within.add(tuple(row for row in order(sampler, epoch) if clusters[row] == 0))
    assert len(neighbours) > 8, "other clusters meet in other epochs"
    assert len(orders) == 5
    assert len(within) > 1, "the order within a cluster changes too"


def test_clusters_of_one_are_a_plain_shuffle_again() -> None:
    sampler = regrouped(40, 8, 0, 4)
    sampler.regroup(near(np.eye(40, dtype=np.float32), 1, epoch=0))
    assert len(set(sampler.state_dict()["clusters"].tolist())) == 40
    assert sorted(order(sampler)) == list(range(40))


def test_clusters_are_part_of_a_checkpoint() -> None:
    sampler, other = regrouped(50, 8, 0, 4), Clustered(50, 8, seed=0)
    assert order(other, 7) != order(sampler, 7)
    other.load_state_dict(sampler.state_dict())
    assert order(other, 7) == order(sampler, 7)


@pytest.mark.parametrize("size", [1, 2, 3, 100])
@pytest.mark.parametrize("epoch", range(5))
def test_by_label_draws_each_label_with_a_document_once(size: int, epoch: int) -> None:
    sampler = ByLabel(TARGETS, size, seed=0)
    draws = list(sampler.epoch(epoch))
    assert len(draws) == sampler.steps()
    assert sorted(label for draw in draws for label in draw.label_ids.tolist()) == [0, 1, 3, 5]
    dense = TARGETS.toarray()
    for draw in draws:
        assert (np.diff(draw.rows) > 0).all(), "a document that two labels drew is in the batch once"
        assert dense[draw.rows][:, draw.label_ids].any(axis=0).all(), "each label has a document"
        assert dense[draw.rows][:, draw.label_ids].any(axis=1).all(), "each document has a label"


def test_by_label_draws_every_document_of_a_label_equally_often() -> None:
    sampler = ByLabel(TARGETS, 1, seed=0)
    with_label_1 = [int(d.rows[0]) for epoch in range(1500) for d in sampler.epoch(epoch) if d.label_ids[0] == 1]
    assert len(with_label_1) == 1500
    np.testing.assert_allclose(np.bincount(with_label_1)[[0, 1, 3]], 500, atol=80)


def test_a_label_draws_its_document_by_target() -> None:
    rows, labels, targets = np.array([0, 1, 3]), np.array([0, 0, 1]), np.array([0.2, 0.8, 0.1], np.float32)
    sampler = ByLabel(csr(rows, labels, (4, 3), targets), 8, seed=0)
    drawn = np.concatenate([draw.rows for epoch in range(2000) for draw in sampler.epoch(epoch)])
    counts = np.bincount(drawn, minlength=4) / 2000
    np.testing.assert_allclose(counts, [0.2, 0.8, 0, 1], atol=0.05)


def test_documents_that_are_regrouped_in_an_epoch_go_on_with_those_that_it_has_not_had() -> None:
    sampler, before = regrouped(50, 8, 0, 4), regrouped(50, 8, 0, 4)
    pairs = np.arange(50) // 2
    sampler.regroup(pairs, epoch=1, step=4)
    assert batches(sampler, 1)[:4] == batches(before, 1)[:4]
    assert batches(sampler, 1)[4:] != batches(before, 1)[4:]
    assert sorted(order(sampler, 1)) == list(range(50))
    left = order(sampler, 1)[sum(map(len, batches(sampler, 1)[:4])) :]
    beside = [abs(left.index(row) - left.index(row ^ 1)) for row in left if row ^ 1 in left]
    assert set(beside) == {1}  # pairs share a cluster from here on
    sampler.regroup(pairs // 2, epoch=1, step=5)
    assert batches(sampler, 1)[4] == left[: len(batches(sampler, 1)[4])]
    again = Clustered(50, 8, seed=0)
    again.load_state_dict(sampler.state_dict())
    assert [batches(again, epoch) for epoch in (1, 2)] == [batches(sampler, epoch) for epoch in (1, 2)]
    whole = Clustered(50, 8, seed=0)
    whole.regroup(pairs // 2)
    assert batches(sampler, 2) == batches(whole, 2)
