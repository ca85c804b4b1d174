"""Scheduled messages: pushed once per tick, however many workers have the schedule."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from functools import partial
from typing import Any, Protocol

from redis.exceptions import ResponseError

from ackq import scripts
from ackq.config import QueueConfig, Seconds, in_seconds
from ackq.core.call import Keys, call
from ackq.core.effects import Arg, Operation, Request
from ackq.core.encode import Pushable
from ackq.core.ids import usable_id
from ackq.core.io.outside import SYSTEM
from ackq.core.timetable import Timetable
from ackq.errors import EXPECTED, InvalidMessage, MessageError
from ackq.ops.trials import is_denial
from ackq.queue.group_names import group_of
from ackq.queue.schedules import CatchUp, StoredSchedule, body_of, read
from ackq.queue.spec import QueueSpec
from ackq.queue.unique import (
    SEARCHES,
    Uniqueness,
    search,
)
from ackq.setting_types import check_fields
from ackq.worker.effects import Bell, Call, Routine, Wait
from ackq.worker.lane import is_sharded
from ackq.worker.logs import log, reason_of
from ackq.worker.outages import Outages
from ackq.worker.state import State
from ackq.worker.verdicts import check_blocking

#: Longest time, in seconds, between two checks of whether to stop.
CHECK_INTERVAL = 0.5
#: Seconds between two looks at the stored schedules, and after the server refused one.
READ_EVERY, REFUSED_PAUSE = 5.0, 60.0


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
    #: Five fields of cron, six if the first is for seconds, or a name such as ``@daily``. Or give
    #: ``every``.
    cron: str | None = None
    #: The time zone of ``cron``. Defaults to UTC.
    tz: tzinfo = UTC
    #: Name of the worker's queue to push to. Defaults to its first.
    queue: str | None = None

    #: What to push when a worker starts and ticks were missed since no worker ran: "none", or the
    #: "last" one.
    catch_up: CatchUp = "none"
    #: Push nothing for a tick while a message of the same id is in the queue: "done", or "taken" to
    #: push again once it is taken; see `ackq.Queue.push`. A mapping without an ``id`` gets the name
    #: of the schedule. Defaults to None: push every tick.
    unique: Uniqueness | None = None

    def __post_init__(self) -> None:
        """Check every setting.

        Raises:
            ConfigurationError: a setting is invalid; the text names it.
            MessageError: the message cannot be pushed.
        """
        check_fields(self, "")
        _ = self.timetable
        if not callable(self.message):
            self.body(0, sys.maxsize)
        elif not isinstance(self.message, type):
            check_blocking(self.message, f"the message of schedule {self.name!r}")

    @property
    def timetable(self) -> Timetable:
        """When it ticks."""
        every = None if self.every is None else in_seconds(self.every)
        return Timetable(self.name, every, self.cron, self.tz)

    def body(self, tick: int, limit: int, time_field: str | None = None) -> bytes:
        """Return the body to push for a tick.

        Raises:
            MessageError: the message cannot be pushed.
        """
        when = datetime.fromtimestamp(tick / 1_000_000, self.tz)
        message = self.message(when) if callable(self.message) else self.message
        return body_of(self.name, message, self.unique, when, limit, SYSTEM, time_field)


@dataclass(frozen=True, slots=True)
class Answer:
    """The server's view of a schedule: status, latest tick, server time, missed ticks so far."""

    status: str
    latest: int
    now: int
    missed: int

    @classmethod
    def of(cls, status: bytes, latest: int, now: int, missed: int) -> Answer:
        """Return the answer that a reply of ``tick.lua`` means."""
        return cls(status.decode(), latest, now, missed)


def tick(
    spec: QueueSpec,
    name: str,
    at: int,
    previous: int,
    missed: int,
    body: bytes,
    version: str = "",
    unique: Uniqueness | None = None,
) -> Operation[Answer]:
    """Push for the tick ``at``, unless that was done; with 0 only read. See ``tick.lua``."""
    args = (name, at, previous, missed, body, spec.keys.pop_from, version)
    if not unique or not at:
        return Answer.of(*(yield from _send_tick(spec, args)))
    id = usable_id(body) or ""
    earlier = b""
    for _ in range(SEARCHES):
        reply = yield from _send_tick(spec, (*args, unique, id, earlier))
        if reply[0] != b"search":
            break
        earlier = yield from search(spec, id, reply[4])
    return Answer.of(*reply[:4])


