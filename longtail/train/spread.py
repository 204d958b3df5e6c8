"""Work between steps, spread over the shards of a run: each does its part, and all processes have the whole.

Whatever a process does by itself must come out the same in all of them, since each goes on with it. Where that is not
certain, as of sums over many rows on machines that differ, one does it, and tells the others.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from longtail.data.sparse import CSR
from longtail.memory import peak_bytes
from longtail.modules.encoders.base import Encoder, embed
from longtail.ranks import Ranks
from longtail.search.cells import Looked, Near
from longtail.shards.shard import Part, Shards
from longtail.text.ragged import Ragged
from longtail.topk import FloatArray, IntArray, TopK
from longtail.train.log import Log


def encoded(shards: Shards | None, encoder: Encoder, table: Ragged, device: torch.device) -> FloatArray:
    """The (n, D) vectors of a token table, each shard's part by who works on it."""
    if shards is None:
        return embed(encoder, table, device=device)
    parts = _by_parts(
        shards, len(table), lambda part: (embed(encoder, table.take(np.arange(part.start, part.stop)), device=device),)
    )
    vectors: FloatArray = parts[0]
    return vectors


def nearest(
    shards: Shards | None,
    labels: FloatArray,
    queries: FloatArray,
    k: int,
    *,
    device: torch.device,
    seed: list[int],
    exclude: CSR | None = None,
) -> tuple[TopK, Looked | None]:
    """What `longtail.search.cells.Near` finds, each shard's queries by who works on it.

    Args:
        shards: of the run.
        labels: (L, D).
        queries: (Q, D).
        k: labels of a query.
        device: of the products.
        seed: of what is drawn.
        exclude: (Q, L) pairs that are not found.

    Returns:
        What is found, and how it was looked for: for the first of the own shards, where there are several.
    """
    near = Near(labels, device=device, generator=np.random.default_rng(seed))
    if shards is None:
        return near.search(queries, k, exclude=exclude)
    said: list[Looked | None] = []

    def found(part: slice) -> tuple[IntArray, FloatArray]:
        top, looked = near.search(queries[part], k, exclude=None if exclude is None else exclude[part])
        said.append(looked)
        return top.ids, top.scores

    return TopK(*_by_parts(shards, len(queries), found)), said[0]


def _by_parts(shards: Shards, length: int, work: Callable[[slice], tuple[Any, ...]]) -> tuple[Any, ...]:
    """Arrays with a row for each of so many things, of each part of which some work makes the rows."""
    made = [work(Part(index, shards.count).of(length)) for index in shards.own]
    own = (torch.from_numpy(np.concatenate(some)) for some in zip(*made, strict=True))
    return tuple(torch.cat(shards.ranks.exchange([one] * shards.ranks.world)).numpy() for one in own)


def by_first(ranks: Ranks, make: Callable[[], IntArray]) -> IntArray:
    """An array that the first process makes, in all of them."""
    if ranks.world == 1:
        return make()
    made = make() if ranks.first else np.zeros(0, np.int64)
    of_first: IntArray = ranks.exchange([torch.from_numpy(made)] * ranks.world)[0].numpy()
    return of_first


def note_ranks(log: Log, ranks: Ranks) -> None:
    """Note what each process has worked, held at most, and sent, up to the end of a stage that several have trained."""
    if ranks.world > 1:
        taken = {"processor_seconds": round(time.process_time(), 3), "peak_memory": peak_bytes(), "sent": ranks.sent}
        log.note(ranks=ranks.every(taken))
