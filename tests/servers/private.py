"""A server for a single test, which may kill, fill, freeze or restart it."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from ackq.embedded import Server, find_server

from .binaries import oldest_server
from .process import running
from .target import Absent


@contextlib.contextmanager
def private_server(
    directory: Path, executable: Path | None = None, **options: str | list[str]
) -> Iterator[Server]:
    """Run a server with a log of writes, fsynced at once, on a port that it keeps.

    ``options`` are lines of redis.conf with ``_`` for ``-``:
    ``private_server(tmp_path, maxmemory="8mb")``, and a replica with
    ``replicaof=f"127.0.0.1 {primary.port}"``. ``server.kill()`` and ``server.start()``
    restart it with what it had; each server needs a directory of its own.
    """
    settings = {name.replace("_", "-"): value for name, value in options.items()}
    with running(
        directory,
        executable or _usual(),
        {"appendfsync": "always", **settings},
    ) as server:
        yield server


def _usual() -> Path:
    try:
        return oldest_server()
    except Absent:
        return find_server()
