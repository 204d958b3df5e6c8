"""Operations, bytes and memory on paper: by hand, and counted where shards send each other something."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix

from longtail.batches.pool import Pool
from longtail.modules.encoders.bag import BagEncoder
from longtail.modules.encoders.base import encode_together
from longtail.modules.table import Table
from longtail.on_paper import parts
from longtail.on_paper.parts import Step
from longtail.on_paper.scale import ENCODERS, Scale, distinct
from longtail.on_paper.work import machines
from longtail.ranks import Ranks
from longtail.shards.rows import RowsHere
from longtail.shards.shard import Shard, Shards
from longtail.text.bag import BagTokenizer
from longtail.text.tokens import BagTokens

WIDTH, BATCH, POOL, FEATURES = 8, 12, 24, 10


def scale(world: int = 1, encoder: str = "bag", labels: float = 60, **options) -> Scale:
    o = SimpleNamespace(width=WIDTH, max_length=32, batch=BATCH, memory=True, cluster_size=8, **options)
    return Scale(
        documents=1000,
        held_out=50,
        labels=labels,
        words=(FEATURES + 1) / 7.7,  # so many features of a text
        labels_of=2,
        tests=100,
        world=world,
        machine=machines()["cpu"],
        encoder=ENCODERS[encoder],
        o=o,
    )


class Counted(Shards):
    """Counts what shards send each other, without what each keeps."""

    bytes = 0

    def meet(self, index, some, counts=None):
        self.bytes += sum(part.nbytes for to, part in enumerate(some) if to != index)
        return super().meet(index, some, counts)


def bags(texts: int, generator: torch.Generator, features: int) -> BagTokens:
    ids = torch.randint(features, (texts * FEATURES,), generator=generator)
    return BagTokens(ids, torch.arange(texts + 1) * FEATURES, torch.ones(len(ids)))


def cut(table: Table, world: int) -> None:
    table.rows_here = RowsHere(len(table), world, range(world))
    table.weight.data = table.weight.data[torch.cat([table.rows_here.ids(one) for one in range(world)])]


@pytest.mark.parametrize("world", [2, 3, 4])
def test_a_step_of_unidec_sends_what_is_said_on_paper(world: int) -> None:
    generator = torch.Generator().manual_seed(0)
    tokenizer = BagTokenizer(tuple(f"w{i}" for i in range(60)), torch.ones(60).numpy(), 0)
    encoder, second = BagEncoder(tokenizer, WIDTH, generator=generator), Table(torch.randn(60, WIDTH))
    classifiers, shards = Table(torch.randn(60, WIDTH + 1)), Counted(world, Ranks())
    for table in (encoder.table, second, classifiers):
        cut(table, world)
    documents, labels = bags(BATCH, generator, 60), bags(POOL, generator, 60)
    ids = torch.arange(POOL)  # as many of each owner

    def work(shard: Shard) -> None:
        own, part = (torch.arange(count)[shard.part.of(count)] for count in (BATCH, POOL))
        mine = documents.rows(slice(int(own[0]), int(own[-1]) + 1))
        x, z = encode_together(encoder, mine, labels.rows(slice(int(part[0]), int(part[-1]) + 1)))
        u, w = second.bag_sum(mine), classifiers.rows(ids)
        shard.backward((x @ z.T).sum() + (u @ w[:, :-1].T).sum())

    shards.step(work)
    t = Step(scale(world), BATCH, POOL)
    said = [part.work(t).sent * world for part in (parts.ENCODING, parts.SECOND_VIEW, parts.CLASSIFIERS)]
    assert sum(said) == pytest.approx(shards.bytes)


def test_bytes_of_a_step_by_hand() -> None:
    t = Step(scale(4), BATCH, POOL)
    texts = BATCH + POOL
    tokens = 3 * (1 + texts / 4 + 2 * FEATURES * texts / 4) * 4  # to three others: sizes, ids and weights
    sums = 2 * 3 * texts / 4 * WIDTH * 4  # partial sums for others' texts, and gradients of the own ones
    vectors = 2 * 3 * POOL / 4 * WIDTH * 4
    assert parts.ENCODING.work(t).sent == pytest.approx(tokens + sums + vectors)
    rows = 2 * 3 * POOL / 4 * (WIDTH + 1) * 4 + 3 * POOL * 8
    assert parts.CLASSIFIERS.work(t).sent == pytest.approx(rows)
    assert parts.SCORES.work(t).sent == 0
    assert parts.ENCODING.work(Step(scale(1), BATCH, POOL)).sent == 0


def test_operations_by_hand() -> None:
    t = Step(scale(2), BATCH, POOL)
    assert parts.SCORES.work(t).products == 6 * BATCH / 2 * POOL * WIDTH
    assert parts.ALL_CLASSIFIERS.work(t).products == 8 * BATCH * 30 * (WIDTH + 1)
    of_text = parts.transformer(1, scale(1, "distilbert"), 1).transformer
    tokens = 1.4 * (FEATURES + 1) / 7.7 + 2
    assert of_text == pytest.approx(6 * (2 * tokens * (4 * 768**2 + 2 * 768 * 3072) + 4 * tokens**2 * 768))


def test_all_labels_are_shared_out_and_so_is_a_transformer() -> None:
    one, four = (Step(scale(world, "minilm", labels_at_once=8192), BATCH, 60) for world in (1, 4))
    for part in (parts.EVERY_LABEL, parts.ALL_LABELS, parts.ENCODING):
        whole, shared = part.work(one), part.work(four)
        assert shared.transformer == pytest.approx(whole.transformer / 4)
        assert shared.products == pytest.approx(whole.products / 4)
        assert shared.sent > whole.sent == 0


def test_as_many_distinct_labels_as_pools_have() -> None:
    generator = np.random.default_rng(0)
    places = np.repeat(np.arange(2000), 2), generator.integers(900, size=4000)
    targets = csr_matrix((np.ones(4000), places), (2000, 900))
    pool = Pool(targets, None, 100)
    drawn = np.mean([len(pool(generator.permutation(2000)[:400], generator)) for _ in range(20)])
    assert distinct(400 * 2 + 100, 900) == pytest.approx(drawn, rel=0.02)
    assert distinct(3, 1) == 1
