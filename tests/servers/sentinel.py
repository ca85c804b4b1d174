"""A primary, a replica, and the Sentinel that knows which is which."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import redis
import redis.asyncio
import redis.asyncio.sentinel
import redis.sentinel

from ackq.embedded import Server
from tests.waiting import wait_until

from .binaries import best_server
from .process import running
from .target import Offer, Target, dotted

#: The name that the Sentinel knows the primary by.
SERVICE = "ackq"

# redis-py has no types for them.
_sync_sentinel: Any = redis.sentinel.Sentinel
_async_sentinel: Any = redis.asyncio.sentinel.Sentinel


def offer() -> Offer:
    return offer_of("sentinel", best_server())


def offer_of(kind: str, executable: Path) -> Offer:
    """Return the offer of a primary, its replica and its Sentinel, which all run ``executable``."""
    version = dotted(executable)

    @contextlib.contextmanager
    def start(directory: Path) -> Iterator[Target]:
        with (
            running(directory / "primary", executable, {"appendonly": "no"}) as primary,
            running(directory / "replica", executable, _replica_of(primary)),
            running(directory / "sentinel", _sentinel(executable, directory), _watch(primary)) as s,
        ):
            assert s.port is not None
            yield _target(kind, version, s.port)

    return Offer(kind, version, start, note="primary and replica")


def _replica_of(primary: Server) -> dict[str, str | list[str]]:
    return {"appendonly": "no", "replicaof": f"127.0.0.1 {primary.port}"}


def _watch(primary: Server) -> dict[str, str | list[str]]:
    return {"sentinel": [f"monitor {SERVICE} 127.0.0.1 {primary.port} 1"]}


def _sentinel(executable: Path, directory: Path) -> Path:
    # The binary becomes a Sentinel by the name that it is called by.
    name = directory / "redis-sentinel"
    name.symlink_to(executable)
    return name


class _Client(redis.Redis):
    """A client whose ``close`` also closes the connections to the Sentinel."""

    def close(self) -> None:
        super().close()
        for sentinel in _sentinels(self):
            sentinel.close()


class _AsyncClient(redis.asyncio.Redis):
    """A client whose ``aclose`` also closes the connections to the Sentinel."""

    async def aclose(self, close_connection_pool: bool | None = None) -> None:
        await super().aclose(close_connection_pool)
        for sentinel in _sentinels(self):
            await sentinel.aclose()


def _sentinels(client: Any) -> list[Any]:
    pool = getattr(client, "connection_pool", None)
    return list(pool.sentinel_manager.sentinels) if pool is not None else []


def _target(kind: str, version: str, port: int) -> Target:
    def make_client() -> redis.Redis:
        manager: Any = _sync_sentinel([("127.0.0.1", port)])
        client: redis.Redis = manager.master_for(SERVICE, redis_class=_Client)
        return client

    def make_async_client() -> Any:
        manager: Any = _async_sentinel([("127.0.0.1", port)])
        return manager.master_for(SERVICE, redis_class=_AsyncClient)

    control = make_client()
    wait_until(lambda: _has_replica(control), "the replica to be in step")
    return Target(kind, version, None, make_client, make_async_client, control)


def _has_replica(client: redis.Redis) -> bool:
    info: Any = client.info("replication")
    return bool(info["connected_slaves"] == 1 and info["slave0"]["state"] == "online")
