"""`Connection`: a connection to the page, which cannot keep others out by saying nothing."""

from __future__ import annotations

import asyncio

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from ackq.web.guard import REFUSED, Guard

#: Most connections at a time. One more ends the one that has been without a request for longest.
MAX_CONNECTIONS = 200
#: Seconds in which the head of a request must arrive, from the beginning of the connection or
#: from the end of the response before.
HEAD_TIME = 10.0


class Connection(H11Protocol):
    """HTTP/1.1 as uvicorn speaks it, with bounds for connections without a request.

    A connection that sends no request ends after `HEAD_TIME`. If `MAX_CONNECTIONS` are open, a new
    one takes the place of the connection that has waited longest for a request; if all have one,
    the new connection is closed.
    """

    _waiting_since: float
    _head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Find a place for the connection."""
        super().connection_made(transport)
        self._wait()
        if len(self.connections) <= MAX_CONNECTIONS:
            return
        others = [
            connection for connection in self.connections if isinstance(connection, Connection)
        ]
        waiting = [other for other in others if other is not self and not other.has_request]
        longest = min(waiting, key=lambda each: each._waiting_since, default=self)
        longest.transport.abort()
        # It is no longer open, although its loss is reported later.
        self.connections.discard(longest)

    @property
    def has_request(self) -> bool:
        """Whether a request has arrived that is not answered yet and has no wrong password."""
        unanswered = self.cycle is not None and not self.cycle.response_complete
        return unanswered and REFUSED not in self.scope["state"]

    def data_received(self, data: bytes) -> None:
        """Handle what arrived."""
        super().data_received(data)
        if self.has_request:
            self._stop_waiting()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        self._stop_waiting()
        if not self.transport.is_closing():
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._stop_waiting()
        super().connection_lost(exc)

    def _wait(self) -> None:
        self._waiting_since = self.loop.time()
        self._head_timer = self.loop.call_later(HEAD_TIME, self._give_up)

    def _stop_waiting(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _give_up(self) -> None:
        if not self.has_request:
            self.transport.abort()


def server_of(page: Guard, root_path: str = "") -> uvicorn.Server:
    """Return a server for the page, to be run with a socket that listens.

    Args:
        page: the application.
        root_path: the prefix that a proxy in front removes from paths.
    """
    config = uvicorn.Config(
        page,
        root_path=root_path,
        # Warnings tell only of clients that send something else than HTTP.
        log_level="error",
        access_log=False,
        server_header=False,
        http=Connection,
        ws="none",
        # Headers in which a proxy reports who asked are not needed, and anybody can send them.
        proxy_headers=False,
    )
    return uvicorn.Server(config)
