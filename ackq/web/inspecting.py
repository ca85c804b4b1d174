"""Read one queue for its page, whatever its kind, in bounded steps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field

import redis
from redis.exceptions import NoPermissionError

from ackq.core.effects import Operation, Request
from ackq.core.inspected import PeekedMessage, State
from ackq.core.io.connections import SingleRoute, route_of
from ackq.core.io.driver import Driver
from ackq.core.io.nodes import nodes_of
from ackq.delay.client import DelayQueue
from ackq.delay.messages import DelayStats
from ackq.ops.diagnosis import DURABILITY, Finding, durability_of, judge_server
from ackq.ops.facts import read_facts
from ackq.ops.listed import WorkerInfo
from ackq.ops.script_times import ScriptTimes, script_times
from ackq.ops.sharded import shard_names_of
from ackq.ops.workers import workers
from ackq.queue.client import Queue
from ackq.queue.messages import QueueStats
from ackq.queue.pop_from import recorded
from ackq.rsmq.client import RSMQ
from ackq.rsmq.values import QueueAttributes
from ackq.topic.client import Topic
from ackq.web.watcher import Row

Redis = redis.Redis | redis.RedisCluster

#: Messages of a page.
PAGE = 50
#: Furthest message that a page shows: Redis walks along the list to it.
FURTHEST = 10_000
#: Most lists of workers that are read for the page of all workers.
MOST_WORKED = 500
#: Longest body that is read to be shown or downloaded.
MAX_BODY_BYTES = 512 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Messages:
    """Some messages of a queue in one state, in the order of delivery."""

    state: State
    messages: Sequence[PeekedMessage]
    #: How many come before them, and whether there are more.
    skipped: int = 0
    more: bool = False


@dataclass(frozen=True, slots=True)
class Consumer:
    """A consumer of a topic."""

    name: str
    position: int | None
    lag: int


@dataclass(frozen=True, slots=True)
class TopicView:
    """A topic."""

    newest: int
    oldest: int | None
    consumers: Sequence[Consumer]


@dataclass(frozen=True, slots=True)
class ServerView:
    """A server, as far as the doctor can judge it without trying anything."""

    address: str
    findings: Sequence[Finding]
    #: What a kill and a power failure would lose; see `ackq.ops.diagnosis.DURABILITY`.
    losses: tuple[str, str]
    #: None: this user may not ask.
    scripts: ScriptTimes | None


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of a sharded queue or of a partitioned delay queue."""

    kind: str
    names: Sequence[str] = field(default=())


def open_queue(client: Redis, name: str, time_field: str | None = None) -> Queue:
    """Return a list queue, popped from the end that is recorded. Close it.

    Raises:
        QueueNameError: it is not the name of a queue.
    """
    with closing(Queue(client, name)) as queue, suppress(NoPermissionError):
        if queue.execute(lambda spec: recorded(spec.keys)) == "left":
            return Queue(
                client, name, pop_from="left", max_body_bytes=MAX_BODY_BYTES, time_field=time_field
            )
    return Queue(client, name, max_body_bytes=MAX_BODY_BYTES, time_field=time_field)


def list_queue(
    client: Redis, name: str, state: State, skip: int, time_field: str | None
) -> tuple[QueueStats, Messages]:
    """Return the counts of a list queue, and a page of its messages. About 6 round trips."""
    skip = min(skip, FURTHEST)
    with open_queue(client, name, time_field) as queue:
        found = queue.peek(PAGE + 1, state, skip=skip)
        return queue.stats(), Messages(state, found[:PAGE], skip, len(found) > PAGE)


def delay_queue(client: Redis, name: str, state: State) -> tuple[DelayStats, Messages]:
    """Return the counts and the first messages of a delay queue or of a partition."""
    with DelayQueue(client, name) as queue:
        found = queue.peek(PAGE + 1, state)
        return queue.stats(), Messages(state, found[:PAGE], 0, len(found) > PAGE)


def topic(client: Redis, name: str, consumers: Sequence[str]) -> TopicView:
    """Return a topic with these consumers. 2 round trips, and 2 for each consumer."""
    with Topic(client, name) as opened:
        newest = opened.newest()
        places = {each: opened.position(each) for each in consumers}
        found = [
            Consumer(each, place, max(0, newest - place))
            for each, place in places.items()
            if place is not None
        ]
        return TopicView(newest, opened.oldest(), found)


def rsmq_queue(client: Redis, name: str) -> QueueAttributes:
    """Return the attributes of queue ``<namespace>:<queue>``."""
    namespace, _, queue = name.rpartition(":")
    with RSMQ(client, namespace) as opened:
        return opened.get_queue_attributes(queue)


def parts_of(client: Redis, kind: str, name: str) -> Parts | None:
    """Return the shards or partitions of a queue; None if it has none."""
    group = f"{{{name}}}" if kind == "sharded" else name
    driver = Driver(route_of(client, group.encode()))
    with closing(driver.route):
        if kind == "sharded":
            return Parts("list", driver.run(shard_names_of(name)))
        count = driver.run(_shares(group))
    return Parts("delay", [f"{name}:{number}" for number in range(count)]) if count else None


def _shares(group: str) -> Operation[int]:
    try:
        shares: bytes | None = yield Request((b"HGET", f"{group}:group", b"shares"), resend=True)
    except NoPermissionError:  # a partition, whose user may read no group of that name
        return 0
    return min(int(shares), FURTHEST) if shares and shares.isdigit() else 0


def workers_of(client: Redis, name: str) -> Sequence[WorkerInfo] | None:
    """Return the workers of a list queue, sharded or not, or None if this user may not ask."""
    try:
        return workers(one_node(client), [name])
    except NoPermissionError:
        return None


def all_workers(client: Redis, rows: Iterable[Row]) -> Sequence[WorkerInfo] | None:
    """Return the workers of the queues that have any, or None if this user may not ask.

    At most `MOST_WORKED` lists of workers are read, each in one connection.
    """
    readings = [row.reading for row in rows if row.reading.kind in ("list", "sharded")]
    names = [each.name for each in readings if each.workers]
    try:
        return workers(one_node(client), names[:MOST_WORKED]) if names else []
    except NoPermissionError:
        return None


def one_node(client: Redis) -> redis.Redis:
    """Return a client of one node, from which the others are found."""
    if isinstance(client, redis.RedisCluster):
        node: redis.Redis = client.get_redis_connection(client.get_default_node())
        return node
    return client


def servers(client: Redis) -> list[ServerView]:
    """Judge every primary from what it reports. About 12 round trips each; nothing is written."""
    found = []
    for node in nodes_of(one_node(client)):
        driver = Driver(SingleRoute(node, follow=False))
        with closing(driver.route):
            facts, times = driver.run(read_facts()), driver.run(script_times())
        losses = DURABILITY[durability_of(facts)]
        found.append(ServerView(driver.route.address, judge_server(facts), losses, times))
    return found
