"""Append rows of a batch to a queue's dead letters, once even if the batch is replayed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from redis.exceptions import ResponseError

from ackq import scripts
from ackq.core.call import raise_for_type
from ackq.core.effects import Arg, Operation, Request
from ackq.core.ids import usable_id
from ackq.core.names import REJECTED
from ackq.queue.spec import QueueSpec

#: Most rows, and bytes of bodies, in one call: Redis serves no other client meanwhile.
CHUNK_ROWS = 500
CHUNK_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class RejectedRow:
    """One row: its name within the batch, the message as it was pushed, and the reason."""

    row: str
    body: bytes
    reason: str


def reject_rows(
    spec: QueueSpec, writer: str, batch: str, rows: Iterable[RejectedRow], window_ms: int
) -> Operation[int]:
    """Append rows to the dead letters; see `RowDeadLetters.reject`."""
    keys = (spec.keys.dead, spec.keys.ready + f"{REJECTED}{writer}".encode())
    appended = 0
    for chunk in _chunks(rows):
        args: list[Arg] = [batch, window_ms]
        for each in chunk:
            args += (each.row, usable_id(each.body) or "", each.body, each.reason)
        # The script appends each row once, so a call whose reply was lost may be sent again.
        request = Request(
            (len(keys), *keys, *args), script=scripts.load("pipeline/reject"), resend=True
        )
        try:
            appended += yield request
        except ResponseError as error:
            yield from raise_for_type(
                f"queue {spec.name!r}", dict(zip(keys, ("stream", "hash"), strict=True)), error
            )
    return appended


def _chunks(rows: Iterable[RejectedRow]) -> Iterator[list[RejectedRow]]:
    chunk: list[RejectedRow] = []
    size = 0
    for each in rows:
        if chunk and (len(chunk) == CHUNK_ROWS or size + len(each.body) > CHUNK_BYTES):
            yield chunk
            chunk, size = [], 0
        chunk.append(each)
        size += len(each.body)
    if chunk:
        yield chunk
