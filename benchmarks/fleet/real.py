"""A group in real time: a real server, and a connection for each consumer."""

import heapq
import selectors
import socket
import time
from typing import Any
from urllib.parse import urlsplit

import hiredis
import redis

from ackq import scripts
from ackq.bench.rounds import ServerCpu
from ackq.core.effects import Request
from ackq.membership.assign import assign
from ackq.membership.operations import Assignment, GroupKeys, GroupSpec, Session, heartbeat
from benchmarks.fleet.virtual import Costs
from benchmarks.fleet.world import GROUP, Consumer, World

#: Requests by which a cost is measured.
PROBES = 200
#: Seconds for which an idle server is watched.
IDLE = 2.0
KEYS = GroupKeys.of(GROUP)


class Real(World):
    """All consumers in this thread, without redis-py, which takes more than the server does."""

    def __init__(self, spec: GroupSpec, consumers: int, seed: int, url: str) -> None:
        super().__init__(spec, consumers, seed)
        address = urlsplit(url)
        self._address = address.hostname or "127.0.0.1", address.port or 6379
        self._cpu = ServerCpu(url)
        self._selector = selectors.DefaultSelector()
        self._sockets = {consumer: self._connected(consumer) for consumer in self.consumers}
        self._asleep: list[tuple[float, str, Consumer]] = []
        self._idle = self._measured_idle()

    def now(self) -> float:
        return time.monotonic()

    def cpu(self) -> float:
        return self._cpu.seconds() - self._idle * self.now()

    def start(self, consumer: Consumer, after: float) -> None:
        self._sleep(consumer, after)

    def kill(self, consumer: Consumer) -> None:
        consumer.alive = False
        self._selector.unregister(self._sockets[consumer])
        self._sockets.pop(consumer).close()

    def step(self, until: float) -> None:
        while self._asleep and self._asleep[0][0] <= self.now():
            self._go_on(heapq.heappop(self._asleep)[2], None)
        soon = min(until, self._asleep[0][0]) if self._asleep else until
        for ready, _ in self._selector.select(max(0.0, soon - self.now())):
            consumer, reader = ready.data
            reader.feed(self._sockets[consumer].recv(1 << 20))
            while (reply := reader.gets()) is not False:
                if isinstance(reply, Exception):
                    raise reply
                self._go_on(consumer, reply)

    def close(self) -> None:
        """Close all connections."""
        for each in self._sockets.values():
            each.close()
        self._selector.close()
        self._cpu.close()

    def _connected(self, consumer: Consumer) -> socket.socket:
        connected = socket.create_connection(self._address)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        reading = (consumer, hiredis.Reader())
        self._selector.register(connected, selectors.EVENT_READ, reading)
        return connected

    def _measured_idle(self) -> float:
        """Return the share of a core that the server takes with these connections, idle."""
        cpu, began = self._cpu.seconds(), self.now()
        time.sleep(IDLE)
        return (self._cpu.seconds() - cpu) / (self.now() - began)

    def _sleep(self, consumer: Consumer, seconds: float) -> None:
        entry = (self.now() + seconds, consumer.session.base, consumer)
        heapq.heappush(self._asleep, entry)

    def _go_on(self, consumer: Consumer, reply: Any) -> None:
        if not consumer.alive:
            return
        request = consumer.go_on(reply)
        if request is None:
            self._sleep(consumer, consumer.session.next_heartbeat)
        else:
            self._sockets[consumer].sendall(request.packed())


def measure_costs(client: redis.Redis, url: str, members: int, shards: int) -> Costs:
    """Measure what requests cost the server."""
    cpu = ServerCpu(url)
    spec = GroupSpec.of(GROUP, shards, 3600.0)

    def cost(request: Request, times: int = PROBES) -> float:
        before = cpu.seconds()
        for _ in range(times):
            client.execute_command(*request.command())
        return (cpu.seconds() - before) / times

    def fill(count: int) -> None:
        far = (time.time() + 3600) * 1e6
        client.unlink(*KEYS.all())
        client.zadd(KEYS.members, {f"{number}:1": far for number in range(count)})
        client.hset(KEYS.group.decode(), mapping={"generation": 1, "shares": shards})

    def beat(generation: int) -> Request:
        known = Assignment("0:1", generation, (), members) if generation else None
        request = next(heartbeat(spec, Session("0", joined=True, assignment=known)))
        assert isinstance(request, Request)
        return request

    try:
        fill(1)
        alone = cost(beat(0))
        fill(members)
        unassigned = cost(beat(0))
        owners = assign(shards, [b"%d:1" % number for number in range(members)], {})
        pairs = [part for pair in owners.items() for part in pair]
        whole = Request((3, *KEYS.all(), 1, *pairs), scripts.load("members/assign"))
        assigning = cost(whole, 1)
        changed, known = cost(beat(0)), cost(beat(1))
    finally:
        client.unlink(*KEYS.all())
        cpu.close()
    return Costs(known, changed, unassigned, alone, assigning, members)


def load_scripts(client: redis.Redis) -> None:
    """Load the scripts, so that no consumer needs to."""
    for name in ("members/heartbeat", "members/assign"):
        client.script_load(scripts.load(name).text)
