"""`Overview`: the figures of all queues of a server or of a cluster."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from operator import attrgetter

import redis
from redis.exceptions import AskError, MovedError, NoPermissionError, TryAgainError

from ackq.config import QueueConfig
from ackq.core.client import Closable
from ackq.core.io.driver import Driver
from ackq.core.io.nodes import nodes_of
from ackq.core.io.routes import SingleRoute
from ackq.core.names import check_name
from ackq.core.server import parse_info
from ackq.membership.shards import whole_of
from ackq.ops.asking import ask, read_clock
from ackq.ops.kinds import check, look_up, read
from ackq.ops.read_lists import TOGETHER, may_be_together, read_together
from ackq.ops.readings import Asked, Found, KindName, Reading, merged
from ackq.ops.search import Search

#: SCANs of one reading on each server: few, except until all keys were examined once.
STEPS, FIRST_STEPS = 10, 1000
#: Calls for several list queues each that are sent at once.
AT_ONCE = 20
#: Most queues that are read.
MAX_QUEUES = 50_000
#: Seconds after which an empty queue that was found is forgotten; it may be found again.
FORGET_AFTER = 3600.0

_KIND_AND_NAME = attrgetter("kind", "name")
_PART = re.compile(r"\{(?P<sharded>[^{}]+):\d+(?:\.\d+)?\}|(?P<delay>.+):\d+")
_FAILED = re.compile(r"failed_calls=(\d+)")
#: The keys are on another node, or are being moved there.
_MOVED = (MovedError, AskError, TryAgainError)


@dataclass(frozen=True, slots=True)
class Server:
    """What a server reports about itself. None: this user may not ask."""

    address: str
    #: False: it cannot be reached.
    up: bool
    #: How many script calls have failed since it started, those of other programs included.
    failed_scripts: int | None = None
    #: How many commands it has processed since it started.
    commands: int | None = None
    #: Why it cannot be reached.
    problem: Exception | None = None
    #: What INFO says.
    info: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All figures, read within a moment."""

    servers: tuple[Server, ...]
    #: Sorted by kind and name. The shards of a sharded queue are one queue, and so are the
    #: partitions of a delay queue, if their consumers coordinate.
    queues: tuple[Reading, ...]
    #: Whether all keys were searched for queues at least once.
    complete: bool
    #: How many queues are left out: those above the limit, or with a key of a wrong type.
    left_out: int
    #: The first server's time in seconds since the epoch; None: this user may not ask.
    at: float | None = None
    #: Why queues that were named could not be read.
    problems: tuple[Exception, ...] = ()

    @property
    def up(self) -> bool:
        """Whether at least one server could be read."""
        return any(server.up for server in self.servers)

    def check(self) -> None:
        """Raise the error that kept a server or a named queue from being read, if there is one.

        Raises:
            redis.ConnectionError: a server cannot be reached.
            KeyTypeError: a key of a named queue is not a queue's.
        """
        problems = [server.problem for server in self.servers if server.problem]
        for problem in (*problems, *self.problems):
            raise problem


@dataclass(slots=True)
class _Node:
    """A server, with the progress of the search on it."""

    driver: Driver
    #: Whether only keys of one slot may be in one call.
    clustered: bool
    search: Search = field(default_factory=Search)
    checked: set[Found] = field(default_factory=set)
    #: When a queue was last seen in use, by a monotonic clock, and its totals at that time.
    used: dict[Found, tuple[float, object]] = field(default_factory=dict)
    #: List queues whose messages this user may not read.
    unreadable: set[str] = field(default_factory=set)
    #: List queues that this user may not read together with others.
    alone: set[str] = field(default_factory=set)

    @property
    def address(self) -> str:
        return self.driver.route.address


