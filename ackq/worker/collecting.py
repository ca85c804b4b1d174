"""Collects the messages of a batch."""

from __future__ import annotations

from collections.abc import Iterator

from ackq.config import in_seconds
from ackq.queue.messages import Message
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
        alone = _is_last(state, message)
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


def _is_last(state: State, message: Message) -> bool:
    """Return whether this is the last permitted delivery: a killer must not take others along."""
    limit = state.by_name[message.queue].max_receives
    return limit is not None and message.receive_count >= limit
