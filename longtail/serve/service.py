"""A model that answers many clients at once, while its labels change and a newer model takes its place."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, TypeVar

from longtail.data.texts import Texts
from longtail.errors import LongtailError
from longtail.model.explanation import Explained, explain
from longtail.model.label_set import Live, NewLabel, fingerprint
from longtail.model.segments import Label, View
from longtail.search.faiss import EXACT_BELOW
from longtail.serve.batcher import Batcher, Full
from longtail.serve.telemetry import Metrics

_log = logging.getLogger("longtail.serve")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Settings:
    """How a server runs.

    Attributes:
        run: the run folder, or a link to one.
        device: a torch device, or ``auto``.
        threads: of the model, in each process.
        approximate: use the approximate indexes that are kept with the model.
        batch: texts of a batch.
        queue: texts that may wait; a request that finds it full is answered with 429.
        deadline: seconds that a request may wait.
        body: bytes that the body of a request may have.
        changes: changes of labels that may wait.
        watch: seconds between two looks for a newer model.
    """

    run: Path
    device: str = "auto"
    threads: int = 1
    approximate: bool = True
    batch: int = 64
    queue: int = 1024
    deadline: float = 2.0
    body: int = 4 * 2**20
    changes: int = 64
    watch: float = 1.0


class Predict(NamedTuple):
    """A request for ranked labels.

    Attributes:
        texts: by field.
        k: labels a text.
        kind: the score kind; the best one if None.
        allowed: uids of the only labels to rank, or None for all.
        excluded: uids of labels that are not ranked.
        explained: whether to say why.
    """

    texts: Sequence[dict[str, str]]
    k: int
    kind: str | None = None
    allowed: Sequence[str] | None = None
    excluded: Sequence[str] = ()
    explained: bool = False


class Ranked(NamedTuple):
    """The answer: labels of each text, best first, and why each of them, if that was asked."""

    kind: str
    labels: list[list[Label]]
    explained: list[list[Explained]] | None = None


Job: TypeAlias = Predict | Callable[[View], Any]


class Service:
    """A run that is served. One thread searches, in batches; another changes labels.

    Args:
        settings: how.
        metrics: are told.
    """

    def __init__(self, settings: Settings, metrics: Metrics) -> None:
        self.settings, self._metrics = settings, metrics
        self._batcher: Batcher[Job, Any] = Batcher(
            self._work,
            batch=settings.batch,
            queue=settings.queue,
            deadline=settings.deadline,
            seen=metrics.batch.observe,
        )
        self._changer, self._changing = ThreadPoolExecutor(1, "changes"), 0
        self._watcher: asyncio.Task[None] | None = None
        self._live: Live | None = None
        self._opened: tuple[object, ...] = ()

    @property
    def ready(self) -> bool:
        """Whether there is a model that answers."""
        return self._live is not None and self._watcher is not None and not self._watcher.done()

    @property
    def live(self) -> Live:
        """The run that answers."""
        assert self._live is not None, "the service has not started"
        return self._live

    async def start(self) -> None:
        """Open the run, and watch for a newer one from then on."""
        live, self._opened = await asyncio.to_thread(self._open)
        self._live, part = live, live.view.parts[0]
        self._watcher = asyncio.create_task(self._watch())
        if len(part) >= EXACT_BELOW and not part.indexes and self.settings.approximate:
            _log.warning("exact search over very many labels; longtail index makes it faster")

    async def stop(self) -> None:
        """Finish what was accepted, and let go of the run."""
        if self._watcher is not None:
            self._watcher.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._watcher
        await asyncio.to_thread(self._changer.shutdown)
        await asyncio.to_thread(self._batcher.close)
        if self._live is not None:
            self._live.close()

    async def predict(self, request: Predict) -> Ranked:
        """Rank labels, together with what else waits."""
        answer: Ranked = await self._batcher(request, len(request.texts))
        return answer

    async def read(self, look: Callable[[View], T]) -> T:
        """Look at the labels as they are now, in the model's thread."""
        answer: T = await self._batcher(look, 1)
        return answer

    async def add(self, labels: Sequence[NewLabel]) -> None:
        """Add or replace labels; they are on the disk when this returns, and the next request finds them."""
        await self._change(lambda: self.live.add(labels))
        self._metrics.changes.labels("add").inc(len(labels))

    async def remove(self, uid: str) -> bool:
        """Remove a label, and say whether it was there."""
        if await self.read(lambda view: view.find(uid)) is None:
            return False
        await self._change(lambda: self.live.remove([uid]))
        self._metrics.changes.labels("remove").inc()
        return True

    async def _change(self, action: Callable[[], None]) -> None:
        if self._changing >= self.settings.changes:
            raise Full
        self._changing += 1
        try:
            await asyncio.get_running_loop().run_in_executor(self._changer, action)
        finally:
            self._changing -= 1

    def _work(self, jobs: Sequence[Job]) -> list[Any]:
        """Answer a batch: what can be searched together is."""
        view = self.live.refresh()
        answers: list[Any] = [None] * len(jobs)
        together: dict[str, list[int]] = defaultdict(list)
        for i, job in enumerate(jobs):
            if isinstance(job, Predict) and job.allowed is None and not job.excluded:
                together[job.kind or view.model.kinds[-1]].append(i)
            else:
                answers[i] = _caught(lambda job=job: _alone(view, job))  # type: ignore[misc]
        for kind, places in together.items():
            group = [job for job in (jobs[i] for i in places) if isinstance(job, Predict)]
            found = _caught(lambda kind=kind, group=group: _together(view, kind, group))  # type: ignore[misc]
            for n, i in enumerate(places):
                answers[i] = found if isinstance(found, Exception) else found[n]
        return answers

    def _open(self) -> tuple[Live, tuple[object, ...]]:
        opened = fingerprint(self.settings.run)
        live = Live(self.settings.run, device=self.settings.device, approximate=self.settings.approximate)
        live.view.rank(live.view.model.encode(Texts.of(["warm up"])), 1, live.view.model.kinds[-1])
        return live, opened

    async def _watch(self) -> None:
        """Open a newer model as soon as there is one, and let it take over between two batches."""
        refused: tuple[object, ...] = ()
        while True:
            await asyncio.sleep(self.settings.watch)
            self._tell()
            try:
                seen = fingerprint(self.settings.run)
                if (seen == self._opened and not self.live.compacted) or seen == refused:
                    continue
                live, self._opened = await asyncio.to_thread(self._open)
            except FileNotFoundError:
                continue  # the run is being replaced
            except (LongtailError, OSError) as error:
                refused = seen
                self._metrics.reloads.labels("refused").inc()
                _log.error("the newer model is refused", extra={"with": {"problem": str(error)}})
                continue
            await self._replace(live)

    async def _replace(self, live: Live) -> None:
        """Let another run take over; no thread uses the old one when it is closed."""
        old = self.live

        def take_over(_: View) -> None:
            self._live = live

        await self._batcher(take_over, 0)
        await asyncio.get_running_loop().run_in_executor(self._changer, lambda: None)
        old.close()
        self._metrics.reloads.labels("done").inc()
        _log.info("a newer model answers", extra={"with": {"run": str(live.run), "model": live.state.folder}})

    def _tell(self) -> None:
        self._metrics.queue.set(self._batcher.size)
        for state, count in self.live.view.counts.items():
            self._metrics.labels.labels(state).set(count)


