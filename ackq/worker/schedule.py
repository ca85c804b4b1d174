"""Scheduled messages: pushed once per tick, however many workers have the schedule."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from typing import Any, Protocol

from cronsim import CronSim, CronSimError

from ackq import scripts
from ackq.config import QueueConfig, Seconds, in_seconds
from ackq.core.call import Keys, call
from ackq.core.effects import Operation, Request
from ackq.core.encode import Pushable, encode, mapping_of
from ackq.core.io.outside import SYSTEM
from ackq.errors import ConfigurationError, MessageError
from ackq.queue.spec import QueueSpec
from ackq.worker.effects import Bell, Call, Routine, Wait
from ackq.worker.lane import is_sharded
from ackq.worker.logs import log, reason_of
from ackq.worker.outages import TEMPORARY, Outages
from ackq.worker.policy import check_seconds
from ackq.worker.state import State

#: Longest time, in seconds, between two checks of whether to stop.
CHECK_INTERVAL = 0.5
#: Most missed ticks that are counted for one gap.
MAX_MISSED = 100_000


@dataclass(frozen=True, slots=True)
class Schedule:
    """Push a message at every tick.

    Ticks are times on the server's clock, the same for every worker. A tick that passes while no
    worker with this schedule runs is skipped, and counted in the hash ``<queue>TICKS`` under
    ``<name>:missed``.
    """

    #: The name of the schedule in its queue. Workers that share the schedule use the same name.
    name: str
    #: The message to push, or a function that returns it for a tick (a datetime). A mapping
    #: without an ``id`` gets ``<name>@<tick>``.
    message: Pushable | Callable[[datetime], Pushable]
    #: Seconds from tick to tick, counted from the epoch, from 0.001. Or give ``cron``.
    every: Seconds | None = None
    #: Five fields of cron, or six, the first for seconds. Or give ``every``.
    cron: str | None = None
    #: The time zone of ``cron``. Defaults to UTC.
    tz: tzinfo = UTC
    #: Name of the worker's queue to push to. Defaults to its first.
    queue: str | None = None

    def __post_init__(self) -> None:
        """Check every setting.

        Raises:
            ConfigurationError: a setting is invalid; the text names it.
        """
        if not self.name or self.name.endswith(":missed"):
            raise ConfigurationError(f"a schedule cannot be named {self.name!r}")
        if (self.every is None) == (self.cron is None):
            raise ConfigurationError(f"schedule {self.name!r} takes every= or cron=")
        if self.every is not None:
            check_seconds(self.every, "every")
        else:
            try:
                self.after(0)
            except (CronSimError, StopIteration) as error:
                raise ConfigurationError(
                    f"schedule {self.name!r}: cron {self.cron!r} matches no time: {error}"
                ) from error

    def after(self, instant: int) -> int:
        """Return the first tick after ``instant``; both in µs since the epoch."""
        if self.every is not None:
            period = round(in_seconds(self.every) * 1_000_000)
            return (instant // period + 1) * period
        assert self.cron is not None
        start = datetime.fromtimestamp(instant / 1_000_000, self.tz)
        tick: datetime = next(CronSim(self.cron, start))
        return round(tick.timestamp()) * 1_000_000

    def newest(self, due: int, now: int) -> int:
        """Return the last tick at or before ``now``, given one such tick."""
        if self.every is not None:
            period = round(in_seconds(self.every) * 1_000_000)
            return max(due, now // period * period)
        while (next_due := self.after(due)) <= now:
            due = next_due
        return due

    def between(self, first: int, last: int) -> int:
        """Return how many ticks lie between two ticks, at most `MAX_MISSED`."""
        if self.every is not None:
            period = round(in_seconds(self.every) * 1_000_000)
            return max(0, min(MAX_MISSED, (last - first) // period - 1))
        count = 0
        while (first := self.after(first)) < last and count < MAX_MISSED:
            count += 1
        return count

    def body(self, tick: int, limit: int, time_field: str | None = None) -> bytes:
        """Return the body to push for a tick.

        Raises:
            MessageError: the message cannot be pushed.
        """
        when = datetime.fromtimestamp(tick / 1_000_000, self.tz)
        message = self.message(when) if callable(self.message) else self.message
        if not isinstance(message, bytes | bytearray | memoryview):
            message = {"id": f"{self.name}@{when.isoformat()}", **mapping_of(message)}
        _, body = encode(message, limit, SYSTEM, time_field)
        return body


@dataclass(frozen=True, slots=True)
class Answer:
    """The server's view of a schedule: status, latest tick, server time, missed ticks so far."""

    status: str
    latest: int
    now: int
    missed: int


