"""How do a thousand consumers of one sharded queue agree on who owns which shard?

They run ackq's own heartbeats over a connection each, all in one thread and without redis-py,
which takes more of the processor than the server does.
"""

import heapq
import random
import selectors
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import hiredis
import redis

from ackq import scripts
from ackq.bench.figures import Measure, Result
from ackq.bench.rounds import ServerCpu
from ackq.core.effects import Operation, Request
from ackq.membership.operations import Assignment, GroupKeys, GroupSpec, Session, heartbeat
from benchmarks.frame import Options, Settings, facts, progress
from benchmarks.idle import make_room
from benchmarks.servers import target

PURPOSE = "Groups of a thousand consumers: when they agree, and what it costs."
GROUP = "{ackq-benchmark:fleet}"
FIGURES = (
    ("agreement after the last start", "s"),
    ("server's CPU, starting", "%"),
    ("server's CPU, steady", "%"),
    ("agreement after deaths", "s"),
)
#: Longest time, in seconds, until a group agrees.
LIMIT = 300.0
#: Seconds for which a settled group, or an idle server, is watched.
WATCHED = 5.0


def options(options: Options) -> None:
    """Add the options."""
    options.size("consumers", (10, 100, 1000), quick=(100, 1000), smoke=(5,), help="of a group")
    options.size("shards", (12, 120), quick=(120,), smoke=(4,), help="of the queue")
    options.size("rounds", 5, quick=2, smoke=1, help="of each group")
    options.size("start", 10.0, smoke=0.2, help="all consumers within", metavar="S")
    options.size("session", 10.0, smoke=0.5, help="that a session lasts", metavar="S")


def run(settings: Settings) -> Result:
    """Measure groups of all sizes."""
    with target(settings.url) as server:
        result = Result("fleet", facts(server, settings))
        with redis.Redis.from_url(server.url) as client:
            for name in ("members/heartbeat", "members/assign"):
                client.script_load(scripts.load(name).text)  # so that no consumer needs to
            make_room(client, max(settings.consumers))
            for shards in settings.shards:
                spec = GroupSpec.of(GROUP, shards, settings.session)
                for consumers in settings.consumers:
                    case, courses = f"{consumers} consumers, {shards} shards", []
                    for number in range(settings.rounds):
                        progress(case)
                        with _group(client, spec, consumers, server.url) as group:
                            draw = random.Random(settings.seed + number)
                            courses.append(group.course(settings.start, draw))
                    for (figure, unit), values in zip(
                        FIGURES, zip(*courses, strict=True), strict=True
                    ):
                        result.measures.append(Measure(case, "ackq", figure, unit, values))
    result.notes.append(
        f"All consumers start within {settings.start:g} s. Later, a tenth of them dies; their"
        f" sessions last {settings.session:g} s."
    )
    return result


@contextmanager
def _group(
    client: redis.Redis, spec: GroupSpec, consumers: int, url: str
) -> Iterator["_Consumers"]:
    group = _Consumers(spec, consumers, url)
    try:
        yield group
    finally:
        group.close()
        client.unlink(*GroupKeys.of(GROUP).all())


class _Course(NamedTuple):
    """What happened to one group, in the order of `FIGURES`: seconds, and percent of a core."""

    settled: float
    starting: float
    steady: float
    recovered: float


class _Consumer:
    """One consumer, with its connection and the heartbeat that is under way."""

    def __init__(self, spec: GroupSpec, name: str, connected: socket.socket) -> None:
        self._spec = spec
        self._operation: Operation[Assignment] | None = None
        self.session = Session(name)
        self.socket = connected
        self.reader = hiredis.Reader()

    def go_on(self, reply: object = None) -> Request | None:
        """Return the next request; None if the heartbeat is over."""
        try:
            if self._operation is None:
                self._operation = heartbeat(self._spec, self.session)
                found = next(self._operation)
            else:
                found = self._operation.send(reply)
        except StopIteration:
            self._operation = None
            return None
        assert isinstance(found, Request)
        return found


