"""The anchors of a batch: drawn by weight, shared by both sides, and never a negative where there is an edge."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from longtail.batches.batch import entries_in_pool
from longtail.batches.loader import Loader
from longtail.batches.neighbours import Neighbours, similarities
from longtail.batches.pool import Pool
from longtail.batches.samplers import Shuffled
from longtail.data.sparse import CSR, csr, csr_of_lists
from longtail.data.split import Split
from longtail.data.texts import Texts
from longtail.text.tokens import VectorTokens
from longtail.topk import IntArray
from longtail.transforms.walk import walk

N, L, M = 31, 19, 23


def numbers(rows: IntArray) -> VectorTokens:
    """Tokens that name their rows."""
    return VectorTokens(torch.from_numpy(rows[:, None].astype(np.float32)))


def random_edges(seed: int, rows: int) -> CSR:
    rng = np.random.default_rng(seed)
    values = rng.random((rows, M)).astype(np.float32) * (rng.random((rows, M)) < 0.15)
    values[::5] = 0
    at = np.nonzero(values)
    return csr(*at, values.shape, values[at])


def random_graph(seed: int) -> tuple[Neighbours, dict[str, CSR], dict[str, CSR]]:
    """A graph, its edges, and pairs that are known besides."""
    edges = {"documents": random_edges(seed, N), "labels": random_edges(seed + 1, L)}
    known = {"documents": random_edges(seed + 2, N), "labels": random_edges(seed + 3, L)}
    return Neighbours(edges, known, numbers), edges, known


def test_two_documents_two_labels_and_five_nodes_by_hand() -> None:
    """Document 3 has node 2, document 1 has node 4 and is known to belong to 2; label 5 has node 4, label 6 none."""
    documents = csr_of_lists([[], [4], [], [2]], 5)
    known = csr_of_lists([[], [2, 4], [], [2]], 5)
    labels = csr_of_lists([[0], [], [], [], [], [4], []], 5)
    graph = Neighbours({"documents": documents, "labels": labels}, {"documents": known, "labels": labels}, numbers)
    targets = np.array([[0, 1, 0], [0, 0, 1]], np.float32)  # label 0 is no one's: it draws nothing
    anchors = graph(np.array([3, 1]), np.array([0, 5, 6]), targets, np.random.default_rng(0))
    assert anchors.node_ids.tolist() == [2, 4]
    assert isinstance(anchors.nodes, VectorTokens)
    assert anchors.nodes.values[:, 0].tolist() == [2, 4]
    of_documents, of_labels = anchors.sides["documents"], anchors.sides["labels"]
    assert of_documents.at.tolist() == [0, 1]
    assert of_documents.targets.tolist() == [[1, 0], [0, 1]]
    assert of_documents.mask.tolist() == [[True, True], [False, True]]
    assert of_labels.at.tolist() == [1]
    assert of_labels.targets.tolist() == [[0, 1]]
    assert of_labels.mask.tolist() == [[True, True]]


@pytest.mark.parametrize("seed", range(5))
def test_an_edge_is_a_target_if_it_is_kept_and_never_a_negative(seed: int) -> None:
    graph, edges, known = random_graph(seed)
    rng = np.random.default_rng(seed)
    kept = {side: rng.random(matrix.nnz) < 0.6 for side, matrix in edges.items()}
    graph.load_state_dict({side: torch.from_numpy(mask) for side, mask in kept.items()})
    rows, label_ids = np.sort(rng.choice(N, 11, replace=False)), np.sort(rng.choice(L, 7, replace=False))
    targets = (rng.random((11, 7)) < 0.2).astype(np.float32)
    anchors = graph(rows, label_ids, targets, rng)
    nodes = anchors.node_ids.numpy()
    assert (np.diff(nodes) > 0).all()
    for side, ids in (("documents", rows), ("labels", label_ids)):
        linked = anchors.sides[side]
        wanted = np.ones(11, bool) if side == "documents" else targets.any(0)
        left = edges[side].copy()
        left.data = left.data * kept[side]
        left.eliminate_zeros()
        assert linked.at.tolist() == [i for i in range(len(ids)) if wanted[i] and left[[ids[i]]].nnz]
        at = ids[linked.at.numpy()]
        true = entries_in_pool(left, at, nodes) > 0
        np.testing.assert_array_equal(linked.targets.numpy(), true)
        seen = true | (
            (edges[side].toarray()[np.ix_(at, nodes)] == 0) & (known[side].toarray()[np.ix_(at, nodes)] == 0)
        )
        np.testing.assert_array_equal(linked.mask.numpy(), seen)
        assert true.any(1).all()  # each row drew one of its own


def test_draws_are_in_proportion_to_the_weights() -> None:
    edges = csr(np.array([1, 1, 1, 2]), np.array([0, 2, 3, 1]), (3, 4), np.array([0.1, 0.2, 0.7, 5.0], np.float32))
    graph = Neighbours({"documents": edges}, {"documents": edges}, numbers)
    rng, counts = np.random.default_rng(0), np.zeros(4)
    for _ in range(3000):
        counts[graph(np.array([1]), np.zeros(0, np.int64), np.zeros((1, 0)), rng).node_ids.numpy()] += 1
    np.testing.assert_allclose(counts / 3000, [0.1, 0, 0.2, 0.7], atol=0.03)


def test_pruning_keeps_edges_by_cosine_and_starts_from_all_of_them_each_time() -> None:
    edges = csr_of_lists([[0, 1], [1, 2], []], 3)
    graph = Neighbours({"documents": edges}, {"documents": edges}, numbers)
    nodes = np.eye(3, 2, dtype=np.float32)
    nodes[2] = [-1, 0]
    documents = np.array([[1, 0], [0.6, 0.8], [0, 1]], np.float32)
    np.testing.assert_allclose(similarities(edges, documents, nodes), [1, 0, 0.8, -0.6])
    assert graph.counts() == {"documents": 4}
    assert graph.prune({"documents": documents}, nodes) == {"documents": 2}
    anchors = graph(np.arange(3), np.zeros(0, np.int64), np.zeros((3, 0)), np.random.default_rng(0))
    assert anchors.node_ids.tolist() == [0, 1]
    assert anchors.sides["documents"].mask.tolist() == [[True, False], [True, True]]
    assert graph.prune({"documents": documents}, nodes, above=0.9) == {"documents": 1}
    assert graph.prune({"documents": documents}, nodes, above=-1) == {"documents": 4}


def test_a_walk_over_what_a_pruning_leaves_does_not_pass_through_what_it_dropped() -> None:
    """Documents 0 and 1 share node 1 and so reach each other's; once document 1's edge to it is gone, they do not."""
    known = csr_of_lists([[0, 1], [1, 2]], 3)
    graph = Neighbours({"documents": walk(known)}, {"documents": known}, numbers, walk=walk)
    assert graph.counts() == {"documents": 6}
    nodes = np.array([[1, 0, 0], [1, 0, 0], [0, 1, 0]], np.float32)
    documents = np.array([[0.6, 0.8, 0], [-0.1, 0.9, 0]], np.float32)
    assert graph.prune({"documents": documents}, nodes) == {"documents": 3}  # of 0: nodes 0 and 1; of 1: node 2
    assert graph.edges["documents"].toarray().astype(bool).tolist() == [[True, True, False], [False, False, True]]
    assert graph.prune({"documents": np.abs(documents)}, nodes, above=-1) == {"documents": 6}  # from all of them again
    assert graph.prune({"documents": documents}, nodes, above=2) == {"documents": 0}


def test_a_graph_that_lost_all_its_edges_gives_no_anchors() -> None:
    edges = csr_of_lists([[0], [1]], 2)
    graph = Neighbours({"documents": edges}, {"documents": edges}, numbers)
    graph.prune({"documents": np.ones((2, 1), np.float32)}, -np.ones((2, 1), np.float32))
    anchors = graph(np.arange(2), np.zeros(0, np.int64), np.zeros((2, 0)), np.random.default_rng(0))
    assert len(anchors.node_ids) == 0
    assert len(anchors.sides["documents"].at) == 0


@pytest.mark.parametrize("walked", [False, True])
def test_the_state_is_what_is_kept(walked: bool) -> None:
    graph, other = (
        Neighbours(edges, known, numbers, walk=walk if walked else None)
        for _, edges, known in (random_graph(0), random_graph(0))
    )
    rng = np.random.default_rng(1)
    vectors = {"documents": rng.standard_normal((N, 3)), "labels": rng.standard_normal((L, 3))}
    graph.prune(vectors, rng.standard_normal((M, 3)))
    other.load_state_dict(graph.state_dict())
    draw = (np.arange(N), np.arange(L), np.ones((N, L)))
    one, same = (g(*draw, np.random.default_rng(2)) for g in (graph, other))
    assert torch.equal(one.node_ids, same.node_ids)
    assert torch.equal(one.sides["labels"].targets, same.sides["labels"].targets)


def test_graphs_leave_everything_else_of_a_batch_as_it_is_and_do_not_depend_on_workers() -> None:
    rng = np.random.default_rng(0)
    targets = csr(*np.nonzero(rng.random((N, L)) < 0.1), (N, L))
    split = Split(Texts.of([""] * N), targets)
    graph, _, _ = random_graph(0)

    def batches(graphs: dict[str, Neighbours], workers: int = 1) -> Loader:
        pool = Pool(targets, random=3)
        return Loader(split, Shuffled(N, 8, seed=0), pool, numbers, numbers, seed=1, graphs=graphs, workers=workers)

    plain = list(batches({}).epoch(0))
    with_two = list(batches({"one": graph, "two": graph}).epoch(0))
    with_workers = list(batches({"one": graph}, 3).epoch(0))
    for without, batch, other in zip(plain, with_two, with_workers, strict=True):
        assert without.nodes == []
        assert torch.equal(without.label_ids, batch.label_ids)
        assert torch.equal(without.targets, batch.targets)
        assert len(batch.nodes) == 2
        assert not torch.equal(batch.graphs["one"].node_ids, batch.graphs["two"].node_ids)  # draws of its own
        assert torch.equal(batch.graphs["one"].node_ids, other.graphs["one"].node_ids)
        moved = batch.to(torch.device("cpu"))
        assert torch.equal(moved.graphs["two"].sides["labels"].mask, batch.graphs["two"].sides["labels"].mask)


def test_the_share_of_linked_rows_is_not_that_of_the_lot() -> None:
    """Two of three documents and one of two labels with a document have a node, however few of them draw."""
    documents, labels = csr_of_lists([[0], [], [1]], 2), csr_of_lists([[1], [], [0]], 2)
    edges = {"documents": documents, "labels": labels}
    targets = np.array([[1, 0, 0], [0, 1, 0], [0, 1, 0]], np.float32)  # label 2 is no one's
    for share in (1.0, 0.5, 1e-9):
        graph = Neighbours(edges, edges, numbers, share=share)
        sides = graph(np.arange(3), np.arange(3), targets, np.random.default_rng(0)).sides
        assert sides["documents"].share == pytest.approx(2 / 3)
        assert sides["labels"].share == 0.5
    none = graph(np.arange(3), np.zeros(0, np.int64), np.zeros((3, 0)), np.random.default_rng(0))
    assert none.sides["labels"].share == 0
