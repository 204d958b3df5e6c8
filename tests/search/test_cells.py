"""Search in cells: exact where all are looked into, the recall that is asked for, and less work."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from longtail.data.sparse import CSR, csr_of_lists
from longtail.ranks import Ranks
from longtail.search import cells as module
from longtail.search.cells import Cells, Near, pays, products
from longtail.search.exact import Exact
from longtail.shards.shard import Shards
from longtail.topk import FloatArray
from longtail.train.run import Run
from longtail.train.spread import nearest

CPU = torch.device("cpu")
K = 7


def grouped(L: int, Q: int, D: int = 16, seed: int = 0) -> tuple[FloatArray, FloatArray]:
    """Labels in planted groups of some 20, of different lengths, and queries that are near to one."""
    draws = np.random.default_rng(seed)
    middles = draws.standard_normal((max(1, L // 20), D))
    table = middles[draws.integers(len(middles), size=L)] + 0.4 * draws.standard_normal((L, D))
    queries = table[draws.integers(L, size=Q)] + 0.4 * draws.standard_normal((Q, D))
    return table.astype(np.float32), queries.astype(np.float32)


def near(table: FloatArray, seed: int = 0) -> Near:
    return Near(table, device=CPU, generator=np.random.default_rng(seed))


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cells pay for every search."""
    monkeypatch.setattr(module, "_MANY", 0)


def hidden(Q: int, L: int, seed: int = 1) -> CSR:
    draws = np.random.default_rng(seed)
    return csr_of_lists([np.unique(draws.integers(L, size=count)) for count in draws.integers(0, 30, size=Q)], L)


@pytest.mark.parametrize("exclude", [None, hidden(50, 400)])
def test_all_cells_are_exact_search(exclude: CSR | None) -> None:
    table, queries = grouped(400, 50)
    cells = Cells.of(torch.from_numpy(table), np.random.default_rng(0))
    found = cells.search(torch.from_numpy(queries), K, len(cells.centres), exclude=exclude)
    exact = Exact(table).search(queries, K, exclude=exclude)
    np.testing.assert_array_equal(found.ids, exact.ids)
    np.testing.assert_allclose(found.scores, exact.scores, rtol=1e-5)


def test_some_cells_are_a_search_of_their_labels_with_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_HELD", 16 * 3 * 2 * K)  # blocks of 16 queries
    monkeypatch.setattr(module, "_FIRST", 2)
    table, queries = grouped(300, 40)
    exclude = hidden(40, 300)
    cells = Cells.of(torch.from_numpy(table), np.random.default_rng(0))
    found = cells.search(torch.from_numpy(queries), K, 3, exclude=exclude)
    for i, query in enumerate(queries):
        nearest = np.argsort(-(cells.centres.numpy() @ query))[:3]
        labels = {label for c in nearest for label in cells.order[cells.starts[c] : cells.starts[c + 1]].tolist()}
        labels -= set(exclude[[i]].indices.tolist())
        best = sorted(labels, key=lambda label: -float(table[label] @ query))[:K]
        assert found.ids[i].tolist() == best + [-1] * (K - len(best))
        assert np.isneginf(found.scores[i][found.ids[i] < 0]).all()


def test_threads_and_blocks_find_the_same(monkeypatch: pytest.MonkeyPatch, set_threads: Callable[[int], None]) -> None:
    table, queries = grouped(300, 90)
    cells = Cells.of(torch.from_numpy(table), np.random.default_rng(0))
    whole = cells.search(torch.from_numpy(queries), K, 9, exclude=hidden(90, 300))
    monkeypatch.setattr(module, "_HELD", 16 * 3 * 8 * K)  # blocks of 16 queries
    found = []
    for threads in (1, 3):
        set_threads(threads)
        found.append(cells.search(torch.from_numpy(queries), K, 9, exclude=hidden(90, 300)))
    np.testing.assert_array_equal(found[0].ids, found[1].ids)
    np.testing.assert_array_equal(found[0].scores, found[1].scores)
    np.testing.assert_array_equal(found[0].ids, whole.ids)
    np.testing.assert_allclose(found[0].scores, whole.scores, rtol=1e-5)


def test_each_label_is_in_the_cells_of_its_two_nearest_centres() -> None:
    table, _ = grouped(500, 1)
    cells = Cells.of(torch.from_numpy(table), np.random.default_rng(0))
    assert sorted(cells.order.tolist()) == sorted([*range(500), *range(500)])
    nearest = np.argsort(-table @ cells.centres.numpy().T, axis=1, kind="stable")[:, :2]
    for c in range(len(cells.centres)):
        members = cells.order[cells.starts[c] : cells.starts[c + 1]].numpy()
        assert (np.diff(members) > 0).all()
        assert (nearest[members] == c).any(1).all()


@pytest.mark.skipif(not hasattr(torch, "_int_mm"), reason="this PyTorch has no product of 8-bit numbers")
def test_8_bits_say_nearly_as_well_which_of_many_centres_are_near(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "has_whole_products", lambda: True)
    table, queries = (torch.from_numpy(array) for array in grouped(500, 300, D=64))
    queries *= torch.from_numpy(np.exp(np.random.default_rng(3).normal(size=(300, 1))).astype(np.float32))
    exact = module._best(queries, table, 10)
    monkeypatch.setattr(module, "_EXACT", 499)
    monkeypatch.setattr(module, "_HELD", 7 * 500)
    found = module._best(queries, table, 10)
    assert 0.95 < (found[:, :, None] == exact[:, None, :]).any(1).double().mean() <= 1


