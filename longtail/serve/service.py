"""A model that answers many clients at once, while its labels change and a newer model takes its place."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from longtail.data.texts import Texts
from longtail.model.catalogue import Correction
from longtail.model.label_set import LabelSet, NewLabel, fingerprint
from longtail.model.snapshot import Snapshot
from longtail.search.faiss import EXACT_BELOW
from longtail.serve.answers import Job, Predict, Ranked, answers
from longtail.serve.batcher import Batcher, Full
from longtail.serve.telemetry import Metrics

_log = logging.getLogger("longtail.serve")
T = TypeVar("T")
_PATIENCE = 60.0  # seconds until a newer model that was refused is looked at again, at most


@dataclass(frozen=True, slots=True)
class Settings:
    """How a server runs.

    Attributes:
        run: the run folder, or a link to one.
        device: a torch device, or ``auto``.
        threads: of the model, in each process.
        exact: leave aside the approximate indexes that are kept with the model.
        batch: texts of a batch.
        queue: texts that may wait; a request that finds it full is answered with 429.
        deadline: seconds that a request may wait.
        body: bytes that the body of a request may have.
        changes: changes of labels that may wait.
        watch: seconds between two looks for a newer model.
        connections: that a process may have.
        client_connections: how many of them may be of one address.
        head_timeout: seconds in which the head of a request must arrive.
    """

    run: Path
    device: str = "auto"
    threads: int = 1
    exact: bool = False
    batch: int = 64
    queue: int = 1024
    deadline: float = 2.0
    body: int = 4 * 2**20
    changes: int = 64
    watch: float = 1.0
    connections: int = 2_000
    client_connections: int = 1_000
    head_timeout: float = 10.0


class _Refused(NamedTuple):
    """A newer model that was not taken.

    Attributes:
        seen: its fingerprint.
        problem: why.
        wait: seconds before it is looked at again.
        until: when that is, on the monotonic clock.
    """

    seen: tuple[object, ...] = ()
    problem: str = ""
    wait: float = 0.0
    until: float = 0.0


class Service:
    """A run that is served. One thread searches, in batches; another changes labels.

    Args:
        settings: how.
        metrics: are told.

    Raises:
        LongtailError: the run cannot be opened.

    Attributes:
        label_set: the run that answers.
    """

    def __init__(self, settings: Settings, metrics: Metrics) -> None:
        self.settings, self._metrics = settings, metrics
        self.label_set, self._opened = self._open()
        self._batcher: Batcher[Job, Any] = Batcher(
            self._work,
            batch=settings.batch,
            queue=settings.queue,
            deadline=settings.deadline,
            seen=metrics.batch.observe,
        )
        self._changer, self._changing = ThreadPoolExecutor(1, "changes"), 0
        self._watcher: asyncio.Task[None] | None = None

    @property
    def ready(self) -> bool:
        """Whether there is a model that answers."""
        return self._watcher is not None and not self._watcher.done()

    async def start(self) -> None:
        """Watch for a newer run from now on."""
        first = self.label_set.snapshot.segments[0]
        self._tell()
        self._watcher = asyncio.create_task(self._watch())
        await asyncio.gather(self.read(_warm_up), self._change(lambda: _warm_up(self.label_set.snapshot)))
        if len(first) >= EXACT_BELOW and not first.indexes and not self.settings.exact:
            _log.warning("exact search over very many labels; longtail index makes it faster")

    async def stop(self) -> None:
        """Finish what was accepted, and let go of the run."""
        if self._watcher is not None:
            self._watcher.cancel()
            await asyncio.wait([self._watcher])
        await asyncio.to_thread(self._changer.shutdown)
        await asyncio.to_thread(self._batcher.close)
        self.label_set.close()

    async def predict(self, request: Predict) -> Ranked:
        """Rank labels, together with what else waits."""
        answer: Ranked = await self._batcher(request, len(request.texts))
        return answer

    async def read(self, look: Callable[[Snapshot], T]) -> T:
        """Look at the labels as they are now, in the model's thread."""
        answer: T = await self._batcher(look, 1)
        return answer

    async def add(self, labels: Sequence[NewLabel]) -> None:
        """Add or replace labels; they are on the disk when this returns, and the next request finds them."""
        await self._change(lambda: self.label_set.add(labels))
        self._metrics.changes.labels("add").inc(len(labels))

    async def remove(self, uid: str) -> bool:
        """Remove a label, and say whether it was there."""
        if await self.read(lambda snapshot: snapshot.find(uid)) is None:
            return False
        removed = await self._change(lambda: self.label_set.remove([uid]))
        self._metrics.changes.labels("remove").inc(removed)
        return bool(removed)

    async def correct(self, correction: Correction) -> Correction | None:
        """Keep a correction, and give it as it is kept; None where there is no such label."""
        if await self.read(lambda snapshot: snapshot.find(correction.uid)) is None:
            return None
        (kept,) = await self._change(lambda: self.label_set.correct([correction]))
        self._metrics.changes.labels("correct").inc()
        return kept

    async def withdraw(self, number: int) -> bool:
        """Take a correction back, and say whether it was there."""
        if not await self.read(lambda snapshot: number in snapshot.corrections.kept):
            return False
        is_done = await self._change(lambda: self.label_set.withdraw(number))
        self._metrics.changes.labels("withdraw").inc(is_done)
        return is_done

    async def _change(self, action: Callable[[], T]) -> T:
        if self._changing >= self.settings.changes:
            raise Full
        self._changing += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._changer, action)
        finally:
            self._changing -= 1

    def _work(self, jobs: Sequence[Job]) -> list[Any]:
        return answers(self.label_set.refresh(), jobs)

    def _open(self) -> tuple[LabelSet, tuple[object, ...]]:
        opened = fingerprint(self.settings.run)
        labels = LabelSet(self.settings.run, device=self.settings.device, exact=self.settings.exact)
        _warm_up(labels.snapshot)
        return labels, opened

    async def _watch(self) -> None:
        """Open a newer model as soon as there is one, and let it take over between two batches.

        Whatever goes wrong is logged, and the old model answers on. What was refused is looked at again after a while,
        since somebody may still be copying it, or mend it in place.
        """
        refused = _Refused()
        while True:
            await asyncio.sleep(self.settings.watch)
            seen: tuple[object, ...] = ()
            try:
                self._tell()
                seen = fingerprint(self.settings.run)
                is_newer = seen != self._opened or self.label_set.compacted
                if is_newer and (seen != refused.seen or time.monotonic() >= refused.until):
                    await self._replace(*await asyncio.to_thread(self._open))
            except Exception as error:  # noqa: BLE001  (nothing ends the watch)
                refused = self._refused(refused, seen, f"{type(error).__name__}: {error}")

    def _refused(self, before: _Refused, seen: tuple[object, ...], problem: str) -> _Refused:
        """Tell of a problem, once; a problem that stays is looked into half as often each time, down to each minute."""
        wait = self.settings.watch
        if (seen, problem) == (before.seen, before.problem):
            wait = min(_PATIENCE, 2 * before.wait)
        else:
            self._metrics.reloads.labels("refused").inc()
            _log.error("the newer model is refused", extra={"with": {"problem": problem}})
        return _Refused(seen, problem, wait, time.monotonic() + wait)

    async def _replace(self, labels: LabelSet, opened: tuple[object, ...]) -> None:
        """Let another run take over; no thread uses the old one when it is closed."""
        old = self.label_set

        def take_over(_: Snapshot) -> None:
            self.label_set, self._opened = labels, opened

        try:
            await self._batcher(take_over, 0)
        except BaseException:
            if self.label_set is not labels:
                labels.close()
            raise
        await asyncio.get_running_loop().run_in_executor(self._changer, lambda: None)
        old.close()
        self._metrics.reloads.labels("done").inc()
        _log.info("a newer model answers", extra={"with": {"run": str(labels.run), "model": labels.state.folder}})

    def _tell(self) -> None:
        self._metrics.queue.set(self._batcher.size)
        for state, count in self.label_set.snapshot.counts.items():
            self._metrics.labels.labels(state).set(count)


def _warm_up(snapshot: Snapshot) -> None:
    """Have what a first request makes in a model, and in a thread, where libraries need memory of their own."""
    snapshot.rank(Texts.of(["warm up"]), 1)
    snapshot.find("warm up"), snapshot.containing("warm up", 1)
