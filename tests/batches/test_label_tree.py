"""Trees over labels: equal halves, many parts of any size, and labels that cannot be told apart."""

from __future__ import annotations

import numpy as np

from longtail.batches.label_tree import label_tree, unit_rows
from longtail.data.sparse import CSR
from longtail.topk import IntArray


def grouped(groups: int, each: int, seed: int = 0) -> CSR:
    """Labels of which each group has words of its own."""
    generator = np.random.default_rng(seed)
    dense = np.zeros((groups * each, 4 * groups))
    for row in range(groups * each):
        dense[row, 4 * (row % groups) : 4 * (row % groups) + 4] = 1 + generator.random(4)
    return unit_rows(CSR(dense.astype(np.float32)))


def depths(parents: IntArray) -> IntArray:
    found = np.zeros(len(parents), np.int64)
    for node in range(1, len(parents)):
        assert parents[node] < node
        found[node] = found[parents[node]] + 1
    return found


def test_halves_are_equal() -> None:
    parents, leaves = label_tree(grouped(7, 13), 2, 10, balanced=True, generator=np.random.default_rng(0))
    sizes = np.bincount(leaves)
    assert sizes.sum() == 91
    assert set(sizes[sizes > 0].tolist()) <= {5, 6}
    assert set(np.bincount(parents[1:]).tolist()) <= {0, 2}
    assert set(depths(parents)[np.flatnonzero(sizes)].tolist()) == {4}


def test_groups_of_labels_are_found() -> None:
    _, leaves = label_tree(grouped(2, 20), 2, 20, balanced=True, generator=np.random.default_rng(3))
    assert len(set(leaves[::2].tolist())) == 1
    assert set(leaves[::2].tolist()).isdisjoint(leaves[1::2].tolist())


def test_parts_of_any_size() -> None:
    vectors = CSR(grouped(4, 30)[np.r_[0:120:4, 1, 2, 3]])  # 30 of a group, and one of each other
    parents, leaves = label_tree(vectors, 10, 31, balanced=False, generator=np.random.default_rng(1))
    assert len(parents) > 2
    assert (parents[1:] == 0).all()
    assert np.bincount(leaves)[1:].min() < np.bincount(leaves).max()


def test_labels_that_are_equal_stay_together() -> None:
    same = unit_rows(CSR(np.ones((9, 3), np.float32)))
    parents, leaves = label_tree(same, 3, 2, balanced=False, generator=np.random.default_rng(0))
    assert parents.tolist() == [-1]
    assert (leaves == 0).all()


def test_the_generator_alone_decides() -> None:
    one, other = (
        label_tree(grouped(7, 13), 3, 10, balanced=False, generator=np.random.default_rng(5)) for _ in range(2)
    )
    np.testing.assert_array_equal(one[0], other[0])
    np.testing.assert_array_equal(one[1], other[1])
