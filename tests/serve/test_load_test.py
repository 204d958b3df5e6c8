"""The load generator: it keeps connections, lets go of those that the server has closed, and reports all requests."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from longtail.errors import BadInput
from longtail.serve.load_test import Client, LoadTest, Result, figures, report, run

ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"


async def _serve(answers: int) -> tuple[asyncio.Server, list[int]]:
    """A server that closes each connection, without a word, after some answers; and the requests of each connection."""
    served: list[int] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served.append(0)
        place = len(served) - 1
        with contextlib.suppress(asyncio.IncompleteReadError):  # the client has gone
            while served[place] < answers:
                head = (await reader.readuntil(b"\r\n\r\n")).lower().split(b"\r\n")
                await reader.readexactly(next(int(line[15:]) for line in head if line.startswith(b"content-length:")))
                writer.write(ANSWER)
                served[place] += 1
        writer.close()

    return await asyncio.start_server(answer, "127.0.0.1", 0), served


async def _ended(server: asyncio.Server) -> None:
    server.close()
    while others := asyncio.all_tasks() - {asyncio.current_task()}:  # the ends of its connections
        await asyncio.wait(others)


def test_a_connection_that_the_server_has_closed_is_not_used_again() -> None:
    async def scenario() -> list[int]:
        server, served = await _serve(answers=2)
        client = Client(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        for _ in range(4):
            assert await client("GET", "/") == (200, b"{}")
            await asyncio.sleep(0.02)  # the end of the connection arrives
        client.close()
        await _ended(server)
        return served

    assert asyncio.run(scenario()) == [2, 2]


def test_all_requests_of_a_load_are_sent_in_time_and_reported() -> None:
    async def scenario() -> list[Result]:
        server, _ = await _serve(answers=1000)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        results = await run(LoadTest(url, rate=200, seconds=0.25, texts=["a", "b"]))
        await _ended(server)
        return results

    results = asyncio.run(scenario())
    assert len(results) == 50
    assert not any(result.error for result in results)
    assert all(0 < result.seconds < 5 for result in results)
    assert report(figures(results, 0.25)).startswith("predict       50 requests    200.0/s  p50")


def test_a_load_is_only_for_this_machine() -> None:
    with pytest.raises(BadInput, match="expected http:// and a loopback address, found"):
        Client("http://192.0.2.1")


def test_the_figures_of_a_load_by_hand() -> None:
    results = [Result("predict", 0.001 * i, "") for i in (1, 2, 3)] + [Result("predict", 1.0, "HTTP 503")] * 2
    found = figures([*results, Result("add", 1.0, "HTTP 401")], 2.0)
    assert found["predict"]["requests"] == 5
    assert found["predict"]["per_second"] == 1.5
    assert found["predict"]["milliseconds"] == pytest.approx({"p50": 2, "p95": 2.9, "p99": 2.98, "longest": 3})
    assert found["add"]["milliseconds"] == dict.fromkeys(("p50", "p95", "p99", "longest"))
    first, *others = report(found).splitlines()[1:]
    assert first.startswith("add            1 requests      0.0/s  p50     nan ms  p95     nan ms")
    assert first.endswith("longest     nan ms  errors 1")
    assert others == ["  2 x predict: HTTP 503", "  1 x add: HTTP 401"]
