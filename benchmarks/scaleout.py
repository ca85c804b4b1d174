"""A sharded queue on 1, 2 and 3 nodes of a cluster, beside plain queues on one and three servers.

Producers and consumers are processes. All nodes and processes share this machine. So the figures
show that nothing is lost or delivered twice, what a message costs, and how evenly the nodes share
the work. The throughput of several machines is a model, and is marked as such.
"""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from typing import NamedTuple

import redis
from redis.cluster import RedisCluster

from ackq import Message, Queue
from ackq.bench.contestants import LONG
from ackq.bench.figures import Measure, Ratio, Result
from ackq.bench.messages import Messages
from ackq.bench.rounds import ServerCpu, in_turns
from ackq.queue.keys import QueueKeys
from ackq.sharded import ShardedQueue, choice
from benchmarks.frame import Options, Settings, facts, progress
from benchmarks.nodes import cluster
from benchmarks.processes import beside
from benchmarks.servers import Target, target

PURPOSE = "A sharded queue on 1 to 3 cluster nodes, many producers and consumers."
#: The figure that the model computes.
MODEL = "MODEL: throughput if the nodes were the limit"
NAME = "ackq-benchmark:shards"
ONE = "ackq, one queue"
#: Plain queues, which show what several servers cost on one machine.
SEVERAL = "ackq, {0} queues on {0} servers"
#: Seconds that the handling of a message takes where one shard is hot: a sleep, so that consumers
#: and not the processors of this machine are the limit.
WORK = 200e-6
#: Seconds that a consumer waits at a time.
POP_TIMEOUT = 0.2
#: Seconds until all shards have their owners, and until every message came.
GETTING_READY, GETTING_DONE = 30.0, 120.0


def options(options: Options) -> None:
    """Add the options."""
    options.size("nodes", (1, 2, 3), smoke=(2,), help="of the clusters")
    options.size("shards", 12, smoke=4, help="of the queue")
    options.size("producers", 3, smoke=1, help="processes")
    options.size("consumers", 3, smoke=2, help="processes")
    options.size("batches", (100, 1000), smoke=(100,), help="messages of one push_many or pop_many")
    options.size("messages", 120_000, quick=30_000, smoke=1000, help="in a round")
    options.size("rounds", 6, quick=3, smoke=1, help="of each contestant")


class Location(NamedTuple):
    """Where the messages are: the servers' URLs, and the number of shards.

    Without shards, each server has a queue of its own.
    """

    urls: tuple[str, ...]
    shards: int
    #: Whether most batches have one key, and handling a message takes `WORK`.
    hot: bool = False
    #: Whether consumers take from the shards of others if their own are empty.
    helps: bool = True

    def open(self, number: int) -> Queue | ShardedQueue:
        """Return the queue of a client, with its own connections."""
        if not self.shards:
            url = self.urls[number % len(self.urls)]
            return Queue(redis.Redis.from_url(url), NAME, visibility_timeout=LONG)
        client = RedisCluster.from_url(self.urls[0])
        return ShardedQueue(client, NAME, self.shards, visibility_timeout=LONG)


def produce(pipe: Connection, location: Location, number: int, seed: int) -> None:
    """Push the ordered number of messages in batches, for each order."""
    draw, pushed = Messages(seed), 0
    with location.open(number) as queue:
        for count, batch in orders(pipe):
            for first in range(0, count, batch):
                bodies = draw.many(min(batch, count - first))
                listed = [
                    {**body, "id": f"{number}-{pushed + at}"} for at, body in enumerate(bodies)
                ]
                if isinstance(queue, ShardedQueue) and location.hot and first // batch % 10:
                    queue.push_many(listed, key="hot")
                else:
                    queue.push_many(listed)
                pushed += len(bodies)
            pipe.send("done")


class Haul(NamedTuple):
    """The messages that a consumer took in one round: ids, the time of the last, its shards."""

    ids: list[str]
    last: float
    shards: tuple[int, ...]
    #: Seconds for which it handled messages.
    worked: float


def consume(pipe: Connection, location: Location, number: int) -> None:
    """Take and ack messages until the next order, then send the haul; repeat."""
    if not location.helps:
        choice.HELP_INTERVAL = math.inf
    with location.open(number) as queue:
        for _, batch in orders(pipe):
            taken: list[Message] = []
            worked = 0.0
            ids: list[str] = []
            last = 0.0
            while not pipe.poll():
                taken = queue.pop_many(batch, POP_TIMEOUT, ack=taken)
                if taken and location.hot:
                    worked += len(taken) * WORK
                    time.sleep(len(taken) * WORK)
                if taken:
                    last = time.monotonic()
                    ids += [message.id for message in taken]
            pipe.recv()
            queue.ack(*taken)
            shards = queue.assigned if isinstance(queue, ShardedQueue) else ()
            pipe.send(Haul(ids, last, shards, worked))