def tick(
    spec: QueueSpec, name: str, at: int, previous: int, missed: int, body: bytes
) -> Operation[Answer]:
    """Push for the tick ``at``, unless that was done; with 0 only read. See ``tick.lua``."""
    request = Request(
        (
            *spec.keys.passed("worker/tick"),
            name,
            at,
            previous,
            missed,
            body,
            spec.keys.pop_from,
        ),
        script=scripts.load("worker/tick"),
        resend=True,  # the server remembers which tick was pushed
    )
    keys = Keys(f"queue {spec.name!r}", {spec.keys.ready: "list", spec.keys.ticks: "hash"})
    status, latest, now, counted = yield from call(keys, request)
    return Answer(status.decode(), latest, now, counted)


class Schedules:
    """The service that pushes messages on schedule."""

    def __init__(self, schedules: Iterable[Schedule]) -> None:
        self._schedules = tuple(schedules)
        self._bells: list[Bell] = []

    def start(self, state: State, bell: Callable[[], Bell]) -> list[Routine[None]]:
        """Return a routine for each schedule; they end when the worker stops."""
        routines = []
        for schedule in self._schedules:
            lane = state.by_name.get(schedule.queue or "", state.lanes[0])
            its_bell = bell()
            self._bells.append(its_bell)
            routine = run_schedule(state, lane.queue, schedule, its_bell, lane.outages)
            routines.append(routine)
        return routines

    def end(self) -> None:
        """Let the routines notice that the worker stops."""
        for bell in self._bells:
            bell.ring()


class Running(Protocol):
    """The part of a worker's state that `run_schedule` needs."""

    @property
    def stopping(self) -> bool:
        """Whether to end."""

    @property
    def clock(self) -> Callable[[], float]:
        """A monotonic clock, in seconds."""


def run_schedule(
    running: Running, queue: Any, schedule: Schedule, bell: Bell, outages: Outages
) -> Routine[None]:
    """Push for each tick until the worker stops."""
    known: Answer | None = None
    ahead = due = 0  # the server's clock minus ours, and the next tick, in µs
    while not running.stopping:
        now = _clock(running) + ahead
        if known is not None and due > now:
            yield Wait(bell, min(CHECK_INTERVAL, (due - now) / 1_000_000))
            continue
        try:
            if known is None:
                answer = yield from _ask(queue, schedule, 0, 0, b"")
                # Ticks before the first call are skipped.
                due = schedule.after(max(answer.latest, answer.now))
            else:
                due = schedule.newest(due, now)
                body = _body(queue.config, schedule, due)
                if body is None:
                    due = schedule.after(due)
                    continue
                answer = yield from _ask(queue, schedule, due, known.latest, body)
                if answer.latest >= due:
                    due = schedule.after(answer.latest)
        except TEMPORARY as error:
            outages.failed(f"schedule {schedule.name}", error, running.clock())
            yield Wait(bell, CHECK_INTERVAL)
            continue
        outages.succeeded(f"schedule {schedule.name}", running.clock())
        known, ahead = answer, answer.now - _clock(running)


def _clock(running: Running) -> int:
    return round(running.clock() * 1_000_000)


def _ask(queue: Any, schedule: Schedule, at: int, previous: int, body: bytes) -> Routine[Answer]:
    missed = schedule.between(previous, at) if previous and at else 0
    if is_sharded(queue):
        queue = yield Call(queue.shard_of, (schedule.name,))
    answer: Answer = yield Call(queue.execute, (tick, schedule.name, at, previous, missed, body))
    if answer.status == "pushed" and missed:
        log.warning("schedule %s: %d ticks were missed", schedule.name, missed)
    return answer


def _body(config: QueueConfig, schedule: Schedule, at: int) -> bytes | None:
    try:
        return schedule.body(at, config.max_body_bytes, config.time_field)
    except Exception as error:
        # The user's function failed; it may work for a later tick.
        kind = reason_of(error) if isinstance(error, MessageError) else type(error).__name__
        log.error("schedule %s: no message for a tick: %s", schedule.name, kind)
        return None
