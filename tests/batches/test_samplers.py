"""Which documents share a batch: every one once an epoch, in an order that seed and epoch decide."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from longtail.batches.clusters import balanced_clusters
from longtail.batches.samplers import Clustered, Sampler, Shuffled
from longtail.data.sparse import csr_of_lists
from longtail.topk import FloatArray, IntArray

TARGETS = csr_of_lists([[0, 1], [1], [], [1, 3], [5, 3], [0]], 7)  # labels 2, 4 and 6 have no document

BY_DOCUMENT: dict[str, Callable[[int, int, int], Sampler]] = {
    "shuffled": lambda n, size, seed: Shuffled(n, size, seed=seed),
    "clustered": lambda n, size, seed: Clustered(n, size, seed=seed),
    "clustered, regrouped": lambda n, size, seed: regrouped(n, size, seed, 4),
}


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


@pytest.fixture(params=BY_DOCUMENT)
def make(request: pytest.FixtureRequest) -> Callable[[int, int, int], Sampler]:
    return BY_DOCUMENT[request.param]


@pytest.mark.parametrize(("n", "size"), [(1, 8), (7, 8), (8, 8), (30, 8), (37, 8), (5, 1), (100, 33)])
def test_every_document_once_in_batches_of_about_the_size(
    make: Callable[[int, int, int], Sampler], n: int, size: int
) -> None:
    sampler = make(n, size, 0)
    made = batches(sampler)
    assert len(made) == sampler.steps()
    assert sorted(order(sampler)) == list(range(n))
    sizes = [len(batch) for batch in made]
    assert max(sizes) - min(sizes) <= 1
    assert n < size or 2 / 3 * size <= np.mean(sizes) <= 1.5 * size


def test_the_order_comes_from_seed_and_epoch(make: Callable[[int, int, int], Sampler]) -> None:
    orders = [order(make(50, 8, seed), epoch) for seed, epoch in [(0, 0), (0, 1), (1, 0)]]
    assert len({tuple(found) for found in orders}) == 3
    sampler = make(50, 8, 0)
    assert [order(sampler, epoch) for epoch in (1, 0, 1)] == [orders[1], orders[0], orders[1]]


def test_no_labels_are_asked_for(make: Callable[[int, int, int], Sampler]) -> None:
    assert all(len(draw.label_ids) == 0 and draw.rows.dtype == np.int64 for draw in make(20, 8, 0).epoch(0))


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