class _Consumers:
    """The consumers of a group, those that live."""

    def __init__(self, spec: GroupSpec, consumers: int, url: str) -> None:
        self._spec = spec
        self._cpu = ServerCpu(url)
        self._selector = selectors.DefaultSelector()
        self._asleep: list[tuple[float, str, _Consumer]] = []
        address = urlsplit(url)
        self._living: set[_Consumer] = set()
        for number in range(consumers):
            connected = socket.create_connection((address.hostname, address.port or 6379))
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            consumer = _Consumer(spec, f"{number:08d}", connected)
            self._selector.register(connected, selectors.EVENT_READ, consumer)
            self._living.add(consumer)
        cpu, began = self._cpu.seconds(), time.monotonic()
        time.sleep(WATCHED)
        #: The share of a core that the server takes with these connections, idle.
        self._idle = (self._cpu.seconds() - cpu) / (time.monotonic() - began)

    def course(self, starting: float, draw: random.Random) -> _Course:
        """Let all start within ``starting`` seconds; kill a tenth later; return what happened."""
        began, cpu = time.monotonic(), self._cpu.seconds()
        for number, each in enumerate(self._living):
            self._sleep(each, starting * number / len(self._living))
        self._run(until=began + starting)
        last = time.monotonic()
        self._wait(self._agreed)
        settled, busy = time.monotonic() - last, self._busy(began, cpu)
        began, cpu = time.monotonic(), self._cpu.seconds()
        self._run(until=began + WATCHED)
        steady = self._busy(began, cpu)
        began = time.monotonic()
        names = sorted(self._living, key=lambda each: each.session.base)
        for each in draw.sample(names, max(1, len(names) // 10)):
            self._living.remove(each)
            self._selector.unregister(each.socket)
            each.socket.close()
        # Nobody knows before their sessions end.
        first = max(self._generations())
        self._wait(lambda: max(self._generations()) > first)
        self._wait(self._agreed)
        return _Course(settled, busy, steady, time.monotonic() - began)

    def close(self) -> None:
        """Close all connections."""
        for each in self._living:
            each.socket.close()
        self._selector.close()
        self._cpu.close()

    def _busy(self, since: float, cpu: float) -> float:
        passed = time.monotonic() - since
        return 100 * ((self._cpu.seconds() - cpu) / passed - self._idle)

    def _generations(self) -> set[int]:
        known = (each.session.assignment for each in self._living)
        return {each.generation if each else 0 for each in known}

    def _agreed(self) -> bool:
        """Return whether the living know one assignment, in which each partition has an owner."""
        known = [each.session.assignment for each in self._living]
        if len(self._generations()) != 1:
            return False
        return sum(len(each.partitions) for each in known if each) == self._spec.partitions

    def _wait(self, done: Callable[[], bool]) -> None:
        until = time.monotonic() + LIMIT
        while not done():
            if time.monotonic() >= until:
                raise TimeoutError(f"{len(self._living)} consumers did not agree in {LIMIT:g} s")
            self._run(until=time.monotonic() + 0.05)

    def _run(self, until: float) -> None:
        while (now := time.monotonic()) < until:
            while self._asleep and self._asleep[0][0] <= now:
                self._go_on(heapq.heappop(self._asleep)[2], None)
            soon = min(until, self._asleep[0][0]) if self._asleep else until
            for ready, _ in self._selector.select(max(0.0, soon - time.monotonic())):
                consumer: _Consumer = ready.data
                consumer.reader.feed(consumer.socket.recv(1 << 20))
                while (reply := consumer.reader.gets()) is not False:
                    if isinstance(reply, Exception):
                        raise reply
                    self._go_on(consumer, reply)

    def _sleep(self, consumer: _Consumer, seconds: float) -> None:
        entry = (time.monotonic() + seconds, consumer.session.base, consumer)
        heapq.heappush(self._asleep, entry)

    def _go_on(self, consumer: _Consumer, reply: Any) -> None:
        if consumer not in self._living:
            return
        request = consumer.go_on(reply)
        if request is None:
            self._sleep(consumer, consumer.session.next_heartbeat)
        else:
            consumer.socket.sendall(request.packed())
