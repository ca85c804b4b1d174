"""What do thousands of waiting connections cost an idle server?

A process of its own opens the connections and drives on each what a consumer runs: ackq's own
operation behind ``pop(timeout=math.inf)``, or BRPOP. It does so without redis-py, which would need
more than a processor for the looks of 10,000 consumers. In production they are spread over many
machines. All wait on one queue, and nobody pushes.
"""

import heapq
import math
import selectors
import socket
import time
from collections.abc import Callable, Iterator
from functools import partial
from multiprocessing.connection import Connection
from typing import Any
from urllib.parse import urlsplit

import hiredis
import redis

from ackq import Queue
from ackq.bench.figures import Measure, Ratio, Result
from ackq.bench.rounds import in_turns
from ackq.config import QueueConfig
from ackq.core.effects import Clock, Operation, Pipeline, Request, Sleep
from ackq.core.io.outside import SYSTEM
from ackq.queue import take
from ackq.queue.keys import QueueKeys
from ackq.queue.spec import QueueSpec
from benchmarks.frame import Options, Settings, facts, progress
from benchmarks.processes import beside
from benchmarks.servers import target

PURPOSE = "What waiting connections cost an idle server."
KEY = "ackq-benchmark:idle"
#: Connections beside the waiters: those of this benchmark.
SPARE = 50
#: Longest time, in seconds, until every connection waits.
GETTING_READY = 60.0


def options(options: Options) -> None:
    """Add the options."""
    options.size("connections", (1000, 10_000), smoke=(20,), help="at once")
    options.size("rounds", 5, quick=3, smoke=1, help="of each contestant")
    options.size("seconds", 5.0, quick=3.0, smoke=0.2, help="of each round", metavar="S")


def ackq_waits() -> Operation[Any]:
    """Wait as ``Queue.pop(timeout=math.inf)`` does."""
    spec = QueueSpec(KEY, QueueKeys.of(KEY), QueueConfig(), outside=SYSTEM)
    return take.pop_many(spec, 1, math.inf, None, ())


def bare_waits() -> Operation[Any]:
    """Wait in BRPOP."""
    while True:
        yield Request((b"BRPOP", KEY, 30))


KINDS: dict[str, Callable[[], Operation[Any]]] = {"ackq": ackq_waits, "BRPOP": bare_waits}


class Waiter:
    """One connection, and the operation that waits on it."""

    def __init__(self, address: tuple[str, int], operation: Operation[Any]) -> None:
        self.socket = socket.create_connection(address)
        self._operation = operation
        self._reader = hiredis.Reader()
        #: The replies to a pipeline that have come, and how many will; None: a single request.
        self._came: list[Any] | None = None
        self._expected = 0

    def go_on(self, answer: Any) -> float:
        """Answer; send the next request, and return 0, or return the seconds to sleep."""
        step = self._operation.send(answer)
        while isinstance(step, Clock):
            step = self._operation.send(time.monotonic())
        if isinstance(step, Sleep):
            return step.seconds
        requests = step.requests if isinstance(step, Pipeline) else (step,)
        self._came = [] if isinstance(step, Pipeline) else None
        self._expected = len(requests)
        self.socket.sendall(b"".join(each.packed() for each in requests))
        return 0.0

    def answers(self) -> Iterator[Any]:
        """Read what has come, and yield the answers that are complete."""
        self._reader.feed(self.socket.recv(65_536))
        while (reply := self._reader.gets()) is not False:
            if isinstance(reply, Exception):
                raise reply
            if self._came is None:
                yield reply
                continue
            self._came.append(reply)
            if len(self._came) == self._expected:
                yield self._came


