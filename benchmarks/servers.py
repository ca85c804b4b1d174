"""The server that a benchmark loads."""

import shutil
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ackq import embedded

#: Nothing is written to disk, so that the disk's speed does not matter.
OPTIONS: dict[str, str | list[str]] = {"appendonly": "no"}


@dataclass(frozen=True, slots=True)
class Target:
    """A running server: its URL, its description, and its socket."""

    url: str
    description: str
    unix_url: str | None = None


@contextmanager
def target(url: str | None) -> Iterator[Target]:
    """Yield the server at ``url``, or start one for this run and stop it afterwards.

    A redis-server on PATH is preferred to the embedded Valkey. It listens on loopback.
    """
    if url is not None:
        # Do not include the URL: results may be published.
        yield Target(url, "a server that was running, with its own settings")
        return
    on_path = shutil.which("redis-server")
    executable = Path(on_path) if on_path else embedded.bundled_server()
    which = "the redis-server on PATH" if on_path else "the embedded valkey-server"
    with (
        tempfile.TemporaryDirectory(prefix="ackq-bench-") as folder,
        embedded.Server(folder, executable, free_port(), OPTIONS) as server,
    ):
        description = f"{which}, started for this run, on loopback, no persistence"
        yield Target(server.url, description, server.unix_url)


def free_port() -> int:
    """Return a free port of the loopback interface."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
