"""Read the messages of a delay queue without taking them."""

from __future__ import annotations

import math

from ackq import scripts
from ackq.config import check_integer
from ackq.core.call import call
from ackq.core.creation_time import created_at
from ackq.core.effects import Operation, Request
from ackq.core.failure_notes import with_errors
from ackq.core.inspection_results import PeekedMessage, State
from ackq.delay.messages import DelaySpec, decode_key, raw_key
from ackq.errors import ConfigurationError, InvalidMessage

#: Most messages that one call reads.
PAGE = 1000

#: Where a page begins: after the member with this score and key, in the partition of this index.
#: A rank would shift when earlier messages are taken. No score: at the start of the partition.
Cursor = tuple[int, float | None, str]
FIRST: Cursor = (0, None, "")


def page(
    spec: DelaySpec, wanted: int, state: State, cursor: Cursor
) -> Operation[tuple[list[PeekedMessage], Cursor | None]]:
    """Read one page; see `ackq.delay.DelayQueue.peek_page`."""
    if state not in ("ready", "in_flight", "delayed"):
        raise ConfigurationError(f"state is 'ready', 'in_flight' or 'delayed', not {state!r}")
    check_integer(wanted, "n", 1, PAGE)
    index, score, key = _checked(spec, cursor)
    keys = spec.partitions[index].all()
    request = Request(
        (len(keys), *keys, state, score, key, wanted),
        script=scripts.load("delay/peek"),
        resend=True,
    )
    after, last, *columns = yield from call(spec, request)
    unit = 1_000_000 if state == "in_flight" else 1
    raw_keys: list[bytes] = columns[::4]
    seen = [
        PeekedMessage(decode_key(key), body, count, float(score) / unit, (), created_at(body, None))
        for key, body, count, score in zip(*(columns[at::4] for at in range(4)), strict=True)
    ]
    seen = yield from with_errors(spec, spec.partitions[index].errors, seen, raw_keys)
    if after:
        return seen, (index, float(after), decode_key(last))
    return seen, (index + 1, None, "") if index + 1 < len(spec.partitions) else None


def peek(spec: DelaySpec, wanted: int, state: State) -> Operation[list[PeekedMessage]]:
    """Read the first messages; see `ackq.delay.DelayQueue.peek`."""
    check_integer(wanted, "peek", 0, 2**53)
    seen: list[PeekedMessage] = []
    cursor: Cursor | None = FIRST
    while cursor is not None and len(seen) < wanted:
        messages, cursor = yield from page(spec, min(PAGE, wanted - len(seen)), state, cursor)
        seen += messages
    return seen


def _checked(spec: DelaySpec, cursor: Cursor) -> tuple[int, str, bytes]:
    """Return the index of a cursor, and its score and key as the script takes them.

    Raises:
        ConfigurationError: it is not a cursor in this queue.
    """
    if not isinstance(cursor, tuple) or len(cursor) != 3:
        raise ConfigurationError(
            f"cursor is a tuple that peek_page returned, not {cursor!r} (None means that"
            " there are no more pages; leave cursor out to begin again)"
        )
    index, score, key = cursor
    check_integer(index, "the partition of a cursor", 0, len(spec.partitions) - 1)
    if score is not None and (not isinstance(score, float) or math.isnan(score)):
        raise ConfigurationError(f"the score of a cursor is a float or None, not {score!r}")
    try:
        return index, "" if score is None else str(score), raw_key(key)
    except InvalidMessage as error:
        raise ConfigurationError(f"the key of a cursor is invalid: {error}") from error
