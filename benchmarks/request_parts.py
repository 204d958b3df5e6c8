"""Where the time of one request goes: each part inside a server, and what the client and an empty request take.

    python benchmarks/request_parts.py RUN [--seconds 20] [--rate 100] [--changes 0 10 20] [--cores 0 1]

A server of a copy of the run notes when a prediction passes from one part to the next. The columns are medians in ms:
predictions sent one right after another, and at a steady rate with so many labels added and as many removed a second.
Predictions during which the server had another request are left out of the parts, not of the whole. The last lines are
an answer that costs nothing (a server of ten lines), which is the client's own time and that of the sockets; the empty
request; and the floor of the search, on the server's core.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from longtail.data.texts import Texts
from longtail.model import load
from longtail.model.label_set import LabelSet
from longtail.model.snapshot import Snapshot
from longtail.search.exact import Exact
from longtail.search.int8 import Int8Prefilter
from longtail.serve import load_test
from longtail.serve.connections import Connection
from longtail.serve.load_test import Client, LoadTest
from longtail.serve.middleware import RequestGuard
from longtail.serve.service import Service, Settings
from longtail.serve.start import serve

TOKEN = "secret"
PARTS = {  # what ends at a mark, in their order
    "received": "",
    "guard": "HTTP is parsed, a task starts",
    "asked": "guard, routing, validation",
    "work": "queue, hop to the model's thread",
    "refreshed": "look for changes",
    "encoding": "text by field",
    "encoded": "tokens, encoder",
    "searched": "search",
    "worked": "names of labels",
    "answered": "hop back",
    "sent": "JSON, headers, sockets",
}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--rate", type=float, default=100.0)
    parser.add_argument("--changes", type=float, nargs="*", default=[0.0, 10.0, 20.0])
    parser.add_argument("--cores", type=int, nargs=2, help="of the server and of the client")
    parser.add_argument("--only", choices=("server", "nothing"), help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.only == "server":
        serve_noting(options.run, options.port)
    elif options.only == "nothing":
        asyncio.run(serve_nothing(options.port))
    else:
        measure(options)


def measure(options: argparse.Namespace) -> None:
    """Start both servers, send what there is to send, and print the table."""
    os.environ[load_test.TOKEN] = TOKEN
    if options.cores:
        os.sched_setaffinity(0, options.cores[1:])
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        shutil.copytree(options.run, run)
        columns: dict[str, tuple[float, dict[str, float]]] = {}
        with server("server", run, options) as url:
            asyncio.run(one_after_another(url, 200))
            noted(url)
            columns["in a row"] = (asyncio.run(one_after_another(url, 1000)), noted(url))
            for changes in options.changes:
                test = LoadTest(url, options.rate, options.seconds, changes)
                results = asyncio.run(load_test.run(test))
                times = [one.seconds for one in results if one.what == "predict" and not one.error]
                columns[f"{changes:g} changes"] = (1000 * statistics.median(times), noted(url))
            empty = asyncio.run(steadily(url, "/healthz", options))
        with server("nothing", run, options) as url:
            nothing = asyncio.run(steadily(url, "/", options))
    width = max(map(len, PARTS.values())) + 2
    print("".join([" " * width, *(f"{name:>12s}" for name in columns)]))
    for name, about in list(PARTS.items())[1:]:
        print(f"{about:{width}s}" + "".join(f"{parts[name]:12.2f}" for _, parts in columns.values()))
    print(f"{'the parts together':{width}s}" + "".join(f"{sum(parts.values()):12.2f}" for _, parts in columns.values()))
    print(f"{'p50 from outside':{width}s}" + "".join(f"{whole:12.2f}" for whole, _ in columns.values()))
    print(f"at this rate from outside: an answer that costs nothing {nothing:.2f}, /healthz {empty:.2f}")
    if options.cores:
        os.sched_setaffinity(0, options.cores[:1])
    floor_of_search(options.run)


def floor_of_search(run: Path) -> None:
    """What the search of the best score kind reads, and how fast that can be."""
    model = load(run, device="cpu", changes=False)
    labels = [model.labels.fields["title"][i] for i in range(300)]
    queries = [torch.from_numpy(model.queries(model.encode(Texts.of([text])))) for text in labels]
    exact = Exact(np.array(model.table()))
    prefilter = Int8Prefilter(exact.table)
    rows, ones = prefilter._rows, torch.ones(len(exact.table), dtype=torch.bfloat16)  # noqa: SLF001
    words = rows.view(torch.int64).numpy().reshape(-1)
    digits = torch.randint(-127, 128, (1, rows.shape[1]), dtype=torch.int8)
    halves = digits.bfloat16()
    parts: dict[str, Callable[[int], object]] = {
        "reading the 8 bits": lambda _: words.max(),
        "their product in 16 bits": lambda _: torch._weight_int8pack_mm(halves, rows, ones),  # noqa: SLF001
        "in 8 bits": lambda _: torch._int_mm(digits, rows.T),  # noqa: SLF001
        "candidates": lambda i: prefilter.candidates(queries[i], 5),
        "search": lambda i: exact.search(queries[i].numpy(), 5),
        "product of all in float32": lambda i: exact.table @ queries[i][0],
    }
    found = ", ".join(f"{name} {_median(part, len(queries)):.2f}" for name, part in parts.items())
    size = f"{len(rows):,} labels x {exact.table.shape[1]}, {rows.numel() / 2**20:.1f} MiB in 8 bits"
    print(f"search alone, warm, {size}: {found}")


def _median(part: Callable[[int], object], count: int) -> float:
    times = []
    for i in range(count):
        start = time.perf_counter()
        part(i)
        times.append(1000 * (time.perf_counter() - start))
    return statistics.median(times)


async def one_after_another(url: str, count: int) -> float:
    """The median of predictions, each sent when the one before is answered."""
    client = Client(url)
    texts, times = await load_test._label_texts(client), []  # noqa: SLF001
    for i in range(count):
        start = time.perf_counter()
        await client("POST", "/v1/predict", {"texts": [texts[i % len(texts)]], "k": 5})
        times.append(1000 * (time.perf_counter() - start))
    client.close()
    return statistics.median(times)


async def steadily(url: str, path: str, options: argparse.Namespace) -> float:
    """The median of requests at a rate."""
    client, results = Client(url), list[load_test.Result]()
    await load_test._steadily("", lambda _: client("GET", path), options.rate, options.seconds / 2, 0.0, results)  # noqa: SLF001
    client.close()
    return 1000 * statistics.median(one.seconds for one in results)


def noted(url: str) -> dict[str, float]:
    """The medians of what the server has noted since this was last asked."""
    status, body = asyncio.run(Client(url)("GET", "/healthz?noted"))
    assert status == 200
    found: dict[str, float] = json.loads(body)
    return found


@contextlib.contextmanager
def server(which: str, run: Path, options: argparse.Namespace) -> Iterator[str]:
    """A server in a process of its own."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, __file__, str(run), "--only", which, "--port", str(port)]
    process = subprocess.Popen(command)
    if options.cores:
        os.sched_setaffinity(process.pid, options.cores[:1])
    try:
        while process.poll() is None:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                break
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


