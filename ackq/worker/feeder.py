"""Taking messages: the feeder, and a routine for each queue that waits while the queue is empty."""

from __future__ import annotations

import math
from collections.abc import Callable

from ackq import scripts
from ackq.config import RateLimit
from ackq.core import observation
from ackq.core.call import Keys, call
from ackq.core.chunks import TAKE_CHUNK
from ackq.core.effects import Operation, Request
from ackq.errors import EXPECTED, ConfigurationError
from ackq.queue.messages import Message
from ackq.queue.spec import QueueSpec
from ackq.worker.batch import Collector
from ackq.worker.effects import Bell, Call, Routine, Wait
from ackq.worker.lane import Lane
from ackq.worker.policy import Settlement
from ackq.worker.state import State

#: Seconds that one take waits for a message; a stop is noticed within this time. Shorter while
#: handlers run, since a message that one of them returns does not wake a waiting take.
TAKE_TIMEOUT = 0.5
BUSY_TAKE_TIMEOUT = 0.2
#: Longest time, in seconds, that a routine waits for its bell before it checks again.
IDLE = 0.5
#: Seconds until a draining worker looks again for messages that its last take did not find.
OTHERS_PAUSE = 0.05


class Taking:
    """The service that takes messages for the handlers."""

    def start(self, state: State, bell: Callable[[], Bell]) -> list[Routine[None]]:
        """Return the feeder, and for several queues what waits for the messages of each."""
        self._state = state
        routines = [feed(state)]
        for collector in state.collectors:
            state.bells.append(collector.bell)
            routines.append(close_when_due(state, collector))
        if not state.waits_in_take and not state.draining:
            routines += [wait_for_messages(state, lane) for lane in state.lanes]
        return routines

    def end(self) -> None:
        """Take no more messages."""
        self._state.stop()


def feed(state: State) -> Routine[None]:
    """Take messages while there is room, and ack finished ones in the same round trip."""
    observation.prefetch()
    while not state.stopping:
        if not state.takes:
            yield Wait(state.feed.bell, IDLE)
            continue
        # Set this before checking for room: otherwise a ring in between would be missed.
        state.feed.waits = True
        lane, room, pause = _whose_turn(state)
        if lane is not None and not room:
            yield Wait(state.feed.bell, pause)
            continue
        state.feed.waits = False
        if lane is not None:
            # Set this before checking again: a worker is quiet only when no take is under way.
            lane.take.under_way = True
            if state.takes:
                yield from _take(state, lane, room)
            lane.take.under_way = False
        elif not (state.draining and _drained(state)):
            yield Wait(state.feed.bell, pause)


def _whose_turn(state: State) -> tuple[Lane | None, int, float]:
    """Return a lane, how many messages to take from it, and how long to wait if there are none.

    If there is no room for any messages, return 0 and one of the lanes that have some. If no lane
    can be taken from now, return no lane.
    """
    now = state.clock()
    pause = IDLE
    full: Lane | None = None
    for number in state.feed.turns.order():
        lane = state.lanes[number]
        if lane.take.empty:
            continue
        if lane.take.not_before > now:
            pause = min(pause, lane.take.not_before - now)
        elif room := state.room(lane):
            return lane, room, pause
        else:
            full = lane
    return full, 0, pause


def close_when_due(state: State, collector: Collector) -> Routine[None]:
    """Pass batches on whose first messages have waited long enough."""
    while not state.stopping:
        left = collector.left(state.clock())
        if left is None:
            yield Wait(collector.bell, IDLE)
        elif left > 0:
            yield Wait(collector.bell, left)
        else:
            collector.close(state.clock())


def _drained(state: State) -> bool:
    """Stop once every lane is empty and everything is settled; otherwise check the lanes again.

    A lane that was empty before the last settle is checked again: a message may have been returned.
    """
    if not all(lane.take.empty for lane in state.lanes):
        return False
    for collector in state.collectors:
        collector.close(math.inf)  # no more messages come for its batch
    if state.settled() and all(lane.take.empty_since_settled for lane in state.lanes):
        state.stop()
        return True
    for lane in state.lanes:
        lane.take.empty = False
        lane.take.not_before = state.clock() + 0.01
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
    lane.take.unused = wanted - len(messages) if lane.limit is not None else 0
    if messages:
        state.arrived(lane, messages)
    elif not waits:
        if lane.take.unused:
            yield from _permitted(state, lane, 0)
        if state.draining and lane.sharded and (yield from _has_ready(state, lane)):
            lane.take.not_before = state.clock() + OTHERS_PAUSE
            return
        lane.take.empty, lane.take.empty_since_settled = True, settled
        lane.take.bell.ring()