def _send_tick(spec: QueueSpec, args: tuple[Arg, ...]) -> Operation[Any]:
    request = Request(
        (*spec.keys.passed("worker/tick"), *args),
        script=scripts.load("worker/tick"),
        resend=True,  # the server remembers which tick was pushed
    )
    types = {spec.keys.ready: "list", spec.keys.ticks: "hash", spec.keys.schedules: "hash"}
    return call(Keys(f"queue {spec.name!r}", types), request)


class Schedules:
    """The service that pushes messages on schedule."""

    def __init__(self, schedules: Iterable[Schedule]) -> None:
        self._schedules = tuple(schedules)

    def start(self, state: State, bell: Callable[[], Bell]) -> list[Routine[None]]:
        """Return a routine for each schedule; they end when the worker stops."""
        routines = []
        for schedule in self._schedules:
            lane = state.by_name.get(schedule.queue or "", state.lanes[0])
            state.bells.append(its_bell := bell())
            routine = run_schedule(state, lane.queue, schedule, its_bell, lane.outages)
            routines.append(routine)
        for lane in state.lanes:
            if not lane.sharded:
                state.bells.append(its_bell := bell())
                routines.append(run_stored(state, lane.queue, its_bell, lane.outages))
        return routines

    def end(self) -> None:
        """Do nothing: the stop of the worker ends the routines."""


class Running(Protocol):
    """The part of a worker's state that `run_schedule` needs."""

    @property
    def stopping(self) -> bool:
        """Whether to end."""

    @property
    def clock(self) -> Callable[[], float]:
        """A monotonic clock, in seconds."""


def run_schedule(
    running: Running,
    queue: Any,
    schedule: Schedule,
    bell: Bell,
    outages: Outages,
    version: str = "",
) -> Routine[None]:
    """Push for each tick until the worker stops, or a stored schedule has another version."""
    timetable = schedule.timetable
    known: Answer | None = None
    ahead = due = 0  # the server's clock minus ours, and the next tick, in µs
    while not running.stopping:
        now = _clock(running) + ahead
        if known is not None and due > now:
            yield Wait(bell, min(CHECK_INTERVAL, (due - now) / 1_000_000))
            continue
        try:
            if known is None:
                answer = yield from _ask(queue, schedule, 0, 0, b"", version)
                # Ticks before the first call are skipped, or all but the last of them.
                due = timetable.after(max(answer.latest, answer.now))
                noticed_late = version and answer.now - answer.latest < 2e6 * READ_EVERY
                if answer.latest and (schedule.catch_up == "last" or noticed_late):
                    due = timetable.after(answer.latest)
            else:
                due = timetable.newest(due, now)
                body = _body(queue, schedule, due)
                if body is None:
                    due = timetable.after(due)
                    continue
                answer = yield from _ask(queue, schedule, due, known.latest, body, version)
                if answer.latest >= due:
                    due = timetable.after(answer.latest)
        except EXPECTED as error:
            outages.failed(f"schedule {schedule.name}", error, running.clock())
            yield Wait(bell, CHECK_INTERVAL)
            continue
        outages.succeeded(f"schedule {schedule.name}", running.clock())
        if answer.status == "changed":
            return
        known, ahead = answer, answer.now - _clock(running)


def run_stored(running: Running, queue: Any, bell: Bell, outages: Outages) -> Routine[None]:
    """Push for the ticks of the schedules that are stored for a queue, until the worker stops."""
    ticking: dict[str, Ticking] = {}
    read_at = running.clock()
    while not running.stopping:
        if running.clock() >= read_at:
            read_at = running.clock() + READ_EVERY
            try:
                stored = yield Call(queue.execute, (read,))
            except EXPECTED as error:
                if isinstance(error, ResponseError) and is_denial(error):
                    read_at = running.clock() + REFUSED_PAUSE
                else:
                    outages.failed("stored schedules", error, running.clock())
            else:
                outages.succeeded("stored schedules", running.clock())
                _refresh(ticking, stored, partial(_begin, running, queue, bell, outages))
        for name in list(ticking):
            if not (yield from ticking[name].advance(running.clock)):
                del ticking[name]
        soonest = min((one.wakes_at for one in ticking.values()), default=read_at)
        pause = min(soonest, read_at) - running.clock()
        yield Wait(bell, max(0.0, min(CHECK_INTERVAL, pause)))


