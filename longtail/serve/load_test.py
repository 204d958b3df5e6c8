"""A load generator: requests leave at a steady rate whether or not earlier ones were answered (an open loop).

A closed loop would send less whenever the server is slow, and so hide it. Times count from when a request was due.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import os
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import quote, urlsplit

import numpy as np

from longtail.errors import BadInput, LongtailError

TOKEN = "LONGTAIL_TOKEN"  # noqa: S105  (the name of an environment variable)
_TIMEOUT = 30.0  # seconds for one request
_COARSE = 0.0015  # seconds that a sleep of an event loop may be too long
_Connection: TypeAlias = "tuple[asyncio.StreamReader, asyncio.StreamWriter]"


@dataclass(frozen=True, slots=True)
class LoadTest:
    """What to send.

    Attributes:
        url: of a server on a loopback address.
        rate: predictions a second.
        seconds: how long.
        changes: labels added a second, and as many removed.
        texts: to rank labels for, in turn; if empty, texts of the server's labels.
        k: labels a text.
        batch: texts a request.
    """

    url: str
    rate: float
    seconds: float
    changes: float = 0.0
    texts: Sequence[str] = ()
    k: int = 5
    batch: int = 1


class Result(NamedTuple):
    """One request.

    Attributes:
        what: predict, add or remove.
        seconds: from when it was due to its answer.
        error: what went wrong, or an empty string.
    """

    what: str
    seconds: float
    error: str


class Client:
    """HTTP/1.1 to one loopback address, over connections that are kept.

    Args:
        url: of the server.

    Raises:
        BadInput: the address is not of this machine.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._host, self._port = parts.hostname or "", parts.port or 80
        if not _is_loopback(self._host) or parts.scheme != "http":
            problem = f"expected http:// and a loopback address, found {url}"
            raise BadInput("url", problem, remedy="a load is only for a server of your own, on this machine")
        self._free: list[_Connection] = []
        token = os.environ.get(TOKEN, "")
        self._common = f"Host: {self._host}\r\n" + (f"Authorization: Bearer {token}\r\n" if token else "")

    async def __call__(self, method: str, path: str, content: Any = None) -> tuple[int, bytes]:
        """The status and body of an answer."""
        return await asyncio.wait_for(self._ask(method, path, content), _TIMEOUT)

    async def _ask(self, method: str, path: str, content: Any) -> tuple[int, bytes]:
        reader, writer = self._kept() or await asyncio.open_connection(self._host, self._port)
        try:
            body = b"" if content is None else json.dumps(content).encode()
            head = f"{method} {path} HTTP/1.1\r\n{self._common}Content-Type: application/json\r\n"
            writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower().split("\r\n")
            status = int(lines[0].split()[1])
            length = next((int(line[15:]) for line in lines if line.startswith("content-length:")), 0)
            answer = await reader.readexactly(length)
        except BaseException:
            writer.close()
            raise
        if "connection: close" in lines:
            writer.close()
        else:
            self._free.append((reader, writer))
        return status, answer

    def _kept(self) -> _Connection | None:
        """A connection that is free; those that the server has closed meanwhile are let go."""
        while self._free:
            reader, writer = self._free.pop()
            if not reader.at_eof():
                return reader, writer
            writer.close()
        return None

    def close(self) -> None:
        """Close the connections."""
        for _, writer in self._free:
            writer.close()


