"""How long does a message take at a set rate?

The producer pushes on a fixed schedule, whatever happened to the previous message. The time counts
from the scheduled moment until the consumer has the message, so a queue that falls behind pays for
it. (Otherwise a stall would hide all messages that should have been pushed meanwhile.) Producer and
consumer are one process each, with one connection. First, each pair's maximum rate is measured;
then it is loaded with shares of that rate.
"""

import random
import statistics
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import ExitStack, closing, nullcontext, suppress
from functools import partial
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import orjson
import redis

from ackq import Message, Queue
from ackq.bench.contestants import CONSUMER, GROUP, LONG, entries_of
from ackq.bench.figures import Measure, Ratio, Result
from ackq.bench.rounds import PERCENTILES, in_turns, percentiles
from ackq.queue.keys import QueueKeys
from benchmarks.delayed import delayed
from benchmarks.frame import Options, Settings, facts, progress
from benchmarks.processes import beside
from benchmarks.servers import target

PURPOSE = "Latency at a set rate, from the intended push to the delivery."
KEY = "ackq-benchmark:latency"
#: Bytes of a message.
SIZE = 100
#: Seconds that a consumer waits at a time.
POP_TIMEOUT = 1.0
#: Seconds between the start of the producer and its first message.
LEAD = 0.05
#: Messages that find about how many a second can be carried.
PROBE = 100


def options(options: Options) -> None:
    """Add the options."""
    options.size("shares", (0.1, 0.5, 0.8), smoke=(0.5,), help="of the maximum")
    options.size(
        "delays",
        (0.0, 1.0),
        smoke=(0.0, 1.0),
        help="ms that a proxy adds to a round trip; 0: no proxy",
        metavar="MS",
    )
    options.size("rounds", 6, quick=3, smoke=1, help="of each contestant")
    options.size("seconds", 4.0, quick=2.0, smoke=0.1, help="of each round", metavar="S")


class Side(ABC):
    """One end of a queue: pushes, or takes and settles, one message per call."""

    def __init__(self, url: str) -> None:
        self.client: redis.Redis = redis.Redis.from_url(url)
        self.client.ping()

    @abstractmethod
    def push(self, body: bytes) -> None:
        """Store one message."""

    @abstractmethod
    def take(self) -> bytes | None:
        """Settle the previous message, and wait for the next."""

    def close(self) -> None:
        self.client.close()


class BareList(Side):
    """LPUSH and BRPOP: a crash of the consumer loses its message."""

    def push(self, body: bytes) -> None:
        self.client.lpush(KEY, body)

    def take(self) -> bytes | None:
        found: Any = self.client.brpop([KEY], timeout=POP_TIMEOUT)
        return found[1] if found else None


class Stream(Side):
    """XADD; XACK, XDEL and a blocking XREADGROUP in one round trip."""

    _taken: Any = None

    def push(self, body: bytes) -> None:
        self.client.xadd(KEY, {"body": body})

    def take(self) -> bytes | None:
        pipeline = self.client.pipeline(transaction=False)
        if self._taken:
            pipeline.xack(KEY, GROUP, self._taken)
            pipeline.xdel(KEY, self._taken)
        pipeline.xreadgroup(GROUP, CONSUMER, {KEY: ">"}, count=1, block=round(POP_TIMEOUT * 1000))
        entries = entries_of(pipeline.execute()[-1])
        self._taken = entries[0][0] if entries else None
        return entries[0][1][b"body"] if entries else None


class Ackq(Side):
    """push, and pop with the ack of the previous message."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self._queue = Queue(self.client, KEY, visibility_timeout=LONG)
        self._taken: Message | tuple[()] = ()

    def push(self, body: bytes) -> None:
        self._queue.push(body)

    def take(self) -> bytes | None:
        message = self._queue.pop(POP_TIMEOUT, ack=self._taken)
        self._taken = message or ()
        return message.body if message else None

    def close(self) -> None:
        self._queue.close()
        super().close()


SIDES: dict[str, type[Side]] = {"ackq": Ackq, "LPUSH and BRPOP": BareList, "streams": Stream}


class Load(NamedTuple):
    """A number of messages and a rate per second; 0 means as fast as possible."""

    name: str
    messages: int
    rate: float = 0.0


def produce(pipe: Connection, url: str, seed: int) -> None:
    """Push load after load, each message at its scheduled time or as soon as possible after."""
    payload = "".join(random.Random(seed).choices("abcdefgh", k=SIZE - 65))
    for load in loads(pipe):
        with closing(SIDES[load.name](url)) as side:
            pipe.send("ready")
            pipe.recv()
            start = time.monotonic() + LEAD
            for number in range(load.messages):
                due = start + (number / load.rate if load.rate else 0)
                if (left := due - time.monotonic()) > 0:
                    time.sleep(left)
                body = {"id": f"m{number:08d}", "due": due, "payload": payload}
                side.push(orjson.dumps(body))


def consume(pipe: Connection, url: str) -> None:
    """Take load after load; send each message's latency, and the time from first to last."""
    for load in loads(pipe):
        with closing(SIDES[load.name](url)) as side:
            pipe.send("ready")
            delays: list[float] = []
            begin = now = 0.0
            while len(delays) < load.messages:
                body = side.take()
                now = time.monotonic()
                if body is not None:
                    due = orjson.loads(body)["due"]
                    begin = begin or due
                    delays.append(now - due)
            pipe.send((delays, now - begin))


