"""Who works on the queues of a server: `workers` lists them, `send_order` quiets or stops them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, cast, get_args

import redis
from redis.exceptions import AskError, MovedError, NoPermissionError, TryAgainError

from ackq.config import QueueConfig
from ackq.core.effects import Operation, Request
from ackq.core.io.connections import SingleRoute, route_of
from ackq.core.io.driver import Driver
from ackq.core.io.nodes import nodes_of
from ackq.core.names import WORKERS_SEEN, check_name
from ackq.errors import KeyTypeError, QueueNameError
from ackq.ops.registry import Entry, Order, entries, leave_order
from ackq.ops.search import SCANNED
from ackq.queue.keys import QueueKeys
from ackq.queue.spec import QueueSpec

T = TypeVar("T")
State = Literal["working", "quieting", "quiet", "stopping", "unknown"]

#: A worker is late if its last heartbeat was this many intervals ago.
LATE = 2.0


@dataclass(frozen=True, slots=True)
class Running:
    """A message that a worker's handler is working on."""

    queue: str
    #: Cropped to 64 characters; may contain any character.
    message_id: str
    #: When the handler began, in seconds since the epoch, by the server's clock.
    since: float


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """A worker, as it was at its last heartbeat. All times are the server's, since the epoch.

    Texts come from the worker and may contain any character: escape them. A record that another
    program wrote may lack a field; then its text is empty and its number 0.
    """

    #: Unlike that of any other worker: host, process id and a random number.
    id: str
    #: The name that was chosen, which several workers may share; otherwise the same as ``id``.
    name: str
    host: str
    pid: int
    version: str
    #: The queues that it takes from, at most 100.
    queues: tuple[str, ...]
    concurrency: int
    #: How many of its handlers run.
    busy: int
    #: What it does: "working"; "quieting" while it finishes its messages and takes no more, then
    #: "quiet"; "stopping".
    state: State
    #: Whether a heartbeat is overdue: the process may be frozen, dead or cut off.
    late: bool
    #: An order that the worker has not received yet: "quiet", "resume" or "stop". Otherwise empty.
    order: str
    started_at: float
    seen_at: float
    #: What its handlers work on, the longest first: at most 50 messages of each queue listed.
    running: tuple[Running, ...]
    #: The queues in whose lists it was found.
    found_in: tuple[str, ...]


def workers(client: redis.Redis, queues: Sequence[str] = ()) -> list[WorkerInfo]:
    """Return the workers of a server or cluster, sorted by name and id.

    A worker that died is no longer returned when 6 of its heartbeat intervals (30 s) have passed.

    The cost is one round trip for every 100 workers of a queue. Without ``queues``, one for every
    1,000 keys of the server is added.

    Args:
        client: of the server, or of any node of the cluster.
        queues: look only at the lists of these. Defaults to all queues that have workers.

    Raises:
        NoPermissionError: the user may not read the list of a named queue, or not search.
        KeyTypeError: a key of a named queue is not a list of workers.
    """
    found = list(_named(client, queues) if queues else _searched(client))
    by_id: defaultdict[bytes, list[Entry]] = defaultdict(list)
    for each in found:
        by_id[each.worker].append(each)
    return sorted(map(_merged, by_id.values()), key=lambda worker: (worker.name, worker.id))


def send_order(client: redis.Redis, order: Order, targets: Iterable[WorkerInfo]) -> list[str]:
    """Leave an order for workers; each receives it with its next heartbeat, within 5 s.

    "quiet": take no more messages and finish those it has. "resume": take messages again.
    "stop": end, as after SIGTERM. Sending the same order twice does no harm.

    Args:
        client: of the server, or of any node of the cluster.
        order: what to do.
        targets: workers that `workers` returned.

    Returns:
        The ids of the workers that are still listed and will receive it.

    Raises:
        NoPermissionError: the user may not give orders to a worker.
    """
    by_queue: defaultdict[str, list[bytes]] = defaultdict(list)
    for each in targets:
        by_queue[each.found_in[0]].append(_raw(each.id))
    listed: list[bytes] = []
    for queue, ids in by_queue.items():
        listed += _run(client, queue, leave_order(_spec(queue), order, ids))
    return [_text(each) for each in listed]


def _named(client: redis.Redis, queues: Sequence[str]) -> Iterator[Entry]:
    for name in dict.fromkeys(queues):
        yield from _run(client, name, entries(_spec(name)))