async def run(test: LoadTest) -> list[Result]:
    """Send what a test asks for, and wait for the last answer."""
    client = Client(test.url)
    texts = test.texts or await _label_texts(client)
    results: list[Result] = []

    async def predict(i: int) -> tuple[int, bytes]:
        asked = [texts[(i * test.batch + j) % len(texts)] for j in range(test.batch)]
        return await client("POST", "/v1/predict", {"texts": asked, "k": test.k})

    async def add(i: int) -> tuple[int, bytes]:
        example = texts[i % len(texts)]
        return await client("POST", "/v1/labels", {"uid": f"load-{i}", "text": f"{example} {i}", "examples": [example]})

    async def remove(i: int) -> tuple[int, bytes]:
        return await client("DELETE", f"/v1/labels/{quote(f'load-{i}')}")

    later = 1.0 if test.changes else 0.0  # seconds between a label's coming and its going
    streams = [_steadily("predict", predict, test.rate, test.seconds, 0.0, results)]
    if test.changes:
        streams.append(_steadily("add", add, test.changes, test.seconds, 0.0, results))
        streams.append(_steadily("remove", remove, test.changes, test.seconds, later, results))
    await asyncio.gather(*streams)
    client.close()
    return results


async def _steadily(
    what: str,
    action: Callable[[int], Awaitable[tuple[int, bytes]]],
    rate: float,
    seconds: float,
    later: float,
    results: list[Result],
) -> None:
    """Start an action ``rate`` times a second, each at its time, and note what becomes of it."""

    async def one(i: int, due: float) -> None:
        error = ""
        try:
            status, body = await action(i)
            if status >= 400:
                error = f"{status} {body[:80].decode(errors='replace')}"
        except (OSError, asyncio.TimeoutError, asyncio.IncompleteReadError) as problem:
            error = type(problem).__name__
        results.append(Result(what, time.perf_counter() - due, error))

    start = time.perf_counter() + later
    running = set()
    for i in range(round(rate * seconds)):
        due = start + i / rate
        await _until(due)
        running.add(task := asyncio.create_task(one(i, due)))
        task.add_done_callback(running.discard)
    await asyncio.gather(*running)


async def _until(due: float) -> None:
    """Return at a time: an event loop sleeps in whole milliseconds, and what it is late by is not the server's."""
    await asyncio.sleep(max(0.0, due - time.perf_counter() - _COARSE))
    while time.perf_counter() < due:
        await asyncio.sleep(0)


async def _label_texts(client: Client) -> list[str]:
    try:
        status, body = await client("GET", "/v1/labels?limit=1000")
    except OSError as error:
        raise LongtailError(f"no server answers there ({error}); start one with longtail serve") from error
    if status != 200:
        raise LongtailError(f"the server answered {status} when it was asked for labels; give --texts")
    texts = [label["text"] for label in json.loads(body)["labels"]]
    return [text for text in texts if text.strip()] or ["text"]


def figures(results: Sequence[Result], seconds: float) -> dict[str, Any]:
    """By kind of request: how many, those that were answered a second, their times in milliseconds, and errors."""
    found = {}
    for what in dict.fromkeys(result.what for result in results):
        some = [result for result in results if result.what == what]
        times = [1000 * result.seconds for result in some if not result.error]
        p50, p95, p99 = np.percentile(times, [50, 95, 99]).tolist() if times else (None, None, None)
        found[what] = {
            "requests": len(some),
            "per_second": len(times) / seconds,
            "milliseconds": {"p50": p50, "p95": p95, "p99": p99, "longest": max(times, default=None)},
            "errors": dict(Counter(result.error for result in some if result.error)),
        }
    return found


def report(found: Mapping[str, Any]) -> str:
    """The figures as a line for each kind of request, and one for each error."""
    lines = []
    for what, of in found.items():
        times = {name: "    nan" if taken is None else f"{taken:7.2f}" for name, taken in of["milliseconds"].items()}
        lines.append(
            f"{what:8s} {of['requests']:7,} requests  {of['per_second']:7.1f}/s  "
            + "  ".join(f"{name} {taken} ms" for name, taken in times.items())
            + f"  errors {sum(of['errors'].values())}"
        )
    errors = Counter({f"{what}: {error}": count for what, of in found.items() for error, count in of["errors"].items()})
    return "\n".join([*lines, *(f"  {count} x {error}" for error, count in errors.most_common(10))])


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
