"""Batches made ahead: what they hold, and that neither workers, resuming nor shards change them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from longtail.batches.batch import Batch
from longtail.batches.links import LinkedNodes
from longtail.batches.loader import Loader
from longtail.batches.neighbours import Neighbours
from longtail.batches.pool import Pool
from longtail.batches.samplers import ByLabel, Clustered, Draw, Sampler, Shuffled
from longtail.data.sparse import CSR, csr, csr_of_lists
from longtail.data.split import Split
from longtail.data.texts import Texts
from longtail.shards.shard import Part
from longtail.text.tokens import VectorTokens
from longtail.topk import IntArray

N, L = 53, 29


def numbers(rows: IntArray) -> VectorTokens:
    """Tokens that name their rows."""
    return VectorTokens(torch.from_numpy(rows[:, None].astype(np.float32)))


def split_of(targets: CSR, filtered: CSR | None = None) -> Split:
    return Split(Texts.of([""] * targets.shape[0]), targets, filtered)


def random_split(seed: int = 0) -> Split:
    """Soft targets and filtered pairs; some documents have no labels, and some pairs are both."""
    rng = np.random.default_rng(seed)
    targets = rng.random((N, L)).astype(np.float32) * (rng.random((N, L)) < 0.08)
    targets[::7] = 0
    filtered = rng.random((N, L)) < 0.1
    at = np.nonzero(targets)
    return split_of(csr(*at, (N, L), targets[at]), csr(*np.nonzero(filtered), (N, L)))


def loader(split: Split, sampler: Sampler, pool: Pool | None = None, **options: Any) -> Loader:
    pool = Pool(split.targets, positives=1, random=5) if pool is None else pool
    return Loader(split, sampler, pool, numbers, numbers, seed=3, **options)


def assert_same(one: Batch, other: Batch) -> None:
    for name in ("rows", "label_ids", "targets", "mask"):
        assert torch.equal(getattr(one, name), getattr(other, name)), name
    assert torch.equal(values(one.documents), values(other.documents))
    assert torch.equal(values(one.labels), values(other.labels))


def values(tokens: object) -> Tensor:
    assert isinstance(tokens, VectorTokens)
    return tokens.values[:, 0]


class Given:
    """One epoch of given draws."""

    def __init__(self, *draws: tuple[list[int], list[int]]) -> None:
        self._draws = [Draw(np.asarray(rows, np.int64), np.asarray(labels, np.int64)) for rows, labels in draws]

    def steps(self) -> int:
        return len(self._draws)

    def epoch(self, epoch: int) -> Iterator[Draw]:
        yield from self._draws


def test_three_documents_and_two_labels_by_hand() -> None:
    """A target 0.rc names its row and its label: documents 3, 1, 4 of 5 and labels 2, 4 of 6, drawn for 3 and 4."""
    targets = csr(
        np.array([1, 1, 3, 3, 4]),
        np.array([2, 5, 2, 4, 4]),
        (5, 6),
        np.array([0.12, 0.15, 0.32, 0.34, 0.44], np.float32),
    )
    filtered = csr(np.array([1, 4, 4]), np.array([4, 2, 3]), (5, 6))
    pool = Pool(targets, positives=0)
    (batch,) = loader(split_of(targets, filtered), Given(([3, 1, 4], [4, 2])), pool).epoch(0)
    assert batch.rows.tolist() == [3, 1, 4]
    assert batch.label_ids.tolist() == [2, 4]
    torch.testing.assert_close(batch.targets, torch.tensor([[0.32, 0.34], [0.12, 0.0], [0.0, 0.44]]))
    assert batch.mask.tolist() == [[True, True], [True, False], [False, True]]
    assert values(batch.documents).tolist() == [3, 1, 4]
    assert values(batch.labels).tolist() == [2, 4]


def test_labels_that_a_draw_asks_for_join_those_of_the_pool() -> None:
    split = split_of(csr_of_lists([[0, 3], [1]], 6))
    batches = loader(split, Given(([0, 1], [5, 3])), Pool(split.targets, positives=None))
    assert [batch.label_ids.tolist() for batch in batches.epoch(0)] == [[0, 1, 3, 5]]


@pytest.mark.parametrize("positives", [0, 1, 2, None])
@pytest.mark.parametrize("seed", range(3))
def test_every_true_pair_in_the_pool_is_a_target_sampled_or_not(positives: int | None, seed: int) -> None:
    split = random_split(seed)
    assert split.filtered is not None
    truth, unknown = split.targets.toarray(), split.filtered.toarray() != 0
    seen = []
    for batch in loader(split, Shuffled(N, 8, seed=0), Pool(split.targets, positives, random=7)).epoch(seed):
        rows, labels = batch.rows.numpy(), batch.label_ids.numpy()
        assert (np.diff(labels) > 0).all()
        np.testing.assert_array_equal(batch.targets.numpy(), truth[np.ix_(rows, labels)])
        np.testing.assert_array_equal(batch.mask.numpy(), ~unknown[np.ix_(rows, labels)])
        assert batch.positives == pytest.approx((truth[np.ix_(rows, labels)] > 0).sum(1).mean())
        assert (batch.targets.dtype, batch.mask.dtype) == (torch.float32, torch.bool)
        assert (batch.rows.dtype, batch.label_ids.dtype) == (torch.int64, torch.int64)
        np.testing.assert_array_equal(values(batch.documents).numpy(), rows)
        np.testing.assert_array_equal(values(batch.labels).numpy(), labels)
        seen.extend(rows.tolist())
        if positives != 0:
            assert (truth[np.ix_(rows, labels)].any(1) == truth[rows].any(1)).all()
    assert sorted(seen) == list(range(N))


def test_without_a_filter_every_pair_is_known_and_without_label_texts_there_are_none() -> None:
    split = split_of(random_split().targets)
    batches = Loader(split, Shuffled(N, 8, seed=0), Pool(split.targets), numbers, None, seed=0)
    for batch in batches.epoch(0):
        assert batch.mask.all()
        assert batch.labels is None


def test_a_batch_of_documents_without_labels_has_an_empty_pool() -> None:
    split = split_of(csr_of_lists([[], [], [1]], 3))
    (batch,) = loader(split, Given(([0, 1], [])), Pool(split.targets)).epoch(0)
    assert batch.targets.shape == batch.mask.shape == (2, 0)
    assert len(values(batch.labels)) == 0


SAMPLERS: list[Sampler] = [
    Shuffled(N, 4, seed=1),
    Clustered(N, 4, seed=1),
    ByLabel(random_split().targets, 4, seed=1),
]


def test_a_batch_of_every_label_holds_no_matrix_of_them() -> None:
    split, sampler = random_split(), Shuffled(N, 10, seed=0)
    every = loader(split, sampler, Pool(split.targets, positives=0))
    batch = next(every.epoch(0))
    assert batch.targets.numel() == batch.mask.numel() == len(batch.label_ids) == 0
    assert every.pool_of(batch) == L
    assert batch.positives == pytest.approx(np.diff(split.targets.indptr)[batch.rows.numpy()].mean())
    some = loader(split, sampler, Pool(split.targets, random=7))
    batch = next(some.epoch(0))
    assert some.pool_of(batch) == batch.targets.shape[1] < L


@pytest.mark.parametrize("sampler", SAMPLERS, ids=lambda sampler: type(sampler).__name__)
def test_workers_do_not_show(sampler: Sampler) -> None:
    split = random_split()
    one, three = (loader(split, sampler, workers=workers) for workers in (1, 3))
    for epoch in (0, 4):
        for left, right in zip(one.epoch(epoch), three.epoch(epoch), strict=True):
            assert_same(left, right)


@pytest.mark.parametrize("sampler", SAMPLERS, ids=lambda sampler: type(sampler).__name__)
def test_an_epoch_can_be_taken_up_at_any_step(sampler: Sampler) -> None:
    batches = loader(random_split(), sampler)
    whole = list(batches.epoch(2))
    assert len(whole) == batches.steps()
    for start in (0, 1, 5, len(whole)):
        for left, right in zip(whole[start:], batches.epoch(2, start), strict=True):
            assert_same(left, right)


def test_pools_change_with_seed_epoch_and_step() -> None:
    split = split_of(csr_of_lists([[0], [0]], 10_000))
    same_rows = Given(*[([0, 1], [])] * 3)
    pool = Pool(split.targets, random=4)
    made = [
        tuple(batch.label_ids.tolist())
        for seed in (0, 1)
        for epoch in (0, 1)
        for batch in Loader(split, same_rows, pool, numbers, numbers, seed=seed).epoch(epoch)
    ]
    assert len(set(made)) == len(made) == 12


@pytest.mark.parametrize("count", [1, 2, 3])
def test_parts_of_a_batch_are_the_whole_cut_up(count: int) -> None:
    """Whatever is drawn is that of the whole batch; documents, and labels and nodes to be encoded, are shared out."""
    split = random_split()
    rng = np.random.default_rng(4)
    edges = {
        side: csr(*np.nonzero(rng.random((n, 17)) < 0.2), (n, 17)) for side, n in (("documents", N), ("labels", L))
    }
    whole = loader(
        split,
        Shuffled(N, 16, seed=0),
        graphs={"topic": Neighbours(edges, edges, numbers, share=0.7)},
        links=LinkedNodes(edges["documents"], 2, numbers),
    )
    parts = [list(whole.part_of(Part(index, count)).epoch(1, start=1)) for index in range(count)]
    for batch, *some in zip(whole.epoch(1, start=1), *parts, strict=True):
        for name in ("rows", "targets", "mask"):
            assert torch.equal(torch.cat([getattr(part, name) for part in some]), getattr(batch, name)), name
        assert all(torch.equal(part.label_ids, batch.label_ids) for part in some)
        assert {part.positives for part in some} == {batch.positives}
        for of in (
            lambda b: b.documents,
            lambda b: b.labels,
            lambda b: b.links.nodes,
            lambda b: b.graphs["topic"].nodes,
        ):
            assert torch.equal(torch.cat([values(of(part)) for part in some]), values(of(batch)))
        assert torch.equal(torch.cat([part.links.places for part in some]), batch.links.places)
        for side, linked in batch.graphs["topic"].sides.items():
            starts = np.cumsum([0, *(len(part.rows) for part in some)]) if side == "documents" else [0] * count
            cut = [part.graphs["topic"].sides[side] for part in some]
            assert (
                torch.cat([one.at + start for one, start in zip(cut, starts, strict=False)]).tolist()
                == linked.at.tolist()
            )
            assert torch.equal(torch.cat([one.targets for one in cut]), linked.targets)
            # a term is a mean over those who draw, times their share, times the share of the documents that are here
            weights = [one.share * len(part.rows) / len(batch.rows) for one, part in zip(cut, some, strict=True)]
            for one, weight in zip(cut, weights, strict=True):
                assert weight == pytest.approx(linked.share * len(one.at) / len(linked.at))


def test_a_worker_that_fails_fails_the_epoch() -> None:
    def broken(rows: IntArray) -> VectorTokens:
        raise RuntimeError("no tokens")

    split = random_split()
    batches = Loader(split, Shuffled(N, 8, seed=0), Pool(split.targets), broken, None, seed=0)
    with pytest.raises(RuntimeError, match="no tokens"):
        next(batches.epoch(0))


def test_threads_end_with_the_epoch_also_when_it_is_left_early() -> None:
    batches = loader(random_split(), Shuffled(N, 4, seed=0), workers=3)
    epoch = batches.epoch(0)
    next(epoch)
    assert any(thread.name.startswith("batches") for thread in threading.enumerate())
    epoch.close()
    assert not any(thread.name.startswith("batches") for thread in threading.enumerate())
