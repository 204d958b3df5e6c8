"""Shards of one process: what they send each other, and gradients that go back the same way."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from longtail.data.dataset import Dataset
from longtail.ranks import Ranks
from longtail.recipes import unidec
from longtail.shards.rows import RowsHere
from longtail.shards.shard import Part, Shard, Shards, everyones, here, of_all, step_seed
from longtail.testing.planted import planted
from longtail.text.bag import BagTokenizer
from longtail.train.log import Log


def shards(count: int) -> Shards:
    return Shards(count, Ranks())


@pytest.mark.parametrize("length", [0, 1, 5, 12, 13])
@pytest.mark.parametrize("count", [1, 2, 4, 5])
def test_parts_are_even_and_cover_all(length: int, count: int) -> None:
    parts = [np.arange(length)[Part(index, count).of(length)] for index in range(count)]
    for part, expected in zip(parts, np.array_split(np.arange(length), count), strict=True):
        assert part.tolist() == expected.tolist()


@pytest.mark.parametrize(("length", "count", "own"), [(10, 3, range(3)), (10, 4, range(2, 4)), (2, 4, range(4))])
def test_rows_of_a_table_lie_shard_by_shard(length: int, count: int, own: range) -> None:
    cut = RowsHere(length, count, own)
    rows = torch.cat([cut.ids(index) for index in own])
    for index in own:
        assert rows[cut.part(index)].tolist() == [row for row in range(length) if row % count == index]


def test_shards_get_what_the_others_send_them() -> None:
    def work(shard: Shard) -> list[list[float]]:
        sent = [torch.full((shard.index + 1, 2), 10.0 * shard.index + to) for to in range(shard.count)]
        first = [part[:, 0].tolist() for part in shard.exchange(sent)]
        assert [len(part) for part in shard.gather(torch.zeros(shard.index, 3))] == [0, 1, 2]
        assert shard.lengths(7 * shard.index) == [0, 7, 14]
        assert shard.told({"of": shard.index}) == [{"of": 0}, {"of": 1}, {"of": 2}]
        assert [len(one) for one in shard.told("long" * 400 * shard.index)] == [0, 1600, 3200]
        return first

    expected = [[[0.0 + to], [10.0 + to] * 2, [20.0 + to] * 3] for to in range(3)]
    assert shards(3).step(work) == expected
    assert here() is None


def test_shards_have_random_numbers_of_their_own_and_one_seed_of_the_step() -> None:
    def work(shard: Shard) -> tuple[int, int]:
        with torch.random.fork_rng():
            torch.manual_seed(shard.own_seed(123))
            return torch.initial_seed(), step_seed()

    seeds = shards(3).step(work)
    assert len({own for own, _ in seeds}) == 3
    assert [shared for _, shared in seeds] == [123] * 3
    with torch.random.fork_rng():
        torch.manual_seed(7)
        assert step_seed() == 7


def test_gradients_of_what_all_shards_share_are_those_of_the_whole() -> None:
    generator = torch.Generator().manual_seed(0)
    whole, weights = torch.randn(9, 4, generator=generator), torch.randn(9, 9, generator=generator)
    private, shared = 5, 4

    def loss(own: Tensor, every: Tensor, rows: slice) -> Tensor:
        return ((own @ every.T) * weights[rows, :shared]).square().sum() + own.sin().sum()

    x = whole.clone().requires_grad_()
    loss(x[:private].exp(), x[private:].exp(), slice(0, private)).backward()

    def work(shard: Shard) -> tuple[slice, slice, Tensor]:
        rows, part = shard.part.of(private), shard.part.of(shared)
        mine = torch.cat([whole[:private][rows], whole[private:][part]]).requires_grad_()
        count = rows.stop - rows.start
        own, every = everyones(mine.exp(), [range(part.stop - part.start)], private=count)
        shard.backward(loss(own, every, rows))
        assert mine.grad is not None
        return rows, part, mine.grad

    for rows, part, gradient in shards(3).step(work):
        count = rows.stop - rows.start
        torch.testing.assert_close(gradient[:count], x.grad[:private][rows])
        torch.testing.assert_close(gradient[count:], x.grad[private:][part])


def test_what_a_shard_does_not_use_has_a_gradient_of_zero_and_nobody_waits() -> None:
    def work(shard: Shard) -> Tensor:
        own = torch.ones(2, 1, requires_grad=True)
        (every,) = everyones(own * 1)
        shard.backward(every.sum() if shard.index == 1 else torch.zeros(()))
        assert own.grad is not None
        return own.grad

    for gradient in shards(2).step(work):
        assert gradient.tolist() == [[1.0], [1.0]]


def test_a_mean_is_that_of_all_rows_and_is_told_once_a_process() -> None:
    means = shards(3).step(lambda shard: of_all([0.0, 1.0, 0.5][shard.index], [1, 2, 1][shard.index]))
    assert means == [0.625, None, None]
    assert of_all(0.25, 3) == 0.25


def test_random_numbers_do_not_depend_on_when_shards_meet() -> None:
    def draws(shard: Shard, meetings: int) -> list[float]:
        torch.manual_seed(shard.index)
        found = []
        for _ in range(3):
            found.append(float(torch.rand(())))
            for _ in range(meetings):
                shard.told(None)
        return found

    assert shards(3).step(lambda shard: draws(shard, 0)) == shards(3).step(lambda shard: draws(shard, 2))


def test_an_error_of_one_shard_ends_the_step_of_all() -> None:
    def work(shard: Shard) -> None:
        shard.told(None)
        if shard.index == 1:
            raise ValueError("shard 1 is broken")
        shard.told(None)

    with pytest.raises(ValueError, match="shard 1 is broken"):
        shards(3).step(work)


def test_each_shard_writes_to_what_is_its_own() -> None:
    """Whatever is swapped at a turn is put in place before a shard goes on."""
    held, at, kept = [0], [0], [[0], [0], [0]]

    def swap(place: int) -> None:
        kept[at[0]], at[0] = [held[0]], place
        held[0] = kept[place][0]

    def work(shard: Shard) -> int:
        for _ in range(4):
            held[0] += shard.index + 1
            shard.told(None)
        return held[0]

    assert shards(3).step(work, swap) == [4, 8, 12]


def test_bytes_of_a_step_are_those_computed_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """What two shards of `unidec` send each other: vectors of texts and classifiers, and no more than lists beside."""
    B, D, V = 64, 16, 2  # documents, width, shards
    sent: dict[int, int] = {}
    meetings: list[int] = []
    meet = Shards.meet

    def counted(self: Shards, index: int, parts: list[Tensor], counts: object = None) -> list[Tensor]:
        (other,) = (part for to, part in enumerate(parts) if to != index)
        sent[index] = sent.get(index, 0) + other.numel() * other.element_size()
        meetings.append(index)
        return meet(self, index, parts, counts)

    sizes: list[tuple[int, int, int]] = []

    def step(_: Log, __: object, rows: int, pool: int, ___: float) -> None:
        sizes.append((rows, pool, sum(sent.values())))
        sent.clear()

    monkeypatch.setattr(Shards, "meet", counted)
    monkeypatch.setattr(Log, "step", step)
    dataset = planted(0, documents=4 * B, test_documents=60, labels=120).dataset
    options = {"batch": B, "width": D, "random_negatives": 32, "validation": 0.0, "refit": False, "memory": False}
    unidec(dataset, shards=V, epochs=1, device="cpu", **options)
    assert len(sizes) == 4
    most = _most_features(dataset)
    for rows, pool, found in sizes:
        texts = rows + pool
        # forward and back: partial sums of all texts, and of documents for their second view; vectors of the labels,
        # of which each shard has encoded half; rows of the classifiers, of which each owns half
        vectors = 2 * 4 * (texts * D + rows * D + pool * D + pool * (D + 1))
        told = 1024 * V  # the values of the terms
        bags = found - vectors - told  # what is left: features and weights of the texts
        assert 0 < bags <= 8 * most * (texts + rows) + 4 * (texts + rows + 4)
    # tokens, sums and gradients of two tables; labels, classifiers, and the gradients of both; the values
    assert len(meetings) == 4 * V * (3 + 3 + 2 + 2 + 1)


def _most_features(dataset: Dataset) -> int:
    """How many features a text has at most: an id and a weight of each are sent."""
    texts = [*dataset.train.documents.fields["title"], *dataset.labels.fields["title"]]
    return int(np.diff(BagTokenizer.fit(texts)(texts).offsets).max())