def orders(pipe: Connection) -> Iterator[tuple[int, int]]:
    """Yield orders from the pipe until it is closed: number of messages, and batch size."""
    with suppress(EOFError):
        while True:
            yield pipe.recv()


@dataclass(frozen=True, slots=True)
class Round:
    """One round of one contestant, with the CPU time of each node."""

    messages: int
    seconds: float
    cpu_seconds: Sequence[float]
    #: The mean share of this time for which a consumer handled messages.
    busy: float

    @property
    def rate(self) -> float:
        return self.messages / self.seconds

    @property
    def server_us(self) -> float:
        return sum(self.cpu_seconds) / self.messages * 1e6

    @property
    def busiest(self) -> float:
        """The busiest node's share of the CPU time of all nodes."""
        return max(self.cpu_seconds) / sum(self.cpu_seconds)

    @property
    def modelled_rate(self) -> float:
        """Messages per second at which the busiest node would fully use one processor."""
        return self.messages / max(self.cpu_seconds)


#: Figures of a round: the unit, the figure, and whether more is better.
Figures = dict[str, tuple[str, Callable[[Round], float], bool]]
FIGURES: Figures = {
    "throughput": ("messages/s", lambda each: each.rate, True),
    "server time": ("µs/message", lambda each: each.server_us, False),
    "share of the busiest node": ("of 1", lambda each: each.busiest, False),
    MODEL: ("messages/s", lambda each: each.modelled_rate, True),
}


#: The figures of a round in which one shard gets most of the messages.
HOT_FIGURES: Figures = {
    "throughput": FIGURES["throughput"],
    "busy consumers": ("of 1", lambda each: each.busy, True),
}
HELPED, ALONE = "ackq, consumers help", "ackq, each takes from its own shards"


class Crew:
    """The producers and consumers of one location: processes that pause between rounds."""

    def __init__(self, location: Location, settings: Settings, stack: ExitStack) -> None:
        servers = 1 if location.shards else len(location.urls)
        self._queues = [location.open(number) for number in range(servers)]
        for queue in self._queues:
            stack.callback(queue.close)
        self._cpus = [ServerCpu(url) for url in location.urls]
        for cpu in self._cpus:
            stack.callback(cpu.close)
        stack.callback(self._clear, location)
        self._producers = [
            stack.enter_context(beside(produce, location, number, settings.seed))
            for number in range(settings.producers)
        ]
        self._consumers = [
            stack.enter_context(beside(consume, location, number))
            for number in range(settings.consumers)
        ]
        deadline = time.monotonic() + GETTING_READY
        while not self._settled(location.shards):
            if time.monotonic() > deadline:
                raise TimeoutError(f"not every shard had an owner within {GETTING_READY:g} s")

    def work(self, messages: int, batch: int) -> Round:
        """Send ``messages``, and check that each was received once."""
        before = [cpu.seconds() for cpu in self._cpus]
        start = time.monotonic()
        hauls = self._carry(messages, batch)
        after = [cpu.seconds() for cpu in self._cpus]
        ids = [name for haul in hauls for name in haul.ids]
        if len(ids) != messages or len(set(ids)) != messages:
            raise AssertionError(f"{len(set(ids))} messages of {messages} came, {len(ids)} times")
        seconds = max(haul.last for haul in hauls) - start
        busy = sum(haul.worked for haul in hauls) / len(hauls) / seconds
        return Round(messages, seconds, [b - a for a, b in zip(before, after, strict=True)], busy)

    def _settled(self, shards: int) -> bool:
        """Return whether every shard has exactly one consumer. This also warms up the crew."""
        owned = [shard for haul in self._carry(100, 10) for shard in haul.shards]
        return sorted(owned) == list(range(shards))

    def _carry(self, messages: int, batch: int) -> list[Haul]:
        for consumer in self._consumers:
            consumer.send((0, batch))
        share, rest = divmod(messages, len(self._producers))
        for number, producer in enumerate(self._producers):
            producer.send((share + (number < rest), batch))
        for producer in self._producers:
            producer.recv()
        deadline = time.monotonic() + GETTING_DONE
        for queue in self._queues:
            while (stats := queue.stats()).ready + stats.in_flight:
                if time.monotonic() > deadline:
                    raise TimeoutError(f"after {GETTING_DONE:g} s there are {stats}")
                time.sleep(0.1)
        for consumer in self._consumers:
            consumer.send("rest")
        return [consumer.recv() for consumer in self._consumers]

    def _clear(self, location: Location) -> None:
        for url in () if location.shards else location.urls:
            with redis.Redis.from_url(url) as client:
                client.unlink(*QueueKeys.of(NAME).all())