class Ticking:
    """The routine of one stored schedule, which waits together with the others."""

    def __init__(self, version: str, routine: Routine[None]) -> None:
        self.version = version
        self.wakes_at = 0.0
        self._routine = routine

    def advance(self, clock: Callable[[], float]) -> Routine[bool]:
        """Go on until the routine waits, if it is time; return False if it has ended."""
        if clock() < self.wakes_at:
            return True
        try:
            step = next(self._routine)
            while isinstance(step, Call):
                try:
                    answer = yield step
                except Exception as error:
                    step = self._routine.throw(error)
                else:
                    step = self._routine.send(answer)
        except StopIteration:
            return False
        self.wakes_at = clock() + step.seconds
        return True


def _refresh(
    ticking: dict[str, Ticking],
    stored: Iterable[StoredSchedule],
    begin: Callable[[StoredSchedule], Ticking],
) -> None:
    """Begin with new versions, and drop what is removed or paused."""
    wanted = {one.name: one for one in stored if not one.paused}
    for name in ticking.keys() - wanted.keys():
        del ticking[name]
    for name, schedule in wanted.items():
        if name not in ticking or ticking[name].version != schedule.version:
            ticking[name] = begin(schedule)


def _begin(
    running: Running, queue: Any, bell: Bell, outages: Outages, stored: StoredSchedule
) -> Ticking:
    times = {"every": stored.every, "cron": stored.cron, "tz": stored.timetable.tz}
    rules = {"catch_up": stored.catch_up, "unique": stored.unique}
    # A function, since an earlier version stored messages that cannot be pushed.
    schedule = Schedule(stored.name, lambda _: stored.message, **times, **rules)  # type: ignore[arg-type]
    version = stored.version
    return Ticking(version, run_schedule(running, queue, schedule, bell, outages, version))


def _clock(running: Running) -> int:
    return round(running.clock() * 1_000_000)


def _check_without_group(body: bytes, field: str) -> None:
    """Check that the message of a function has no group: its shard is not that of the group.

    Raises:
        InvalidMessage: it has one.
    """
    if group_of(body, field) is not None:
        raise InvalidMessage(
            "a schedule of a sharded queue whose message is a function pushes no message with a"
            " group: use a fixed message, or let its handler push"
        )


def _ask(
    queue: Any, schedule: Schedule, at: int, previous: int, body: bytes, version: str
) -> Routine[Answer]:
    missed = schedule.timetable.between(previous, at) if previous and at else 0
    if is_sharded(queue):
        queue = yield Call(queue.shard_of, (_shard_key(queue.config, schedule),))
    asked = (tick, schedule.name, at, previous, missed, body, version, schedule.unique)
    answer: Answer = yield Call(queue.execute, asked)
    if answer.status == "pushed" and missed:
        log.warning("schedule %s: %d ticks were missed", schedule.name, missed)
    if answer.status == "queued":
        log.info("schedule %s: nothing pushed, its last message is still queued", schedule.name)
    return answer


def _shard_key(config: QueueConfig, schedule: Schedule) -> str:
    """Return what decides the shard of a schedule, which also keeps the record of its ticks.

    With groups, that is the group of its message, which is the same for all ticks.
    """
    group = None
    if config.groups is not None and not callable(schedule.message):
        body = schedule.body(0, config.max_body_bytes, config.time_field)
        group = group_of(body, config.groups.field)
    return schedule.name if group is None else group


def _body(queue: Any, schedule: Schedule, at: int) -> bytes | None:
    config: QueueConfig = queue.config
    try:
        body = schedule.body(at, config.max_body_bytes, config.time_field)
        if config.groups is not None and is_sharded(queue) and callable(schedule.message):
            _check_without_group(body, config.groups.field)
        return body
    except Exception as error:
        # The user's function failed; it may work for a later tick.
        kind = reason_of(error) if isinstance(error, MessageError) else type(error).__name__
        log.error("schedule %s: no message for a tick: %s", schedule.name, kind)
        return None
