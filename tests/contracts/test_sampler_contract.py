"""What holds for every sampler: each row of the table, one that was regrouped, and one from outside."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

import numpy as np
import pytest
import torch

from longtail.batches.clusters import balanced_clusters
from longtail.batches.samplers import SAMPLERS, Clustered, Draw, Sampler, SamplerKind
from longtail.data.sparse import CSR, csr_of_lists


class Turned:
    """A toy from outside: documents in turn, from a place that seed and epoch decide."""

    def __init__(self, documents: int, size: int, seed: int) -> None:
        self._documents, self._size, self._seed = documents, size, seed

    def steps(self) -> int:
        return max(1, round(self._documents / self._size))

    def epoch(self, epoch: int) -> Iterator[Draw]:
        first = np.random.default_rng([self._seed, epoch]).integers(self._documents)
        order = (np.arange(self._documents, dtype=np.int64) + first) % self._documents
        for rows in np.array_split(order, self.steps()):
            yield Draw(rows, np.zeros(0, np.int64))


def regrouped(targets: CSR, size: int, seed: int) -> Clustered:
    sampler = Clustered(targets.shape[0], size, seed=seed)
    vectors = np.random.default_rng(0).normal(size=(targets.shape[0], 3)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    generator = np.random.default_rng([seed, 3])
    sampler.regroup(balanced_clusters(vectors, 4, generator=generator, device=torch.device("cpu")))
    return sampler


OTHERS = {
    "turned": SamplerKind(lambda targets, size, seed: Turned(targets.shape[0], size, seed), "documents in turn"),
    "clustered, regrouped": SamplerKind(regrouped, "clusters of four"),
}
Make = Callable[[int, int, int], Sampler]


def pairs(points: int) -> CSR:
    """As many documents, and as many labels that have a document, beside two that have none."""
    lists = [[i, (i * 7 + 3) % points] for i in range(points)]
    return csr_of_lists([sorted(set(row)) for row in lists], points + 2)


@pytest.fixture(params=[*SAMPLERS, *OTHERS])
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> SamplerKind:
    for name, other in OTHERS.items():
        monkeypatch.setitem(SAMPLERS, name, other)
    return SAMPLERS[request.param]


@pytest.fixture
def make(kind: SamplerKind) -> Make:
    """Makes the sampler over so many points."""
    return lambda points, size, seed: kind.make(pairs(points), size, seed)


def drawn(draws: Iterator[Draw]) -> list[tuple[list[int], list[int]]]:
    return [(draw.rows.tolist(), draw.label_ids.tolist()) for draw in draws]


@pytest.mark.parametrize(("n", "size"), [(1, 8), (7, 8), (8, 8), (30, 8), (37, 8), (5, 1), (100, 33)])
def test_every_point_once_an_epoch_in_batches_of_about_the_size(
    kind: SamplerKind, make: Make, n: int, size: int
) -> None:
    sampler = make(n, size, 0)
    for epoch in (0, 3):
        made = drawn(sampler.epoch(epoch))
        assert len(made) == sampler.steps()
        batches = [labels if kind.over_labels else rows for rows, labels in made]
        assert sorted(point for batch in batches for point in batch) == list(range(n))
        sizes = [len(batch) for batch in batches]
        assert max(sizes) - min(sizes) <= 1
        assert n < size or 2 / 3 * size <= np.mean(sizes) <= 1.5 * size


def test_a_batch_holds_documents_once_and_asks_for_labels_that_they_have(kind: SamplerKind, make: Make) -> None:
    truth = pairs(30).toarray()
    for draw in make(30, 8, 0).epoch(1):
        assert draw.rows.dtype == draw.label_ids.dtype == np.int64
        assert len(set(draw.rows.tolist())) == len(draw.rows) > 0
        assert truth[draw.rows][:, draw.label_ids].any(axis=0).all()
        assert kind.over_labels or len(draw.label_ids) == 0


def test_seed_and_epoch_decide_whatever_was_drawn_before(make: Make) -> None:
    keys = [(0, 0), (0, 1), (1, 0)]
    orders = [drawn(make(50, 8, seed).epoch(epoch)) for seed, epoch in keys]
    assert len({str(order) for order in orders}) == 3
    sampler = make(50, 8, 0)
    assert [drawn(sampler.epoch(epoch)) for epoch in (1, 0, 1)] == [orders[1], orders[0], orders[1]]


@pytest.mark.parametrize("start", range(7))
def test_an_epoch_can_be_gone_on_with_from_any_batch(make: Make, start: int) -> None:
    sampler, whole = make(50, 8, 0), drawn(make(50, 8, 0).epoch(2))
    begun = sampler.epoch(2)
    assert drawn(islice(begun, start)) == whole[:start]
    assert drawn(islice(sampler.epoch(2), start, None)) == whole[start:]
    assert drawn(begun) == whole[start:]


def test_a_row_says_what_it_is(kind: SamplerKind) -> None:
    assert kind.about
    assert not kind.about.endswith(".")
