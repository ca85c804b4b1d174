"""Run a server on a free port."""

import contextlib
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeAlias

from ackq.embedded import Server
from ackq.errors import AckqError

from .target import Offer, Target, dotted, url_target

Options: TypeAlias = Mapping[str, str | list[str]]

_given: set[int] = set()
_BUS = 10_000  # a cluster node listens there too, above its own port
_ATTEMPTS = 20
#: A primary waits 5 s for more replicas before it feeds the first.
_DEFAULTS = {"repl-diskless-sync-delay": "0"}


def free_port(cluster: bool = False) -> int:
    """Return a free loopback port, and for ``cluster`` one whose bus port is free too.

    No port is given out twice in a session.
    """
    for _ in range(200):
        with _bound(0) as held:
            port = int(held.getsockname()[1])
            if port not in _given and (not cluster or _is_free(port + _BUS)):
                _given.add(port)
                return port
    raise AssertionError("found no free port")


@contextlib.contextmanager
def running(
    directory: Path, executable: Path, options: Options, *, cluster: bool = False
) -> Iterator[Server]:
    """Run a server on a free port, even if other processes take ports at the same time."""
    server = _started(directory, executable, options, cluster)
    try:
        yield server
    finally:
        server.stop()


def _started(directory: Path, executable: Path, options: Options, cluster: bool) -> Server:
    for attempt in range(_ATTEMPTS):
        server = Server(directory, executable, free_port(cluster), {**_DEFAULTS, **options})
        try:
            server.start()
        except AckqError as error:
            if "ddress already in use" not in str(error) or attempt == _ATTEMPTS - 1:
                raise
        else:
            return server
    raise AssertionError("unreachable")


def plain(kind: str, executable: Path, appendonly: str = "no") -> Offer:
    """Return the offer of one server on a port and a socket, with the persistence it is given."""
    version = dotted(executable)
    name = f"{kind}-{version}"

    @contextlib.contextmanager
    def start(directory: Path) -> Iterator[Target]:
        with running(directory, executable, {"appendonly": appendonly}) as server:
            yield url_target(name, version, server.url)

    return Offer(name, version, start)


def _bound(port: int) -> contextlib.closing[socket.socket]:
    held = socket.socket()
    try:
        held.bind(("127.0.0.1", port))
    except BaseException:
        held.close()
        raise
    return contextlib.closing(held)


def _is_free(port: int) -> bool:
    try:
        with _bound(port):
            return True
    except (OSError, OverflowError):
        return False