def test_the_least_number_of_cells_is_chosen_and_what_lies_in_them_is_said() -> None:
    table, queries = grouped(300, 40)
    cells = Cells.of(torch.from_numpy(table), np.random.default_rng(0))
    truth = Exact(table).search(queries, K).ids
    looked = cells.probes_for(torch.from_numpy(queries), truth, 0.8)
    shares, seen = [], []
    for probes in (looked.probes - 1, looked.probes):
        found, count = 0, 0
        for i, query in enumerate(queries):
            nearest = np.argsort(-(cells.centres.numpy() @ query))[:probes]
            labels = [label for c in nearest for label in cells.order[cells.starts[c] : cells.starts[c + 1]].tolist()]
            found, count = found + len(set(labels) & set(truth[i].tolist())), count + len(labels)
        shares.append(found / truth.size)
        seen.append((len(cells.centres) + count / len(queries)) / len(table))
    assert shares[0] < 0.8 <= shares[1]
    assert (looked.recall, looked.share) == (pytest.approx(shares[1]), pytest.approx(seen[1]))


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("recall", [0.5, 0.9, 0.99])
def test_the_recall_that_is_asked_for_is_found_with_a_part_of_the_products(recall: float) -> None:
    table, queries = grouped(8000, 3000)
    exclude = hidden(3000, 8000)
    found, looked = near(table).search(queries, K, exclude=exclude, recall=recall)
    truth = Exact(table).search(queries, K, exclude=exclude)
    reached = (found.ids[:, :, None] == truth.ids[:, None, :]).any(1).mean()
    assert recall - 0.03 < reached
    assert looked is not None
    assert looked.recall >= recall
    assert looked.recall == pytest.approx(reached, abs=0.03)
    assert looked.share < 0.25
    least = Cells.of(torch.from_numpy(table), np.random.default_rng(0)).search(torch.from_numpy(queries), K, 1)
    assert recall < 0.9 or (least.ids[:, :, None] == truth.ids[:, None, :]).any(1).mean() < recall, "one is too few"


@pytest.mark.usefixtures("always")
def test_labels_without_groups_are_searched_exactly() -> None:
    """Where half of all cells are to be looked into, cells are no gain."""
    draws = np.random.default_rng(0)
    table, queries = (draws.standard_normal((n, 64)).astype(np.float32) for n in (600, 40))
    found, looked = near(table).search(queries, K, recall=0.99)
    assert looked is not None
    assert looked.share == looked.recall == 1
    np.testing.assert_array_equal(found.ids, Exact(table).search(queries, K).ids)


@pytest.mark.usefixtures("always")
def test_few_labels_and_few_queries() -> None:
    table, queries = grouped(3, 5)
    found, _ = near(table).search(queries, K)
    assert (found.ids[:, 3:] == -1).all()
    none, _ = near(table).search(queries[:0], K)
    assert none.ids.shape == (0, K)
    cells = Cells.of(torch.from_numpy(table), np.random.default_rng(0))
    assert cells.search(torch.from_numpy(queries[:0]), K, 1).ids.shape == (0, K)


@pytest.mark.usefixtures("always")
def test_shards_of_a_process_share_the_cells_and_find_what_each_finds_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    table, queries = grouped(2000, 301)
    exclude, made, make = hidden(301, 2000), [], Cells.of
    monkeypatch.setattr(Cells, "of", lambda *given: made.append(given) or make(*given))
    of_three, looked = nearest(Shards(3, Ranks()), table, queries, K, device=CPU, seed=[5], exclude=exclude)
    assert len(made) == 1
    for at, part in enumerate(slice(*of) for of in ((0, 101), (101, 201), (201, 301))):
        alone, how = near(table, 5).search(queries[part], K, exclude=exclude[part])
        np.testing.assert_array_equal(of_three.ids[part], alone.ids)
        np.testing.assert_array_equal(of_three.scores[part], alone.scores)
        assert at or how == looked


def test_a_run_looks_into_cells_where_exact_search_takes_long(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    table, queries = grouped(2000, 500)
    exact = Exact(table).search(queries, K)
    run = Run(tmp_path)
    np.testing.assert_array_equal(run.search("hard negatives", table, queries, K).ids, exact.ids)
    monkeypatch.setattr(module, "_MANY", 2000 * 500 - 1)
    found = run.search("hard negatives", table, queries, K)
    assert 0.8 < (found.ids[:, :, None] == exact.ids[:, None, :]).any(1).mean() < 1
    assert '"search": "hard negatives"' in (tmp_path / "metrics.jsonl").read_text()
    with run.planning() as plan:
        run.search("hard negatives", table, queries, K)
    share = products(500, 2000, CPU) / (500 * 2000)
    every = plan.seconds_of_search(500, *table.shape, CPU, nearly=True)
    assert plan.work["hard negatives"].seconds == pytest.approx(share * every)
    assert share != 1


def test_when_cells_pay() -> None:
    assert not pays(67_087, 53_073, CPU), "the largest set of the benchmarks is searched exactly"
    assert pays(175_000, 200_000, CPU)
    assert not pays(175_000, 200_000, torch.device("cuda"))
