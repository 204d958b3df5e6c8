"""A run: the context of a recipe, through which it trains, encodes, searches and clusters."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import nn

from longtail.batches.clusters import balanced_clusters
from longtail.batches.loader import Loader
from longtail.data.dataset import Dataset
from longtail.data.sparse import CSR
from longtail.devices import choose_device
from longtail.modules.encoders.base import Encoder
from longtail.ranks import ranks
from longtail.search.cells import products
from longtail.shards.shard import Shards
from longtail.text.ragged import Ragged
from longtail.topk import FloatArray, IntArray, TopK
from longtail.train.checkpoint import Stateful
from longtail.train.course import Pace, Score, course_of
from longtail.train.finite import must_be_finite
from longtail.train.fit import fit
from longtail.train.log import LOG, Log
from longtail.train.plan import Plan
from longtail.train.plan_parts import Reckoning
from longtail.train.progress import INPUTS, Progress, versions
from longtail.train.rates import seconds_a_text, seconds_of_clusters
from longtail.train.renewal import Renewal
from longtail.train.spread import by_first, encoded, nearest, note_ranks
from longtail.train.together import Objective

Result = TypeVar("Result")


class Run:
    """Where and how a recipe works: folder, log, device, seed, threads and cache.

    A recipe is resumed by calling it again with the same arguments and folder: each of its stages finds its result, or
    its checkpoint, or nothing (`longtail.train.progress.Progress`).

    While ``plan`` is given, the run only says what it would do: `train` measures a few steps that change nothing, and
    `embed`, `search` and `clusters` return arrays of the right shape without an answer in them.

    Args:
        folder: of the run; None keeps everything in memory only.
        log: where it says what it does.
        interval: seconds between checkpoints.
        dry: stop once the plan is made.
        cache: keeps what is made from the data, for other runs to find; the run's own folder if left out, to its end.
        threads: of PyTorch; as many as it takes by itself if left out.

    Attributes:
        recipe, seed, device, evaluate_every: its name and those of its options, once it has begun.
        ranks: the processes that train it.
        shards: that its steps are taken in, once it has begun; None for one.
        plan: what it would do, while its page is run for that.
        since: when it was made, of `time.monotonic`.
        before_stage: called before each stage, when what it starts from is there; None for nothing to do.
    """

    def __init__(
        self,
        folder: Path | None = None,
        log: Log | None = None,
        *,
        interval: float = 120.0,
        dry: bool = False,
        cache: Path | None = None,
        threads: int | None = None,
    ) -> None:
        self.folder, self.dry, self.ranks = folder, dry, ranks()
        self.cache = cache or (None if folder is None or dry else folder / "tokens")
        path = None if folder is None or dry else folder / LOG
        self.log = log or Log(path) if self.ranks.first else Log()
        self.progress = Progress(None if dry else folder, self.log, interval, writes=self.ranks.first)
        self.shards: Shards | None = None
        self.recipe, self.seed, self.evaluate_every, self.device = "", 0, 0, torch.device("cpu")
        self.plan: Plan | None = None
        self.interval, self.planned, self.since = interval, False, time.monotonic()
        self._made: dict[str, Any] = {}
        self._measured: dict[object, Any] = {}  # by plans
        self.before_stage: Callable[[], object] | None = None
        self._within = ""  # the names of the folders of runs that it is in, before its stages in a plan
        if threads is not None:
            torch.set_num_threads(threads)

    @classmethod
    def of(cls, out: object) -> Run:
        """A run of what is given as ``out``: a folder, None, or a run as it is."""
        return out if isinstance(out, cls) else cls(None if out is None else Path(str(out)))

    def begin(
        self,
        recipe: str,
        dataset: Dataset,
        arguments: Mapping[str, Any],
        *,
        seed: int,
        device: str,
        defaults: Mapping[str, Any] | None = None,
        inputs: Mapping[str, str] | None = None,
    ) -> None:
        """Make sure that the folder is free for a run of a recipe, or holds this one.

        Args:
            recipe: its name.
            dataset: that it is trained on.
            arguments: of the recipe, by name.
            seed: of all random numbers.
            device: cpu, cuda, or auto for a GPU where there is one.
            defaults: of the arguments, for runs that were begun before there were some of them.
            inputs: what the recipe reads beside the data set (`longtail.stages.inputs.inputs_of`).

        Raises:
            BadInput: the folder holds a run of another recipe, of other arguments, data or inputs.
        """
        self.recipe, self.seed, self.device = recipe, seed, choose_device(device)
        if self.progress.folder is None:
            return
        settings = {
            "recipe": recipe,
            "arguments": dict(arguments),
            "data": None if dataset.folder is None else str(Path(dataset.folder).resolve()),
            "hashes": dataset.fingerprint(),
            **({INPUTS: dict(inputs)} if inputs else {}),
            "versions": versions(),
        }
        self.progress.describe(settings, defaults or {})

    @contextmanager
    def planning(self) -> Iterator[Plan]:
        """A plan, and a run that only says what it would do inside this context; what one measures serves the next."""
        self.plan = Plan(self.folder, self._measured)
        try:
            yield self.plan
        finally:
            self.plan = None

    def within(self, name: str) -> Run:
        """A run in a folder of this run's; its plan is a part of this one's, and its shards are the same."""
        folder = None if self.folder is None else self.folder / name
        log = self.log.within(None if folder is None or self.dry else folder / LOG, name)
        run = Run(folder, log, interval=self.interval, dry=self.dry, cache=self.cache)
        run.plan, run.planned, run.shards, run._within = self.plan, True, self.shards, f"{self._within}{name} "
        return run

    def once(self, name: str, make: Callable[[], Result]) -> Result:
        """What is made from the data alone: for the plan, and kept for the run itself."""
        if name not in self._made:
            self._made[name] = make()
        made: Result = self._made[name] if self.plan is not None else self._made.pop(name)
        return made

    def train(
        self,
        stage: str,
        objective: Objective,
        batches: Loader,
        optimizer: torch.optim.Optimizer,
        modules: Mapping[str, nn.Module],
        *,
        pace: Pace,
        before_epoch: Callable[[int], None] | None = None,
        renewal: Renewal | None = None,
        score: Score | None = None,
        others: Mapping[str, Stateful] | None = None,
        reckoning: Reckoning | None = None,
    ) -> None:
        """Train one stage: see `longtail.train.fit.fit`.

        Args:
            stage: its name, unique in the run.
            objective: gives the loss terms of a batch by name.
            batches: makes the batches.
            optimizer: of the modules' parameters.
            modules: what is trained, by name.
            pace: how long it takes, and how its learning rates rise and fall.
            before_epoch: what is done between epochs, called with the number of the epoch that is about to begin.
            renewal: what is renewed between steps.
            score: what a stage that may end by itself is to raise, on held-out documents; the same in all processes.
            others: what else is part of a checkpoint, by name.
            reckoning: see `longtail.train.plan.Plan.stage`.

        Raises:
            BadInput: the stage is to end by itself, and has no score.
        """
        rise = batches.steps() if pace.warmup is None else pace.warmup
        course = course_of(stage, pace.epochs, pace.schedule, rise, score, self.evaluate_every)
        if self.before_stage is not None:
            self.before_stage()
        if self.plan is None:
            with self.log.parts(stage):
                fit(
                    objective,
                    batches,
                    optimizer,
                    progress=self.progress,
                    stage=stage,
                    modules=modules,
                    course=course,
                    seed=self.seed,
                    before_epoch=before_epoch,
                    renewal=renewal,
                    others=others,
                    shards=self.shards,
                )
            note_ranks(self.log, self.ranks)
            return
        name = self._within + stage
        self.plan.stage(name, objective, batches, optimizer, modules, epochs=pace.epochs, reckoning=reckoning)
        for epoch in range(pace.epochs):
            if before_epoch is not None:
                before_epoch(epoch)
            if renewal is not None:
                for moment in renewal.when.of(epoch, batches.steps()):
                    renewal.work(moment)
            course.ended(epoch + 1)

    def embed(self, encoder: Encoder, table: Ragged, *, what: str = "encoding texts") -> FloatArray:
        """The (n, D) float32 vectors of a token table under an encoder.

        Args:
            encoder: on the run's device.
            table: n rows of its tokens.
            what: it is, in the plan; an encoder that is used and let go has one of its own.
        """
        if self.plan is None:
            with self.log.parts(what):
                vectors = encoded(self.shards, encoder, table, self.device)
            must_be_finite("encoding texts", {"a vector": torch.from_numpy(vectors)})
            return vectors
        self.plan.add(what, len(table) * self._seconds_a_text(encoder, table, what))
        return np.zeros((len(table), encoder.width), np.float32)

    def _seconds_a_text(self, encoder: Encoder, table: Ragged, what: str = "encoding texts") -> float:
        assert self.plan is not None
        return seconds_a_text(self.plan, encoder, table, (self._within, what), self.device)

    def search(self, what: str, labels: FloatArray, queries: FloatArray, k: int, *, exclude: CSR | None = None) -> TopK:
        """The k labels with the largest inner product with each query, nearly; most, where exact search takes long.

        How many of them were found, of a sample, is said in the log then (`longtail.search.cells`).

        Args:
            what: what they are for, in the plan.
            labels: (L, D).
            queries: (Q, D).
            k: labels of a query.
            exclude: (Q, L) pairs that are not found.
        """
        if self.plan is None:
            seed = [self.seed, 0, 0, 0, 7]
            with self.log.parts(what):
                top, looked = nearest(self.shards, labels, queries, k, device=self.device, seed=seed, exclude=exclude)
            if looked is not None:
                self.log.note(search=what, **looked._asdict())
                self.log.say(f"{what}: {looked.recall:.0%} of the nearest, with {looked.share:.1%} of the products")
            return top
        share = products(len(queries), len(labels), self.device) / max(1, len(queries) * len(labels))
        seconds = share * self._seconds_of_search(len(queries), *labels.shape, nearly=True)
        self.plan.add(what, seconds, held=labels.nbytes + queries.nbytes)
        shape = (len(queries), k)
        return TopK(np.broadcast_to(np.int64(-1), shape), np.broadcast_to(np.float32(-np.inf), shape))

    def counted(self, what: str, queries: int, labels: int, width: int, *, held: int = 0) -> None:
        """Count a search of (Q, D) queries among (L, D) labels in the plan, for who does it elsewhere.

        Args:
            what: its name.
            queries: Q.
            labels: L.
            width: D.
            held: bytes that it holds.
        """
        assert self.plan is not None
        self.plan.add(what, self._seconds_of_search(queries, labels, width), held=held)

    def _seconds_of_search(self, queries: int, labels: int, width: int, *, nearly: bool = False) -> float:
        assert self.plan is not None
        return self.plan.seconds_of_search(queries, labels, width, self.device, nearly=nearly)

    def clusters(self, what: str, vectors: FloatArray, size: int, generator: np.random.Generator) -> IntArray:
        """Balanced clusters (`longtail.batches.clusters.balanced_clusters`), (N,) int64.

        Args:
            what: what is clustered, in the plan.
            vectors: (N, D) unit rows.
            size: the most vectors of a cluster.
            generator: draws the first centres.
        """
        if self.plan is None:
            cluster = partial(balanced_clusters, vectors, size, generator=generator, device=self.device)
            with self.log.parts(what):
                return by_first(self.ranks, cluster)
        self.plan.add(what, seconds_of_clusters(self.plan, len(vectors), int(vectors.shape[1]), size, self.device))
        return np.arange(len(vectors)) // size

    def reckoning(self, encoder: Encoder, labels: int, encoded: Ragged | None = None) -> Reckoning:
        """The cost of a step against all labels, from the products that it cannot do without.

        Args:
            encoder: of the documents.
            labels: L.
            encoded: the tokens of labels that are encoded in each step: once for the loss, once more for the gradients,
                which take twice as long as the vectors; held are these, their gradients, and a copy of either.
        """

        def seconds(batch: int) -> float:
            products = 3 * self._seconds_of_search(batch, labels, encoder.width)
            return products + (0.0 if encoded is None else 4 * len(encoded) * self._seconds_a_text(encoder, encoded))

        return Reckoning(seconds, 0 if encoded is None else 3 * 4 * labels * encoder.width)
