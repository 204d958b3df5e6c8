"""Batches, made ahead of the training step."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from typing import TypeAlias

import numpy as np
import torch

from longtail.batches.batch import Batch, pairs_in_pool
from longtail.batches.links import LinkedNodes
from longtail.batches.neighbours import Neighbours
from longtail.batches.pool import Pool
from longtail.batches.samplers import Draw, Sampler
from longtail.data.split import Split
from longtail.text.tokens import Tokens
from longtail.topk import IntArray

Source: TypeAlias = Callable[[IntArray], Tokens]  # the tokens of some rows


@dataclass(frozen=True, slots=True)
class Loader:
    """Makes batches of training documents and their pools.

    The random numbers of a batch come from (seed, epoch, step) alone: an epoch is the same for any number of workers,
    and can be taken up at any step.

    Attributes:
        split: the training documents with their true and filtered pairs.
        sampler: cuts an epoch into batches.
        pool: draws the labels of a batch.
        documents: the tokens of documents.
        labels: the tokens of labels, or None where labels have vectors of their own.
        seed: of the pools.
        graphs: draw the anchors of a batch from metadata graphs, by name; they leave everything else of it as it is.
        links: draw the nodes that documents are enriched with, or None; they too leave everything else as it is.
        workers: threads that make batches ahead of the training step (the work is done in NumPy, outside Python's
            lock for most of it).
        rank: which of ``world`` processes this is; it sees every ``world``-th batch.
        world: the number of processes.
    """

    split: Split
    sampler: Sampler
    pool: Pool
    documents: Source
    labels: Source | None
    seed: int
    graphs: Mapping[str, Neighbours] = field(default_factory=dict)
    links: LinkedNodes | None = None
    workers: int = 1
    rank: int = 0
    world: int = 1

    def steps(self) -> int:
        """Batches an epoch of this process."""
        return len(range(self.rank, self.sampler.steps(), self.world))

    def pool_of(self, batch: Batch) -> int:
        """How many labels the documents of a batch are scored against."""
        return int(self.split.targets.shape[1]) if self.pool.every_label else len(batch.label_ids)

    def epoch(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        """The batches of an epoch, from step ``start`` on."""
        draws = enumerate(islice(self.sampler.epoch(epoch), self.rank, None, self.world))
        wanted = islice(draws, start, None)
        with ThreadPoolExecutor(self.workers, thread_name_prefix="batches") as executor:
            ahead: deque[Future[Batch]] = deque()
            for step, draw in wanted:
                ahead.append(executor.submit(self._batch, draw, epoch, step))
                if len(ahead) > 2 * self.workers:
                    yield ahead.popleft().result()
            while ahead:
                yield ahead.popleft().result()

    def _batch(self, draw: Draw, epoch: int, step: int) -> Batch:
        generator = np.random.default_rng([self.seed, epoch, step, self.rank, 1])  # the 1 parts it from the samplers
        label_ids = np.union1d(self.pool(draw.rows, generator), draw.label_ids)
        places = self.pool.places(draw.rows, label_ids) if self.pool.own else None
        targets, mask = pairs_in_pool(self.split, draw.rows, label_ids, places)
        graphs = {
            name: graph(draw.rows, label_ids, targets, np.random.default_rng([self.seed, epoch, step, self.rank, 3, i]))
            for i, (name, graph) in enumerate(self.graphs.items())
        }
        links = None
        if self.links is not None:
            links = self.links(draw.rows, np.random.default_rng([self.seed, epoch, step, self.rank, 4]))
        return Batch(
            rows=torch.from_numpy(draw.rows),
            documents=self.documents(draw.rows),
            label_ids=torch.from_numpy(label_ids),
            labels=None if self.labels is None else self.labels(label_ids),
            targets=torch.from_numpy(targets),
            mask=torch.from_numpy(mask),
            places=None if places is None else torch.from_numpy(places),
            graphs=graphs,
            links=links,
        )
