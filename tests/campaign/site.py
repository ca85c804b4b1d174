"""Where the processes of a run find Redis."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import redis
import redis.asyncio
import redis.asyncio.sentinel
import redis.sentinel
from redis.cluster import RedisCluster

from ackq import scripts

if TYPE_CHECKING:
    from .sabotage import Slip

#: The name that a Sentinel knows the primary by.
SERVICE = "ackq"
#: Seconds after which a silent connection is given up. Waiting calls last shorter.
SILENCE = 2.0

_blocking_sentinel: Any = redis.sentinel.Sentinel
_asyncio_sentinel: Any = redis.asyncio.sentinel.Sentinel


@dataclass(frozen=True)
class Site:
    """An address, and how to connect to it."""

    kind: Literal["server", "sentinel", "cluster"]
    port: int
    #: The queue's name. It has a hash tag, for clusters.
    name: str = "{jobs}"
    #: A folder of scripts that this process uses instead of ackq's own: sabotage.
    scripts: Path | None = None
    #: A mistake in the library that this process makes: sabotage.
    slip: Slip | None = None
    #: The folder of the run.
    folder: Path | None = None
    #: Where servers are reached that a Sentinel names.
    address: str = "127.0.0.1"
    #: The ports of further Sentinels.
    others: tuple[int, ...] = ()
    #: The same for the clients that a partition cuts off; None: there is no partition.
    cut_off: Site | None = None

    def of(self, member: int) -> Site:
        """Return the site of one of several processes: every other one may be cut off."""
        if self.cut_off is None or member % 2 == 0:
            return self
        return replace(
            self.cut_off, name=self.name, scripts=self.scripts, slip=self.slip, folder=self.folder
        )

    def client(self) -> Any:
        """Return a blocking client of redis-py."""
        self._use_scripts()
        if self.kind == "cluster":
            return RedisCluster("127.0.0.1", self.port, **_TIMEOUTS)
        if self.kind == "sentinel":
            sentinels = [("127.0.0.1", port) for port in (self.port, *self.others)]
            manager = _blocking_sentinel(sentinels, sentinel_kwargs=_TIMEOUTS)
            find = manager.discover_master
            manager.discover_master = lambda name: (self.address, find(name)[1])
            return manager.master_for(SERVICE, **_TIMEOUTS)
        return redis.Redis(port=self.port, **_TIMEOUTS)

    def async_client(self) -> Any:
        """Return an asyncio client; call this inside its loop."""
        self._use_scripts()
        if self.kind == "cluster":
            return redis.asyncio.RedisCluster("127.0.0.1", self.port, **_TIMEOUTS)
        if self.kind == "sentinel":
            manager = _asyncio_sentinel([("127.0.0.1", self.port)], sentinel_kwargs=_TIMEOUTS)
            return manager.master_for(SERVICE, **_TIMEOUTS)
        return redis.asyncio.Redis(port=self.port, **_TIMEOUTS)

    def _use_scripts(self) -> None:
        if self.scripts is not None:
            folder = self.scripts
            scripts.directory = lambda: folder  # type: ignore[assignment]
            scripts.load.cache_clear()


_TIMEOUTS: dict[str, Any] = {"socket_timeout": SILENCE, "socket_connect_timeout": SILENCE}
