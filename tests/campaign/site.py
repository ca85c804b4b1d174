"""Where the processes of a run find Redis."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import redis
import redis.asyncio
import redis.asyncio.sentinel
import redis.sentinel
from redis.cluster import RedisCluster

from ackq import scripts

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
    #: Of the queue. It has a hash tag, for clusters.
    name: str = "{jobs}"
    #: A folder of scripts that this process uses instead of ackq's own: sabotage.
    scripts: Path | None = None
    #: Of the run.
    folder: Path | None = None

    def client(self) -> Any:
        """Return a blocking client of redis-py."""
        self._use_scripts()
        if self.kind == "cluster":
            return RedisCluster("127.0.0.1", self.port, **_TIMEOUTS)
        if self.kind == "sentinel":
            manager = _blocking_sentinel([("127.0.0.1", self.port)], sentinel_kwargs=_TIMEOUTS)
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
