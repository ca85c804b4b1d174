"""What a run connects to: one server on an unreliable machine, a Sentinel's pair, a cluster."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

import psutil

from ackq.embedded import Server
from tests.faults.proxy import Proxy
from tests.servers import binaries, private_server

from .machine import Machine
from .site import Site

if TYPE_CHECKING:
    from .scenarios import Scenario

#: The binaries that a run may use, as tests/servers finds them.
BINARIES: dict[str, Callable[[], Path]] = {
    "redis 6.2": binaries.oldest_server,
    "redis": binaries.system_server,
    "redis 8": binaries.newest_server,
    "valkey": binaries.bundled_valkey,
}
#: What a server does to keep its data, and seconds before its death in which answers are undone:
#: when its process is killed, and when its power is cut. Under everysec it may be writing for a
#: second, wait another for the sync, and be stalled by us for a third.
Persistence = Literal["always", "everysec", "none"]
UNDONE: dict[Persistence, tuple[float | None, float | None]] = {
    "always": (None, None),
    "everysec": (2.0, 4.0),
    "none": (float("inf"), float("inf")),
}


class Single:
    """One server, on a machine of its own, and a proxy before it for some runs."""

    def __init__(self, folder: Path, binary: Path, persistence: Persistence, proxied: bool) -> None:
        self._stack = contextlib.ExitStack()
        self.persistence = persistence
        self.machine = Machine(folder / "machine", binary)
        options: dict[str, str | list[str]] = {
            "appendonly": "no" if persistence == "none" else "yes",
            "appendfsync": "always" if persistence == "none" else persistence,
            # Rewritten often, so that logs are cut in the middle of that too.
            "auto_aof_rewrite_min_size": "2mb",
            "lua_time_limit": "50",
        }
        self.server: Server = self._stack.enter_context(
            private_server(folder / "server", self.machine.executable, **options)
        )
        assert self.server.port is not None
        self.proxy = self._stack.enter_context(Proxy(self.server.port)) if proxied else None
        self.site = Site("server", self.proxy.port if self.proxy else self.server.port)

    @property
    def release(self) -> str:
        return str(self.server.release)

    def has_died(self) -> bool:
        """Whether the server ended by itself."""
        return psutil.Process(self.server.pid).status() == psutil.STATUS_ZOMBIE

    def close(self) -> None:
        """Stop the server."""
        self._stack.close()


Deployment: TypeAlias = Single


@contextlib.contextmanager
def deploy(scenario: Scenario, folder: Path) -> Iterator[Deployment]:
    """Start what a scenario runs on."""
    binary = BINARIES[scenario.binary]()
    single = Single(folder, binary, scenario.persistence, scenario.proxied)
    with contextlib.closing(single):
        yield single