class Overview(Closable):
    """Find the queues of one server, or of all primaries of its cluster, and read their figures.

    Not for several threads at once.
    """

    def __init__(
        self,
        client: redis.Redis | redis.RedisCluster,
        names: Sequence[str] = (),
        *,
        steps: int = STEPS,
        window: float | None = None,
        time_field: str | None = None,
        first_steps: int = FIRST_STEPS,
        most: int = MAX_QUEUES,
    ) -> None:
        """Prepare; nothing is sent.

        Args:
            client: of the server, or of any node of the cluster.
            names: the queues to read, of any kind; RSMQ's as ``<namespace>:<queue>``. If empty,
                all queues that have keys which only a queue has. A list that no consumer has
                used has none.
            steps: SCAN calls of each reading on each server, of 1,000 keys each. The first
                reading examines up to a million keys. Defaults to 10.
            first_steps: SCAN calls of the first reading. Defaults to 1,000: a million keys.
            window: let consumers of list and delay queues count what they do, for this many
                seconds after each reading, 0.001 to 3600. Defaults to None: no totals.
            time_field: as in `ackq.Queue`, for all queues. Defaults to None.
            most: how many queues to read; any more are left out. Defaults to 50,000.

        Raises:
            QueueNameError: a name cannot be a queue's.
            ConfigurationError: the time field's name cannot be used.
        """
        for name in names:
            check_name(name)
        self._client = client
        self._names = tuple(dict.fromkeys(names))
        self._steps = steps
        self._first_steps = first_steps
        self._window = window
        self._config = QueueConfig(time_field=time_field)
        self._most = most
        self._consumers: tuple[str, ...] = ()
        self._due_within: float | None = None
        self._nodes: list[_Node] = []

    def read_one(
        self, name: str, consumers: Iterable[str] = (), due_within: float | None = None
    ) -> Snapshot:
        """Read the figures of one queue, whatever its kind, instead of those named before.

        Args:
            name: of the queue.
            consumers: those of a topic whose lags to read. Without any, they are searched for.
            due_within: also count the delayed messages that are due within this many seconds.
                Defaults to None: do not count them.

        Raises:
            QueueNameError: the name cannot be a queue's.
        """
        check_name(name)
        self._due_within = due_within
        self._names = (name,)
        self._consumers = tuple(consumers)
        return self.read()

    def read(self) -> Snapshot:
        """Continue the search, and read all figures. 2 or 3 round trips for 100 queues.

        A server that cannot be reached is reported as down, and its queues are missing.

        Raises:
            NoPermissionError: no queues were named, and the user may not search for them.
        """
        try:
            nodes = self._connected()
        except (redis.ConnectionError, redis.TimeoutError, OSError) as error:
            down = Server(_address(self._client), False, problem=error)
            return Snapshot((down,), (), False, 0)
        all_readings: list[Reading] = []
        servers: list[Server] = []
        groups: set[str] = set()
        problems: dict[Found, Exception] = {}
        left_out = 0
        at: float | None = None
        lost = False
        if self._names:
            self._look_up(nodes)
        else:
            self._search(nodes)
        for node in nodes:
            try:
                now = node.driver.run(read_clock())
                readings, unread, others = self._read_node(
                    node, self._most - len(all_readings), now
                )
                servers.append(_server(node))
            except (redis.ConnectionError, redis.TimeoutError, OSError) as error:
                servers.append(Server(node.address, False, problem=error))
                lost = True
                continue
            all_readings += readings
            left_out += others + len(unread)
            problems |= unread
            at = now if at is None else at
            groups |= node.search.groups
        complete = all(node.search.complete for node in nodes) or bool(self._names)
        if lost:
            self.close()  # the cluster may have other primaries at the next reading
        queues = _by_queue(all_readings, groups)
        missing = {*self._names} - {queue.name for queue in queues}
        unread_names = tuple(error for queue, error in problems.items() if queue.name in missing)
        complete = complete and not lost
        return Snapshot(tuple(servers), queues, complete, left_out, at, unread_names)

    def addresses(self) -> list[str]:
        """Return the addresses of the servers that are read, as far as they are known."""
        return [node.address for node in self._nodes] or [_address(self._client)]

    def _connected(self) -> list[_Node]:
        if not self._nodes:
            client = self._client
            if isinstance(client, redis.RedisCluster):
                client = client.get_redis_connection(client.get_default_node())
            nodes = nodes_of(client)
            # Do not follow redirections: a queue on another node is found there.
            self._nodes = [
                _Node(Driver(SingleRoute(node, follow=False)), clustered=nodes != [client])
                for node in nodes
            ]
        return self._nodes

    def _read_node(
        self, node: _Node, most: int, now: float | None
    ) -> tuple[list[Reading], dict[Found, Exception], int]:
        """Return the readings of a server's queues, why some failed, and how many are too many."""
        driver, search = node.driver, node.search
        wanted = sorted(search.queues)
        left_out = len(wanted[most:])
        del wanted[most:]
        unread: dict[Found, Exception] = {}
        unchecked = [name for name in wanted if name not in node.checked]
        for queue, problem in zip(unchecked, driver.run_all(map(check, unchecked)), strict=True):
            if problem is None:
                node.checked.add(queue)
            elif not isinstance(problem, _MOVED):
                unread[queue] = problem
        checked = [name for name in wanted if name in node.checked]
        micros = None if now is None else round(now * 1_000_000)
        asked = Asked(
            self._window, self._config, micros, node.unreadable, node.alone, self._due_within
        )
        readings = []
        for queue, result in self._results(node, checked, asked):
            if isinstance(result, Reading):
                readings.append(result)
                if queue.kind == "topic":  # forget those that unsubscribed
                    search.consumers[queue.name] = set(result.lags)
                self._forget_unused(node, queue, result)
            else:
                if not isinstance(result, _MOVED):
                    unread[queue] = result
                node.checked.discard(queue)
                search.queues.discard(queue)
        return readings, unread, left_out

    def _results(
        self, node: _Node, queues: Sequence[Found], asked: Asked
    ) -> Iterator[tuple[Found, Reading | Exception]]:
        """Yield each queue with its reading, or why there is none."""
        together: list[Found] = []
        alone: list[Found] = []
        for queue in queues:
            joins = queue.kind == "list" and may_be_together(queue.name, asked)
            (together if joins else alone).append(queue)
        size = 1 if node.clustered else TOGETHER
        groups = [together[first : first + size] for first in range(0, len(together), size)]
        answers = node.driver.run_all(
            (read_together([queue.name for queue in group], asked) for group in groups), AT_ONCE
        )
        for group, result in zip(groups, answers, strict=True):
            results = result if isinstance(result, list) else [result] * len(group)
            yield from zip(group, results, strict=True)
        consumers = node.search.consumers
        operations = (read(queue, consumers.get(queue.name, ()), asked) for queue in alone)
        yield from zip(alone, node.driver.run_all(operations), strict=True)

    def _search(self, nodes: Iterable[_Node]) -> None:
        """Continue the search on all nodes. The record of a sharded queue is on one of them."""
        for node in nodes:
            # A node that cannot be reached is reported when it is read.
            with suppress(redis.ConnectionError, redis.TimeoutError, OSError):
                steps = self._steps if node.search.complete else self._first_steps
                node.driver.run(node.search.proceed(steps))
        shards = set[Found]().union(*(node.search.shards for node in nodes))
        elsewhere = set[Found]().union(*(node.checked for node in nodes))
        for node in nodes:
            # A shard that was read on no node may be on any.
            node.search.queues |= shards - elsewhere

    def _look_up(self, nodes: Iterable[_Node]) -> None:
        """Find the kinds, shards and partitions of the named queues, wherever they are."""
        queues: set[Found] = set()
        for node in nodes:
            with suppress(redis.ConnectionError, redis.TimeoutError, OSError):
                results = node.driver.run_all(map(look_up, self._names))
                queues.update(*(result for result in results if isinstance(result, list)))
        for node in nodes:
            node.search.queues = set(queues)
            # Each call of read_one may name another queue, so keep nothing of the former one.
            node.checked &= queues
            node.search.groups = {*self._names, *(f"{{{name}}}" for name in self._names)}
            if self._consumers:
                node.search.consumers = {self._names[0]: set(self._consumers)}
            elif any(queue.kind == "topic" for queue in queues):
                # If the user may not search, the lags are unknown.
                with suppress(
                    redis.ConnectionError, redis.TimeoutError, OSError, NoPermissionError
                ):
                    steps = self._steps if node.search.complete else self._first_steps
                    node.driver.run(node.search.find_consumers(steps))
                    node.search.complete = True

    def _forget_unused(self, node: _Node, queue: Found, reading: Reading) -> None:
        """Stop reading a queue that has been empty for long: names may be used once only."""
        if self._names:
            return
        now, totals = time.monotonic(), reading.totals
        since, before = node.used.get(queue, (now, totals))
        if not reading.empty or totals != before or queue not in node.used:
            node.used[queue] = now, totals
        elif now - since > FORGET_AFTER:
            node.search.queues.discard(queue)
            node.checked.discard(queue)
            del node.used[queue]

    def close(self) -> None:
        """Close the connections."""
        for node in self._nodes:
            node.driver.route.close()
        self._nodes = []


