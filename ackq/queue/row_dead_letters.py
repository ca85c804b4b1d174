"""Append rows of a batch to a queue's dead letters, once even if the batch is replayed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ackq import scripts
from ackq.core.call import Keys, call
from ackq.core.chunks import chunked
from ackq.core.effects import Arg, Operation, Request
from ackq.core.ids import usable_id
from ackq.core.names import REJECTED
from ackq.errors import BatchSuperseded
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


SCRIPT = "pipeline/reject"


@dataclass(frozen=True, slots=True)
class RowWriter:
    """Writes rows of batches to the dead letters of a queue; ``name`` identifies it."""

    spec: QueueSpec
    name: str
    window_ms: int


def begin_batch(writer: RowWriter, batch: str) -> Operation[None]:
    """Begin a batch; see `RowDeadLetters.begin`."""
    yield from _call(writer, batch, ())


def reject_rows(writer: RowWriter, batch: str, rows: Iterable[RejectedRow]) -> Operation[int]:
    """Append rows to the dead letters; see `RowDeadLetters.reject`."""
    rows = list(rows)
    appended = 0
    for chunk in chunked(rows, [len(row.body) for row in rows], CHUNK_ROWS, CHUNK_BYTES):
        appended += yield from _call(writer, batch, chunk)
    return appended


def _call(writer: RowWriter, batch: str, rows: Iterable[RejectedRow]) -> Operation[int]:
    spec = writer.spec
    rejected = spec.keys.ready + f"{REJECTED}{writer.name}".encode()
    types = {spec.keys.dead: "stream", rejected: "hash", spec.keys.counters: "hash"}
    expected = Keys(f"queue {spec.name!r}", types)
    args: list[Arg] = [*spec.keys.passed(SCRIPT, rejected), batch, writer.window_ms]
    for row in rows:
        args += (row.row, usable_id(row.body) or "", row.body, row.reason)
    # The script appends each row once, so a call whose reply was lost may be sent again.
    request = Request(tuple(args), script=scripts.load(SCRIPT), resend=True)
    status, answer = yield from call(expected, request)
    if status == b"superseded":
        raise BatchSuperseded(
            f"queue {spec.name!r}: rows of batch {batch} of {writer.name!r} arrived when its batch"
            f" was {answer.decode() or 'none'}: an abandoned task wrote them, or Redis lost the"
            " record of the batch"
        )
    return int(answer)
