"""Collects the messages of a batch."""

from __future__ import annotations

from collections.abc import Iterator

from ackq.config import in_seconds
from ackq.worker.state import Slot, State


def collect(state: State, slot: Slot) -> Iterator[float | None]:
    """Collect a batch in ``slot``. Yield how long to wait for the next message; None: no limit.

    The batch is empty if the worker stops. Its messages then wait in the buffer again, which a
    stopping worker releases.
    """
    wanted = state.handling.batch
    assert wanted is not None
    buffer, batch = state.feed.buffer, slot.batch
    until = 0.0
    while len(batch) < wanted.size and not state.stopping:
        slot.taking = True
        try:
            message = buffer.popleft()
        except IndexError:
            slot.taking = False
            if not batch:
                yield None
            elif (left := until - state.clock()) > 0:
                yield left
            else:
                return
            continue
        # At its last permitted delivery: a message that kills its worker takes no others along.
        limit = state.limit_of(message)
        alone = limit is not None and message.receive_count >= limit
        if alone and batch:
            buffer.appendleft(message)
        else:
            batch.append(message)
        slot.taking = False
        if len(batch) == 1:
            until = state.clock() + in_seconds(wanted.wait)
        if alone:
            return
    if state.stopping:
        buffer.extend(batch)
        slot.batch = []
