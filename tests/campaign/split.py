"""A primary, its replica and three Sentinels on a network that can be divided."""

import contextlib
from pathlib import Path
from typing import Any

import redis

from ackq.embedded import Server
from tests.servers import private_server
from tests.servers.process import running
from tests.waiting import wait_until

from .network import HOME, Network
from .site import SERVICE, Site

#: Where the servers and Sentinels connect from.
SERVERS = ("127.0.1.1", "127.0.1.2")
SENTINELS = ("127.0.1.3", "127.0.1.4", "127.0.1.5")
#: Where clients reach the servers: those that a partition cuts off, and the others.
FEW, MOST = "127.0.2.1", "127.0.2.2"
#: ms of silence after which a Sentinel takes the primary for dead, in a partition. At other times a
#: busy machine must not cause a failover of which the checker does not know.
DOWN_AFTER, NEVER = 1000, 60_000


class Split:
    """A partition cuts off the primary, one Sentinel and some clients: the minority."""

    persistence = "none"

    def __init__(self, folder: Path, binary: Path) -> None:
        self._stack = contextlib.ExitStack()
        self._network = Network((FEW, MOST))
        self._stack.callback(self._network.close)
        self._ports: list[int] = []
        self.servers = [self._server(folder, binary, at) for at in range(2)]
        self.clients = [self._client(server) for server in self.servers]
        self.follow(1, 0)
        name = folder / "redis-sentinel"
        name.symlink_to(binary)
        self._sentinels = [self._sentinel(folder, name, at) for at in range(3)]
        self._asked = [self._client(sentinel) for sentinel in self._sentinels]
        few, most, other = [int(sentinel.port or 0) for sentinel in self._sentinels]
        cut_off = Site("sentinel", few, address=FEW)
        self.site = Site("sentinel", most, address=MOST, others=(other,), cut_off=cut_off)
        wait_until(self._is_known, "the Sentinels to know each other and the replica", 60)

    @property
    def release(self) -> str:
        return str(self.servers[0].release)

    @property
    def primary(self) -> int:
        """The number of the server that most Sentinels name."""
        return self._named(1)

    def partition(self) -> None:
        """Cut off the primary, a Sentinel and some clients; return when there are two primaries."""
        old = self.primary
        self._watch(DOWN_AFTER)
        self._network.divide((SERVERS[old], SENTINELS[0], FEW))
        wait_until(lambda: self._named(1) != old != self._named(2), "the majority to fail over", 90)
        wait_until(lambda: self.clients[1 - old].role()[0] == b"master", "a new primary", 60)

    def heal(self, old: int) -> None:
        """End the partition; return when all agree, and the old primary follows the new one."""
        self._watch(NEVER)
        self._network.heal()
        wait_until(lambda: self._named(0) != old, "the last Sentinel to learn of it", 90)
        self.follow(old, 1 - old)

    def follow(self, replica: int, primary: int) -> None:
        """Make one a replica of the other; return when it is in step."""
        self.clients[replica].execute_command("REPLICAOF", HOME, self._ports[primary])
        wait_until(lambda: self._is_in_step(primary), "the replica to be in step", 60)

    def close(self) -> None:
        """Stop all of them."""
        self._network.heal()
        self._stack.close()

    def _server(self, folder: Path, binary: Path, at: int) -> Server:
        port = self._network.open()
        server = self._stack.enter_context(
            private_server(
                folder / f"server-{at}",
                binary,
                appendonly="no",
                replica_announce_ip=HOME,
                replica_announce_port=str(port),
                bind_source_addr=SERVERS[at],
            )
        )
        assert server.port is not None
        self._network.connect(SERVERS[at], port, server.port)
        self._ports.append(port)
        return server

    def _sentinel(self, folder: Path, name: Path, at: int) -> Server:
        port = self._network.open()
        lines = [
            f"monitor {SERVICE} {HOME} {self._ports[0]} 2",
            f"down-after-milliseconds {SERVICE} {NEVER}",
            f"failover-timeout {SERVICE} 4000",
            f"announce-ip {HOME}",
            f"announce-port {port}",
        ]
        options: dict[str, str | list[str]] = {
            "sentinel": lines,
            "bind-source-addr": SENTINELS[at],
        }
        server = self._stack.enter_context(running(folder / f"sentinel-{at}", name, options))
        assert server.port is not None
        self._network.connect(SENTINELS[at], port, server.port)
        return server

    def _client(self, server: Server) -> redis.Redis:
        client: redis.Redis = redis.Redis.from_url(server.url)
        self._stack.enter_context(client)
        return client

    def _watch(self, milliseconds: int) -> None:
        for each in self._asked:
            each.execute_command("SENTINEL SET", SERVICE, "down-after-milliseconds", milliseconds)

    def _named(self, sentinel: int) -> int:
        """Return the number of the server that a Sentinel takes for the primary."""
        _, port = self._asked[sentinel].execute_command("SENTINEL GET-MASTER-ADDR-BY-NAME", SERVICE)
        return self._ports.index(int(port))

    def _is_known(self) -> bool:
        return all(
            len(each.execute_command("SENTINEL REPLICAS", SERVICE)) == 1
            and len(each.execute_command("SENTINEL SENTINELS", SERVICE)) == 2
            for each in self._asked
        )

    def _is_in_step(self, primary: int) -> bool:
        info: Any = self.clients[primary].info("replication")
        return bool(info["connected_slaves"] == 1 and info["slave0"]["state"] == "online")
