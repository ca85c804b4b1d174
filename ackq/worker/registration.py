"""The entry of a worker in a queue's list of workers: kept by heartbeats, deleted at the end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson

from ackq.core.effects import Operation
from ackq.queue.registry import call_list
from ackq.queue.spec import QueueSpec

#: Longest record in bytes.
MAX_RECORD = 8192


def encode_record(fields: dict[str, Any], running: Sequence[tuple[str, float]]) -> bytes:
    """Return a record that fits: with as many of the ``running`` messages as there is room for."""
    while True:
        record = orjson.dumps({**fields, "running": running})
        if len(record) <= MAX_RECORD:
            return record
        running = running[: len(running) // 2]


def heartbeat(
    spec: QueueSpec, worker: str, record: bytes, lifetime: float, obeyed: bytes
) -> Operation[bytes]:
    """Enter a worker into the list or keep it there; return the order for it, if there is one.

    Args:
        spec: the queue.
        worker: unlike any other.
        record: what to show, see `encode_record`.
        lifetime: seconds until the entry ends unless there is another heartbeat.
        obeyed: the order last received, so that it is not returned again.
    """
    microseconds = round(lifetime * 1_000_000)
    order: bytes = yield from call_list(spec, "heartbeat", worker, record, microseconds, obeyed)
    return order


def leave(spec: QueueSpec, worker: str) -> Operation[bool]:
    """Delete a worker from the list; return whether it was there."""
    left: int = yield from call_list(spec, "leave", worker)
    return bool(left)
