"""Requests wait in a bounded queue, and what waits together is answered together."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from longtail.serve.batcher import Batcher, Full, Late


def run(scenario):
    return asyncio.run(asyncio.wait_for(scenario, 20))


class Slow:
    """Answers twice the request; the first batch waits until it is let go."""

    def __init__(self):
        self.batches, self.go = [], threading.Event()

    def __call__(self, requests):
        self.batches.append(list(requests))
        if len(self.batches) == 1:
            assert self.go.wait(10)
        return [2 * request for request in requests]


def test_what_waits_while_the_model_is_busy_is_one_batch():
    async def scenario():
        work, seen = Slow(), []
        batcher = Batcher(work, batch=4, seen=seen.append)
        tasks = [asyncio.create_task(batcher(i, 1)) for i in range(7)]
        await asyncio.sleep(0.05)
        work.go.set()
        assert await asyncio.gather(*tasks) == [2 * i for i in range(7)]
        assert work.batches in ([[0], [1, 2, 3, 4], [5, 6]], [[0, 1, 2, 3], [4, 5, 6]])
        assert sum(seen) == 7
        assert batcher.size == 0
        assert await batcher(21, 1) == 42
        batcher.close()

    run(scenario())


def test_a_full_queue_refuses_and_a_large_request_goes_alone():
    async def scenario():
        work = Slow()
        batcher = Batcher(work, batch=4, queue=10)
        first = asyncio.create_task(batcher(1, 100))  # larger than the queue, which is empty
        await asyncio.sleep(0.02)
        waiting = [asyncio.create_task(batcher(i, 3)) for i in (2, 3, 4)]
        await asyncio.sleep(0.02)
        assert batcher.size == 9
        with pytest.raises(Full):
            await batcher(5, 2)
        work.go.set()
        assert await asyncio.gather(first, *waiting) == [2, 4, 6, 8]
        assert work.batches == [[1], [2], [3], [4]]
        batcher.close()

    run(scenario())


def test_who_waits_too_long_is_told_and_never_answered():
    async def scenario():
        work = Slow()
        batcher = Batcher(work, deadline=0.1)
        first = asyncio.create_task(batcher(1, 1))
        await asyncio.sleep(0.02)
        second = asyncio.create_task(batcher(2, 1))
        await asyncio.sleep(0.2)
        work.go.set()
        assert await first == 2
        with pytest.raises(Late):
            await second
        assert work.batches == [[1]]
        batcher.close()

    run(scenario())


def test_one_bad_request_does_not_spoil_the_batch():
    def work(requests):
        return [ValueError("bad") if request < 0 else request for request in requests]

    async def scenario():
        batcher = Batcher(work)
        answers = await asyncio.gather(batcher(1, 1), batcher(-1, 1), batcher(2, 1), return_exceptions=True)
        assert [answers[0], answers[2]] == [1, 2]
        assert isinstance(answers[1], ValueError)
        batcher.close()

    run(scenario())


def test_work_that_breaks_is_told_to_all_and_the_next_is_answered():
    calls = []

    def work(requests):
        calls.append(requests)
        if len(calls) == 1:
            raise RuntimeError("broken")
        return requests

    async def scenario():
        batcher = Batcher(work)
        with pytest.raises(RuntimeError, match="broken"):
            await batcher(1, 1)
        assert await batcher(2, 1) == 2
        batcher.close()

    run(scenario())


def test_a_request_that_was_given_up_is_not_answered():
    async def scenario():
        work = Slow()
        batcher = Batcher(work)
        first = asyncio.create_task(batcher(1, 1))
        await asyncio.sleep(0.02)
        second = asyncio.create_task(batcher(2, 1))
        await asyncio.sleep(0.02)
        second.cancel()
        third = asyncio.create_task(batcher(3, 1))
        await asyncio.sleep(0.02)
        work.go.set()
        assert await asyncio.gather(first, third) == [2, 6]
        assert work.batches == [[1], [3]]
        batcher.close()

    run(scenario())


def test_alone_a_request_does_not_wait():
    async def scenario():
        batcher = Batcher(lambda requests: requests)
        await batcher(0, 1)
        start = time.monotonic()
        for i in range(20):
            await batcher(i, 1)
        assert time.monotonic() - start < 2
        batcher.close()

    run(scenario())


class Panic(BaseException):
    """As the libraries in Rust raise it: no Exception."""


@pytest.mark.parametrize("failing", ["work", "seen"])
@pytest.mark.parametrize("error", [Panic, SystemExit, MemoryError])
def test_whatever_fails_is_told_and_the_next_batch_is_answered(failing, error):
    fails = iter([True])

    def fail(given):
        if next(fails, False):
            raise error("once")
        return given

    work, seen = (fail, lambda _: None) if failing == "work" else (lambda requests: requests, fail)

    async def scenario():
        batcher = Batcher(work, seen=seen)
        with pytest.raises(Exception, match="once"):
            await batcher(1, 1)
        assert await batcher(2, 1) == 2
        batcher.close()

    run(scenario())


def test_a_request_that_reaches_no_thread_is_told():
    async def scenario():
        batcher = Batcher(lambda requests: requests)
        batcher.close()
        with pytest.raises(RuntimeError, match="after shutdown"):
            await batcher(1, 1)
        assert batcher.size == 0

    run(scenario())
