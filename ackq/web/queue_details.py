"""Read one queue for its page, whatever its kind, in bounded steps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import redis
from redis.exceptions import NoPermissionError, ResponseError

from ackq.core.inspection_results import PeekedMessage, State
from ackq.core.io.driver import Driver
from ackq.core.io.nodes import nodes_of
from ackq.core.io.routes import SingleRoute
from ackq.ops.diagnosis import DURABILITY, Finding, durability_of, judge_server
from ackq.ops.facts import read_facts
from ackq.ops.kinds import opened
from ackq.ops.kinds.kind import Opened, Redis
from ackq.ops.kinds.lists import LIST
from ackq.ops.samples import Row
from ackq.ops.script_times import ScriptTimes, script_times
from ackq.ops.trials import is_denial
from ackq.ops.worker_info import WorkerInfo
from ackq.ops.workers import workers
from ackq.queue.group_stats import Order
from ackq.queue.messages import GroupStats
from ackq.queue.schedules import StoredSchedule

#: Messages of a page.
PAGE = 50
#: Furthest message that a page shows: Redis walks along the list to it.
FURTHEST = 10_000
#: Groups of a page, and how many are looked at to find them.
GROUPS, WALKED = 20, 10_000
#: Most lists of workers that are read for the page of all workers.
MAX_WORKED = 500


@dataclass(frozen=True, slots=True)
class Messages:
    """Some messages of a queue in one state, in the order of delivery."""

    state: State
    messages: Sequence[PeekedMessage]
    #: How many come before them, and whether there are more.
    skipped: int = 0
    more: bool = False


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
class GroupsView:
    """Some groups of a list queue."""

    by: Order
    #: The text that their names contain; may be empty.
    containing: str
    groups: Sequence[GroupStats]


def groups_of(queue: Opened, by: str, containing: str) -> GroupsView | None:
    """Return the groups that come first; None if it has none, or this user may not list them."""
    if queue.kind is not LIST or queue.client.config.groups is None:
        return None
    order: Order = "oldest" if by == "oldest" else "waiting"
    settings = {"within": WALKED, "by": order, "containing": containing}
    try:
        return GroupsView(order, containing, queue.client.groups(GROUPS, **settings))
    except ResponseError as error:
        if is_denial(error):
            return None
        raise


def messages_of(queue: Opened, state: State, skip: int, group: str | None = None) -> Messages:
    """Return a page of the messages of a queue without parts, or of those of a group that wait."""
    skip = min(skip, FURTHEST) if queue.kind is LIST else 0
    settings: dict[str, Any] = {"skip": skip} if skip else {}
    if group is not None:
        state, settings["group"] = "ready", group
    messages = queue.client.peek(PAGE + 1, state, **settings)
    return Messages(state, messages[:PAGE], skip, len(messages) > PAGE)


def workers_of(client: Redis, name: str) -> Sequence[WorkerInfo] | None:
    """Return the workers of a list queue, sharded or not, or None if this user may not ask."""
    try:
        return workers(one_node(client), [name])
    except NoPermissionError:
        return None


def schedules_of(client: Redis, name: str) -> Sequence[StoredSchedule] | None:
    """Return the stored schedules of a list queue, or None if this user may not ask."""
    try:
        with opened(client, "list", name, "schedules") as queue:
            return queue.client.schedules.list()  # type: ignore[no-any-return]
    except NoPermissionError:
        return None


def has_traces(stats: Mapping[str, Any]) -> bool:
    """Return whether a list queue has messages or is paused. No other sign of one is left."""
    return bool(
        stats["paused"] or any(stats[each] for each in ("ready", "in_flight", "delayed", "dead"))
    )


def all_workers(client: Redis, rows: Iterable[Row]) -> Sequence[WorkerInfo] | None:
    """Return the workers of the queues that have any, or None if this user may not ask.

    At most `MAX_WORKED` lists of workers are read, each in one connection.
    """
    readings = [row.reading for row in rows if row.reading.kind in ("list", "sharded")]
    names = [each.name for each in readings if each.workers]
    try:
        return workers(one_node(client), names[:MAX_WORKED]) if names else []
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
    views = []
    for node in nodes_of(one_node(client)):
        driver = Driver(SingleRoute(node, follow=False))
        with closing(driver.route):
            facts, times = driver.run(read_facts()), driver.run(script_times())
        losses = DURABILITY[durability_of(facts)]
        views.append(ServerView(driver.route.address, judge_server(facts), losses, times))
    return views