def _run(client: redis.Redis, queue: str, steps: Operation[T]) -> T:
    driver = Driver(route_of(client, queue.encode()))
    with closing(driver.route):
        return driver.run(steps)


def _searched(client: redis.Redis) -> Iterator[Entry]:
    for node in nodes_of(client):
        # Do not follow redirections: a queue on another node is found there.
        driver = Driver(SingleRoute(node, follow=False))
        with closing(driver.route):
            for name in sorted(driver.run(_search())):
                # A key of another program, or a slot that has moved since.
                unreadable = (KeyTypeError, NoPermissionError, AskError, MovedError, TryAgainError)
                try:
                    yield from driver.run(entries(_spec(name)))
                except unreadable:
                    continue


def _search() -> Operation[set[str]]:
    """Return the names of the queues that have a list of workers."""
    cursor, names = b"0", set()
    while True:
        request = Request(
            (b"SCAN", cursor, b"MATCH", f"*{WORKERS_SEEN}", b"COUNT", SCANNED), resend=True
        )
        cursor, keys = yield request
        names |= {name for key in keys if (name := _queue_of(key))}
        if cursor == b"0":
            return names


def _queue_of(key: bytes) -> str | None:
    try:
        name = key.decode().removesuffix(WORKERS_SEEN)
        check_name(name)
    except (UnicodeDecodeError, QueueNameError):
        return None
    return name


def _spec(queue: str) -> QueueSpec:
    return QueueSpec(queue, QueueKeys.of(queue), QueueConfig())


def _merged(found: list[Entry]) -> WorkerInfo:
    """Return a worker from its entries in the lists of one or more queues."""
    newest = max(found, key=_seen_at)
    record = _Record(newest.record)
    worker, seen_at = _text(newest.worker), _seen_at(newest)
    interval = record.number("interval")
    running = [
        Running(each.queue, message_id, _seen_at(each) - seconds)
        for each in found
        for message_id, seconds in _Record(each.record).running()
    ]
    state = record.text("state")
    return WorkerInfo(
        id=worker,
        name=record.text("name") or worker,
        host=record.text("host"),
        pid=int(record.number("pid")),
        version=record.text("version"),
        queues=record.texts("queues") or tuple(each.queue for each in found),
        concurrency=int(record.number("concurrency")),
        busy=int(record.number("busy")),
        state=cast(State, state) if state in get_args(State) else "unknown",
        late=newest.now - seen_at > LATE * interval,
        order=next((each.order for each in found if each.order), ""),
        started_at=seen_at - record.number("age"),
        seen_at=seen_at,
        running=tuple(sorted(running, key=lambda each: each.since)),
        found_in=tuple(sorted(each.queue for each in found)),
    )


def _seen_at(entry: Entry) -> float:
    # Not later than now, even if the clock was set back.
    return entry.now - max(0.0, _Record(entry.record).number("lifetime") - entry.left)


class _Record:
    """A worker's record; other programs may have written anything."""

    def __init__(self, fields: Any) -> None:
        self._fields = fields if isinstance(fields, dict) else {}

    def text(self, name: str) -> str:
        value = self._fields.get(name)
        return value if isinstance(value, str) else ""

    def number(self, name: str) -> float:
        value = self._fields.get(name)
        return value if isinstance(value, int | float) else 0.0

    def texts(self, name: str) -> tuple[str, ...]:
        return tuple(each for each in self._list(name) if isinstance(each, str))

    def running(self) -> Iterator[tuple[str, float]]:
        for each in self._list("running"):
            match each:
                case [str(message_id), int() | float() as seconds]:
                    yield message_id, seconds

    def _list(self, name: str) -> list[Any]:
        value = self._fields.get(name)
        return value if isinstance(value, list) else []


def _text(worker: bytes) -> str:
    return worker.decode(errors="surrogateescape")


def _raw(worker: str) -> bytes:
    return worker.encode(errors="surrogateescape")


#: For `ackq workers`: whether a worker does what was ordered.
DONE: dict[Order, Callable[[WorkerInfo | None], bool]] = {
    "quiet": lambda worker: worker is None or worker.state in ("quiet", "stopping"),
    "resume": lambda worker: worker is None or worker.state == "working",
    "stop": lambda worker: worker is None,
}
