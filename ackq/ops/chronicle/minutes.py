"""What happened to a queue in each minute of the last day: `Minute`, `record` and `read`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import orjson

from ackq.core.effects import Operation
from ackq.ops.chronicle.durations import Durations
from ackq.ops.chronicle.store import Fields, load, update
from ackq.ops.readings import COUNTED, Reading, Totals

#: Seconds of a row, and hours that are kept.
MINUTE = 60
HOURS = 24
#: Most bytes of a row: a record has at most 120 times `HOURS` of them. Tasks that would make it
#: longer count as `OTHERS`.
MAX_ROW = 1024
#: Most tasks and reasons of a row that have counts of their own, and characters of their names.
MAX_TASKS, MAX_REASONS, MAX_NAME = 20, 8, 64
#: What the others are counted as.
OTHERS = "other"
#: Seconds since counting began within which the first row has all counts; later, it would show the
#: counts of days as those of a minute.
FRESH = 150.0
STATES = ("ready", "in_flight", "delayed", "dead")
_LAST = b"last"
#: What is counted while consumers work on a queue with success.
_ALIVE = ("acked", "taken")
#: The last values of a row, which are left out if they are empty.
_EMPTY: tuple[Any, ...] = ([], {}, [], {})


@dataclass(slots=True)
class TaskWork:
    """What workers did with the messages of one task. Only worker processes count this."""

    acked: int = 0
    #: Deliveries that failed and are repeated, and those that were rejected.
    failed: int = 0
    rejected: int = 0
    durations: Durations = field(default_factory=Durations)

    def include(self, other: TaskWork) -> None:
        """Add that of others."""
        self.acked += other.acked
        self.failed += other.failed
        self.rejected += other.rejected
        self.durations.include(other.durations)


@dataclass(slots=True)
class Work:
    """What handlers did."""

    durations: Durations = field(default_factory=Durations)
    #: By the name of the task, for messages that have one.
    tasks: dict[str, TaskWork] = field(default_factory=dict)

    def include(self, other: Work) -> None:
        """Add that of others."""
        self.durations.include(other.durations)
        for name, work in other.tasks.items():
            self.task(name).include(work)

    def task(self, name: str) -> TaskWork:
        """Return what was done with the messages of a task; `OTHERS` if there are too many."""
        work = self.tasks.get(name)
        if work is None:
            name = name[:MAX_NAME]
            if name not in self.tasks and len(self.tasks) >= MAX_TASKS:
                name = OTHERS
            work = self.tasks.setdefault(name, TaskWork())
        return work


@dataclass(slots=True)
class Minute:
    """A row: what happened in about a minute, and what the queue had at its end."""

    #: Its end, in seconds since the epoch by the server's clock, and how many seconds it has. A
    #: queue in which nothing happens has fewer and longer rows.
    at: int
    seconds: int
    backlog: int = 0
    #: Messages in the states of `STATES`.
    states: tuple[int, ...] = (0, 0, 0, 0)
    #: Age of the oldest ready message in seconds; None: unknown.
    oldest: float | None = None
    #: What was counted, by the names of `COUNTED`.
    counts: dict[str, int] = field(default_factory=dict)
    #: New dead letters by reason.
    dead: dict[str, int] = field(default_factory=dict)
    work: Work = field(default_factory=Work)

    @property
    def quiet(self) -> bool:
        """Whether nothing happened."""
        return not (any(self.counts.values()) or any(self.dead.values()) or self.work.tasks) and (
            not any(self.work.durations.counts)
        )

    def follows(self, later: Minute, first: bool) -> Minute | None:
        """Return one row for both if they are of the same minute, or nothing changed; else None.

        The ``first`` row of a minute is not joined if messages were acked or taken in it and none
        since, so that it is known when that stopped.
        """
        now, then = self.counts, later.counts
        if first and later.seconds and any(now.get(n, 0) > 0 >= then.get(n, 0) for n in _ALIVE):
            return None
        same = (self.backlog, self.states) == (later.backlog, later.states)
        if self.at // MINUTE != later.at // MINUTE and not (self.quiet and later.quiet and same):
            return None
        work = Work()
        work.include(self.work)
        work.include(later.work)
        return replace(
            later,
            seconds=self.seconds + later.seconds,
            counts=_sums(self.counts, later.counts),
            dead=_bounded(_sums(self.dead, later.dead)),
            work=work,
        )


@dataclass(frozen=True, slots=True)
class _Last:
    """The totals at the end of the last row."""

    at: float
    since: float | None
    counts: Mapping[str, int]
    dead: Mapping[str, int]
    #: Whether they are known.
    counted: bool = True


def record(
    key: bytes, reading: Reading, at: float, token: str, work: Work | None = None
) -> Operation[bool]:
    """Add what happened since the last call, of any client, to the row of this minute.

    Args:
        key: see `ackq.ops.chronicle.store.history_key`.
        reading: the figures of the queue now.
        at: the time of the reading, in seconds since the epoch by the server's clock.
        token: unlike that of any other call.
        work: what the caller's handlers did since its last call.

    Returns:
        Whether it was recorded; see `ackq.ops.chronicle.store.update`.
    """
    hour = _hour(at)

    def change(fields: Fields) -> Fields:
        last = _last_in(fields.get(_LAST, b""))
        row = _row(reading, at, last, work or Work())
        if row is None:
            return {}
        rows = [*rows_in(fields.get(hour, b""))]
        minutes = [each.at // MINUTE for each in rows[-2:]]
        joined = rows[-1].follows(row, len({*minutes}) == len(minutes)) if rows else None
        rows[-1 if joined else len(rows) :] = [joined or row]
        newer = last is None or at > last.at
        return {
            hour: b"\n".join(map(encoded, rows)),
            **({_LAST: _encoded_last(reading.totals, at, last)} if newer else {}),
            # The day before's hour would come back otherwise.
            _hour(at - HOURS * 3600): b"",
        }

    return (yield from update(key, token, (_LAST, hour), change))


def read(key: bytes, now: float, seconds: float) -> Operation[list[Minute]]:
    """Return the rows of the last ``seconds``, oldest first.

    Args:
        key: see `ackq.ops.chronicle.store.history_key`.
        now: in seconds since the epoch by the server's clock.
        seconds: at most a day.
    """
    first, last = int(now - seconds) // 3600, int(now) // 3600
    hours = [_hour(number * 3600) for number in range(first, last + 1)]
    fields = yield from load(key, hours)
    return [
        row
        for hour in hours
        for row in rows_in(fields.get(hour, b""))
        if now - seconds < row.at <= now + MINUTE
    ]


def recent(key: bytes, now: float) -> Operation[tuple[list[Minute], Totals | None]]:
    """Return the rows of the last hour, oldest first, and the totals at the end of the last one.

    The totals are None if nothing is recorded, or if they were not known. See `read`. One call.
    """
    hours = [_hour(now - 3600), _hour(now)]
    fields = yield from load(key, (*hours, _LAST))
    rows = [row for hour in hours for row in rows_in(fields.get(hour, b"")) if row.at > now - 3600]
    last = _last_in(fields.get(_LAST, b""))
    if last is None or not last.counted:
        return rows, None
    return rows, Totals(last.since, last.counts, last.dead, last.at)


def _hour(at: float) -> bytes:
    return b"h%d" % (int(at) // 3600)


def _row(reading: Reading, at: float, last: _Last | None, work: Work) -> Minute | None:
    """Return what happened since the last row; None if nothing is to be recorded."""
    totals = reading.totals
    if last is not None and at <= last.at:
        # Another client has recorded later figures: only the work is news.
        row = Minute(int(last.at), 0, work=work)
        return None if row.quiet else _with_states(row, reading)
    began, before = _before(totals, at, last)
    row = Minute(int(at), round(at - began), work=work)
    if totals is not None and before is not None:
        row.counts = differences(totals.counts, before.counts)
        row.dead = _bounded(differences(totals.dead, before.dead))
    return _with_states(row, reading)


def _with_states(row: Minute, reading: Reading) -> Minute:
    states = tuple(int(reading.states.get(state, 0)) for state in STATES)
    return replace(row, backlog=reading.backlog, states=states, oldest=reading.oldest_ready)


def _before(totals: Totals | None, at: float, last: _Last | None) -> tuple[float, _Last | None]:
    """Return when the row begins, and the totals at that time; None: they are unknown."""
    if totals is None:
        return (last.at if last else at), None
    if last is not None and last.counted and (totals.since is None or last.since == totals.since):
        return last.at, last
    # Nobody has recorded totals before, or counting has begun again.
    if totals.since is not None and (at - totals.since <= FRESH or (last and last.counted)):
        return max(last.at if last else 0.0, totals.since), _Last(0.0, totals.since, {}, {})
    return (last.at if last else at), None


def differences(now: Mapping[str, int], before: Mapping[str, int]) -> dict[str, int]:
    """Return by how much counts changed, without those that did not."""
    changes = {name: count - before.get(name, 0) for name, count in now.items()}
    return {name: count for name, count in changes.items() if count}


def _bounded(counts: Mapping[str, int]) -> dict[str, int]:
    """Return counts with at most `MAX_REASONS` names; the rest is `OTHERS`."""
    bounded: dict[str, int] = {}
    for name, count in sorted(counts.items(), key=lambda each: -each[1]):
        name = name[:MAX_NAME] if len(bounded) < MAX_REASONS else OTHERS
        bounded[name] = bounded.get(name, 0) + count
    return bounded


def _sums(some: Mapping[str, int], more: Mapping[str, int]) -> dict[str, int]:
    return {name: some.get(name, 0) + more.get(name, 0) for name in dict.fromkeys((*some, *more))}


def encoded(row: Minute) -> bytes:
    """Return a row as one line: a list in JSON, without the last values if they are empty."""
    tasks = dict(row.work.tasks)
    while len(line := orjson.dumps(_values(row, tasks))) > MAX_ROW and tasks.keys() - {OTHERS}:
        least = min(tasks.keys() - {OTHERS}, key=lambda name: sum(tasks[name].durations.counts))
        others = TaskWork()
        others.include(tasks.pop(least))
        others.include(tasks.pop(OTHERS, TaskWork()))
        tasks[OTHERS] = others
    return line


def _values(row: Minute, tasks: Mapping[str, TaskWork]) -> list[Any]:
    counts = [row.counts.get(name, 0) for name in COUNTED]
    while counts and not counts[-1]:
        counts.pop()
    values: list[Any] = [
        row.at,
        row.seconds,
        row.backlog,
        *row.states,
        None if row.oldest is None else round(row.oldest, 1) or 0,
        counts,
        row.dead,
        row.work.durations.trimmed(),
        {
            name: [work.acked, work.failed, work.rejected, work.durations.trimmed()]
            for name, work in tasks.items()
        },
    ]
    while values and values[-1] in ([], {}):
        values.pop()
    return values


def rows_in(lines: bytes) -> Iterable[Minute]:
    """Yield the rows of an hour. Lines that this release cannot read are left out."""
    for line in lines.split(b"\n"):
        try:
            at, seconds, backlog, ready, in_flight, delayed, dead, oldest, *rest = orjson.loads(
                line
            )
            counts, reasons, durations, tasks = (*rest, *_EMPTY[len(rest) :])  # type: ignore[misc]
            yield Minute(
                int(at),
                int(seconds),
                int(backlog),
                (int(ready), int(in_flight), int(delayed), int(dead)),
                oldest if oldest is None else float(oldest),
                dict(zip(COUNTED, counts, strict=False)),
                dict(reasons),
                Work(Durations.of(durations), {name: _task(each) for name, each in tasks.items()}),
            )
        except (ValueError, TypeError, AttributeError):
            continue


def _task(values: Sequence[Any]) -> TaskWork:
    acked, failed, rejected, durations = values
    return TaskWork(int(acked), int(failed), int(rejected), Durations.of(durations))


def _last_in(text: bytes) -> _Last | None:
    try:
        return _Last(**orjson.loads(text)) if text else None
    except (ValueError, TypeError):  # another release wrote it
        return None


def _encoded_last(totals: Totals | None, at: float, before: _Last | None) -> bytes:
    if totals is not None:
        last = _Last(at, totals.since, dict(totals.counts), dict(totals.dead))
    elif before is not None:
        last = replace(before, at=at)  # a client that may not count
    else:
        last = _Last(at, None, {}, {}, counted=False)
    return orjson.dumps(asdict(last))
