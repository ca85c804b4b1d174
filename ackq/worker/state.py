"""The state that the threads or tasks of one worker share, and how a message changes it."""

from __future__ import annotations

import logging
import random
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from ackq.core.outside import JITTER
from ackq.queue.messages import Message
from ackq.sharded import AsyncShardedQueue, ShardedQueue
from ackq.worker.effects import Bell
from ackq.worker.failures import Failures, outlook
from ackq.worker.figures import Figures
from ackq.worker.hooks import Hooks, call
from ackq.worker.logs import about, log
from ackq.worker.outages import Outages
from ackq.worker.policy import (
    RENEW_AFTER,
    Backoff,
    Pace,
    QueueOrder,
    Settlement,
    StrictBuffer,
    settlement_of,
)
from ackq.worker.ratelimit import RateLimit
from ackq.worker.verdicts import Verdict

#: Seconds of jitter that a lease may carry beyond the visibility timeout.
JITTER_SECONDS = JITTER / 1_000_000
#: Seconds to wait after a failed call; doubled up to `LONGEST_PAUSE`.
FIRST_PAUSE = 0.1
LONGEST_PAUSE = 2.0
#: Seconds until a message is ready again that was taken while its handler still runs here.
STILL_RUNNING_PAUSE = 1.0
#: Why a handler is interrupted.
TIME_LIMIT, LOST_LEASE, STOP = "time limit", "lost lease", "stop"


def overdue() -> TimeoutError:
    """Return the error of a handler that exceeded its time limit."""
    return TimeoutError("over the time limit")


def is_sharded(queue: Any) -> bool:
    """Return whether this is a sharded queue."""
    return isinstance(queue, ShardedQueue | AsyncShardedQueue)


class Lane:
    """A queue of the worker, sharded or not, with the worker's state for it."""

    def __init__(self, number: int, queue: Any, limit: RateLimit | None, bell: Bell) -> None:
        self.number = number
        self.queue = queue
        self.sharded = is_sharded(queue)
        self.limit = limit
        self.bell = bell
        self.timeout: float = queue.config.visibility_timeout
        self.max_receives: int | None = queue.config.max_receives
        self.done: deque[Message] = deque()  #: to be acked
        self.returned: deque[tuple[Message, Settlement]] = deque()
        self.empty = False  #: whether the last take returned no messages
        self.empty_since_settled = False  #: whether everything was settled before that take
        self.taking = False  #: whether messages may arrive that are not in the buffer yet
        self.unused = 0  #: permits of the rate limit that were not used
        self.not_before = 0.0  #: when to take again, by the worker's clock
        self.upkeep_after = 0.0  #: when to settle and renew again, by the worker's clock
        self.watch_after = 0.0  #: when to ask for the totals again, by the worker's clock
        self.asked_at: float | None = None  #: when the current take began
        self.failures = 0
        self.outages = Outages(queue.name, queue.address)
        #: The clock of each shard's server, or the queue's, minus the worker's; never ahead.
        self.clocks: dict[str, float] = {}

    def collect(self) -> list[Message]:
        """Remove and return up to 1,000 messages to ack. Safe from several threads at once."""
        collected: list[Message] = []
        take, keep = self.done.popleft, collected.append
        try:
            while len(collected) < 1000:
                keep(take())
        except IndexError:
            pass
        return collected

    def remaining(self, message: Message, now: float) -> float:
        """Return how many seconds the lease still lasts, or up to 66 ms more."""
        return message.lease_expires_at - self.clocks.get(message.queue, 0.0) - now

    def age(self, message: Message, now: float) -> float:
        """Return how many seconds ago the message was taken, to within 66 ms."""
        at = now + self.clocks.get(message.queue, 0.0)
        return at - (message.receipt / 1_000_000 - self.timeout)

    def failed(self, error: BaseException, now: float, doing: str) -> None:
        """Record that a call failed: try again a little later."""
        pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** min(self.failures, 10))
        self.failures += 1
        self.not_before = now + pause
        # No lease may end while its renewal pauses.
        self.upkeep_after = now + min(pause, self.timeout / 6)
        self.outages.failed(doing, error, now)

    def succeeded(self, now: float, doing: str) -> None:
        """Record that the server answers."""
        self.outages.succeeded(doing, now)
        if self.failures:
            self.failures = 0
            self.not_before = self.upkeep_after = 0.0


@dataclass(slots=True, eq=False)
class Slot:
    """A place in which one handler runs at a time. ``runner`` is its thread or task."""

    message: Message | None = None
    #: Whether its thread may have taken a message that is not in ``message`` yet.
    taking: bool = False
    started: float = 0.0
    interrupted: str = ""  #: why the running handler was interrupted
    runner: Any = None
    #: In a thread whose handler is asynchronous: its message, and the task that runs it.
    task: tuple[Message, Any] | None = None