def loads(pipe: Connection) -> Iterator[Load]:
    """Yield loads from the pipe until it is closed."""
    with suppress(EOFError):
        while True:
            yield pipe.recv()


class Pair:
    """A producer and a consumer of one queue."""

    def __init__(self, url: str, direct_url: str, seed: int, stack: ExitStack) -> None:
        self._client: redis.Redis = redis.Redis.from_url(direct_url)
        stack.callback(self._client.close)
        self._producer = stack.enter_context(beside(produce, url, seed))
        self._consumer = stack.enter_context(beside(consume, url))

    def carry(self, load: Load) -> tuple[list[float], float]:
        """Return the sorted latencies in seconds, and the messages received per second."""
        self._client.unlink(*QueueKeys.of(KEY).all())
        if load.name == "streams":
            self._client.xgroup_create(KEY, GROUP, id="0", mkstream=True)
        for side in (self._consumer, self._producer):
            side.send(load)
        for side in (self._consumer, self._producer):
            side.recv()
        self._producer.send("go")
        delays, seconds = self._consumer.recv()
        self._client.unlink(*QueueKeys.of(KEY).all())
        return sorted(delays), load.messages / seconds

    def maximum(self, name: str, seconds: float) -> float:
        """Return the messages received per second if they are pushed as fast as possible."""
        _, rate = self.carry(Load(name, PROBE))
        return self.carry(Load(name, max(PROBE, round(rate * seconds))))[1]


def run(settings: Settings) -> Result:
    """For every delay, measure each pair's maximum rate, then shares of it, in turns."""
    with target(settings.url) as server:
        result = Result("latency", facts(server, settings))
        for delay in settings.delays:
            network = delayed(server.url, delay) if delay else nullcontext(server.url)
            where = f"round trip + {delay:g} ms" if delay else "loopback"
            with ExitStack() as stack:
                url = stack.enter_context(network)
                pair = Pair(url, server.url, settings.seed, stack)
                _measure(result, where, pair, settings)
    result.notes += [
        "Latency counts from the moment that a push was planned for, so that a stall is charged to"
        " every message that it delays. Sleeping until that moment overshoots by some tens of"
        " microseconds, for everybody alike.",
        "Shares are of what the same pair of processes carried when it pushed as fast as it could;"
        " server, producer and consumer share the processors of this machine.",
    ]
    return result


def _measure(result: Result, where: str, pair: Pair, settings: Settings) -> None:
    progress(f"{where}: maximum")
    highest = {name: partial(pair.maximum, name, settings.seconds) for name in SIDES}
    rates = in_turns(highest, settings.rounds)
    for name, found in rates.items():
        result.measures.append(
            Measure(where, name, "maximum", "messages/s", tuple(found), more_is_better=True)
        )
    for share in settings.shares:
        case = f"{where}, {share:.0%} of its maximum"
        progress(case)
        turns = {}
        for name, found in rates.items():
            rate = statistics.median(found) * share
            load = Load(name, max(1, round(rate * settings.seconds)), rate)
            turns[name] = partial(pair.carry, load)
        rounds = in_turns(turns, settings.rounds)
        _report(
            result, case, {name: [delays for delays, _ in each] for name, each in rounds.items()}
        )


def _report(result: Result, case: str, rounds: dict[str, list[list[float]]]) -> None:
    found = {
        (name, label): [value * 1000 for value in percentiles(share, delays)]
        for name, delays in rounds.items()
        for label, share in PERCENTILES.items()
    }
    for (name, label), values in found.items():
        if values:
            figure = f"latency, {label}"
            result.measures.append(Measure(case, name, figure, "ms", tuple(values)))
    for label in ("p50", "p99"):
        for other in list(SIDES)[1:]:
            above, below = found["ackq", label], found[other, label]
            if len(above) == len(below) > 0:
                what = f"{case}: ackq / {other}: latency, {label}"
                result.ratios.append(Ratio.of(what, above, below, ceiling=True))
