"""The connections of a server's process: what a client that sends nothing, or half of something, may take of them."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from longtail.memory import is_out_of_memory

_log = logging.getLogger("longtail.serve")
_SWEEP = 1.0  # seconds between two looks for heads that are late
STATE = "connections"  # where the lifespan of the application keeps the `Connections` of its process


def tell(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log an error that a loop met outside of all requests: in one line where there was no memory for a connection."""
    error = context.get("exception")
    if error is not None and is_out_of_memory(error):
        _log.error("there was not enough memory for a connection")
    else:
        loop.default_exception_handler(context)


class Connection(HttpToolsProtocol):
    """A connection as uvicorn serves it, which its process's `Connections` know from its first moment to its last."""

    _began = 0.0
    _before: object = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Count this connection, which may end others, or it."""
        super().connection_made(transport)
        self._began, self._unanswered = time.monotonic(), deque[RequestResponseCycle]()
        self.app_state[STATE].add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Count it no more, and tell all its requests; uvicorn tells only the last one, and others write on."""
        super().connection_lost(exc)
        for request in self._unanswered:
            request.disconnected = True
            request.message_event.set()
        self.app_state[STATE].discard(self)

    def on_headers_complete(self) -> None:
        """Know the request as one that is not answered."""
        super().on_headers_complete()
        self._unanswered.append(self.cycle)

    def on_response_complete(self) -> None:
        """Requests are answered in their order."""
        self._unanswered.popleft()
        super().on_response_complete()

    @property
    def address(self) -> str:
        """Of the client; empty where the system names none."""
        return self.client[0] if self.client else ""

    @property
    def waits_for_client(self) -> bool:
        """Whether no request is here whole that is not answered."""
        return all(request.more_body for request in self._unanswered)

    def head_is_late(self, now: float, patience: float) -> bool:
        """Whether a head has been on its way for longer than ``patience`` seconds, as seen by regular calls of this.

        A first head is on its way from the beginning, later ones from their first byte, which ends uvicorn's clock of
        idle connections. So no request pays for this one.
        """
        expected = self.timeout_keep_alive_task is None and not self.transport.is_closing()
        answered = not self.cycle or self.cycle.response_complete
        if not (expected and answered and self.cycle is self._before):
            self._began, self._before = now, self.cycle
        return now - self._began > patience

    def drop(self) -> None:
        """End it, whatever is still to be sent."""
        self.connections.discard(self)  # at once: uvicorn counts them, too
        self.transport.abort()


class Connections:
    """The connections of a process. Where there are too many, the oldest that waits for its client makes room.

    Args:
        limit: how many there may be; where all of them have a whole request, uvicorn answers further ones with 503.
        of_client: how many may be of one address; where all of them have a whole request, further ones are closed.
        head: seconds in which the head of a request must arrive.
        closed: is told why a connection was closed: ``head`` or ``room``.
    """

    def __init__(self, *, limit: int, of_client: int, head: float, closed: Callable[[str], Any]) -> None:
        self._limit, self._of_client, self._head, self._closed = limit, of_client, head, closed
        self._all: OrderedDict[Connection, None] = OrderedDict()
        self._clients: dict[str, OrderedDict[Connection, None]] = {}

    def add(self, connection: Connection) -> None:
        """Take a new connection in."""
        client = self._clients.setdefault(connection.address, OrderedDict())
        if len(client) >= self._of_client:
            if not self._make_room(client):
                self._close(connection, "room")
                return
        elif len(self._all) >= self._limit:
            self._make_room(self._all)
        self._all[connection] = self._clients.setdefault(connection.address, client)[connection] = None

    def discard(self, connection: Connection) -> None:
        """Forget a connection, if it is known."""
        if connection in self._all:
            del self._all[connection]
            client = self._clients[connection.address]
            del client[connection]
            if not client:
                del self._clients[connection.address]

    async def watch(self) -> None:
        """Close the connections whose heads are late, again and again."""
        while True:
            await asyncio.sleep(min(_SWEEP, self._head / 2))
            try:
                self._close_late()
            except Exception:  # noqa: BLE001  (nothing ends the watch)
                _log.exception("connections were not looked at")

    def _close_late(self) -> None:
        now = time.monotonic()
        for connection in [one for one in self._all if one.head_is_late(now, self._head)]:
            self._close(connection, "head")

    def _make_room(self, among: OrderedDict[Connection, None]) -> bool:
        """Close the oldest that waits for its client, and say whether there was one."""
        for _ in range(len(among)):
            oldest = next(iter(among))
            if oldest.waits_for_client:
                self._close(oldest, "room")
                return True
            among.move_to_end(oldest)
        return False

    def _close(self, connection: Connection, reason: str) -> None:
        self.discard(connection)
        connection.drop()
        self._closed(reason)
