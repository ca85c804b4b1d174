"""Append rows of a batch to a queue's dead letters, once even if the batch is replayed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ackq import scripts
from ackq.core.call import Keys, call
from ackq.core.chunking import chunked
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
    rejected = spec.keys.ready + f"{REJECTED}{writer}".encode()
    keys = (spec.keys.dead, rejected, spec.keys.counters)
    types = dict(zip(keys, ("stream", "hash", "hash"), strict=True))
    expected = Keys(f"queue {spec.name!r}", types)
    rows = list(rows)
    appended = 0
    for chunk in chunked(rows, [len(each.body) for each in rows], CHUNK_ROWS, CHUNK_BYTES):
        args: list[Arg] = [batch, window_ms]
        for each in chunk:
            args += (each.row, usable_id(each.body) or "", each.body, each.reason)
        # The script appends each row once, so a call whose reply was lost may be sent again.
        request = Request(
            (len(keys), *keys, *args), script=scripts.load("pipeline/reject"), resend=True
        )
        appended += yield from call(expected, request)
    return appended
