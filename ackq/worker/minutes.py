"""The service that keeps what a worker's handlers do in each minute, in Redis."""

from __future__ import annotations

import random
import secrets
import time
from bisect import bisect_left
from collections import deque
from collections.abc import Callable

from redis.exceptions import ResponseError

from ackq.core.effects import Operation
from ackq.core.failure import parse
from ackq.errors import EXPECTED
from ackq.ops.chronicle.causes import Causes, add
from ackq.ops.chronicle.durations import BUCKETS
from ackq.ops.chronicle.minutes import MINUTE, Work, record
from ackq.ops.readings import Reading, backlog_of, totals_of
from ackq.ops.trials import is_denial
from ackq.queue.messages import Message
from ackq.queue.spec import QueueSpec
from ackq.worker.effects import Bell, Call, Routine, Wait
from ackq.worker.lane import Lane
from ackq.worker.state import State
from ackq.worker.upkeep import WATCH_WINDOW

#: Seconds between two records, and between two counts of what was finished.
INTERVAL, COUNT_INTERVAL = float(MINUTE), 1.0
#: Seconds without an ack after which the next record is made at once, so that it is known since
#: when none was.
STOPPED = 10.0
#: Handlers in `COUNT_INTERVAL` up to which every one is noted.
EXACT = 100


class Minutes:
    """Records what the handlers of a worker do, and what its queues hold, once a minute.

    A process that is killed loses the durations of its last minute. The counts of the queues are
    Redis's own, so they are in the next record of any client.
    """

    def __init__(self, wanted: bool) -> None:
        """Prepare; nothing is sent.

        Args:
            wanted: False: record nothing.
        """
        self._wanted = wanted
        self._ended = False
        self._bell: Bell | None = None
        #: Handlers that have ended: the number of the lane, the message, the outcome, seconds, and
        #: for how many handlers it stands.
        self._finished: deque[tuple[int, Message, str, float, int]] = deque()
        #: For how many handlers the next one that is noted stands, and how many of them are left.
        self._share = 1
        self.skip = 0
        #: When each lane last acked a message; those are left out whose end of acks is recorded.
        self._acked: dict[int, float] = {}

    def start(self, state: State, bell: Callable[[], Bell]) -> list[Routine[None]]:
        """Return the routine."""
        if not self._wanted:
            return []
        self._state = state
        self._work = [Work() for _ in state.lanes]
        #: Why deliveries failed that will be repeated.
        self._causes = [Causes() for _ in state.lanes]
        state.handling.minutes = self
        self._bell = bell()
        return [self._keep(self._bell)]

    def finished(self, number: int, message: Message, outcome: str, seconds: float) -> None:
        """Note that a handler has ended. Safe from several threads at once.

        The caller counts `skip` down for each handler, and calls this if it is below zero or the
        message was not acked, so most messages of a fast worker cost no call. The more handlers
        wait to be counted, the fewer are noted. Otherwise, this would take as long as the rest of
        the work on a message.

        Args:
            number: of the lane.
            message: the message.
            outcome: see `ackq.worker.Hooks.after`.
            seconds: how long the handler took.
        """
        share = 1
        # A race of two threads costs no more than the exactness of a share.
        if outcome != "ack":
            self.skip += 1
        else:
            share = self._share
            behind = len(self._finished) // EXACT
            self._share = 1 + behind * behind
            self.skip = self._share - 1
        self._finished.append((number, message, outcome, seconds, share))

    def end(self) -> None:
        """Let the routine record the rest and end."""
        self._ended = True
        if self._bell is not None:
            self._bell.ring()

    def _keep(self, bell: Bell) -> Routine[None]:
        clock = self._state.clock
        # Workers that start together do not write together.
        due = clock() + INTERVAL * random.uniform(0.2, 1.0)
        while not self._ended:
            yield Wait(bell, min(COUNT_INTERVAL, max(0.0, due - clock())))
            self._count()
            if clock() >= due or any(clock() - at >= STOPPED for at in self._acked.values()):
                self._acked.clear()
                due = clock() + INTERVAL
                yield from self._record()
        self._count()
        yield from self._record()

    def _count(self) -> None:
        while self._finished:
            self._count_one(*self._finished.popleft())

    def _count_one(
        self, number: int, message: Message, outcome: str, seconds: float, share: int
    ) -> None:
        work = self._work[number]
        bucket = bisect_left(BUCKETS, seconds)
        work.durations.counts[bucket] += share
        name = message.task
        if outcome == "ack":
            self._acked[number] = self._state.clock()
        if outcome == "nack" and message.failure:
            self._count_failure(number, message, name)
        if name is None:
            return
        task = work.task(name)
        task.durations.counts[bucket] += share
        task.acked += share * (outcome == "ack")
        task.failed += outcome == "nack"
        task.rejected += outcome == "reject"

    def _count_failure(self, number: int, message: Message, task: str | None) -> None:
        limit = self._state.limit_of(message)
        if limit is not None and message.receive_count >= limit:
            return  # it is counted as a dead letter
        (failure,) = parse(b"%d:0:%s" % (message.receive_count, message.failure))
        seen = self._causes[number].of(failure.cause, task or "")
        seen.see(time.time(), failure.text, retried=1)

    def _record(self) -> Routine[None]:
        for lane in self._state.lanes:
            work, self._work[lane.number] = self._work[lane.number], Work()
            causes, self._causes[lane.number] = self._causes[lane.number], Causes()
            recorded = False
            try:
                recorded = yield from _record_lane(lane, work)
                if causes and (yield Call(lane.queue.execute, (_adding, causes))):
                    causes = Causes()
            except EXPECTED as error:
                lane.outages.failed("record of the minute", error, self._state.clock())
            else:
                lane.outages.succeeded("record of the minute", self._state.clock())
            if not recorded:
                self._work[lane.number].include(work)
            self._causes[lane.number].include(causes)


def _record_lane(lane: Lane, work: Work) -> Routine[bool]:
    counters = yield Call(lane.queue.counters, (WATCH_WINDOW,))
    stats = yield Call(lane.queue.stats)
    states = {
        "ready": stats.ready,
        "in_flight": stats.in_flight,
        "delayed": stats.delayed,
        "dead": stats.dead,
    }
    try:
        oldest: float | None = yield Call(lane.queue.oldest_ready)
    except ResponseError as error:
        if not is_denial(error):
            raise
        oldest = None
    reading = Reading(
        "sharded" if lane.sharded else "list",
        lane.queue.name,
        backlog_of(stats),
        states,
        oldest_ready=oldest,
        totals=totals_of(counters),
    )
    recorded: bool = yield Call(lane.queue.execute, (_recording, reading, work))
    return recorded


def _adding(spec: QueueSpec, causes: Causes) -> Operation[bool]:
    return add(spec.keys.history, secrets.token_hex(8), causes)


def _recording(spec: QueueSpec, reading: Reading, work: Work) -> Operation[bool]:
    assert reading.totals is not None
    assert reading.totals.at is not None
    return record(spec.keys.history, reading, reading.totals.at, secrets.token_hex(8), work)
