"""A worker's routines beside the handlers: take, settle, renew and release messages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress

import redis

from ackq.core import observing
from ackq.core.chunking import TAKE_CHUNK
from ackq.errors import AckqError, ConfigurationError, LeaseLost
from ackq.queue.messages import Message
from ackq.worker.effects import Call, Routine, Wait
from ackq.worker.policy import Settlement
from ackq.worker.ratelimit import permit
from ackq.worker.state import Lane, State, overdue

#: Seconds that one take waits for a message; a stop is noticed within this time. Shorter while
#: handlers run, since a message that one of them returns does not wake a waiting take.
TAKE_TIMEOUT = 0.5
BUSY_TAKE_TIMEOUT = 0.2
#: Longest time, in seconds, that a routine waits for its bell before it checks again.
IDLE = 0.5
#: Seconds that a message may wait in a worker before it is released for others, as measured.
STALE = 1.1
#: Seconds of waiting after which the worker takes fewer messages. This is early enough that a
#: take in progress, which asks for as many as before, is over when the message is released.
CROWDED = STALE - 2 * BUSY_TAKE_TIMEOUT
#: Seconds until a draining worker looks again for messages that its last take did not find.
OTHERS_PAUSE = 0.05
#: Seconds between two calls that keep the totals counted, and how long each call lets them be.
WATCH_EVERY = 600.0
WATCH_WINDOW = 7 * 86400.0
#: Errors of the server or its connection. Anything else is a bug in this program.
TEMPORARY = (redis.RedisError, OSError, AckqError)


def feed(state: State) -> Routine[None]:
    """Take messages while there is room, and ack finished ones in the same round trip."""
    observing.prefetch()
    while not state.stopping:
        if state.quiet:
            yield Wait(state.feed_bell, IDLE)
            continue
        # Set this before checking for room: otherwise a ring in between would be missed.
        state.feeder_waits = True
        room = state.room()
        if not room:
            yield Wait(state.feed_bell, IDLE)
            continue
        state.feeder_waits = False
        lane, pause = _whose_turn(state)
        if lane is not None:
            # Set this before checking again: a worker is quiet only when no take is under way.
            lane.taking = True
            if not state.quiet:
                yield from _take(state, lane, room)
            lane.taking = False
        elif not (state.draining and _drained(state)):
            yield Wait(state.feed_bell, pause)


def _whose_turn(state: State) -> tuple[Lane | None, float]:
    """Return the lane to take from; or None, and how long to wait before trying again."""
    now = state.clock()
    pause = IDLE
    for number in state.turns.order():
        lane = state.lanes[number]
        if lane.empty:
            continue
        if lane.not_before <= now:
            return lane, 0.0
        pause = min(pause, lane.not_before - now)
    return None, pause


def _drained(state: State) -> bool:
    """Stop once every lane is empty and everything is settled; otherwise check the lanes again.

    A lane that was empty before the last settle is checked again: a message may have been returned.
    """
    if not all(lane.empty for lane in state.lanes):
        return False
    if state.settled() and all(lane.empty_since_settled for lane in state.lanes):
        state.stop()
        return True
    for lane in state.lanes:
        lane.empty = False
        lane.not_before = state.clock() + 0.01
    return False


def _take(state: State, lane: Lane, room: int) -> Routine[None]:
    wanted = min(room, TAKE_CHUNK)
    if lane.limit is not None:
        wanted = yield from _permitted(state, lane, wanted)
        if not wanted:
            return
    # With a single queue, wait for messages here. With several, `wait_for_messages` does so.
    waits, settled = state.waits_in_take, state.settled()
    messages = yield from _pop(state, lane, wanted, _take_timeout(state) if waits else None)
    if messages is None:
        return
    lane.unused = wanted - len(messages) if lane.limit is not None else 0
    if messages:
        state.arrived(lane, messages)
    elif not waits:
        if lane.unused:
            yield from _permitted(state, lane, 0)
        if state.draining and lane.sharded and (yield from _has_ready(state, lane)):
            lane.not_before = state.clock() + OTHERS_PAUSE
            return
        lane.empty, lane.empty_since_settled = True, settled
        lane.bell.ring()


def _has_ready(state: State, lane: Lane) -> Routine[bool]:
    """Return whether messages are ready although a take returned none.

    A take from a sharded queue does not look at every shard of other consumers.
    """
    try:
        stats = yield Call(lane.queue.stats)
    except TEMPORARY as error:
        lane.failed(error, state.clock(), "count")
        return True
    return bool(stats.ready) and not stats.paused


def wait_for_messages(state: State, lane: Lane) -> Routine[None]:
    """Wait for the next message of an empty lane."""
    observing.prefetch()
    while not state.stopping:
        if not lane.empty or state.draining or state.quiet or state.clock() < lane.not_before:
            yield Wait(lane.bell, IDLE)
            continue
        lane.taking = True
        waits = not state.quiet
        messages = (yield from _pop(state, lane, 1, _take_timeout(state))) if waits else None
        if not messages:
            lane.taking = False
            continue
        if lane.limit is not None and not (yield from _permitted(state, lane, 1)):
            # The rate limit does not allow it yet: release it, uncounted, to be taken later.
            lane.returned.extend((message, Settlement("release")) for message in messages)
            state.upkeep_bell.ring()
        else:
            state.arrived(lane, messages)
        lane.taking = False
        state.turns.returned(lane.number, [each.number for each in state.lanes if not each.empty])
        lane.empty = False
        state.feed_bell.ring()


def _take_timeout(state: State) -> float:
    return BUSY_TAKE_TIMEOUT if state.busy() else TAKE_TIMEOUT


def _pop(
    state: State, lane: Lane, wanted: int, timeout: float | None
) -> Routine[list[Message] | None]:
    """Take messages and ack finished ones. Return None if the call failed."""
    acked = lane.collect()
    lane.asked_at = state.clock()
    try:
        messages: list[Message] = yield Call(lane.queue.pop_many, (wanted, timeout, None, acked))
    except ConfigurationError as error:
        # This server does not support the queue: trying again will not help.
        lane.done.extend(acked)
        state.fatal = error
        state.stop()
        return None
    except TEMPORARY as error:
        # The acks may have arrived or not; repeating them does no harm.
        lane.done.extend(acked)
        lane.failed(error, state.clock(), "take")
        return None
    finally:
        lane.asked_at = None
    lane.succeeded(state.clock(), "take")
    refused = [message for message in acked if message.lease_lost]
    if refused:
        state.lost(refused)
    return messages


def _permitted(state: State, lane: Lane, wanted: int) -> Routine[int]:
    """Request permits from the rate limit, and return the unused ones."""
    assert lane.limit is not None
    queue = lane.queue
    unused, lane.unused = lane.unused, 0
    try:
        permitted, wait = yield Call(queue.execute, (permit, lane.limit, wanted, unused))
    except TEMPORARY as error:
        lane.failed(error, state.clock(), "rate limit")
        return 0
    lane.succeeded(state.clock(), "rate limit")
    if not permitted and wanted:
        lane.not_before = state.clock() + wait / 1_000_000
    return int(permitted)


# --- upkeep -----------------------------------------------------------------------------


def upkeep(state: State) -> Routine[None]:
    """Run one round: enforce time limits, release waiting messages, renew leases, settle."""
    state.enforce_time_limit(state.clock())
    _release_stale(state)
    for lane in state.lanes:
        # A stopping worker does not pause: the server may be back, and time is short.
        if state.clock() < lane.upkeep_after and not state.stopping:
            continue
        yield from _renew(state, lane)
        yield from _watch(state, lane)
        yield from _ack(state, lane)
        yield from _return(state, lane)


def _renew(state: State, lane: Lane) -> Routine[None]:
    now = state.clock()
    for due in _by_shard(state.due(lane, now)):
        try:
            yield Call(lane.queue.extend, tuple(due))
        except LeaseLost as error:
            state.lost(error.messages)
        except TEMPORARY as error:
            lane.failed(error, now, "renewal of leases")
            continue
        lane.succeeded(state.clock(), "renewal of leases")


def _watch(state: State, lane: Lane) -> Routine[None]:
    """Keep the totals of the queue counted, unless this user may not."""
    now = state.clock()
    if now >= lane.watch_after and not state.stopping:
        lane.watch_after = now + WATCH_EVERY
        with suppress(*TEMPORARY):
            yield Call(lane.queue.counters, (WATCH_WINDOW,))


def _ack(state: State, lane: Lane) -> Routine[None]:
    failed: list[Message] = []
    while not failed and (collected := lane.collect()):
        for messages in _by_shard(collected):
            if not (yield from _settle(state, lane, Call(lane.queue.ack, tuple(messages)))):
                failed += messages
    lane.done.extend(failed)


def _return(state: State, lane: Lane) -> Routine[None]:
    groups: dict[tuple[str, Settlement], list[Message]] = {}
    for _ in range(len(lane.returned)):
        message, settlement = lane.returned.popleft()
        groups.setdefault((message.queue, settlement), []).append(message)
    for (_, settlement), messages in groups.items():
        if not (yield from _settle(state, lane, _settle_call(lane, settlement, messages))):
            lane.returned.extend((message, settlement) for message in messages)
        else:
            state.died(messages)


def _by_shard(messages: Iterable[Message]) -> list[list[Message]]:
    """Group messages by shard: one may be unreachable while others are not."""
    groups: dict[str, list[Message]] = {}
    for message in messages:
        groups.setdefault(message.queue, []).append(message)
    return list(groups.values())


def _settle_call(lane: Lane, settlement: Settlement, messages: Sequence[Message]) -> Call:
    queue, argument = lane.queue, settlement.argument
    if settlement.verb == "reject":
        return Call(queue.reject, tuple(messages), {"reason": argument})
    give_back = queue.nack if settlement.verb == "nack" else queue.release
    return Call(give_back, tuple(messages), {"delay": argument})


def _settle(state: State, lane: Lane, call: Call) -> Routine[bool]:
    """Settle. Return False if the call failed and must be repeated."""
    try:
        yield call
    except LeaseLost as error:
        state.lost(error.messages)
    except TEMPORARY as error:
        lane.failed(error, state.clock(), "settling")
        return False
    lane.succeeded(state.clock(), "settling")
    return True


def _release_stale(state: State) -> None:
    """Release messages that have waited too long; when stopping, all waiting messages."""
    now = state.clock()
    oldest = 0.0
    for message in state.buffer.copy():
        age = state.by_name[message.queue].age(message, now)
        oldest = max(oldest, age)
        if not state.stopping and age <= STALE:
            continue
        try:
            state.buffer.remove(message)
        except (ValueError, IndexError):
            continue  # a slot took it first
        state.by_name[message.queue].returned.append((message, Settlement("release")))
    if oldest > CROWDED and not state.stopping:
        state.pace.slowed(oldest)


def abandon(state: State) -> None:
    """Return the messages of running handlers, and mark their leases as lost.

    This delivery counts only if the handler is over its time limit.
    """
    for slot in state.slots:
        if (message := slot.message) is not None:
            late = message.timed_out
            settlement = state.verdict(message, overdue()) if late else Settlement("release")
            state.by_name[message.queue].returned.append((message, settlement))
            message.lease_lost = True
