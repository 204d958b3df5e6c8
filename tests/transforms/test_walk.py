"""The walk with restart: closed form, simulation, dense twin, and what is cut, kept and cached."""

from __future__ import annotations

import numpy as np
import pytest
from broken import flipped

from longtail.data import sparse
from longtail.data.sparse import CSR, csr
from longtail.errors import BadInput
from longtail.transforms import walk as module
from longtail.transforms.walk import cached_walk, walk


def matrix(dense: list[list[float]]) -> CSR:
    values = np.asarray(dense, np.float32)
    at = np.nonzero(values)
    return csr(*at, values.shape, values[at])


def random_graph(seed: int, rows: int = 31, nodes: int = 23) -> CSR:
    """Weighted, with rows and nodes that have no edge."""
    rng = np.random.default_rng(seed)
    values = (rng.integers(1, 4, (rows, nodes)) * (rng.random((rows, nodes)) < 0.12)).astype(np.float32)
    values[::9], values[:, ::7] = 0, 0
    at = np.nonzero(values)
    return csr(*at, values.shape, values[at])


def dense_law(edges: CSR, restart: float, hops: int = 60) -> np.ndarray:
    """The sum over hops, written out."""
    dense = edges.toarray().astype(np.float64)

    def by_row(x: np.ndarray) -> np.ndarray:
        sums = x.sum(1, keepdims=True)
        return np.divide(x, sums, out=np.zeros_like(x), where=sums > 0)

    forward, back = by_row(dense), by_row(dense.T)
    total, visits = np.zeros_like(dense), forward
    for hop in range(1, hops + 1):
        total += restart * (1 - restart) ** (hop - 1) * visits
        visits = visits @ back @ forward
    return total


def test_four_nodes_in_closed_form() -> None:
    """Rows 0 - a, 0 - b, 1 - b. From a the walk goes on to a or b evenly, from b to a with 1/4 and to b with 3/4."""
    found = walk(matrix([[1, 1], [0, 1]]), restart=0.8).toarray()
    np.testing.assert_allclose(found, [[9 / 19, 10 / 19], [1 / 19, 18 / 19]], atol=1e-6)


def test_restart_is_the_chance_to_return_and_not_to_go_on() -> None:
    """With 0.2 the walk strays: the same graph, in closed form."""
    found = walk(matrix([[1, 1], [0, 1]]), restart=0.2).toarray()
    np.testing.assert_allclose(found, [[3 / 8, 5 / 8], [1 / 4, 3 / 4]], atol=1e-3)
    np.testing.assert_allclose(walk(matrix([[1, 3], [0, 1]]), restart=1).toarray(), [[0.25, 0.75], [0, 1]])


@pytest.mark.parametrize("restart", [0.3, 0.8, 1.0])
@pytest.mark.parametrize("seed", range(3))
def test_the_sum_over_hops(restart: float, seed: int) -> None:
    edges = random_graph(seed)
    found = walk(edges, restart=restart, keep=100, beam=100)
    np.testing.assert_allclose(found.toarray(), dense_law(edges, restart), atol=1e-3)
    sums = found.sum(1)
    np.testing.assert_allclose(sums, np.diff(edges.indptr) > 0, atol=1e-5)


def test_agreement_with_a_simulated_walk_of_400_hops() -> None:
    edges = random_graph(0)
    rng = np.random.default_rng(0)
    by_node = edges.T.tocsr()

    def next_of(sparse: CSR, at: int) -> int:
        part = slice(sparse.indptr[at], sparse.indptr[at + 1])
        return int(rng.choice(sparse.indices[part], p=sparse.data[part] / sparse.data[part].sum()))

    law = walk(edges, keep=100, beam=100).toarray()
    row, walks = 4, 25
    counts = np.zeros(edges.shape[1])
    for _ in range(walks):
        node = -1
        for _ in range(400):
            start = row if node < 0 or rng.random() < 0.8 else next_of(by_node, node)
            node = next_of(edges, start)
            counts[node] += 1
    shares = counts / counts.sum()
    spread = np.sqrt(law[row] * (1 - law[row]) / counts.sum())
    assert (np.abs(shares - law[row]) < 5 * spread + 1e-3).all()
    assert np.count_nonzero(law[row] > 1e-3) > np.diff(edges.indptr)[row]  # it does find nodes two hops away


