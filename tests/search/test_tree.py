"""Search down a tree: against loops over every path, by hand, and over some of its labels."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from longtail.data.sparse import CSR, csr_of_lists
from longtail.errors import BadInput
from longtail.search.tree import Level, Tree, TreeSearch, below
from longtail.topk import FloatArray, TopK

Q, D, L = 9, 5, 40
X = np.concatenate([np.random.default_rng(0).normal(size=(Q, D)), np.ones((Q, 1))], 1).astype(np.float32)


def some(rows: int, columns: int, seed: int) -> FloatArray:
    return np.random.default_rng(seed).normal(size=(rows, columns)).astype(np.float32)


def graph(rows: int, columns: int, seed: int, share: float = 0.4) -> CSR:
    """Links of any number of parents, weighted; some columns have none."""
    rng = np.random.default_rng(seed)
    return CSR((rng.random((rows, columns)) * (rng.random((rows, columns)) < share)).astype(np.float32))


def made(beams: tuple[int, int] = (2, 4), scale: float = 0.0) -> Tree:
    """Three clusters, seven below them, forty labels; the levels read two, three and four columns."""
    top = Level(some(3, 3, seed=1), 0, graph(3, 7, seed=2, share=0.6), beams[0], scale)
    return Tree((top, Level(some(7, 4, seed=3), 1, graph(7, L, seed=4), beams[1])), 1)


def searched(tree: Tree) -> TreeSearch:
    return TreeSearch(tree, some(L, 5, seed=5), D + 1)


def logistic(score: float) -> float:
    return 1 / (1 + math.exp(-score))


def naive(tree: Tree, x: FloatArray, hidden: set[int]) -> dict[int, float]:
    """Each label that is reached with its score: loops over nodes and links."""
    reached: dict[int, float] = dict.fromkeys(range(len(tree.levels[0].vectors)), 1.0)
    for level in tree.levels:
        scores = {}
        for node in reached:
            *w, bias = level.vectors[node].tolist()
            scores[node] = sum(a * b for a, b in zip(w, x[level.start :].tolist(), strict=False)) + bias
        if level.scale:
            total = sum(map(math.exp, scores.values()))
            own = {node: min(1.0, level.scale * math.exp(score) / total) for node, score in scores.items()}
        else:
            own = {node: logistic(score) for node, score in scores.items()}
        kept = sorted(reached, key=lambda node: (-reached[node] * own[node], node))[: level.beam]
        weights = level.children.toarray()
        following: dict[int, float] = {}
        for node in kept:
            for child in np.flatnonzero(weights[node]).tolist():
                worth = reached[node] * own[node] * float(weights[node, child])
                following[child] = max(following.get(child, 0.0), worth)
        reached = following
    labels = some(L, 5, seed=5)
    return {
        label: worth * logistic(float(labels[label] @ x[1:])) for label, worth in reached.items() if label not in hidden
    }


@pytest.mark.parametrize("scale", [0.0, 1.7])
@pytest.mark.parametrize("beams", [(1, 1), (2, 4), (3, 7), (50, 50)])
def test_it_finds_what_loops_over_all_paths_find(beams: tuple[int, int], scale: float) -> None:
    tree = made(beams, scale)
    exclude = csr_of_lists([[] if i % 2 else list(range(i, L, 3)) for i in range(Q)], L)
    exclude.data[:] = 0  # what is stored counts, whatever its value
    for pairs in (None, exclude):
        for k in (1, 5, L + 3):
            top = searched(tree).search(X, k, exclude=pairs)
            assert top.ids.shape == (Q, k)
            for i in range(Q):
                hidden = set() if pairs is None else set(exclude[[i]].indices.tolist())
                expected = naive(tree, X[i], hidden)
                best = sorted(expected, key=lambda label: (-expected[label], label))[:k]
                there = top.ids[i] >= 0
                assert top.ids[i][there].tolist() == best
                np.testing.assert_allclose(top.scores[i][there], [expected[label] for label in best], rtol=1e-5)


def test_two_clusters_and_three_labels_by_hand() -> None:
    """Both clusters hold label 1; the text likes the first cluster, and label 2, which is below the second."""
    clusters = np.array([[2, 0], [-2, 0]], np.float32)
    links = CSR(np.array([[1, 0.5, 0], [0, 1, 1]], np.float32))
    labels = np.array([[0, 0], [1, 0], [3, 1]], np.float32)
    x = np.array([[1, 1]], np.float32)
    p, q = logistic(2), logistic(-2)
    whole = TreeSearch(Tree((Level(clusters, 0, links, 2),), 0), labels, 2).search(x, 3)
    expected = {0: p * 0.5, 1: max(0.5 * p, q) * logistic(1), 2: q * logistic(4)}
    assert whole.ids[0].tolist() == sorted(expected, key=lambda label: -expected[label])
    np.testing.assert_allclose(whole.scores[0], sorted(expected.values(), reverse=True), rtol=1e-6)
    narrow = TreeSearch(Tree((Level(clusters, 0, links, 1),), 0), labels, 2).search(x, 3)
    assert narrow.ids[0].tolist() == [0, 1, -1]


def test_a_tree_over_some_labels_ranks_them_as_the_whole_does() -> None:
    rows, vectors = np.array([7, 2, 31, 30, 11]), some(L, 5, seed=5)
    part = TreeSearch(made()[rows], vectors[rows], D + 1).search(X, 5)
    whole = searched(made()).search(X, L)
    for found, ids, scores in zip(part.ids, whole.ids, whole.scores, strict=True):
        expected = {label: score for label, score in zip(ids.tolist(), scores, strict=True) if label in rows}
        assert [int(rows[i]) for i in found if i >= 0] == list(expected)
    joined = made()[rows[:2]].followed_by(made()[rows[2:]])
    np.testing.assert_array_equal(joined.links.toarray(), made()[rows].links.toarray())


def test_links_come_back_from_what_is_kept_of_each_label() -> None:
    tree = made()
    again = tree.of_parts(tree.by_label())
    np.testing.assert_array_equal(again.links.toarray(), tree.links.toarray())
    assert (again.links.toarray() == tree.labelled().links.toarray()).all()


def test_a_new_label_stands_below_the_node_that_is_best_for_its_texts() -> None:
    """The first two texts are those of one label: the node counts that is best for both of them together."""
    tree = made(beams=(3, 7))
    owners = np.array([0, *range(Q - 1)])
    found, top = tree.with_new(X, owners).links.toarray(), tree.nodes(X)
    worth = np.zeros((Q - 1, 7))
    for owner, ids, scores in zip(owners, top.ids, top.scores, strict=True):
        worth[owner, ids[ids >= 0]] += scores[ids >= 0]
    np.testing.assert_array_equal(found.argmax(0), worth.argmax(1))
    np.testing.assert_array_equal(found.sum(0), np.ones(Q - 1))
    assert len(set(worth.argmax(1))) > 1


def test_of_several_links_to_a_node_the_best_counts() -> None:
    top = TopK(np.array([[1, 0], [2, -1]]), np.array([[0.5, 0.25], [1, -np.inf]], np.float32))
    found = below(top, CSR(np.array([[1, 1, 0], [0.25, 1, 0], [0, 0, 0.5]], np.float32)))
    assert found.toarray().tolist() == [[0.25, 0.5, 0], [0, 0, 0.5]]


def test_a_tree_comes_back_from_its_file_or_is_refused(tmp_path: Path) -> None:
    assert Tree.in_folder(tmp_path, L) is None
    tree = made((2, 4), scale=1.7)
    tree.save(tmp_path)
    again = Tree.in_folder(tmp_path, L)
    assert again is not None
    assert isinstance(again.levels[0].vectors.base, np.memmap)
    before, after = (searched(one).search(X, L) for one in (tree, again))
    np.testing.assert_array_equal(before.ids, after.ids)
    np.testing.assert_array_equal(before.scores, after.scores)
    with pytest.raises(BadInput, match="expected nodes below 39, found 0 to 39"):
        Tree.in_folder(tmp_path, L - 1)
    Tree((), 0).save(tmp_path)
    with pytest.raises(BadInput, match="expected the levels of a tree"):
        Tree.in_folder(tmp_path, L)


def test_no_number_that_is_none_is_written(tmp_path: Path) -> None:
    tree = made()
    broken = replace(tree.levels[0], vectors=tree.levels[0].vectors * np.nan)
    with pytest.raises(BadInput, match="expected finite numbers"):
        Tree((broken, *tree.levels[1:]), 0).save(tmp_path)
