"""Connections that send half a head, or nothing, against a real server process on loopback."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import http.client
import json
import socket
import sys
import time
from types import SimpleNamespace

import pytest

from longtail.serve.connections import Connection, Connections, tell

FILES = 4096  # that a test has open at most
HALF = b"POST /v1/predict HTTP/1.1\r\nHost: x\r\nContent-"
WHOLE = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"


def connected(server, source="127.0.0.1"):
    return socket.create_connection(("127.0.0.1", server.port), timeout=30, source_address=(source, 0))


def ask(connection):
    """A whole request, and its answer."""
    connection.sendall(WHOLE)
    answer = b""
    while not answer.endswith(b"}"):
        part = connection.recv(65536)
        assert part, "the connection was closed"
        answer += part
    assert b"200 OK" in answer


def wait_for_end(connection, seconds):
    """Wait until the server closes a connection, which it must within some seconds."""
    connection.settimeout(seconds)
    with contextlib.suppress(ConnectionResetError):
        while connection.recv(65536):
            pass


@contextlib.contextmanager
def many_files():
    """Allow this process to have `FILES` open, or skip the test where the system does not."""
    resource = pytest.importorskip("resource", reason="other systems have other limits")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < FILES:
        pytest.skip(f"no more than {hard} files may be open")
    if soft != resource.RLIM_INFINITY and soft < FILES:
        resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_head_must_arrive_in_time(run, start_server):
    server, late = start_server(run, "--head-timeout", 2), 20
    with contextlib.ExitStack() as stack:
        second, patient = (stack.enter_context(connected(server)) for _ in range(2))
        for connection in (second, patient):
            ask(connection)
        start = time.monotonic()
        silent, half = (stack.enter_context(connected(server)) for _ in range(2))
        half.sendall(HALF)
        second.sendall(HALF)  # the first head came whole; this one does not
        wait_for_end(silent, late)
        assert time.monotonic() - start >= 1.9
        for connection in (half, second):
            wait_for_end(connection, late)
        time.sleep(1)
        ask(patient)  # idle between two requests: kept far longer
    assert b'longtail_connections_closed_total{reason="head"} 3.0' in server.ask("GET", "/metrics")[1]


def test_a_head_that_comes_drop_by_drop_is_late_all_the_same(run, start_server):
    server = start_server(run, "--head-timeout", 2)
    with connected(server) as connection:
        ask(connection)
        connection.settimeout(0.1)
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            try:
                connection.sendall(b"\r\n")  # what may come before a head
                if not connection.recv(1):
                    return
            except TimeoutError:  # noqa: PERF203  (it is still open)
                continue
            except OSError:
                return
    raise AssertionError("the connection was kept")


@pytest.mark.parametrize("chunked", [False, True])
def test_who_sends_too_large_a_body_to_its_end_is_told_so(run, start_server, chunked):
    server, part = start_server(run), b"x" * 2**16
    for _ in range(5):
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        length = {} if chunked else {"Content-Length": str(200 * len(part))}
        connection.request("POST", "/v1/predict", (part for _ in range(200)), length)
        answer = connection.getresponse()
        assert (answer.status, json.loads(answer.read())) == (
            413,
            {"detail": "the body is larger than 4,194,304 bytes"},
        )
        connection.close()


def test_who_says_that_too_large_a_body_comes_is_told_at_once(run, start_server):
    with connected(start_server(run)) as connection:
        connection.settimeout(20)
        connection.sendall(HALF + b"Length: 99999999\r\nExpect: 100-continue\r\n\r\n")
        assert connection.recv(12) == b"HTTP/1.1 413"


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(HALF, id="half a head"),
        pytest.param(b"", id="nothing", marks=pytest.mark.slow),
        pytest.param(HALF + b"Length: 100\r\n\r\n{", id="body", marks=pytest.mark.slow),
    ],
)
def test_connections_that_send_no_request_keep_no_other_out(run, start_server, sent):
    server = start_server(run, "--head-timeout", 600)
    with many_files(), contextlib.ExitStack() as stack:
        for _ in range(2_010):
            stack.enter_context(connected(server)).sendall(sent)
        for path in ("/healthz", "/v1/labels?limit=1", "/healthz"):  # from the same address
            assert server.ask("GET", path, timeout=20)[0] == 200


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have only one loopback address")
def test_the_limit_of_one_address_is_not_that_of_another(run, start_server):
    server = start_server(run, "--client-connections", 2, "--head-timeout", 600)
    with connected(server, "127.0.0.2") as other, contextlib.ExitStack() as stack:
        mine = [stack.enter_context(connected(server)) for _ in range(3)]
        wait_for_end(mine[0], 20)  # the oldest made room
        for connection in (mine[2], other, mine[1]):
            ask(connection)


@pytest.mark.parametrize(
    ("bodies_to_come", "waits"), [([], True), ([True], True), ([False], False), ([False, True], False)]
)
def test_a_connection_with_a_whole_request_does_not_wait_whatever_comes_after_it(bodies_to_come, waits):
    connection = Connection.__new__(Connection)
    connection._unanswered = [SimpleNamespace(more_body=to_come) for to_come in bodies_to_come]
    assert connection.waits_for_client is waits


@pytest.mark.parametrize(
    ("error", "logger", "said"),
    [
        (MemoryError(), "longtail.serve", "there was not enough memory for a connection"),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), "longtail.serve", "there was not enough memory"),
        (ValueError("nobody thought of this"), "asyncio", "Fatal error on transport"),
        (None, "asyncio", "Fatal error on transport"),
    ],
)
def test_a_connection_without_memory_is_told_in_a_line_and_all_else_in_full(error, logger, said, caplog):
    context = {"message": "Fatal error on transport"} | ({} if error is None else {"exception": error})

    async def scenario():
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(tell)
        loop.call_exception_handler(context)

    asyncio.run(scenario())
    (record,) = caplog.records
    assert record.name == logger
    assert said in record.getMessage()
    assert bool(record.exc_info) == isinstance(error, ValueError)


def test_nothing_ends_the_watch_of_heads(caplog):
    fails = iter([True])

    def late(now, patience):
        if next(fails, False):
            raise RuntimeError("a connection in a state that nobody thought of")
        return True

    async def scenario():
        dropped, closed = asyncio.Event(), []
        connections = Connections(limit=9, of_client=9, head=0.02, closed=closed.append)
        connection = type("Fake", (), {"address": "", "head_is_late": staticmethod(late), "drop": dropped.set})
        connections.add(connection)
        watcher = asyncio.create_task(connections.watch())
        await asyncio.wait_for(dropped.wait(), 10)
        watcher.cancel()
        assert closed == ["head"]

    asyncio.run(scenario())
    assert "nobody thought of" in caplog.text