@dataclass(slots=True)
class State:
    """The state of one worker. Each single operation on it is thread-safe."""

    lanes: Sequence[Lane]
    turns: QueueOrder
    slots: Sequence[Slot]
    pace: Pace
    backoff: Backoff
    time_limit: float | None
    expiry_field: str | None
    hooks: Sequence[Hooks]
    failures: Failures
    clock: Callable[[], float]
    #: Rung when there may be work for the feeder, or for the upkeep.
    feed_bell: Bell
    upkeep_bell: Bell
    #: Interrupts the handler of a message, for this reason; the message's flags are set beforehand.
    interrupt: Callable[[Slot, Message, str], None]
    #: Wakes slots when messages have arrived.
    wake: Callable[[], None]
    buffer: Any = field(init=False)
    #: By the names of the queues, and of the shards from which messages came.
    by_name: dict[str, Lane] = field(init=False)
    #: The addresses of their servers.
    addresses: dict[str, str] = field(init=False)
    last_take: float = field(init=False)
    feeder_waits: bool = False
    refill_at: int = 0
    stopping: bool = False
    draining: bool = False  #: stop when no queue has ready messages
    quiet: bool = False  #: take no more messages, but do not stop
    fatal: BaseException | None = None
    figures: Figures | None = None  #: counts what handlers do, if somebody can see it
    watched: bool = field(init=False)

    def __post_init__(self) -> None:
        """Derive the remaining fields."""
        self.by_name = {lane.queue.name: lane for lane in self.lanes}
        self.addresses = {lane.queue.name: lane.queue.address for lane in self.lanes}
        strict = len(self.lanes) > 1 and self.turns.strict
        self.buffer = StrictBuffer(self.by_name) if strict else deque()
        self.watched = bool(self.hooks) or self.expiry_field is not None
        self.last_take = self.clock()

    @property
    def waits_in_take(self) -> bool:
        """Whether the feeder itself waits for messages: one queue, no rate limit, no drain."""
        return len(self.lanes) == 1 and self.lanes[0].limit is None and not self.draining

    def unsettled(self) -> bool:
        """Return whether any message still has to be settled."""
        return any(lane.done or lane.returned for lane in self.lanes)

    # --- taking -------------------------------------------------------------------------

    def room(self) -> int:
        """Return how many messages to take now; 0 until enough fit to be worth a call."""
        spare = self.pace.spare
        # Set this before checking the buffer: another thread may be making room at this moment.
        self.refill_at = spare // 2
        waiting = len(self.buffer)
        if waiting > self.refill_at:
            return 0
        return len(self.slots) + spare - waiting - self.busy()

    def made_room(self) -> None:
        """Ring the waiting feeder if there is room, after a message left the buffer or a slot."""
        if len(self.buffer) <= self.refill_at:
            self.feeder_waits = False
            self.feed_bell.ring()

    def busy(self) -> int:
        """Return how many handlers run, or are about to."""
        return sum(slot.taking or slot.message is not None for slot in self.slots)

    def arrived(self, lane: Lane, messages: Sequence[Message]) -> None:
        """Put taken messages, all of one queue or shard, into the buffer and wake the slots."""
        self.last_take = now = self.clock()
        name = messages[0].queue
        if name not in self.by_name:
            self._add_shard(lane, name)
        # The lease ends a random jitter after the timeout. Assume the longest.
        taken_at = messages[-1].receipt / 1_000_000 - lane.timeout - JITTER_SECONDS
        lane.clocks[name] = taken_at - now
        self.turns.took(lane.number, len(messages))
        self.buffer.extend(self._without_running(lane, messages))
        self.wake()

    def _without_running(self, lane: Lane, messages: Sequence[Message]) -> Sequence[Message]:
        """Release messages that are still being handled here, because their leases had ended."""
        if all(message.receive_count == 1 for message in messages):
            return messages
        running = {(each.queue, each.key) for slot in self.slots if (each := slot.message)}
        again = [each for each in messages if (each.queue, each.key) in running]
        if not again:
            return messages
        for message in again:
            about(logging.WARNING, "released: its handler still runs here", message)
            lane.returned.append((message, Settlement("release", STILL_RUNNING_PAUSE)))
        self.upkeep_bell.ring()
        return [each for each in messages if each not in again]

    def _add_shard(self, lane: Lane, name: str) -> None:
        self.by_name[name] = lane
        self.addresses[name] = lane.queue.address
        if isinstance(self.buffer, StrictBuffer):
            self.buffer.add_shard(name, lane.queue.name)

    # --- handling -----------------------------------------------------------------------

    def skips(self, slot: Slot) -> bool:
        """Reject an expired message and return True; otherwise call the ``before`` hooks."""
        message = slot.message
        assert message is not None
        if self.expiry_field is not None and self._expired(message):
            self._settle(slot, message, Settlement("reject", "expired"))
            return True
        if self.hooks:
            call(self.hooks, "before", message)
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
            outcome = "lost"
        else:
            self.by_name[message.queue].done.append(message)
        self._finished(slot, message, outcome)

    def failed(self, slot: Slot, error: BaseException) -> None:
        """Record that the handler raised, and decide how to settle the message."""
        message = slot.message
        assert message is not None
        settlement = self.verdict(message, error)
        limit = self.by_name[message.queue].max_receives
        if not isinstance(error, Verdict):
            self.failures.log(message, error, settlement, limit)
            if self.hooks:
                call(self.hooks, "error", message, error)
        elif settlement.verb == "nack" and limit is not None and message.receive_count >= limit:
            about(logging.WARNING, "gave up", message, outlook=outlook(message, settlement, limit))
        self._settle(slot, message, settlement)

    def verdict(self, message: Message, error: BaseException) -> Settlement:
        """Return how to settle a failed message, and note the error in it."""
        detail = self.by_name[message.queue].queue.config.record_errors
        message.failure = self.failures.capture(error, detail)
        return settlement_of(error, message.receive_count, self.backoff, random.random())

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

    def _settle(self, slot: Slot, message: Message, settlement: Settlement) -> None:
        outcome = settlement.verb
        if message.lease_lost:
            outcome = "lost"
        else:
            self.by_name[message.queue].returned.append((message, settlement))
        self._finished(slot, message, outcome)
        self.upkeep_bell.ring()

    def _finished(self, slot: Slot, message: Message, outcome: str) -> None:
        seconds = self.clock() - slot.started
        slot.message = None
        self.pace.finished(seconds)
        if self.figures is not None:
            name = self.by_name[message.queue].queue.name
            self.figures.add(name, outcome, seconds, message.time_in_queue)
        if self.hooks:
            call(self.hooks, "after", message, outcome, seconds)
        if log.isEnabledFor(logging.DEBUG):
            about(logging.DEBUG, "handled", message, outcome=outcome, seconds=round(seconds, 6))
        if self.feeder_waits:
            self.made_room()

    def _expired(self, message: Message) -> bool:
        try:
            expires_at = orjson.loads(message.body)[self.expiry_field]
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
        held = [*self.buffer.copy(), *(slot.message for slot in self.slots)]
        return [
            message
            for message in held
            if message is not None
            and self.by_name[message.queue] is lane
            and not message.lease_lost
            and lane.remaining(message, now) < least
        ]

    def lost(self, messages: Iterable[Message]) -> None:
        """Mark messages as having lost their leases, call hooks and interrupt handlers."""
        for message in messages:
            message.lease_lost = True
            about(logging.WARNING, "lost its lease", message)
            if self.hooks:
                call(self.hooks, "lost_lease", message)
            for slot in self.slots:
                if slot.message is message:
                    self.interrupt(slot, message, LOST_LEASE)

    def died(self, messages: Iterable[Message]) -> None:
        """Log the messages that were moved to the dead letters, and call hooks."""
        for message in messages:
            if message.dead:
                about(logging.WARNING, "dead", message)
                if self.hooks:
                    call(self.hooks, "dead", message)

    def enforce_time_limit(self, now: float) -> None:
        """Interrupt handlers that exceed the time limit. Their leases are still renewed.

        Otherwise a message would be delivered again, here too, while its handler still runs.
        """
        if self.time_limit is None:
            return
        for slot in self.slots:
            message = slot.message
            started = slot.started
            # Only if it is still there: otherwise the time may be that of the next message.
            if message is None or slot.message is not message or message.timed_out:
                continue
            if now - started > self.time_limit:
                message.timed_out = True
                self.interrupt(slot, message, TIME_LIMIT)
                about(logging.WARNING, "over its time limit", message)

    def settled(self) -> bool:
        """Return whether no message is held and none has to be settled."""
        return not (self.buffer or self.busy() or self.unsettled())

    def hush(self, quiet: bool) -> None:
        """Take no more messages, or take messages again."""
        self.quiet = quiet
        self.feed_bell.ring()
        for lane in self.lanes:
            lane.bell.ring()

    def stop(self) -> None:
        """Take no more messages, and wake everything so that waiting messages are released."""
        self.stopping = True
        self.feed_bell.ring()
        self.upkeep_bell.ring()
        for lane in self.lanes:
            lane.bell.ring()
        self.wake()
