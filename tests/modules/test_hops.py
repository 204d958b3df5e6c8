"""Neighbourhoods hop by hop against loops, and classifiers whose attention to them is an inner product."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from longtail.data.sparse import csr_of_lists
from longtail.modules.hops import HopClassifiers, Hops, node_hops

D, H = 4, 3
EDGES = [[1, 2], [0], [], [0, 1, 2]]
LINKS = np.array([[0, 3], [2, -1], [-1, -1]])
RNG = np.random.default_rng(0)


def units(rows: int) -> np.ndarray:
    vectors = RNG.normal(size=(rows, D)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


NODES, X = units(len(EDGES)), units(len(LINKS))


def hops_of(own: np.ndarray, neighbours: list[int], before: list[list[np.ndarray]], count: int) -> list[np.ndarray]:
    """One node or text: its hops, given those of its neighbours."""
    found = [own]
    for k in range(1, count):
        around = sum((before[u][k - 1] for u in neighbours), np.zeros(D)) / max(1, len(neighbours))
        mixed = found[-1] + around
        found.append(mixed / np.linalg.norm(mixed))
    return found


def of_nodes() -> list[list[np.ndarray]]:
    hops = [[node] for node in NODES]
    for k in range(1, H):
        now = [hops_of(NODES[i], EDGES[i], hops, k + 1)[k] for i in range(len(EDGES))]
        for own, one in zip(hops, now, strict=True):
            own.append(one)
    return hops


@pytest.fixture
def made() -> Hops:
    hops = Hops(node_hops(NODES, csr_of_lists(EDGES, len(EDGES)), H)).eval()
    with torch.no_grad():
        for i, parameter in enumerate(hops.blocks.parameters()):
            parameter.add_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(i)) * 0.3)
    return hops


def test_hops_of_nodes_and_texts_against_loops(made: Hops, monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = of_nodes()
    np.testing.assert_allclose(node_hops(NODES, csr_of_lists(EDGES, len(EDGES)), H), nodes, atol=1e-6)
    expected = [hops_of(X[i], [u for u in LINKS[i] if u >= 0], nodes, H + 1) for i in range(len(X))]
    for block in (1, 2, 8192):
        monkeypatch.setattr("longtail.modules.hops._BLOCK", block)
        np.testing.assert_allclose(made.hops(X, LINKS), np.reshape(expected, (len(X), -1)), atol=1e-6)
    np.testing.assert_allclose(made.hops(X, LINKS[:, :0])[0].reshape(-1, D), np.tile(X[0], (H + 1, 1)), atol=1e-6)


def test_what_is_read_has_the_text_first_and_hops_of_unit_length(made: Hops) -> None:
    read, weights = made.enrich(X, LINKS)
    raw = made.hops(X, LINKS).reshape(-1, H + 1, D)
    np.testing.assert_array_equal(read[:, :D], X)
    for k, block in enumerate(made.blocks, start=1):
        h = torch.from_numpy(raw[:, k].copy())
        with torch.no_grad():
            expected = torch.nn.functional.normalize(h + torch.relu(block(h)))
        np.testing.assert_allclose(read[:, k * D : (k + 1) * D], expected.numpy(), atol=1e-6)
    assert weights.tolist() == [[0.5, 0.5], [1, 0], [0, 0]]
    assert made.alone(X) is X


def test_no_texts_have_no_hops_of_the_same_width(made: Hops) -> None:
    """Labels that are added without examples ask for them."""
    read, weights = made.enrich(X[:0], LINKS[:0])
    assert (read.shape, weights.shape) == ((0, (H + 1) * D), (0, LINKS.shape[1]))


def test_saved_and_loaded_they_are_bit_equal(made: Hops, tmp_path: Path) -> None:
    made.save(tmp_path)
    np.testing.assert_array_equal(Hops.load(tmp_path, made.settings()).enrich(X, LINKS)[0], made.enrich(X, LINKS)[0])


def test_the_score_of_a_label_is_that_of_its_attention() -> None:
    """<w, sum of a_k h_k>, label by label, is the inner product of one row."""
    start, texts = units(5), torch.from_numpy(RNG.normal(size=(2, (H + 1) * D)).astype(np.float32))
    classifiers = HopClassifiers(start * 3, H + 1)
    with torch.no_grad():
        classifiers.attention.weight.normal_(generator=torch.Generator().manual_seed(1))
    attention = classifiers.attention.weight.detach().softmax(1)
    hops = texts.view(2, H + 1, D)
    expected = [
        [float(torch.from_numpy(start[label]) @ (attention[label][:, None] * hops[i]).sum(0)) for label in range(5)]
        for i in range(2)
    ]
    rows = classifiers.vectors()
    np.testing.assert_allclose(texts.numpy() @ rows.T, expected, atol=1e-5)
    with torch.no_grad():
        np.testing.assert_allclose(classifiers(torch.tensor([1, 4])).numpy(), rows[[1, 4]], atol=1e-6)
    even = HopClassifiers(start, H + 1).vectors().reshape(5, H + 1, D)
    np.testing.assert_allclose(even, np.tile(start[:, None] / (H + 1), (1, H + 1, 1)), atol=1e-6)
