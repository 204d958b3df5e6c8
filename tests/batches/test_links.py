"""Which nodes enrich the documents of a batch: by hand, and how many of many are drawn."""

from __future__ import annotations

import numpy as np
import torch

from longtail.batches.links import LinkedNodes, heaviest_links
from longtail.batches.loader import Loader
from longtail.batches.pool import Pool
from longtail.batches.samplers import Shuffled
from longtail.data.sparse import CSR, csr, csr_of_lists
from longtail.data.split import Split
from longtail.data.texts import Texts
from longtail.shards.shard import WHOLE, Part
from longtail.text.tokens import VectorTokens
from longtail.topk import IntArray


def nodes(ids: IntArray) -> VectorTokens:
    """Tokens that name their nodes."""
    return VectorTokens(torch.from_numpy(ids[:, None].astype(np.float32)))


def named(links: object) -> list[list[int]]:
    """The node ids of each document, in ascending order."""
    ids, places = links.node_ids.numpy(), links.places.numpy()  # type: ignore[attr-defined]
    return [sorted(ids[row[row >= 0]].tolist()) for row in places]


NONE = np.zeros(0, np.int64)
EDGES = csr_of_lists([[3, 7], [], [7], [0, 2, 3, 9]], 10)


def test_a_batch_has_each_node_once_and_the_places_of_its_documents() -> None:
    links = LinkedNodes(EDGES, 15)(np.array([2, 0, 1]), NONE, np.random.default_rng(0))
    assert links.node_ids.tolist() == [3, 7]
    assert named(links) == [[7], [3, 7], []]
    assert links.places.shape == (3, 2)
    assert links.places[0].tolist() == [1, -1]
    assert links.places[2].tolist() == [-1, -1]
    assert links.nodes is None


def test_of_many_nodes_a_random_part_is_drawn() -> None:
    draws = LinkedNodes(EDGES, 2, nodes)
    generator = np.random.default_rng(0)
    seen = []
    for _ in range(200):
        links = draws(np.array([3, 0]), NONE, generator)
        first, second = named(links)
        assert len(first) == 2
        assert second == [3, 7]
        assert isinstance(links.nodes, VectorTokens)
        assert links.nodes.values[:, 0].tolist() == links.node_ids.tolist()
        seen += first
    counts = np.bincount(seen, minlength=10)
    assert counts[[0, 2, 3, 9]].min() > 60
    assert counts.sum() == counts[[0, 2, 3, 9]].sum() == 400


def test_a_batch_without_any_link_and_room_for_none() -> None:
    for draws, rows in ((LinkedNodes(EDGES, 15), [1]), (LinkedNodes(EDGES, 0), [0, 3])):
        links = draws(np.array(rows), NONE, np.random.default_rng(0))
        assert links.places.shape == (len(rows), 0)
        assert len(links.node_ids) == 0


def test_without_a_draw_the_heaviest_are_taken() -> None:
    edges = csr(np.array([0, 0, 0, 2]), np.array([1, 4, 5, 0]), (3, 6), np.array([1, 3, 2, 1], np.float32))
    assert heaviest_links(edges, 2).tolist() == [[4, 5], [-1, -1], [0, -1]]
    ids, chances = LinkedNodes(edges, 9).of_every_document()
    assert ids.tolist() == [[1, 4, 5], [-1, -1, -1], [0, -1, -1]]
    assert chances is None


def test_chances_stay_with_their_links() -> None:
    weights = CSR(np.array([[0, 0.25, 0, 0.5, 0.75], [0, 0, 0, 0, 0], [0.125, 0, 0, 0, 0]], np.float32))
    draws = LinkedNodes(weights, 2)
    draws.renew(weights, chances=True)
    ids, chances = draws.of_every_document()
    assert ids.tolist() == [[3, 4], [-1, -1], [0, -1]]
    assert chances is not None
    assert chances.tolist() == [[0.5, 0.75], [0, 0], [0.125, 0]]
    rows, drawn = np.array([2, 0, 1]), set()
    for seed in range(20):
        links = draws(rows, NONE, np.random.default_rng(seed)).to(torch.device("cpu"))
        assert links.chances is not None
        for row, places, sure in zip(rows, links.places.tolist(), links.chances.tolist(), strict=True):
            nodes = [int(links.node_ids[place]) if place >= 0 else -1 for place in places]
            assert sure == [weights[row, node] if node >= 0 else 0 for node in nodes]
            drawn |= set(nodes)
    assert drawn == {-1, 0, 1, 3, 4}
    draws.renew(weights)
    assert draws(rows, NONE, np.random.default_rng(0)).chances is None


def test_labels_of_the_pool_have_links_too_to_nodes_that_both_share() -> None:
    labels = csr_of_lists([[7], [1, 3, 5], [], [0]], 10)
    draws = LinkedNodes(EDGES, 2, nodes, labels)
    rows, pool = np.array([0, 1, 2]), np.array([0, 1, 2])
    for part, here in ((WHOLE, slice(None)), (Part(1, 2), slice(2, 3))):
        links = draws(rows, pool, np.random.default_rng(0), part)
        assert named(links) == [[3, 7], [], [7]][here]
        assert links.of_labels is not None
        ids = [[int(links.node_ids[k]) for k in places if k >= 0] for places in links.of_labels.tolist()]
        assert ids[0] == [7]
        assert len(ids[1]) == 2
        assert set(ids[1]) < {1, 3, 5}
        assert ids[2] == []
        assert links.node_ids.tolist() == sorted({3, 7, *ids[1]})
        assert links.to(torch.device("cpu")).of_labels is not None
    plain = LinkedNodes(EDGES, 2, nodes)(rows, pool, np.random.default_rng(0))
    assert plain.of_labels is None
    assert named(plain) == [[3, 7], [], [7]]  # what labels draw leaves the draws of documents as they are


def test_links_leave_the_rest_of_a_batch_as_it_is_and_do_not_depend_on_workers() -> None:
    rng = np.random.default_rng(0)
    targets = csr(*np.nonzero(rng.random((40, 20)) < 0.1), (40, 20))
    edges = csr(*np.nonzero(rng.random((40, 30)) < 0.2), (40, 30))
    split, pool = Split(Texts.of([""] * 40), targets), Pool(targets, random=3)
    sampler = Shuffled(40, 8, seed=0)
    plain = Loader(split, sampler, pool, nodes, nodes, seed=1)
    one, two = (
        Loader(split, sampler, pool, nodes, nodes, seed=1, links=LinkedNodes(edges, 3), workers=n) for n in (1, 3)
    )
    for without, a, b in zip(plain.epoch(0), one.epoch(0), two.epoch(0), strict=True):
        assert without.links is None
        assert a.links is not None and b.links is not None  # noqa: PT018
        assert torch.equal(without.rows, a.rows)
        assert torch.equal(without.label_ids, a.label_ids)
        assert torch.equal(a.links.node_ids, b.links.node_ids)
        assert torch.equal(a.links.places, b.links.places)
        true = [set(edges[[row]].indices.tolist()) for row in a.rows.tolist()]
        assert all(
            set(ids) <= known and len(ids) == min(3, len(known))
            for ids, known in zip(named(a.links), true, strict=True)
        )
