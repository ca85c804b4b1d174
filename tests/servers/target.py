"""What a test knows about a server, and what a session knows before it starts one."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import redis
import redis.asyncio
from redis.cluster import RedisCluster

from ackq.embedded import server_version

Client: TypeAlias = "redis.Redis | RedisCluster"
#: redis.asyncio.Redis or RedisCluster; create and close it inside its loop.
AsyncClient: TypeAlias = Any


@dataclass(frozen=True)
class Target:
    """A running deployment of Redis: one server, or several that belong together."""

    name: str  #: the id in test names, such as "oldest-6.2.14"
    version: str  #: of the product: Valkey's, not that of the Redis it is compatible with
    url: str | None  #: None where no URL of redis-py says it all
    make_client: Callable[[], Client]
    make_async_client: Callable[[], AsyncClient]
    control: Client  #: for tests to look at the server with; decodes nothing
    cluster: bool = False

    def calls(self, *commands: str) -> int:
        """Return how often these commands have run so far, on all primaries together."""
        nodes = {"target_nodes": "primaries"} if self.cluster else {}
        info: Any = self.control.info("commandstats", **nodes)
        parts = info.values() if self.cluster else [info]
        names = [f"cmdstat_{command}" for command in commands]
        return sum(part[name]["calls"] for part in parts for name in names if name in part)


@dataclass(frozen=True)
class Offer:
    """A deployment that this machine can have. ``start`` is called when a test wants it."""

    name: str
    version: str
    start: Callable[[Path], AbstractContextManager[Target]]
    note: str = ""  #: what the header adds, such as the image


class Absent(Exception):
    """This machine cannot have the deployment; the text says why."""


def dotted(executable: Path) -> str:
    """Return the version of a redis-server binary, such as "6.2.14"."""
    return ".".join(map(str, server_version(executable)))


def url_target(name: str, version: str, url: str) -> Target:
    """Return the target that a URL describes completely."""
    return Target(
        name,
        version,
        url,
        make_client=lambda: redis.Redis.from_url(url),
        make_async_client=lambda: redis.asyncio.Redis.from_url(url),
        control=redis.Redis.from_url(url),
    )
