"""What a run connects to: one server on an unreliable machine, a Sentinel's pair, a cluster."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import psutil
import redis
from redis.crc import key_slot

import ackq.embedded.server
from ackq.embedded import Server
from tests.faults.proxy import Proxy
from tests.faults.slots import follow, is_whole
from tests.servers import binaries, private_server
from tests.servers.process import running
from tests.waiting import wait_until

from .machine import Machine
from .site import SERVICE, Site
from .split import Split
from .workloads import WORKLOADS

if TYPE_CHECKING:
    from .scenarios import Scenario

# On a busy machine a server takes its time to start.
ackq.embedded.server.START_TIMEOUT = 120.0

#: The binaries that a run may use, as tests/servers finds them.
BINARIES: dict[str, Callable[[], Path]] = {
    "redis 6.2": binaries.oldest_server,
    "redis": binaries.system_server,
    "redis 8": binaries.newest_server,
    "valkey": binaries.bundled_valkey,
}
#: ms of silence after which a Sentinel would replace a primary by itself. On a busy machine it must
#: not, since the checker has to know of each failover.
DOWN_AFTER = 60_000
#: Periods of a Sentinel in ms, shorter than usual: it soon knows which replica it can promote, and
#: pauses only briefly after a busy machine has delayed it.
_QUICK = ("info-period", 1000, "tilt-period", 1000)
#: What a server does to keep its data.
Persistence = Literal["always", "everysec", "none"]


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
            "include": str(folder / "more.conf"),
        }
        self._more = folder / "more.conf"
        self._more.touch()
        self.server: Server = self._stack.enter_context(
            private_server(folder / "server", self.machine.executable, **options)
        )
        assert self.server.port is not None
        self.proxy = self._stack.enter_context(Proxy(self.server.port)) if proxied else None
        self.site = Site(
            "server", self.proxy.port if self.proxy else self.server.port, folder=folder.absolute()
        )

    @property
    def release(self) -> str:
        return str(self.server.release)

    @contextlib.contextmanager
    def loading_slowly(self, microseconds: int) -> Iterator[None]:
        """Let a server that starts in this block take so long for each command of its log."""
        self._more.write_text(f"key-load-delay {microseconds}\n")
        try:
            yield
        finally:
            self._more.write_text("")

    def undone_since(self, power: bool) -> float | None:
        """Return since when answers are undone, of a server that was just killed.

        Args:
            power: whether its power was cut too.
        """
        if self.persistence == "always":
            return None
        if self.persistence == "none":
            return 0.0
        return self.machine.durable if power else self.machine.written

    def has_died(self) -> bool:
        """Whether the server ended by itself."""
        return psutil.Process(self.server.pid).status() == psutil.STATUS_ZOMBIE

    def close(self) -> None:
        """Stop the server."""
        self._stack.close()


class Pair:
    """A primary and its replica, and the Sentinel that knows which is which."""

    persistence: Persistence = "none"

    def __init__(self, folder: Path, binary: Path) -> None:
        self._stack = contextlib.ExitStack()
        options: dict[str, str | list[str]] = {"appendonly": "no"}
        self.servers = [
            self._stack.enter_context(private_server(folder / f"server-{n}", binary, **options))
            for n in range(2)
        ]
        self.clients = [
            self._stack.enter_context(redis.Redis.from_url(server.url)) for server in self.servers
        ]
        self.follow(1, 0)
        port = self.servers[0].port
        watch: list[str] = [
            f"monitor {SERVICE} 127.0.0.1 {port} 1",
            f"down-after-milliseconds {SERVICE} {DOWN_AFTER}",
            f"failover-timeout {SERVICE} 4000",
        ]
        name = folder / "redis-sentinel"
        name.symlink_to(binary)
        sentinel = self._stack.enter_context(
            running(folder / "sentinel", name, {"sentinel": watch})
        )
        assert sentinel.port is not None
        self._sentinel = self._stack.enter_context(redis.Redis(port=sentinel.port))
        self._sentinel.execute_command("SENTINEL DEBUG", *_QUICK)
        self.site = Site("sentinel", sentinel.port)
        wait_until(lambda: self._replicas() == 1, "the Sentinel to know the replica")

    @property
    def release(self) -> str:
        return str(self.servers[0].release)

    @property
    def primary(self) -> int:
        """The number of the server that the Sentinel names."""
        _, port = self._sentinel.execute_command("SENTINEL GET-MASTER-ADDR-BY-NAME", SERVICE)
        return [server.port for server in self.servers].index(int(port))

    @property
    def is_failing_over(self) -> bool:
        """Whether the Sentinel has not finished with a failover."""
        found = self._sentinel.execute_command("SENTINEL MASTER", SERVICE)
        return "failover_in_progress" in str(found)

    def promote(self) -> None:
        """Ask the Sentinel to promote the replica, as if it did not reach the primary.

        Nothing happens if it is about to, or does not know yet whether it can.
        """
        with contextlib.suppress(redis.ResponseError):
            self._sentinel.execute_command("SENTINEL FAILOVER", SERVICE)

    def follow(self, replica: int, primary: int) -> None:
        """Make one a replica of the other; return when it is in step."""
        self.clients[replica].execute_command("REPLICAOF", "127.0.0.1", self.servers[primary].port)
        wait_until(lambda: _in_step(self.clients[primary]), "the replica to be in step")

    def _replicas(self) -> int:
        return len(self._sentinel.execute_command("SENTINEL REPLICAS", SERVICE))

    def close(self) -> None:
        """Stop all of them."""
        self._stack.close()


class Cluster:
    """Two primaries of a cluster, and a replica of the one that has the queue."""

    persistence: Persistence = "none"

    def __init__(self, folder: Path, binary: Path, tags: Sequence[str]) -> None:
        #: The slots of keys with these hash tags.
        self.slots = [key_slot(tag.encode()) for tag in tags]
        self._stack = contextlib.ExitStack()
        options: dict[str, str | list[str]] = {"cluster-enabled": "yes", "appendonly": "no"}
        self.servers = [
            self._stack.enter_context(running(folder / str(n), binary, options, cluster=True))
            for n in range(3)
        ]
        self.clients = [
            self._stack.enter_context(redis.Redis.from_url(server.url)) for server in self.servers
        ]
        first, other, replica = self.clients
        for number, client in enumerate(self.clients):
            client.execute_command("CLUSTER SET-CONFIG-EPOCH", number + 1)
        own = {*range(self.slots[0], self.slots[0] + 1000), *self.slots}
        first.execute_command("CLUSTER ADDSLOTS", *own)
        other.execute_command("CLUSTER ADDSLOTS", *sorted({*range(16_384)} - own))
        for client in (first, replica):
            client.execute_command("CLUSTER MEET", "127.0.0.1", str(self.servers[1].port))
        wait_until(lambda: all(is_whole(each, 3) for each in self.clients), "a whole cluster")
        follow(replica, first.execute_command("CLUSTER MYID").decode())
        wait_until(lambda: _in_step(first), "the replica to be in step")
        assert self.servers[1].port is not None
        self.site = Site("cluster", self.servers[1].port)

    @property
    def release(self) -> str:
        return str(self.servers[0].release)

    def close(self) -> None:
        """Stop all nodes."""
        self._stack.close()


def _in_step(primary: redis.Redis) -> bool:
    info: Any = primary.info("replication")
    return bool(info["connected_slaves"] == 1 and info["slave0"]["state"] == "online")


Deployment: TypeAlias = Single | Pair | Split | Cluster


@contextlib.contextmanager
def deploy(scenario: Scenario, folder: Path) -> Iterator[Deployment]:
    """Start what a scenario runs on."""
    binary = BINARIES[scenario.binary]()
    if scenario.on == "sentinel":
        deployed: Deployment = Pair(folder, binary)
    elif scenario.on == "sentinels":
        deployed = Split(folder, binary)
    elif scenario.on == "cluster":
        deployed = Cluster(folder, binary, WORKLOADS[scenario.workload].rig.tags)
    else:
        deployed = Single(folder, binary, scenario.persistence, scenario.proxied)
    with contextlib.closing(deployed):
        yield deployed
