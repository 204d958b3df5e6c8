"""Trees of labels: against loops over paths, whole and by a beam."""

from __future__ import annotations

import numpy as np
import pytest

from longtail.data.sparse import CSR, csr, stacked
from longtail.errors import BadInput
from longtail.search import label_trees as module
from longtail.search.label_trees import LabelTree, LabelTrees
from longtail.topk import AnyArray

F, L = 12, 9
PARENTS = np.array([-1, 0, 0, 1, 1])  # 1 has 3 and 4 below it; 2, 3 and 4 have labels
LEAVES = np.array([2, 3, 4, 2, 3, 4, 2, -1, 3])


def sparse_rows(seed: int, rows: int, share: float = 0.5) -> CSR:
    generator = np.random.default_rng(seed)
    dense = generator.normal(size=(rows, F)) * (generator.random((rows, F)) < share)
    dense[:, -1] = generator.normal(size=rows)
    return CSR(dense.astype(np.float32))


def tree(seed: int, leaves: AnyArray = LEAVES) -> LabelTree:
    nodes = stacked([CSR((1, F), dtype=np.float32), sparse_rows(seed, len(PARENTS) - 1)])
    return LabelTree(PARENTS, nodes, leaves, sparse_rows(seed + 1, L))


def queries(seed: int, n: int = 7) -> CSR:
    x = sparse_rows(seed, n).tolil()
    x[:, -1] = 1
    return CSR(x)


def path_score(one: LabelTree, x: AnyArray, label: int) -> float:
    """The logarithm of the product over the path of a label, by loops."""
    margins, node = [float(one.labels[[label]].toarray()[0] @ x)], int(one.leaves[label])
    while node > 0:
        margins.append(float(one.nodes[[node]].toarray()[0] @ x))
        node = int(one.parents[node])
    return -sum(max(0.0, 1 - margin) ** 2 for margin in margins)


def test_a_score_is_the_mean_of_products_along_paths() -> None:
    trees, x = [tree(0), tree(10, np.array([3, 3, 2, 2, 4, 4, 4, -1, 2]))], queries(5)
    top = LabelTrees(trees, 10).search(x, L)
    for text, row in enumerate(x.toarray()):
        naive = {
            label: np.mean([np.exp(path_score(one, row, label)) for one in trees]) for label in range(L) if label != 7
        }
        best = sorted(naive, key=lambda label: -naive[label])
        assert top.ids[text].tolist() == [*best, -1]
        np.testing.assert_allclose(top.scores[text, :-1], [naive[label] for label in best], rtol=1e-4, atol=1e-7)


def test_a_root_alone_is_one_versus_all() -> None:
    alone = LabelTree(np.array([-1]), CSR((1, F), dtype=np.float32), np.where(LEAVES < 0, -1, 0), sparse_rows(1, L))
    top, naive = LabelTrees([alone], 1).search(queries(5), 3), queries(5).toarray() @ sparse_rows(1, L).toarray().T
    naive[:, 7] = -np.inf
    assert top.ids.tolist() == np.argsort(-naive, axis=1)[:, :3].tolist()
    np.testing.assert_allclose(top.scores, -np.sort(-naive, axis=1)[:, :3], rtol=1e-5)


def test_a_beam_keeps_the_best_nodes_of_each_depth(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_WHOLE", 0)
    one, x = tree(0), queries(5)
    top = LabelTrees([one], 1).search(x, L)
    for text, row in enumerate(x.toarray()):
        margins = one.nodes.toarray() @ row
        node = 2 if min(margins[2], 1) > min(margins[1], 1) else 1
        node = node if node == 2 else (4 if min(margins[4], 1) > min(margins[3], 1) else 3)
        assert sorted(top.ids[text][top.ids[text] >= 0].tolist()) == np.flatnonzero(node == LEAVES).tolist()


@pytest.mark.parametrize("kept", [[0], [7], [4, 8], [1, 4]], ids=str)
def test_some_of_the_labels_are_scored_as_among_all_however_few_they_are(kept: list[int]) -> None:
    """As of a label that is explained, or was added: it has fewer labels beside it than nodes above it."""
    x, whole = queries(5), [tree(0), tree(10, np.array([3, 3, 2, 2, 4, 4, 4, -1, 2]))]
    top = LabelTrees(whole, 10).search(x, L)
    some = [LabelTree(one.parents, one.nodes, one.leaves[kept], one.labels[kept]) for one in whole]
    few = LabelTrees(some, 10).search(x, len(kept))
    for text in range(len(few)):
        of_all = dict(zip(top.ids[text].tolist(), top.scores[text].tolist(), strict=True))
        found = {kept[i]: score for i, score in zip(few.ids[text].tolist(), few.scores[text], strict=True) if i >= 0}
        assert found == pytest.approx({label: of_all[label] for label in kept if label != 7}, rel=1e-5)
    for one in some:
        above, there = one.leaves[one.leaves >= 0].tolist(), [0]
        while above:
            there += above
            above = [int(one.parents[node]) for node in above if node]
        kept_nodes = sorted({*there} - {-1})
        parents = [-1, *(kept_nodes.index(int(one.parents[node])) for node in kept_nodes[1:])]
        assert one.above_labels().parents.tolist() == parents
    assert (LabelTrees(some, 10).leaves(x) == LabelTrees(whole, 10).leaves(x)).all()  # a new label finds its place


def test_texts_in_blocks_and_excluded_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    trees, x = LabelTrees([tree(0), tree(3)], 10), queries(6)
    whole = trees.search(x, L)
    hidden = csr(np.arange(7), whole.ids[:, 0], (7, L))
    monkeypatch.setattr(module, "_PAIRS", 20)
    some = trees.search(x, L, exclude=hidden)
    assert some.ids[:, : L - 2].tolist() == whole.ids[:, 1 : L - 1].tolist()
    assert (some.ids[:, L - 2 :] == -1).all()
    assert trees.search(x[:0], 3).ids.shape == (0, 3)


def test_what_does_not_fit_is_refused() -> None:
    trees = LabelTrees([tree(0)], 10)
    with pytest.raises(BadInput, match="expected vectors of width 12, found 11"):
        trees.search(queries(0)[:, :-1], 3)
    with pytest.raises(BadInput, match="expected at least 1, found 0"):
        trees.search(queries(0), 0)


def test_a_text_of_which_no_feature_is_known_has_no_label() -> None:
    assert (LabelTrees([tree(0)], 10).search(CSR((2, F), dtype=np.float32), 3).ids == -1).all()