def test_the_heaviest_nodes_are_kept() -> None:
    edges = random_graph(1)
    whole = walk(edges, keep=100, beam=100).toarray()
    some = walk(edges, keep=3, beam=100)
    assert np.diff(some.indptr).max() == 3
    assert (np.diff(some.indices)[np.diff(np.repeat(np.arange(31), np.diff(some.indptr))) == 0] > 0).all()
    for row, kept in zip(whole, some.toarray(), strict=True):
        np.testing.assert_allclose(np.sort(kept)[-3:], np.sort(row)[-3:], atol=1e-6)
        np.testing.assert_allclose(kept[kept > 0], row[kept > 0], atol=1e-6)


def test_a_narrow_beam_is_near_and_never_above_one() -> None:
    edges = random_graph(2, 200, 100)
    whole, narrow = walk(edges, keep=5, beam=100).toarray(), walk(edges, keep=5, beam=30).toarray()
    assert ((whole > 0) & (narrow > 0)).sum() > 0.95 * (whole > 0).sum()
    assert narrow.sum(1).max() <= 1 + 1e-5


def test_hubs_are_cut() -> None:
    edges = matrix([[1, 1, 0], [1, 0, 1], [1, 0, 0]])
    found = walk(edges, hub_degree=2).toarray()
    assert (found[:, 0] == 0).all()
    np.testing.assert_allclose(found[:2, 1:], np.eye(2), atol=1e-6)
    assert not found[2].any()


def test_blocks_do_not_change_it(monkeypatch: pytest.MonkeyPatch) -> None:
    edges = random_graph(3)
    at_once = walk(edges, keep=4, beam=8)
    monkeypatch.setattr(sparse, "_OPERATIONS", 16)
    in_blocks = walk(edges, keep=4, beam=8)
    for name in ("data", "indices", "indptr"):
        np.testing.assert_array_equal(getattr(at_once, name), getattr(in_blocks, name))


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (4, 5)])
def test_a_graph_without_edges(shape: tuple[int, int]) -> None:
    found = walk(CSR(shape, dtype=np.float32))
    assert found.shape == shape
    assert found.nnz == 0


def test_a_restart_out_of_range() -> None:
    with pytest.raises(BadInput, match="expected a probability above 0, found 0"):
        walk(matrix([[1]]), restart=0)


def test_a_walk_is_done_once(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    edges = random_graph(4)
    first = cached_walk(edges, tmp_path, keep=4)
    other = cached_walk(edges, tmp_path, keep=5)
    assert first.nnz < other.nnz
    plain = edges.copy()
    plain.data[0] += 1
    cached_walk(plain, tmp_path, keep=4)
    assert len(list(tmp_path.iterdir())) == 3
    monkeypatch.setattr(module, "walk", lambda *_, **__: pytest.fail("walked again"))
    again = cached_walk(edges, tmp_path, keep=4)
    np.testing.assert_array_equal(first.toarray(), again.toarray())


def test_a_walk_that_is_not_what_was_written_is_walked_again(tmp_path) -> None:
    edges = random_graph(4)
    expected = cached_walk(edges, tmp_path, keep=4).toarray()
    for path in sorted(next(tmp_path.iterdir()).iterdir()):
        whole = path.read_bytes()
        for offset in range(0, len(whole), 64):
            path.write_bytes(flipped(whole, offset, 2))
            np.testing.assert_array_equal(cached_walk(edges, tmp_path, keep=4).toarray(), expected)
        path.unlink()
        np.testing.assert_array_equal(cached_walk(edges, tmp_path, keep=4).toarray(), expected)