async def serve_nothing(port: int) -> None:
    """Answer every read with the same bytes."""

    class Nothing(asyncio.Protocol):
        def connection_made(self, transport: Any) -> None:
            self.transport = transport

        def data_received(self, _: bytes) -> None:
            self.transport.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")

    serving = await asyncio.get_running_loop().create_server(Nothing, "127.0.0.1", port)
    await serving.serve_forever()


def serve_noting(run: Path, port: int) -> None:
    """Serve as ``longtail serve`` does, and note when a prediction passes from one part to the next."""
    marks: list[tuple[str, float]] = []
    found: list[list[float]] = []

    def around(owner: Any, name: str, before: str, after: str, *, asynchronous: bool = False) -> None:
        inner = getattr(owner, name)

        def mark(name: str) -> None:
            if name == "received":
                marks.clear()
            if name:
                marks.append((name, time.perf_counter()))
            if name == "sent" and [one for one, _ in marks] == list(PARTS):
                found.append([1000 * (end - start) for (_, start), (_, end) in itertools.pairwise(marks)])

        def noting(*arguments: Any, **named: Any) -> Any:
            mark(before)
            answer = inner(*arguments, **named)
            mark(after)
            return answer

        async def noting_later(*arguments: Any, **named: Any) -> Any:
            mark(before)
            answer = await inner(*arguments, **named)
            mark(after)
            return answer

        setattr(owner, name, noting_later if asynchronous else noting)

    around(Connection, "data_received", "received", "")
    around(Service, "predict", "asked", "answered", asynchronous=True)
    around(Service, "_work", "work", "worked")
    around(LabelSet, "refresh", "", "refreshed")
    around(Snapshot, "encode", "encoding", "encoded")
    around(Snapshot, "search", "", "searched")
    around(RequestGuard, "__call__", "guard", "sent", asynchronous=True)
    guarded = RequestGuard.__call__

    async def telling(self: Any, scope: Any, receive: Any, send: Any) -> None:
        if scope.get("query_string") != b"noted":
            await guarded(self, scope, receive, send)
            return
        medians = np.median(np.array(found or [[0.0] * (len(PARTS) - 1)]), axis=0).tolist()
        body = json.dumps(dict(zip(list(PARTS)[1:], medians, strict=True))).encode()
        found.clear()
        length = [(b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": length})
        await send({"type": "http.response.body", "body": body})

    RequestGuard.__call__ = telling  # type: ignore[method-assign]
    os.environ[load_test.TOKEN] = TOKEN
    serve(Settings(run, threads=1), host="127.0.0.1", port=port, workers=1, level="warning")


if __name__ == "__main__":
    main()
