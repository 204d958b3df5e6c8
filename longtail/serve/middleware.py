"""What every request passes: a limit on its body, a clock, a log, and no traceback on the way out."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from contextlib import suppress
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from longtail.memory import is_out_of_memory
from longtail.serve.telemetry import Metrics

_log = logging.getLogger("longtail.serve")
_REST = 2**26  # bytes of a body that are read once it was refused, at most
SAFE = [  # the page is its own only source, and nothing may frame it
    (
        b"content-security-policy",
        b"default-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; form-action 'self'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
]


class Refused(Exception):
    """A request that is answered before the application sees it; there may be more of its body."""

    def __init__(self, status: int, detail: str, *, more: bool = False) -> None:
        super().__init__(detail)
        self.status, self.detail, self.more = status, detail, more


class RequestGuard:
    """The outermost layer of the server: every request passes it, in and out.

    Args:
        app: the application.
        metrics: are told of each request.
        body: bytes that a body may have.
        patience: seconds that a client may take to send it.
    """

    def __init__(self, app: ASGIApp, *, metrics: Metrics, body: int, patience: float = 30.0) -> None:
        self._app, self._metrics, self._body, self._patience = app, metrics, body, patience

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start, status = time.perf_counter(), 0

        async def outwards(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], *SAFE]
            await send(message)

        try:
            body = await asyncio.wait_for(self._read(scope, receive), self._patience)
            await self._app(scope, _again(body, receive), outwards)
        except asyncio.TimeoutError:
            await _answer(outwards, 408, "the body did not arrive in time")
        except Refused as refused:
            await _answer(outwards, refused.status, refused.detail, ends=not refused.more)
            if refused.more:
                await self._read_on(receive)
                await send({"type": "http.response.body"})
        except Exception as error:  # noqa: BLE001  (it is logged, and its client told that there was one)
            if is_out_of_memory(error):
                _log.error("there was not enough memory for a request", extra={"with": {"path": scope["path"]}})
            else:
                _log.exception("a request failed", extra={"with": {"path": scope["path"]}})
            if status == 0:
                await _answer(outwards, *failure(error))
        seconds = time.perf_counter() - start
        route = getattr(scope.get("route"), "path", "other")
        method = scope["method"] if scope["method"] in ("GET", "POST", "DELETE", "HEAD", "OPTIONS") else "other"
        self._metrics.seconds.labels(method, route, str(status)).observe(seconds)
        about = {"method": scope["method"], "path": scope["path"], "status": status, "ms": round(1000 * seconds, 2)}
        _log.debug("request", extra={"with": about})

    async def _read(self, scope: Scope, receive: Receive) -> bytes:
        """The whole body, if it is not too large."""
        said = dict(scope["headers"]).get(b"content-length", b"0")
        if said.isdigit() and int(said[:20]) > self._body:
            raise Refused(413, f"the body is larger than {self._body:,} bytes", more=True)
        chunks, size, more = [], 0, True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise Refused(400, "the client has gone")
            chunks.append(message.get("body", b""))
            size += len(chunks[-1])
            more = message.get("more_body", False)
            if size > self._body:
                raise Refused(413, f"the body is larger than {self._body:,} bytes", more=more)
        return b"".join(chunks)

    async def _read_on(self, receive: Receive) -> None:
        """Let a client that was refused send the rest: most read no answer before, and none once they are cut off."""
        more, left, end = True, _REST, time.monotonic() + self._patience
        with suppress(asyncio.TimeoutError):
            while more and left > 0:
                message = await asyncio.wait_for(receive(), end - time.monotonic())
                left -= len(message.get("body", b""))
                more = message.get("more_body", False)


def failure(error: Exception) -> tuple[int, str]:
    """The status of a request that failed without a fault of its client, and what that is told."""
    if is_out_of_memory(error):
        return 503, "there is not enough memory for this request now; ask for less at once, or try again later"
    return 500, "internal error; the server's log has more"


def _again(body: bytes, receive: Receive) -> Receive:
    """A receive that gives the body, and then what follows."""
    given = False

    async def again() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


async def _answer(send: Send, status: int, detail: str, *, ends: bool = True) -> None:
    body = json.dumps({"detail": detail}).encode()
    headers: list[Any] = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": not ends})
