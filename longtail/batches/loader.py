"""Batches, made ahead of the training step."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TypeAlias

import numpy as np
import torch

from longtail.batches.batch import Batch, pairs_in_pool, positives_in_pool
from longtail.batches.links import LinkedNodes
from longtail.batches.neighbours import Neighbours
from longtail.batches.pool import Pool
from longtail.batches.samplers import Draw, Sampler
from longtail.data.split import Split
from longtail.shards.shard import WHOLE, Part
from longtail.text.tokens import Tokens, VectorTokens
from longtail.topk import FloatArray, IntArray

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
        part: of each batch, that it makes (`longtail.shards`): whatever is drawn is drawn for the whole batch.
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
    part: Part = WHOLE

    def steps(self) -> int:
        """Batches an epoch."""
        return self.sampler.steps()

    def part_of(self, part: Part) -> Loader:
        """The same, for a part of each batch."""
        return replace(self, part=part)

    def pool_of(self, batch: Batch) -> int:
        """How many labels the documents of a batch are scored against."""
        return int(self.split.targets.shape[1]) if self.pool.every_label else len(batch.label_ids)

    def epoch(self, epoch: int, start: int = 0, stop: int | None = None) -> Iterator[Batch]:
        """The batches of an epoch, from step ``start`` on, before step ``stop`` or to the end."""
        wanted = islice(enumerate(self.sampler.epoch(epoch)), start, stop)
        with ThreadPoolExecutor(self.workers, thread_name_prefix="batches") as executor:
            ahead: deque[Future[Batch]] = deque()
            for step, draw in wanted:
                ahead.append(executor.submit(self._batch, draw, epoch, step))
                if len(ahead) > 2 * self.workers:
                    yield ahead.popleft().result()
            while ahead:
                yield ahead.popleft().result()

    def _batch(self, draw: Draw, epoch: int, step: int) -> Batch:
        # The fourth number was once a rank; the 1 parts the draws of pools from those of samplers.
        generator = np.random.default_rng([self.seed, epoch, step, 0, 1])
        label_ids = np.union1d(self.pool(draw.rows, generator), draw.label_ids)
        places = self.pool.places(draw.rows, label_ids) if self.pool.own else None
        here, every = self.part.of(len(draw.rows)), slice(None)
        some = every if self.graphs else here  # a graph goes by the true pairs of all rows
        targets, mask = pairs_in_pool(self.split, draw.rows[some], label_ids, None if places is None else places[some])
        graphs = {}
        for i, (name, graph) in enumerate(self.graphs.items()):
            generator = np.random.default_rng([self.seed, epoch, step, 0, 3, i])
            graphs[name] = graph(draw.rows, label_ids, targets, generator, self.part)
        links = None
        if self.links is not None:
            generator = np.random.default_rng([self.seed, epoch, step, 0, 4])
            links = self.links(draw.rows, label_ids, generator, self.part)
        rows, own = draw.rows[here], here if self.graphs else every
        return Batch(
            rows=torch.from_numpy(rows),
            documents=self.documents(rows),
            label_ids=torch.from_numpy(label_ids),
            labels=None if self.labels is None else self.labels(label_ids[self.part.of(len(label_ids))]),
            targets=torch.from_numpy(targets[own]),
            mask=torch.from_numpy(mask[own]),
            places=None if places is None else torch.from_numpy(places[here]),
            graphs=graphs,
            links=links,
            positives=self._positives(draw.rows, label_ids, None if places is None else targets),
        )

    def _positives(self, rows: IntArray, label_ids: IntArray, of_shortlists: FloatArray | None) -> float:
        """See `longtail.batches.batch.Batch`; of shortlists, (B, S) targets."""
        if of_shortlists is not None:
            return float(np.count_nonzero(of_shortlists) / max(1, len(of_shortlists)))
        targets = self.split.targets
        if self.pool.every_label:
            return float((targets.indptr[rows + 1] - targets.indptr[rows]).mean())
        return positives_in_pool(targets, rows, label_ids)


def vector_source(vectors: FloatArray) -> Source:
    """What a `Loader` reads documents from that were encoded before: rows of (n, D) vectors."""
    return lambda rows: VectorTokens(torch.from_numpy(vectors[rows]))