@contextmanager
def crews(server: Target, settings: Settings) -> Iterator[dict[str, Crew]]:
    """Yield all crews, ready to work: one queue on ``server``, sharded ones on clusters."""
    with ExitStack() as stack:
        found = {ONE: Crew(Location((server.url,), 0), settings, stack)}
        most = max(settings.nodes)
        servers = [stack.enter_context(target(None)).url for _ in range(most)]
        found[SEVERAL.format(most)] = Crew(Location(tuple(servers), 0), settings, stack)
        for nodes in settings.nodes:
            progress(f"starting a cluster of {nodes}")
            urls = stack.enter_context(cluster(nodes))
            name = f"ackq, {nodes} nodes" if nodes > 1 else "ackq, 1 node"
            found[name] = Crew(Location(tuple(urls), settings.shards), settings, stack)
        yield found


def run(settings: Settings) -> Result:
    """Measure all crews, in turns."""
    with target(settings.url) as server:
        result = Result("scaleout", facts(server, settings))
        with crews(server, settings) as workers:
            for batch in settings.batches:
                rounds = in_turns(_turns(workers, settings.messages, batch), settings.rounds)
                case = (
                    f"by {batch:,}, {settings.producers} producers, {settings.consumers} consumers"
                )
                _report(result, case, rounds)
        _measure_hot(settings, result)
    result.notes += [
        "A sharded queue gives each batch whole to one shard, the next batch to the next.",
        f"Where one shard is hot, handling a message takes {WORK * 1e6:.0f} µs, a sleep.",
        f"Every message of every round came exactly once: {settings.messages:,} a round.",
        "All nodes, producers and consumers share this machine, so more nodes cannot be faster"
        " here. What is called a model is one: it takes the busiest node's CPU per message as"
        " measured, gives each node a processor of its own and assumes clients enough.",
    ]
    return result


def _measure_hot(settings: Settings, result: Result) -> None:
    """Measure one shard that gets most of the messages, with consumers that help and without."""
    batch = settings.batches[0]
    with ExitStack() as stack:
        nodes = max(settings.nodes)
        workers = {}
        for name in (HELPED, ALONE):
            progress(f"starting a cluster of {nodes}")
            urls = tuple(stack.enter_context(cluster(nodes)))
            location = Location(urls, settings.shards, hot=True, helps=name == HELPED)
            workers[name] = Crew(location, settings, stack)
        rounds = in_turns(_turns(workers, settings.messages, batch), settings.rounds)
    case = f"9 of 10 batches of {batch:,} on one key, {settings.consumers} consumers, {nodes} nodes"
    _measured(result, case, rounds, HOT_FIGURES)
    for figure, (_, of, _) in HOT_FIGURES.items():
        above, below = ([*map(of, rounds[each])] for each in (HELPED, ALONE))
        what = f"{case}: {HELPED} / {ALONE}: {figure}"
        result.ratios.append(Ratio.of(what, above, below, ceiling=False))


def _turns(crews: dict[str, Crew], messages: int, batch: int) -> dict[str, Callable[[], Round]]:
    return {name: partial(crew.work, messages, batch) for name, crew in crews.items()}


def _measured(
    result: Result, case: str, rounds: dict[str, list[Round]], figures: Figures = FIGURES
) -> None:
    for name, found in rounds.items():
        for figure, (unit, of, more) in figures.items():
            values = tuple(map(of, found))
            result.measures.append(Measure(case, name, figure, unit, values, more_is_better=more))


def _report(result: Result, case: str, rounds: dict[str, list[Round]]) -> None:
    _measured(result, case, rounds)
    one, several, *clusters = rounds
    for name, base in (*((each, one) for each in (several, *clusters)), (clusters[-1], several)):
        for figure in ("throughput", "server time", MODEL):
            _, of, more = FIGURES[figure]
            above, below = ([*map(of, rounds[each])] for each in (name, base))
            what = f"{case}: {name} / {base}: {figure}"
            result.ratios.append(Ratio.of(what, above, below, ceiling=not more))
