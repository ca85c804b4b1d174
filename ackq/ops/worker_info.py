"""The workers of a server's queues as operators see them, merged from the lists of all queues."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal, cast, get_args

from ackq.config import QueueConfig
from ackq.core.effects import Operation, Request
from ackq.core.io.outside import SYSTEM
from ackq.core.names import WORKERS_SEEN
from ackq.membership.shards import whole_of
from ackq.ops.asking import queue_name
from ackq.ops.search import SCANNED
from ackq.queue.keys import QueueKeys
from ackq.queue.registry import Entry, Order, running_in
from ackq.queue.spec import QueueSpec

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


def search() -> Operation[set[str]]:
    """Return the names of the queues that have a list of workers."""
    cursor, names = b"0", set()
    while True:
        request = Request(
            (b"SCAN", cursor, b"MATCH", f"*{WORKERS_SEEN}", b"COUNT", SCANNED), resend=True
        )
        cursor, keys = yield request
        found = (queue_name(key.removesuffix(WORKERS_SEEN.encode())) for key in keys)
        names |= {name for name in found if name}
        if cursor == b"0":
            return names


def spec(queue: str) -> QueueSpec:
    return QueueSpec(queue, QueueKeys.of(queue), QueueConfig(), outside=SYSTEM)


def by_worker(listed: Iterable[Entry]) -> list[WorkerInfo]:
    """Return the workers that are in the lists of queues, sorted by name and id."""
    entries: defaultdict[bytes, list[Entry]] = defaultdict(list)
    for entry in listed:
        entries[entry.worker].append(entry)
    return sorted(map(_merged, entries.values()), key=lambda worker: (worker.name, worker.id))


def _merged(entries: list[Entry]) -> WorkerInfo:
    """Return a worker from its entries in the lists of one or more queues."""
    newest = max(entries, key=_seen_at)
    record = _Record(newest.record)
    worker, seen_at = text(newest.worker), _seen_at(newest)
    interval = record.number("interval")
    running = [
        Running(whole_of(entry.queue) or entry.queue, message_id, _seen_at(entry) - seconds)
        for entry in entries
        for message_id, seconds in running_in(entry.record)
    ]
    state = record.text("state")
    return WorkerInfo(
        id=worker,
        name=record.text("name") or worker,
        host=record.text("host"),
        pid=int(record.number("pid")),
        version=record.text("version"),
        queues=record.texts("queues") or tuple(entry.queue for entry in entries),
        concurrency=int(record.number("concurrency")),
        busy=int(record.number("busy")),
        state=cast(State, state) if state in get_args(State) else "unknown",
        late=newest.now - seen_at > LATE * interval,
        order=next((entry.order for entry in entries if entry.order), ""),
        started_at=seen_at - record.number("age"),
        seen_at=seen_at,
        running=tuple(sorted(running, key=lambda message: message.since)),
        found_in=tuple(sorted(entry.queue for entry in entries)),
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
        return tuple(item for item in self._list(name) if isinstance(item, str))

    def _list(self, name: str) -> list[Any]:
        value = self._fields.get(name)
        return value if isinstance(value, list) else []


def text(worker: bytes) -> str:
    return worker.decode(errors="surrogateescape")


def raw(worker: str) -> bytes:
    return worker.encode(errors="surrogateescape")


#: For `ackq workers`: whether a worker does what was ordered.
DONE: dict[Order, Callable[[WorkerInfo | None], bool]] = {
    "quiet": lambda worker: worker is None or worker.state in ("quiet", "stopping"),
    "resume": lambda worker: worker is None or worker.state == "working",
    "stop": lambda worker: worker is None,
}
