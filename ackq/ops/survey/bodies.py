"""Read a bounded sample of the messages of a list, and judge their ids."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import orjson

from ackq.config import QueueConfig
from ackq.core.effects import Operation, Request
from ackq.core.ids import key_of_id

#: Most messages of a sample, and most of their bytes, though one message may exceed it.
ENTRIES, BUDGET = 1000, 1024 * 1024
#: Most messages read at once. The first read takes one, each further one twice as many.
STEP = 64
#: Fields that often hold what ackq expects in ``id``.
OTHER_IDS = (
    "_id",
    "uuid",
    "job_id",
    "jobId",
    "jid",
    "task_id",
    "taskId",
    "message_id",
    "messageId",
    "event_id",
    "key",
)
#: Queue systems with a protocol of their own, by fields that all their messages have.
SYSTEMS = {
    "Celery": {"body", "headers", "properties", "content-type"},
    "Sidekiq": {"class", "args", "jid", "created_at"},
    "Resque": {"class", "args"},
    "Dramatiq": {"queue_name", "actor_name", "message_id"},
}


@dataclass(frozen=True, slots=True)
class Sample:
    """What a sample of messages showed. All fields but ``largest`` count messages.

    Attributes:
        read: messages in the sample.
        objects: JSON objects.
        with_id: JSON objects with an id that ackq uses.
        repeated_ids: messages whose id an earlier message of the sample has.
        repeated_bodies: messages equal to an earlier one of the sample.
        over_limit: messages that are longer than a queue's default ``max_body_bytes``.
        largest: bytes of the longest message.
        bytes: of all of them.
        other_id: a field that every object without an id has, such as ``uuid``; else None.
        system: the queue system whose messages these seem to be; else None.
    """

    read: int = 0
    objects: int = 0
    with_id: int = 0
    repeated_ids: int = 0
    repeated_bodies: int = 0
    over_limit: int = 0
    largest: int = 0
    bytes: int = 0
    other_id: str | None = None
    system: str | None = None


def sample(key: bytes, length: int) -> Operation[Sample]:
    """Read messages from both ends, as far as the budget goes, and judge them."""
    half = min(length, ENTRIES)
    left = yield from _read(key, half - half // 2, from_left=True)
    right = yield from _read(key, half // 2, from_left=False)
    return summary_of([*left, *right])


def _read(key: bytes, wanted: int, *, from_left: bool) -> Operation[list[bytes]]:
    """Return messages from one end inwards: half of the budget at most."""
    bodies: list[bytes] = []
    spent, step = 0, 1
    while len(bodies) < wanted and spent < BUDGET // 2:
        n = min(step, wanted - len(bodies))
        first, last = (len(bodies), len(bodies) + n - 1)
        span = (first, last) if from_left else (-last - 1, -first - 1)
        read: list[bytes] = yield Request((b"LRANGE", key, *span), resend=True)
        if not read:
            break
        bodies += read
        spent += sum(map(len, read))
        step = min(step * 2, STEP)
    return bodies


def summary_of(bodies: list[bytes]) -> Sample:
    """Return what these messages show."""
    objects = [parsed for body in bodies if isinstance(parsed := _parsed(body), dict)]
    keys = [key_of_id(body.get("id")) for body in objects]
    ids = [key for key in keys if key is not None]
    limit = QueueConfig().max_body_bytes
    return Sample(
        read=len(bodies),
        objects=len(objects),
        with_id=len(ids),
        repeated_ids=_repeated(ids),
        repeated_bodies=_repeated(bodies),
        over_limit=sum(len(body) > limit for body in bodies),
        largest=max(map(len, bodies), default=0),
        bytes=sum(map(len, bodies)),
        other_id=_other_id([body for body, key in zip(objects, keys, strict=True) if key is None]),
        system=_system(objects, len(bodies)),
    )


def _parsed(body: bytes) -> object:
    try:
        return orjson.loads(body)
    except ValueError:
        return None


def _repeated(values: Iterable[str | bytes]) -> int:
    return sum(count - 1 for count in Counter(values).values())


def _other_id(objects: list[dict[str, object]]) -> str | None:
    return next(
        (name for name in OTHER_IDS if objects and all(name in body for body in objects)), None
    )


def _system(objects: list[dict[str, object]], read: int) -> str | None:
    if not objects or len(objects) < read:
        return None
    return next(
        (
            name
            for name, fields in SYSTEMS.items()
            if all(fields <= body.keys() for body in objects)
        ),
        None,
    )
