"""A small HTTP server for figures that other programs read: health checks and metrics."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import Any, Self

from ackq.core.hosts import KnownHosts
from ackq.errors import ConfigurationError

#: Most connections at a time. One more ends the oldest one that has not asked for anything yet.
MAX_CONNECTIONS = 64
#: Connections that the kernel keeps until they are accepted.
BACKLOG = 128


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to one request."""

    status: int
    body: bytes
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of_json(cls, status: int, value: object) -> Self:
        """Return an answer in JSON."""
        return cls(status, json.dumps(value).encode())


#: Answers a GET of a path, which includes the query, with these headers.
Handler = Callable[[str, Mapping[str, str]], Answer]


class HttpServer(ThreadingHTTPServer):
    """Answers GET in threads. The answer to any other method is an error.

    Connections that are too old are ended, whether idle or slow.
    """

    daemon_threads = True
    request_queue_size = BACKLOG

    def __init__(
        self,
        endpoint: tuple[str, int],
        answer: Handler,
        longest: float,
        purpose: str,
        hosts: KnownHosts | None = None,
    ) -> None:
        """Listen; `start` begins to answer.

        Args:
            endpoint: the address, IPv4 or IPv6, and the port; 0 picks a free port.
            answer: called in a thread for each request.
            longest: seconds that a connection may last.
            purpose: begins the error.
            hosts: refuse requests that name another host. A request without a Host header, which
                no browser sends, passes. Defaults to None: do not look at it.

        Raises:
            ConfigurationError: the address or port cannot be used.
        """
        self.answer = answer
        self.longest = longest
        self.hosts = hosts
        #: When each connection began, the oldest first, and those that are being answered.
        self.connections: dict[socket.socket, float] = {}
        self.answering: set[socket.socket] = set()
        self.address_family = socket.AF_INET6 if ":" in endpoint[0] else socket.AF_INET
        try:
            super().__init__(endpoint, _Requests)
        except OSError as error:
            host, port = endpoint
            raise ConfigurationError(
                f"{purpose}: cannot listen on {host}:{port}: {error.strerror}"
            ) from error

    @property
    def address(self) -> tuple[str, int]:
        """The address and port that it listens on."""
        host, port = self.server_address[:2]
        return str(host), int(port)

    def start(self) -> None:
        """Answer requests, in a thread of its own."""
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def stop(self) -> None:
        """Stop listening, after `start`."""
        self.shutdown()
        self.server_close()

    def server_bind(self) -> None:
        """Bind without looking up a host name, which may be slow."""
        TCPServer.server_bind(self)

    def verify_request(self, request: Any, client_address: Any) -> bool:
        """Return whether there is room for one more connection, or could be made."""
        idle = [
            connection for connection in list(self.connections) if connection not in self.answering
        ]
        if len(self.connections) >= MAX_CONNECTIONS:
            if not idle:
                return False
            self._end(idle[0])
        self.connections[request] = time.monotonic()
        return True

    def service_actions(self) -> None:
        """End connections that are too old."""
        oldest = time.monotonic() - self.longest
        for connection, since in list(self.connections.items()):
            if since < oldest:
                self._end(connection)

    def _end(self, connection: socket.socket) -> None:
        self.connections.pop(connection, None)
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)


class _Requests(BaseHTTPRequestHandler):
    server: HttpServer

    def handle(self) -> None:
        with contextlib.suppress(ConnectionError):  # the client is gone
            super().handle()

    def finish(self) -> None:
        self.server.connections.pop(self.request, None)
        self.server.answering.discard(self.request)
        super().finish()

    def do_GET(self) -> None:
        self.server.answering.add(self.request)
        answer = self._refusal() or self.server.answer(self.path, self.headers)  # type: ignore[arg-type]
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Content-Length", str(len(answer.body)))
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(answer.body)

    def _refusal(self) -> Answer | None:
        named, hosts = self.headers.get_all("Host"), self.server.hosts
        if hosts is None or named is None or hosts.allow(named):
            return None
        return Answer.of_json(421, {"error": "this is not a name of the server: see --host"})

    def version_string(self) -> str:
        """Return a name without any version, not even Python's."""
        return "ackq"

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing: probes come every few seconds."""
