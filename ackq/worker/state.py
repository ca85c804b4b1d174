"""The state that the threads or tasks of one worker share, and how a message changes it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Protocol

import orjson

from ackq.core.failure import describe
from ackq.queue.messages import Message
from ackq.worker.batch import Collector, Pile, failures_of
from ackq.worker.effects import Bell
from ackq.worker.failures import Failures, outlook, text_of
from ackq.worker.feed import Feed
from ackq.worker.figures import Figures
from ackq.worker.forks import end_if_forked
from ackq.worker.hooks import Hooks, call
from ackq.worker.lane import JITTER_SECONDS, Lane
from ackq.worker.logs import about, log
from ackq.worker.policy import (
    NO_MORE_RECEIVES,
    RENEW_AFTER,
    Backoff,
    Settlement,
    Terms,
    settlement_of,
)
from ackq.worker.slot import Slot, terms_of
from ackq.worker.verdicts import Verdict, cause_of

#: Seconds until a message is ready again that was taken while its handler still runs here.
STILL_RUNNING_PAUSE = 1.0
_RECEIVE_COUNT = attrgetter("receive_count")
#: How to settle a message whose last permitted delivery failed; its outcome is a nack.
LAST_FAILURE = Settlement("reject", NO_MORE_RECEIVES)
#: Why a handler is interrupted.
TIME_LIMIT, LOST_LEASE, STOP = "time limit", "lost lease", "stop"


def overdue() -> TimeoutError:
    """Return the error of a handler that exceeded its time limit."""
    return TimeoutError("over the time limit")


class Quota:
    """How many messages a worker may still handle. Safe to share between threads."""

    def __init__(self, messages: int) -> None:
        self.left = messages
        self._lock = threading.Lock()

    def draw(self) -> bool:
        """Count a message whose handler is about to be called. Return False if none is left."""
        with self._lock:
            if not self.left:
                return False
            self.left -= 1
            return True


class History(Protocol):
    """Keeps what handlers do."""

    #: How many acked messages may still go unnoted.
    skip: int

    def finished(self, number: int, message: Message, outcome: str, seconds: float) -> None:
        """Note that a handler has ended; see `ackq.worker.minutes.Minutes`."""


@dataclass(slots=True)
class Handling:
    """What applies to every handler."""

    failures: Failures
    backoff: Backoff
    time_limit: float | None = None
    expiry_field: str | None = None
    hooks: Sequence[Hooks] = ()
    #: Returns the terms of a redelivered message, before its handler is called.
    terms: Callable[[Message], Terms | None] | None = None
    #: Whether the limit of its terms is that of a message, even if its queue has a lower one.
    own_limits: bool = False
    #: Lets the supervisor of this process run a message elsewhere; None: there is none.
    hand_over: Callable[[Message], bool] | None = None
    figures: Figures | None = None  #: counts what handlers do, if the counts are shown
    minutes: History | None = None  #: unless the worker keeps no history


@dataclass(slots=True)
class State:
    """The state of one worker. Each single operation on it is thread-safe."""

    lanes: Sequence[Lane]
    slots: Sequence[Slot]
    feed: Feed
    handling: Handling
    clock: Callable[[], float]
    #: Rung when there may be work for the upkeep.
    upkeep_bell: Bell
    #: Rung when there may be a suspect to run, or its handler has ended.
    suspects_bell: Bell
    #: Interrupts the handler of a message, for this reason; the message's flags are set beforehand.
    interrupt: Callable[[Slot, Message, str], None]
    #: Wakes slots when messages have arrived.
    wake: Callable[[], None]
    #: By the names of the queues, and of the shards from which messages came.
    by_name: dict[str, Lane] = field(init=False)
    #: The addresses of their servers.
    addresses: dict[str, str] = field(init=False)
    #: Whether any handler gets batches.
    batching: bool = field(init=False)
    stopping: bool = False
    draining: bool = False  #: stop when no queue has ready messages
    quiet: bool = False  #: take no more messages, but do not stop
    quota: Quota | None = None  #: unless any number of messages may be handled
    #: Messages that may have ended the processes that had them, to be run alone.
    suspects: deque[Message] = field(default_factory=deque)
    #: Those whose last delivery has failed in a process that ended, which is not recorded yet.
    charged: set[Message] = field(default_factory=set)
    #: Whether everything else is finished or given back now, so that one of them can run.
    clearing: bool = False
    alone: bool = False  #: whether one of them runs
    fatal: BaseException | None = None
    #: Wake routines that wait for anything but messages; rung at the stop.
    bells: list[Bell] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Derive the remaining fields."""
        self.by_name = {lane.queue.name: lane for lane in self.lanes}
        self.addresses = {lane.queue.name: lane.queue.address for lane in self.lanes}
        self.batching = bool(self.collectors)
        if self.batching:
            # Whatever leaves a slot makes room for a batch.
            self.feed.refill_at = sys.maxsize
        self.feed.last_take = self.clock()

    @property
    def watched(self) -> bool:
        """Whether each message is looked at before it is handled: see `skips`."""
        handling = self.handling
        return bool(handling.hooks or handling.expiry_field is not None or self.quota)

    @property
    def takes(self) -> bool:
        """Whether the worker takes messages now."""
        return not (self.quiet or self.clearing or self.alone)

    @property
    def waits_in_take(self) -> bool:
        """Whether the feeder itself waits for messages: one queue, no rate limit, no drain."""
        return len(self.lanes) == 1 and self.lanes[0].limit is None and not self.draining

    def unsettled(self) -> bool:
        """Return whether any message still has to be settled."""
        return any(lane.upkeep.owes() for lane in self.lanes)

    @property
    def collectors(self) -> list[Collector]:
        """What collects the messages of queues whose handlers get batches."""
        return [lane.collector for lane in self.lanes if lane.collector is not None]

    # --- taking -------------------------------------------------------------------------

    def room(self, lane: Lane) -> int:
        """Return how many messages to take now; 0 until enough fit to be worth a call."""
        room = self._room(lane)
        return room if self.quota is None else min(room, self._still_wanted(self.quota))

    def _still_wanted(self, quota: Quota) -> int:
        """Return for how many messages more than those that wait a handler may be called."""
        return max(0, quota.left - len(self.waiting()))

    def _room(self, lane: Lane) -> int:
        feed = self.feed
        if lane.collector is not None:
            return self._room_for_batches(lane, lane.collector)
        spare = feed.pace.spare
        # Set this before checking the buffer: another thread may be making room at this moment.
        if not self.batching:
            feed.refill_at = spare // 2
        waiting = len(feed.buffer)
        if waiting > spare // 2:
            return 0
        idle = len(self.slots) - waiting - self.busy()
        # Idle slots may serve other groups than those that wait for a message of theirs.
        return max(0, idle, idle + spare - len(feed.runs))

    def _room_for_batches(self, lane: Lane, collector: Collector) -> int:
        """Return how many messages make full batches for the slots without any."""
        free = len(self.slots) - self.busy() - len(self.feed.buffer)
        in_runs = sum(self.by_name[message.queue] is lane for message in self.feed.runs.copy())
        return max(0, free * collector.size - len(collector.waiting()) - in_runs)

    def busy(self) -> int:
        """Return how many handlers run, or are about to."""
        return sum(
            slot.taking or slot.message is not None or bool(slot.batch) for slot in self.slots
        )

    def arrived(self, lane: Lane, messages: Sequence[Message]) -> None:
        """Put taken messages, all of one queue or shard, into the buffer and wake the slots."""
        self.feed.last_take = now = self.clock()
        name = messages[0].queue
        if name not in self.by_name:
            self._add_shard(lane, name)
        # The lease ends a random jitter after the timeout. Assume the longest.
        taken_at = messages[-1].receipt / 1_000_000 - lane.timeout - JITTER_SECONDS
        lane.clocks[name] = taken_at - now
        self.feed.turns.took(lane.number, len(messages))
        if self.handling.hooks:
            call(self.handling.hooks, "taken", lane.queue.name, [*messages])
        messages = self._without_running(lane, messages)
        if messages and lane.in_order(messages[0]):
            messages = self.feed.runs.begin(messages)
        messages = self._without_suspects(messages)
        if lane.collector is not None:
            lane.collector.add(messages, self._is_last, now)
        else:
            self.feed.buffer.extend(messages)
            self.wake()

    def pass_on(self, batch: Pile) -> None:
        """Let a complete batch wait for a handler."""
        self.feed.buffer.append(batch)
        self.wake()

    def waiting(self) -> list[Message]:
        """Return the messages that wait for a handler, or for others of their batch or group."""
        messages = [*self.suspects, *self.feed.runs.copy()]
        messages += [one for collector in self.collectors for one in collector.waiting()]
        for item in self.feed.buffer.copy():
            messages += item.messages if isinstance(item, Pile) else [item]
        return messages

    def _is_last(self, message: Message) -> bool:
        limit = self.limit_of(message)
        return limit is not None and message.receive_count >= limit

    def _without_running(self, lane: Lane, messages: Sequence[Message]) -> Sequence[Message]:
        """Release messages that are still being handled here, because their leases had ended."""
        if max(map(_RECEIVE_COUNT, messages)) == 1:
            return messages
        running = {(held.queue, held.key) for slot in self.slots for held in slot.held()}
        again = [taken for taken in messages if (taken.queue, taken.key) in running]
        if not again:
            return messages
        for message in again:
            about(logging.WARNING, "released: its handler still runs here", message)
            lane.upkeep.returned.append((message, Settlement("release", STILL_RUNNING_PAUSE)))
        self.upkeep_bell.ring()
        left = [taken for taken in messages if taken not in again]
        if not lane.in_order(again[0]):
            return left
        busy = {message.group for message in again} - {None}
        self.give_back(taken for taken in left if taken.group in busy)
        return [taken for taken in left if taken.group not in busy]

    def give_back(self, messages: Iterable[Message]) -> None:
        """Release messages that wait, with those of their groups that wait for them."""
        runs = self.feed.runs
        given = [each for message in messages for each in (message, *runs.end(message))]
        for each in given:
            again = Settlement("nack" if each in self.charged else "release")
            self.by_name[each.queue].upkeep.returned.append((each, again))
        if given:
            self.upkeep_bell.ring()

    def _without_suspects(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Set those aside that may have ended the processes that had them, to be run alone."""
        if max(map(_RECEIVE_COUNT, messages), default=1) == 1:
            return messages
        suspects = [message for message in messages if self._is_suspect(message)]
        for message in suspects:
            self._suspect(message)
        return [message for message in messages if message not in suspects]

    def _is_suspect(self, message: Message) -> bool:
        """Note the terms of a redelivered message; return whether it is over its limit.

        A message that fails for the last time becomes a dead letter at once. So nobody saw how the
        last delivery of this one ended, nor whether another message ended it.
        """
        if message.receive_count > 1 and self.handling.terms is not None:
            message.terms = self.handling.terms(message)
        limit = self.limit_of(message)
        return limit is not None and message.receive_count > limit

    def _suspect(self, message: Message) -> None:
        """Run a message alone: in another process, or else here."""
        self.give_back(self.feed.runs.end(message))
        if self.handling.hand_over is None:
            self.suspects.append(message)
            self.suspects_bell.ring()
        elif not self.handling.hand_over(message):
            again = Settlement("release", STILL_RUNNING_PAUSE)
            self.by_name[message.queue].upkeep.returned.append((message, again))

    def adopt(self, lane: Lane, message: Message) -> None:
        """Hold a suspect that another process took. Its lease has just been renewed."""
        if message.queue not in self.by_name:
            self._add_shard(lane, message.queue)
        taken_at = message.lease_expires_at - lane.timeout - JITTER_SECONDS
        lane.clocks[message.queue] = taken_at - self.clock()
        self.suspects.append(message)

    def complete(self, lane: Lane, message: Message) -> None:
        """Prepare to handle a suspect that another process took, now that its body is known."""
        if self.handling.terms is not None:
            message.terms = self.handling.terms(message)
        if self.handling.hooks:
            call(self.handling.hooks, "taken", lane.queue.name, [message])

    def _add_shard(self, lane: Lane, name: str) -> None:
        self.by_name[name] = lane
        self.addresses[name] = lane.queue.address
        self.feed.add_shard(name, lane.queue.name)

    # --- handling -----------------------------------------------------------------------

    def skips(self, slot: Slot) -> bool:
        """Return True if the handler is not to be called; otherwise call the ``before`` hooks.

        An expired message is rejected. One over the quota is given back, uncounted.
        """
        message = slot.message
        assert message is not None
        if self.handling.expiry_field is not None and self._expired(message):
            self._settle(slot, message, Settlement("reject", "expired"))
            return True
        if self.quota is not None and not self.quota.draw():
            slot.message = None
            self.hush(True)
            self.give_back([message])
            return True
        if self.handling.hooks:
            call(self.handling.hooks, "before", message)
        return False

    def succeeded(self, slot: Slot) -> None:
        """Record that the handler returned: ack the message, unless its lease was lost."""
        message = slot.message
        assert message is not None
        if message.timed_out:
            # It may have returned early because it saw the flag.
            self.failed(slot, overdue())
            return
        outcome = "ack"
        if message.lease_lost:
            outcome = _lost(message)
        else:
            self.by_name[message.queue].upkeep.done.append(message)
        self._finished(slot, message, outcome)

    def failed(self, slot: Slot, error: BaseException) -> None:
        """Record that the handler raised, and decide how to settle the message."""
        message = slot.message
        assert message is not None
        self._settle(slot, message, self.verdict(message, error))

    def verdict(self, message: Message, error: BaseException) -> Settlement:
        """Return how to settle a failed message. Note the error in it, log it and call hooks."""
        terms, handling = terms_of(message), self.handling
        failures = handling.failures.of(terms.function)
        detail = terms.record_errors or self.by_name[message.queue].queue.config.record_errors
        described = failures.describe(error, detail == "traceback")
        settlement = self._settlement(message, error, terms)
        limit = self.limit_of(message)
        if not issubclass(type(error), Verdict):
            message.failure = described.stored(detail)
            failures.log(message, described, outlook(message, settlement, limit), error)
            if handling.hooks:
                call(handling.hooks, "error", message, error)
            return settlement
        if (cause := cause_of(error)) is not None:
            message.failure = failures.describe(cause, detail == "traceback").stored(detail)
        if settlement == LAST_FAILURE:
            about(logging.WARNING, "gave up", message, outlook=outlook(message, settlement, limit))
        return settlement

    def _settlement(self, message: Message, error: BaseException, terms: Terms) -> Settlement:
        """Return how to settle a failed message, even if the user's own rules for that fail."""
        count, backoff, chance = message.receive_count, self.handling.backoff, random.random()
        try:
            settlement = settlement_of(error, count, backoff, chance, terms)
        except BaseException as broken:
            self._log_broken(message, broken)
            settlement = _usual(message)
        limit = self.limit_of(message)
        is_last = settlement.verb == "nack" and limit is not None and count >= limit
        return LAST_FAILURE if is_last else settlement

    def _log_broken(self, message: Message, broken: BaseException) -> None:
        described = describe(broken)
        about(
            logging.ERROR,
            "its failure could not be handled as set: the default backoff applies",
            message,
            error=text_of(described),
            at=described.place,
        )

    def limit_of(self, message: Message) -> int | None:
        """Return how often a message may be received."""
        usual, own = self.by_name[message.queue].max_receives, terms_of(message).max_receives
        if usual is None or own is None:
            return own or usual
        return own if self.handling.own_limits else min(own, usual)

    def cancelled(self, slot: Slot, error: BaseException) -> None:
        """Record that a handler was cancelled: by the worker, or by its own code.

        A handler over its time limit has failed. If the lease was lost or the worker stops, the
        message is released.
        """
        message = slot.message
        assert message is not None
        if slot.interrupted == TIME_LIMIT:
            self.failed(slot, overdue())
        elif slot.interrupted:
            self._settle(slot, message, Settlement("release"))
        else:
            self.failed(slot, error)

    def ended(self, slot: Slot, error: BaseException | None) -> None:
        """Record that the handler of a slot returned, raised, or was cancelled. This never raises.

        Whatever happens here, the message is settled or given back, and the slot goes on.
        """
        end_if_forked(error)
        if error is None and not slot.batch:  # nearly always, and so without more calls
            message = slot.message
            try:
                self.succeeded(slot)
            except BaseException as broken:
                self._broken(slot, message, broken)
            return
        batch, slot.batch = slot.held(), []
        errors: Mapping[Message, BaseException] = {}
        if error is not None:
            try:
                errors = failures_of(batch, error)
            except BaseException as broken:
                self._log_broken(batch[0], broken)
                errors = dict.fromkeys(batch, error)
        for message in batch:
            slot.message = message
            self._ended(slot, errors.get(message))

    def _ended(self, slot: Slot, error: BaseException | None) -> None:
        message = slot.message
        try:
            if error is None:
                self.succeeded(slot)
            elif issubclass(type(error), asyncio.CancelledError):
                self.cancelled(slot, error)
            else:
                self.failed(slot, error)
        except BaseException as broken:
            self._broken(slot, message, broken)

    def _broken(self, slot: Slot, message: Message | None, broken: BaseException) -> None:
        """Give a message back whose end could not be recorded."""
        with contextlib.suppress(BaseException):  # if this fails, too, its lease just ends
            assert message is not None
            self._log_broken(message, broken)
            if slot.message is not None:
                returned = self.by_name[message.queue].upkeep.returned
                returned.append((message, _usual(message)))
        slot.message = None

    def ready(self, slot: Slot) -> bool:
        """Prepare to handle what a slot has; return whether any message of it is left."""
        if not slot.batch:
            return not (self.watched and self.skips(slot))
        if self.watched:
            kept = []
            for message in slot.batch:
                slot.message, slot.started = message, self.clock()
                if not self.skips(slot):
                    kept.append(message)
            slot.batch = kept
        slot.started = self.clock()
        slot.message = slot.batch[0] if slot.batch else None
        return bool(slot.batch)

    def _settle(self, slot: Slot, message: Message, settlement: Settlement) -> None:
        outcome = "release" if settlement.verb == "pause" else settlement.verb
        if settlement is LAST_FAILURE:
            outcome = "nack"
        if message.lease_lost:
            outcome = _lost(message)
        else:
            self.by_name[message.queue].upkeep.returned.append((message, settlement))
        self._finished(slot, message, outcome)
        self.upkeep_bell.ring()

    def _finished(self, slot: Slot, message: Message, outcome: str) -> None:
        handling, feed = self.handling, self.feed
        seconds, lane = self.clock() - slot.started, self.by_name[message.queue]
        if message.group is not None:
            self._go_on(message, outcome)
        slot.message = None
        feed.pace.finished(seconds)
        if handling.figures is not None:
            task = terms_of(message).task
            handling.figures.add(lane.queue.name, outcome, seconds, message.time_in_queue, task)
        if (minutes := handling.minutes) is not None:
            minutes.skip -= 1
            if minutes.skip < 0 or outcome != "ack":
                minutes.finished(lane.number, message, outcome, seconds)
        if handling.hooks:
            call(handling.hooks, "after", message, outcome, seconds)
        if log.isEnabledFor(logging.DEBUG):
            about(logging.DEBUG, "handled", message, outcome=outcome, seconds=round(seconds, 6))
        if feed.waits:
            feed.made_room()
        if self.clearing or self.alone:
            self.upkeep_bell.ring()
            self.suspects_bell.ring()

    def _go_on(self, message: Message, outcome: str) -> None:
        """Let the next message of a run be handled; if this one is not done, give back the run."""
        following = self.feed.runs.next(message) if outcome == "ack" else None
        if following is None:
            self.give_back(self.feed.runs.end(message))
        elif self._is_suspect(following):
            self._suspect(following)
        elif (collector := self.by_name[message.queue].collector) is not None:
            collector.add([following], self._is_last, self.clock())
        else:
            self.feed.buffer.appendleft(following)

    def _expired(self, message: Message) -> bool:
        try:
            expires_at = orjson.loads(message.body)[self.handling.expiry_field]
        except (ValueError, TypeError, KeyError):
            return False  # leave a malformed message to the handler
        if not isinstance(expires_at, int | float) or isinstance(expires_at, bool):
            return False
        ahead = self.by_name[message.queue].clocks.get(message.queue, 0.0)
        return expires_at <= self.clock() + ahead

    # --- upkeep -------------------------------------------------------------------------

    def due(self, lane: Lane, now: float) -> list[Message]:
        """Return the waiting or running messages whose leases must be renewed now."""
        least = lane.timeout * (1 - RENEW_AFTER) + JITTER_SECONDS
        held = [*self.waiting(), *(one for slot in self.slots for one in slot.held())]
        return [
            message
            for message in held
            if self.by_name[message.queue] is lane
            and not message.lease_lost
            and lane.remaining(message, now) < least
        ]

    def lost(self, messages: Iterable[Message]) -> None:
        """Mark messages as having lost their leases, call hooks and interrupt handlers.

        Canceled ones have lost theirs, too.
        """
        for message in messages:
            message.lease_lost = True
            what = "canceled by an operator" if message.canceled else "lost its lease"
            about(logging.WARNING, what, message)
            if self.handling.hooks:
                call(self.handling.hooks, "lost_lease", message)
            for slot in self.slots:
                held = slot.held()
                # The other messages of a batch are still this worker's.
                if message in held and slot.message and all(one.lease_lost for one in held):
                    self.interrupt(slot, slot.message, LOST_LEASE)

    def died(self, messages: Iterable[Message], settlement: Settlement) -> None:
        """Log the messages that were moved to the dead letters, and call hooks."""
        reason = settlement.argument if settlement.verb == "reject" else NO_MORE_RECEIVES
        for message in messages:
            if message.dead:
                about(logging.WARNING, "dead", message, reason=reason)
                if self.handling.hooks:
                    call(self.handling.hooks, "dead", message)

    def enforce_time_limit(self, now: float) -> None:
        """Interrupt handlers that exceed the time limit. Their leases are still renewed.

        Otherwise a message would be delivered again, here too, while its handler still runs.
        """
        for slot in self.slots:
            message = slot.message
            started = slot.started
            # Only if it is still there: otherwise the time may be that of the next message.
            if message is None or slot.message is not message or message.timed_out:
                continue
            limit = terms_of(message).time_limit or self.handling.time_limit
            if limit is not None and now - started > limit:
                for held in slot.held():
                    held.timed_out = True
                self.interrupt(slot, message, TIME_LIMIT)
                about(logging.WARNING, "over its time limit", message)

    def settled(self) -> bool:
        """Return whether no message is held and none has to be settled."""
        return not self.suspects and self.settled_but_suspects()

    def settled_but_suspects(self) -> bool:
        """Return whether no other message is held and none has to be settled."""
        # In the order in which messages pass through them.
        collecting = any(collector.waiting() for collector in self.collectors)
        waiting = self.feed.runs or collecting or self.feed.buffer
        return not (waiting or self.busy() or self.unsettled())

    def hush(self, quiet: bool) -> None:
        """Take no more messages, or take messages again."""
        self.quiet = quiet
        self.feed.bell.ring()
        for lane in self.lanes:
            lane.take.bell.ring()

    def stop(self) -> None:
        """Take no more messages, and wake everything so that waiting messages are released."""
        self.stopping = True
        self.feed.bell.ring()
        self.upkeep_bell.ring()
        for bell in (*(lane.take.bell for lane in self.lanes), *self.bells):
            bell.ring()
        self.wake()


def _usual(message: Message) -> Settlement:
    """Return how to settle a message that failed, without any setting of the user's."""
    return Settlement("nack", Backoff().delay(message.receive_count, random.random()))


def _lost(message: Message) -> str:
    """Return the outcome of a handler whose message is no longer this worker's."""
    return "canceled" if message.canceled else "lost"
