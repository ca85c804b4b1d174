"""The list of a queue's workers: read it, and leave orders. `ackq.worker` keeps the entries.

Every queue has a list of its own, in the keys ``<queue>WORKERS:…``. So the rights of a user end at
its queue, and the keys share the queue's slot in a cluster. A worker of several queues is in the
list of each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import orjson

from ackq import scripts
from ackq.core.call import Keys, call
from ackq.core.effects import Arg, Operation, Request
from ackq.queue.spec import QueueSpec

#: What an operator may order a worker to do.
Order = Literal["quiet", "resume", "stop"]
#: Most workers of one call of the script order.
MAX_ORDERED = 100
#: Characters of a message's id in a record.
ID_SHOWN = 64


@dataclass(frozen=True, slots=True)
class Entry:
    """A worker in the list of one queue."""

    queue: str
    worker: bytes
    #: Seconds for which the entry lasts from now on without another heartbeat.
    left: float
    #: The server's time when the list was read, in seconds since the epoch.
    now: float
    record: Any
    #: The order that the worker has not received yet, or an empty text.
    order: str


def leave_order(spec: QueueSpec, order: Order, workers: Sequence[bytes]) -> Operation[list[bytes]]:
    """Leave an order for workers, 100 in one call; return those that are in the list."""
    listed: list[bytes] = []
    seen, _, orders = spec.keys.workers
    types = {seen: "zset", orders: "hash"}
    for first in range(0, len(workers), MAX_ORDERED):
        some = workers[first : first + MAX_ORDERED]
        request = Request(
            (2, seen, orders, order, *some), script=scripts.load("worker/order"), resend=True
        )
        known = yield from call(Keys(f"queue {spec.name!r}", types), request)
        listed += [worker for worker, there in zip(some, known, strict=True) if there]
    return listed


def entries(spec: QueueSpec) -> Operation[list[Entry]]:
    """Return the list of workers, read in calls for about 100 of them."""
    cursor = b"0"
    by_name: dict[bytes, Entry] = {}
    while True:
        cursor, now, *rest = yield from call_list(spec, "list", cursor)
        by_name |= {entry.worker: entry for entry in _entries(spec.name, now, rest)}
        if cursor == b"0":
            return list(by_name.values())


def holders(spec: QueueSpec) -> Operation[dict[str, str]]:
    """Return the worker that handles each message, by `cropped` id, as far as workers list them."""
    return {
        message_id: entry.worker.decode(errors="surrogateescape")
        for entry in (yield from entries(spec))
        for message_id, _ in running_in(entry.record)
    }


def running_in(record: Any) -> Iterator[tuple[str, float]]:
    """Return the messages that a worker handles, by `cropped` id, and for how many seconds."""
    listed = record.get("running") if isinstance(record, dict) else None
    for item in listed if isinstance(listed, list) else ():
        match item:
            case [str(message_id), int() | float() as seconds]:
                yield message_id, seconds


def cropped(message_id: str) -> str:
    """Return the id as a record shows it."""
    return message_id[:ID_SHOWN].encode(errors="replace").decode()


def _entries(queue: str, now: int, flat: list[bytes]) -> Iterator[Entry]:
    for worker, ends, record, order in zip(*(iter(flat),) * 4, strict=True):
        left = (int(ends) - now) / 1_000_000
        text = order.decode(errors="replace").rpartition(":")[2]
        yield Entry(queue, worker, left, now / 1_000_000, _decoded(record), text)


def _decoded(record: bytes) -> Any:
    try:
        return orjson.loads(record)
    except ValueError:  # another program wrote it
        return None


def call_list(spec: QueueSpec, script: str, *args: Arg) -> Operation[Any]:
    """Call a script of the list, and return its reply."""
    keys = spec.keys.workers
    # All may be repeated: the reply to a lost heartbeat comes with the next one.
    request = Request(
        (len(keys), *keys, *args), script=scripts.load(f"worker/{script}"), resend=True
    )
    types = dict(zip(keys, ("zset", "hash", "hash"), strict=True))
    return (yield from call(Keys(f"queue {spec.name!r}", types), request))