def _together(view: View, kind: str, requests: Sequence[Predict]) -> list[Ranked]:
    """Answers to requests of one score kind, by one search."""
    texts = [text for request in requests for text in request.texts]
    vectors = view.model.encode(Texts.by_field(texts, view.model.fields))
    rows = iter(view.rank(vectors, max(request.k for request in requests), kind))
    answers = []
    for request in requests:
        labels = [next(rows)[: request.k] for _ in request.texts]
        answers.append(Ranked(kind, labels, _explained(view, kind, request, labels)))
    return answers


def _alone(view: View, job: Job) -> Any:
    """The answer to a job that is not searched with others."""
    if not isinstance(job, Predict):
        return job(view)
    if job.allowed is not None:
        view = View((view.parts[0].of(view.among(job.allowed)),), view.number)
    kind = job.kind or view.model.kinds[-1]
    vectors = view.model.encode(Texts.by_field(job.texts, view.model.fields))
    labels = view.rank(vectors, job.k, kind, job.excluded)
    return Ranked(kind, labels, _explained(view, kind, job, labels))


def _explained(view: View, kind: str, request: Predict, labels: list[list[Label]]) -> list[list[Explained]] | None:
    if not request.explained:
        return None
    return [explain(view, text, row, kind) for text, row in zip(request.texts, labels, strict=True)]


def _caught(action: Callable[[], Any]) -> Any:
    """What an action returns, or the exception that it raises."""
    try:
        return action()
    except Exception as error:  # noqa: BLE001  (it is raised again where the request waits)
        return error
