"""Requests of many clients are answered together: whatever waits while the model is busy is the next batch."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Generic, TypeVar

Asked = TypeVar("Asked")
Answer = TypeVar("Answer")


class Full(Exception):
    """The queue holds as many texts as it may."""


class Late(Exception):
    """A request waited longer than it may."""


@dataclass(frozen=True, slots=True)
class _Waiting(Generic[Asked, Answer]):
    request: Asked
    size: int
    until: float
    answer: asyncio.Future[Answer]


class Batcher(Generic[Asked, Answer]):
    """A bounded queue in front of one thread that answers batches.

    There is no waiting for a batch to fill: alone, a request is answered at once, and under load batches grow.

    Args:
        work: answers a batch; an exception in place of an answer is raised for that request alone.
        batch: texts of a batch; a larger request is a batch of its own.
        queue: texts that may wait.
        deadline: seconds that a request may wait.
        seen: is told the texts of each batch.
    """

    def __init__(
        self,
        work: Callable[[Sequence[Asked]], Sequence[Answer | Exception]],
        *,
        batch: int = 64,
        queue: int = 1024,
        deadline: float = 2.0,
        seen: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._work, self._batch, self._queue, self._deadline, self._seen = work, batch, queue, deadline, seen
        self._waiting: deque[_Waiting[Asked, Answer]] = deque()
        self._thread = ThreadPoolExecutor(1, "model")
        self._busy: asyncio.Task[None] | None = None
        self.size = 0  # texts that wait

    async def __call__(self, request: Asked, size: int) -> Answer:
        """The answer to a request of ``size`` texts.

        Raises:
            Full: the queue holds texts, and too many to take these.
            Late: the request waited too long.
        """
        if self.size and self.size + size > self._queue:
            raise Full
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(request, size, time.monotonic() + self._deadline, answer))
        self.size += size
        if self._busy is None:
            self._busy = asyncio.create_task(self._run())
        return await answer

    async def _run(self) -> None:
        """Answer batches until nothing waits."""
        loop = asyncio.get_running_loop()
        try:
            while taken := self._take():
                try:
                    answers = await loop.run_in_executor(self._thread, self._answers, taken)
                except Exception as error:  # noqa: BLE001  (each of its requests is told)
                    answers = [error] * len(taken)
                for one, answer in zip(taken, answers, strict=True):
                    _settle(one.answer, answer)
        finally:
            self._busy = None

    def _answers(self, taken: Sequence[_Waiting[Asked, Answer]]) -> Sequence[Answer | Exception]:
        """The answers to a batch."""
        try:
            self._seen(sum(one.size for one in taken))
            return self._work([one.request for one in taken])
        except Exception:
            raise
        except BaseException as error:  # a panic of a library in Rust is no Exception
            raise RuntimeError(repr(error)) from error

    def _take(self) -> list[_Waiting[Asked, Answer]]:
        """The next batch; those that are late, or whose client has gone, are let go."""
        taken: list[_Waiting[Asked, Answer]] = []
        texts, now = 0, time.monotonic()
        while self._waiting and (not taken or texts + self._waiting[0].size <= self._batch):
            one = self._waiting.popleft()
            self.size -= one.size
            if one.until < now:
                _settle(one.answer, Late())
            elif not one.answer.done():
                taken.append(one)
                texts += one.size
        return taken

    def close(self) -> None:
        """Stop the thread once it has answered what it has."""
        self._thread.shutdown()


def _settle(future: asyncio.Future[Answer], answer: Answer | Exception) -> None:
    if future.done():
        return
    if isinstance(answer, Exception):
        future.set_exception(answer)
    else:
        future.set_result(answer)
