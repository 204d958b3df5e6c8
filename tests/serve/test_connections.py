"""Connections that send half a head, or nothing, against a real server process on loopback."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
import time
from types import SimpleNamespace

import pytest

from longtail.serve.connections import Connection, Connections

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


def seconds_to_end(connection):
    """Seconds until the server closes a connection."""
    start = time.monotonic()
    with contextlib.suppress(ConnectionResetError):
        while connection.recv(65536):
            pass
    return time.monotonic() - start


def test_a_head_must_arrive_in_time(run, start_server):
    server = start_server(run, "--head-timeout", 2)
    silent, half, second, patient = (connected(server) for _ in range(4))
    with silent, half, second, patient:
        half.sendall(HALF)
        for connection in (second, patient):
            ask(connection)
        second.sendall(HALF)  # the first head came whole; this one does not
        assert 1.0 < seconds_to_end(silent) < 8
        for connection in (half, second):
            assert seconds_to_end(connection) < 5
        time.sleep(1)
        patient.sendall(WHOLE)  # idle between two requests: kept far longer
        assert b"200 OK" in patient.recv(65536)
    assert b'longtail_connections_closed_total{reason="head"} 3.0' in server.ask("GET", "/metrics")[1]


def test_a_head_that_comes_drop_by_drop_is_late_all_the_same(run, start_server):
    server = start_server(run, "--head-timeout", 1)
    with connected(server) as connection:
        ask(connection)
        connection.settimeout(0.1)
        deadline = time.monotonic() + 10
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


@pytest.mark.parametrize("sent", [HALF, b"", HALF + b"Length: 100\r\n\r\n{"], ids=["half a head", "nothing", "body"])
def test_connections_that_send_no_request_keep_no_other_out(run, start_server, sent):
    server = start_server(run)
    with contextlib.ExitStack() as stack:
        for _ in range(2_010):
            stack.enter_context(connected(server)).sendall(sent)
        for path in ("/healthz", "/v1/labels?limit=1", "/healthz"):  # from the same address
            start = time.monotonic()
            assert server.ask("GET", path, timeout=5)[0] == 200
            assert time.monotonic() - start < 2


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have only one loopback address")
def test_the_limit_of_one_address_is_not_that_of_another(run, start_server):
    server = start_server(run, "--client-connections", 2)
    with connected(server, "127.0.0.2") as other, contextlib.ExitStack() as stack:
        mine = [stack.enter_context(connected(server)) for _ in range(3)]
        assert seconds_to_end(mine[0]) < 2  # the oldest made room
        for connection in (mine[2], other, mine[1]):
            ask(connection)


@pytest.mark.parametrize(
    ("bodies_to_come", "waits"), [([], True), ([True], True), ([False], False), ([False, True], False)]
)
def test_a_connection_with_a_whole_request_does_not_wait_whatever_comes_after_it(bodies_to_come, waits):
    connection = Connection.__new__(Connection)
    connection._unanswered = [SimpleNamespace(more_body=to_come) for to_come in bodies_to_come]
    assert connection.waits_for_client is waits


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