def _server(node: _Node) -> Server:
    info = parse_info(node.driver.run(ask(b"INFO", b"all")) or b"")
    failed = commands = None
    if info:
        calls = [info.get(f"cmdstat_{each}", "") for each in ("evalsha", "eval")]
        failed = sum(int(each) for text in calls for each in _FAILED.findall(text))
        commands = int(info["total_commands_processed"])
    return Server(node.address, True, failed, commands, info=info)


def _address(client: redis.Redis | redis.RedisCluster) -> str:
    if isinstance(client, redis.RedisCluster):
        return "cluster"
    return SingleRoute(client).address


def _by_queue(readings: Iterable[Reading], groups: set[str]) -> tuple[Reading, ...]:
    """Return one reading for each queue: shards and partitions are those of one queue."""
    parts: dict[tuple[KindName, str], list[Reading]] = {}
    whole: list[Reading] = []
    workers: dict[str, Reading] = {}
    for reading in readings:
        sharded = whole_of(reading.name)
        if sharded is not None and reading.kind == "list" and f"{{{sharded}}}" in groups:
            workers[sharded] = reading
            continue
        match = _PART.fullmatch(reading.name)
        if match and reading.kind == "list" and f"{{{match['sharded']}}}" in groups:
            parts.setdefault(("sharded", match["sharded"]), []).append(reading)
        elif match and reading.kind == "delay" and match["delay"] in groups:
            parts.setdefault(("delay", match["delay"]), []).append(reading)
        else:
            whole.append(reading)
    whole += (
        merged(name, kind, of_parts, workers.get(name)) for (kind, name), of_parts in parts.items()
    )
    # The name of another queue may be that of a list queue, too. It has no keys if it is empty.
    others = {reading.name for reading in whole if reading.kind != "list"}
    whole = [
        reading
        for reading in whole
        if reading.kind != "list" or not reading.empty or reading.name not in others
    ]
    return tuple(sorted(_distinct(whole), key=_KIND_AND_NAME))


def _distinct(readings: Iterable[Reading]) -> Iterator[Reading]:
    """Leave out a queue that was read on two nodes, while its slot moved from one to the other."""
    seen = set()
    for reading in readings:
        if (reading.kind, reading.name) not in seen:
            seen.add((reading.kind, reading.name))
            yield reading