def wait(pipe: Connection, url: str, kind: str, count: int) -> None:
    """Let ``count`` connections wait until the pipe is closed."""
    address = urlsplit(url)
    where = address.hostname or "127.0.0.1", address.port or 6379
    selector = selectors.DefaultSelector()
    selector.register(pipe, selectors.EVENT_READ)
    asleep: list[tuple[float, int, Waiter]] = []
    for number in range(count):
        waiter = Waiter(where, KINDS[kind]())
        waiter.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        selector.register(waiter.socket, selectors.EVENT_READ, waiter)
        # They begin at any time of a second, as consumers do that started independently.
        heapq.heappush(asleep, (time.monotonic() + number / count, number, waiter))
    number = count
    while True:
        while asleep and asleep[0][0] <= time.monotonic():
            heapq.heappop(asleep)[2].go_on(None)
        pause = asleep[0][0] - time.monotonic() if asleep else None
        for ready, _ in selector.select(None if pause is None else max(0.0, pause)):
            if ready.data is None:
                return
            for reply in ready.data.answers():
                if seconds := ready.data.go_on(reply):
                    number += 1
                    heapq.heappush(asleep, (time.monotonic() + seconds, number, ready.data))


class Server:
    """The figures of the server."""

    def __init__(self, url: str) -> None:
        self.client: redis.Redis = redis.Redis.from_url(url)

    def read(self) -> tuple[float, int, int, int]:
        """Return its seconds of CPU, commands from clients, bytes, and blocked clients."""
        info: Any = self.client.info("everything")
        stats = {name: info.get(f"cmdstat_{name}", {}) for name in ("evalsha", "blmove", "brpop")}
        commands = sum(each.get("calls", 0) for each in stats.values())
        cpu = info["used_cpu_sys"] + info["used_cpu_user"]
        return cpu, commands, info["used_memory"], info["blocked_clients"]

    def wait_for(self, count: int) -> None:
        """Return when most of ``count`` connections wait."""
        until = time.monotonic() + GETTING_READY
        while self.read()[3] < count * 0.9:
            if time.monotonic() > until:
                raise TimeoutError(f"{self.read()[3]} of {count} connections wait")
            time.sleep(0.1)

    def close(self) -> None:
        self.client.unlink(*QueueKeys.of(KEY).all())
        self.client.close()


def make_room(client: redis.Redis, connections: int) -> None:
    """Raise the number of connections that a server accepts."""
    found: Any = client.config_get("maxclients")
    if int(found["maxclients"]) < connections + SPARE:
        client.config_set("maxclients", connections + SPARE)


def measure(url: str, kind: str, count: int, seconds: float) -> tuple[float, float, float]:
    """Return the server's CPU in %, commands per second, and KiB per connection."""
    server = Server(url)
    try:
        make_room(server.client, count)
        _, _, empty, _ = server.read()
        with beside(wait, url, kind, count):
            server.wait_for(count)
            time.sleep(min(1.0, seconds))  # all have begun
            cpu, commands, full, _ = server.read()
            began = time.monotonic()
            time.sleep(seconds)
            later, more, _, _ = server.read()
            passed = time.monotonic() - began
    finally:
        server.close()
    return 100 * (later - cpu) / passed, (more - commands) / passed, (full - empty) / count / 1024


def run(settings: Settings) -> Result:
    """Measure every number of connections, both kinds in turns."""
    with target(settings.url) as server:
        result = Result("idle", facts(server, settings))
        with redis.Redis.from_url(server.url) as client, Queue(client, KEY) as queue:
            queue.pop()  # loads the script
        for count in settings.connections:
            progress(f"{count} connections")
            turns = {
                name: partial(measure, server.url, name, count, settings.seconds) for name in KINDS
            }
            _report(result, count, in_turns(turns, settings.rounds))
    result.notes.append(
        "A single waiter of ackq looks for messages that became ready without a push after 0.75 to"
        " 1 s. Many share the looks: one each 50 ms. The CPU includes Redis's own work for each"
        " connection."
    )
    return result


def _report(
    result: Result, count: int, rounds: dict[str, list[tuple[float, float, float]]]
) -> None:
    case = f"{count} connections"
    figures = (("server's CPU", "%"), ("commands", "commands/s"), ("memory", "KiB/connection"))
    for name, found in rounds.items():
        for (figure, unit), values in zip(figures, zip(*found, strict=True), strict=True):
            result.measures.append(Measure(case, name, figure, unit, values))
    above, below = ([each[0] for each in rounds[name]] for name in ("ackq", "BRPOP"))
    result.ratios.append(Ratio.of(f"{case}: ackq / BRPOP: server's CPU", above, below))
