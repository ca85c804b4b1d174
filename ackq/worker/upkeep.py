"""The upkeep: limits of time, renewal of leases, settling, and the return of what has waited."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from contextlib import suppress

from ackq.errors import EXPECTED, ConfigurationError, LeaseLost
from ackq.queue.messages import Message
from ackq.worker.batch import Pile
from ackq.worker.effects import Call, Routine
from ackq.worker.feeder import BUSY_TAKE_TIMEOUT
from ackq.worker.lane import Lane
from ackq.worker.logs import log, reason_of
from ackq.worker.policy import Settlement
from ackq.worker.state import State, overdue

#: Seconds that a message may wait in a worker before it is released for others, as measured.
STALE = 1.1
#: Seconds of waiting after which the worker takes fewer messages. This is early enough that a
#: take in progress, which asks for as many as before, is over when the message is released.
CROWDED = STALE - 2 * BUSY_TAKE_TIMEOUT
#: Seconds between two calls that keep the totals counted, and how long each call lets them be.
WATCH_EVERY = 600.0
WATCH_WINDOW = 7 * 86400.0


def upkeep(state: State) -> Routine[None]:
    """Run one round: enforce time limits, release waiting messages, renew leases, settle."""
    state.enforce_time_limit(state.clock())
    _release_stale(state)
    for lane in state.lanes:
        # A stopping worker does not pause: the server may be back, and time is short.
        if state.clock() < lane.upkeep.not_before and not state.stopping:
            continue
        yield from _renew(state, lane)
        yield from _watch(state, lane)
        yield from _ack(state, lane)
        yield from _return(state, lane)


def _renew(state: State, lane: Lane) -> Routine[None]:
    now = state.clock()
    for due in _by_shard(state.due(lane, now)):
        yield from _settle(state, lane, Call(lane.queue.extend, tuple(due)), "renewal of leases")


def _watch(state: State, lane: Lane) -> Routine[None]:
    """Keep the totals of the queue counted, unless this user may not."""
    now = state.clock()
    if now >= lane.upkeep.watch_at and not state.stopping:
        lane.upkeep.watch_at = now + WATCH_EVERY
        with suppress(*EXPECTED):
            yield Call(lane.queue.counters, (WATCH_WINDOW,))


def _ack(state: State, lane: Lane) -> Routine[None]:
    failed: list[Message] = []
    while not failed and (collected := lane.upkeep.collect()):
        for messages in _by_shard(collected):
            if not (yield from _settle(state, lane, Call(lane.queue.ack, tuple(messages)))):
                failed += messages
    lane.upkeep.done.extend(failed)
    lane.upkeep.apart = False


def _return(state: State, lane: Lane) -> Routine[None]:
    returned = lane.upkeep.returned
    now = returned.copy()
    groups: dict[tuple[str, Settlement], list[Message]] = {}
    for message, settlement in now:
        groups.setdefault((message.queue, settlement), []).append(message)
    # They stay there until all of that is done: a drain ends when there is nothing to settle.
    for (_, settlement), messages in groups.items():
        yield from _pause(lane, settlement, messages)
        if not (yield from _settle(state, lane, _settle_call(lane, settlement, messages))):
            returned.extend((message, settlement) for message in messages)
        else:
            state.died(messages, settlement)
    for _ in now:
        returned.popleft()


def _pause(lane: Lane, settlement: Settlement, messages: Sequence[Message]) -> Routine[None]:
    """Pause the groups of messages whose handlers asked for it, before these are returned."""
    if settlement.verb != "pause" or not settlement.argument:
        return
    queue = lane.queue_of(messages[0])
    if queue.config.groups is None:
        log.error(
            "queue %r has no groups: leave out group=True, which only delays here", queue.name
        )
    for group in {message.group for message in messages} - {None}:
        try:
            yield Call(queue.pause_group, (group,), {"for_": settlement.argument})
        except Exception as error:
            # If the server is away, the messages are returned in a later round, and this is tried
            # again.
            log.error("group %r of queue %r is not paused: %s", group, lane.queue.name, error)


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


def _settle(state: State, lane: Lane, call: Call, doing: str = "settling") -> Routine[bool]:
    """Settle messages, or renew their leases. Return False if that must be repeated.

    A message that cannot be settled for good is left to the end of its lease, and no other.
    """
    try:
        yield call
    except LeaseLost as error:
        state.lost(error.messages)
    except Exception as error:
        if isinstance(error, EXPECTED) and not isinstance(error, ConfigurationError):
            lane.failed(error, state.clock(), doing)
            return False
        if len(call.args) == 1:
            log.error("%s failed for good: %s", doing, reason_of(error))
            return True
        done = True
        for message in call.args:
            alone = Call(call.method, (message,), call.keywords)
            done &= yield from _settle(state, lane, alone, doing)
        return done
    lane.succeeded(state.clock(), doing)
    return True


def _release_stale(state: State) -> None:
    """Release messages that have waited too long; to stop or run one alone, all that wait."""
    now = state.clock()
    oldest = 0.0
    if state.alone and not state.stopping:
        return  # it waits for its turn on purpose
    everything = state.stopping or state.clearing
    if everything:
        for collector in state.collectors:
            collector.close(math.inf)
    for item in state.feed.buffer.copy():
        messages = item.messages if isinstance(item, Pile) else [item]
        age = max(state.by_name[message.queue].age(message, now) for message in messages)
        oldest = max(oldest, age)
        if not everything and age <= STALE:
            continue
        try:
            state.feed.buffer.remove(item)
        except (ValueError, IndexError):
            continue  # a slot took it first
        state.give_back(messages)
    for message in state.feed.runs.copy():
        if everything or state.by_name[message.queue].age(message, now) > STALE:
            state.give_back(state.feed.runs.end(message))
    if state.stopping:
        while state.suspects:
            state.give_back([state.suspects.popleft()])
    if oldest > CROWDED and not everything:
        state.feed.pace.slowed(oldest)


def abandon(state: State) -> None:
    """Return the messages of running handlers, and mark their leases as lost.

    This delivery counts only if the handler is over its time limit.
    """
    for slot in state.slots:
        for message in slot.held():
            late = message.timed_out
            settlement = state.verdict(message, overdue()) if late else Settlement("release")
            state.by_name[message.queue].upkeep.returned.append((message, settlement))
            message.lease_lost = True