def _has_ready(state: State, lane: Lane) -> Routine[bool]:
    """Return whether messages are ready although a take returned none.

    A take from a sharded queue does not look at every shard of other consumers.
    """
    try:
        stats = yield Call(lane.queue.stats)
    except EXPECTED as error:
        lane.failed(error, state.clock(), "count")
        return True
    return bool(stats.ready) and not stats.paused


def wait_for_messages(state: State, lane: Lane) -> Routine[None]:
    """Wait for the next message of an empty lane."""
    take = lane.take
    observation.prefetch()
    while not state.stopping:
        if (
            not lane.take.empty
            or state.draining
            or not state.takes
            or state.clock() < lane.take.not_before
        ):
            yield Wait(lane.take.bell, IDLE)
            continue
        lane.take.under_way = True
        waits = state.takes
        messages = (yield from _pop(state, lane, 1, _take_timeout(state))) if waits else None
        if not messages:
            take.under_way = False
            continue
        if lane.limit is not None and not (yield from _permitted(state, lane, 1)):
            # The rate limit does not allow it yet: release it, uncounted, to be taken later.
            lane.upkeep.returned.extend((message, Settlement("release")) for message in messages)
            state.upkeep_bell.ring()
        else:
            state.arrived(lane, messages)
        lane.take.under_way = False
        state.feed.turns.returned(
            lane.number, [other.number for other in state.lanes if not other.take.empty]
        )
        lane.take.empty = False
        state.feed.bell.ring()


def _take_timeout(state: State) -> float:
    return BUSY_TAKE_TIMEOUT if state.busy() else TAKE_TIMEOUT


def _pop(
    state: State, lane: Lane, wanted: int, timeout: float | None
) -> Routine[list[Message] | None]:
    """Take messages and ack finished ones. Return None if the call failed."""
    acked = [] if lane.upkeep.apart else lane.upkeep.collect()
    lane.take.asked_at = state.clock()
    try:
        messages: list[Message] = yield Call(lane.queue.pop_many, (wanted, timeout, None, acked))
    except ConfigurationError as error:
        # This server does not support the queue: trying again will not help.
        lane.upkeep.done.extend(acked)
        state.fatal = error
        state.stop()
        return None
    except EXPECTED as error:
        # The acks may have arrived or not; repeating them does no harm.
        lane.upkeep.done.extend(acked)
        lane.failed(error, state.clock(), "take")
        return None
    except Exception:
        if not acked:
            raise
        # A handler has changed one of them: the upkeep finds out which.
        lane.upkeep.done.extend(acked)
        lane.upkeep.apart = True
        state.upkeep_bell.ring()
        return None
    finally:
        lane.take.asked_at = None
    lane.succeeded(state.clock(), "take")
    refused = [message for message in acked if message.lease_lost]
    if refused:
        state.lost(refused)
    return messages


def _permitted(state: State, lane: Lane, wanted: int) -> Routine[int]:
    """Request permits from the rate limit, and return the unused ones."""
    assert lane.limit is not None
    queue = lane.queue
    unused, lane.take.unused = lane.take.unused, 0
    try:
        permitted, wait = yield Call(queue.execute, (permit, lane.limit, wanted, unused))
    except EXPECTED as error:
        lane.failed(error, state.clock(), "rate limit")
        return 0
    lane.succeeded(state.clock(), "rate limit")
    if not permitted and wanted:
        lane.take.not_before = state.clock() + wait / 1_000_000
    return int(permitted)


def permit(
    spec: QueueSpec, limit: RateLimit, wanted: int, returned: int
) -> Operation[tuple[int, int]]:
    """Request permits for ``wanted`` messages, and return ``returned`` unused ones.

    Returns:
        How many messages may be taken, and if none, the microseconds until one may be.
    """
    request = Request(
        (
            *spec.keys.passed("worker/permit"),
            wanted,
            returned,
            limit.count,
            limit.period,
            limit.at_once,
        ),
        script=scripts.load("worker/permit"),
        resend=True,  # at worst, fewer messages are taken than allowed
    )
    keys = Keys(f"queue {spec.name!r}", {spec.keys.rate: "string"})
    permitted, wait = yield from call(keys, request)
    return permitted, wait
