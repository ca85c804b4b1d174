"""The key space of a queue with groups."""

import json
from collections.abc import Iterable

from ackq.queue import record as queue_record
from tests.queue.scripts.space import MIB, SECOND, Group, Popped, Space, Value, flat

FIELD = "customer"
#: One message of a group in flight.
RECORD = f"2 groups 1 0/0/0 continue 0 {FIELD}"
#: The same, and a dead letter stops its group.
STOPPING = RECORD.replace("continue", "stop")


def message(id: str, group: str | int | None = None, padding: int = 0) -> bytes:
    """Return a message as ackq's own producers write it."""
    fields = {"id": id} | ({} if group is None else {FIELD: group})
    return json.dumps(fields | ({"x": "x" * padding} if padding else {})).encode()


def fields(text: str) -> dict[str, str]:
    """Return the record whose values are these."""
    return dict(zip(queue_record.FIELDS, text.split(" ", 6), strict=True))


def record(
    space: Space,
    in_flight: int = 1,
    rate: str = "0/0/0",
    most: int = 0,
    field: str = FIELD,
    on_dead: str = "continue",
) -> bytes:
    """Record that the queue has groups, and return the record."""
    text = f"2 groups {in_flight} {rate} {on_dead} {most} {field}"
    space.client.hset(space.key("RECORD"), mapping=fields(text))
    space.grouped = True
    return text.encode()


def pop(
    space: Space,
    wanted: Value = 1,
    *,
    timeout: Value = 30 * SECOND,
    jitter: Value = 0,
    max_receives: Value = 0,
    max_body: Value = MIB,
    waited: Value = -1,
    settled: Iterable[Group] = (),
) -> Popped:
    """Pop with the recorded groups."""
    expected = b" ".join(space.client.hmget(space.key("RECORD"), queue_record.FIELDS))
    args = (wanted, timeout, jitter, max_receives, max_body, expected, waited, *flat(settled))
    return Popped.of(space.call("groups/pop", *args))


def parked(space: Space) -> dict[str, list[str]]:
    """Return the ids of the parked messages of each group, in order."""
    found: dict[str, list[str]] = {}
    for member in space.client.zrange(space.key("GROUPS:PARKED"), 0, -1):
        size = int(member[:3])
        body = json.loads(member[3 + size + 16 :])
        found.setdefault(member[3 : 3 + size].decode(), []).append(body["id"])
    return found


def busy(space: Space) -> dict[str, int]:
    """Return how many messages of each group are in flight."""
    counts = space.client.hgetall(space.key("GROUPS:BUSY"))
    return {tag.decode(): int(count) for tag, count in counts.items()}


def turns(space: Space) -> list[str]:
    """Return the groups whose turn it is, the next one first."""
    return [tag.decode() for tag in space.client.zrange(space.key("GROUPS:TURNS"), 0, -1)]
