"""What the page's API answers: the classes whose fields are its JSON, and their schema.

`ackq.web.openapi` derives the document of the API from these classes, so a field stands here once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from ackq.core.inspection_results import DeadLetter, Found
from ackq.ops.chronicle.causes import Cause
from ackq.ops.chronicle.minutes import STATES, Minute, TaskWork, Work
from ackq.ops.dead_letters import DeadPage
from ackq.ops.operation_log import Entry
from ackq.ops.readings import Reading
from ackq.ops.samples import Row, Sample
from ackq.ops.worker_info import WorkerInfo
from ackq.queue.messages import GroupStats
from ackq.queue.schedules import StoredSchedule

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_Answer = TypeVar("_Answer", bound="DataclassInstance")

Time = Annotated[float, "Seconds since the epoch, by the server's clock."]
Kind = Annotated[str, "list, sharded, delay, topic or rsmq."]


@dataclass(frozen=True, slots=True)
class TotalsAnswer:
    """Counts since a time."""

    since: Annotated[float | None, "When counting began; null: unknown, or when it was created."]
    counts: Annotated[dict[str, int], "By name, such as pushed, taken and acked."]
    dead: Annotated[dict[str, int], "Messages that became dead letters, by reason."]


@dataclass(frozen=True, slots=True)
class QueueAnswer:
    """A queue."""

    kind: Kind
    name: Annotated[str, "Of an RSMQ queue: <namespace>:<queue>."]
    backlog: Annotated[int, "Messages that need a consumer now."]
    states: Annotated[dict[str, int], "Messages by state. Topics have none."]
    paused: Annotated[bool | None, "null: unknown."]
    oldest_ready_seconds: Annotated[float | None, "Age of the oldest ready message; null: unknown."]
    lease_overdue_seconds: Annotated[
        float | None, "Time since the first end of a lease that nobody has taken over."
    ]
    workers: Annotated[int | None, "Worker processes that take from it; null: unknown."]
    rates: Annotated[dict[str, float | None], "Per second, by name; null: unknown."]
    troubles: Annotated[list[str], "The kinds of its troubles, the worst first."]
    totals: Annotated[TotalsAnswer | None, "null: nothing is counted."]
    lags: Annotated[dict[str, int], "Of a topic: messages that each consumer is behind."]
    parts: Annotated[list[str], "The names of its shards or partitions."]


@dataclass(frozen=True, slots=True)
class QueuesAnswer:
    """Queues, and the sums over all of them."""

    at: Annotated[float, "When they were read, in seconds since the epoch."]
    trouble: Annotated[str, "Why servers cannot be read; empty if all can."]
    outdated: Annotated[bool, "Whether no server can be read: these are the last known figures."]
    complete: Annotated[bool, "Whether all keys were searched for queues."]
    left_out: Annotated[int, "Queues and keys that are not among these."]
    total: Annotated[int, "How many queues there are that match."]
    pages: Annotated[int, "How many pages of up to 100 queues they have."]
    states: Annotated[dict[str, int], "Messages of all queues, by state."]
    queues: list[QueueAnswer]


@dataclass(frozen=True, slots=True)
class TroubleAnswer:
    """Something that needs a person."""

    kind: Annotated[str, "What kind of trouble it is, such as all_fail."]
    queue_kind: Annotated[str, "Empty if it is about a server."]
    queue: str
    severity: Annotated[str, "critical or warning"]
    since: Annotated[float | None, "When it began, in seconds since the epoch; null: unknown."]
    value: Annotated[float, "How bad it is: a number of messages, deliveries or seconds."]
    title: str
    evidence: str
    help: Annotated[str, "A command that shows more or helps."]


@dataclass(frozen=True, slots=True)
class AttentionAnswer:
    """What needs a person now, the worst first."""

    at: Annotated[float, "When it was looked for, in seconds since the epoch."]
    troubles: list[TroubleAnswer]


@dataclass(frozen=True, slots=True)
class TaskAnswer:
    """What workers did with the messages of a task in a minute."""

    acked: int
    failed: Annotated[int, "Deliveries that failed and are repeated."]
    rejected: int
    handler_seconds: Annotated[dict[str, float | None], "p50, p95 and p99."]


@dataclass(frozen=True, slots=True)
class MinuteAnswer:
    """What happened in about a minute, and what the queue had at its end."""

    at: Time
    seconds: Annotated[int, "How long it was; more than 60 if nothing happened."]
    backlog: int
    states: Annotated[dict[str, int], "Messages by state."]
    oldest_ready_seconds: float | None
    counts: Annotated[dict[str, int], "What happened to messages, by name."]
    dead: Annotated[dict[str, int], "New dead letters, by reason."]
    handlers: Annotated[int, "Handlers that ended."]
    handler_seconds: Annotated[dict[str, float | None], "p50, p95 and p99; null: none ended."]
    tasks: dict[str, TaskAnswer]


@dataclass(frozen=True, slots=True)
class MarkAnswer:
    """An operation, or a mark set with ackq mark."""

    at: Time
    who: str
    what: str
    kind: Annotated[str, "Of the queue; empty if it concerns none."]
    queue: str
    result: Annotated[str | None, "null: it has not ended, or its page died."]


@dataclass(frozen=True, slots=True)
class HistoryAnswer:
    """The past of a queue."""

    now: Time
    minutes: Annotated[list[MinuteAnswer], "Oldest first."]
    marks: Annotated[list[MarkAnswer], "Newest first."]


@dataclass(frozen=True, slots=True)
class CauseAnswer:
    """Why messages failed."""

    kind: Kind
    queue: str
    cause: Annotated[str, "The type and the place of the error, or the reason."]
    task: Annotated[str, "The field task of the messages; empty: none."]
    text: Annotated[str, "The text of the newest error."]
    dead: Annotated[int, "Dead letters, also those that were redriven or dropped since."]
    repeated: Annotated[int, "Deliveries that failed and were repeated, of workers."]
    first_at: Time
    last_at: Time
    last_5_minutes: int
    last_hour: int


@dataclass(frozen=True, slots=True)
class FailuresAnswer:
    """The causes, those that were seen most in the last 5 minutes first; at most 100."""

    total: Annotated[int, "How many causes there are."]
    complete: Annotated[bool, "Whether all dead letters have been counted."]
    causes: list[CauseAnswer]


@dataclass(frozen=True, slots=True)
class LetterAnswer:
    """A dead letter, without its body."""

    entry: Annotated[str, "Its id in the stream of dead letters, for ackq dead."]
    id: str
    cause: str
    reason: str
    task: Annotated[str, "The field task of the message; empty: none."]
    deliveries: int
    size: Annotated[int, "Bytes of the body."]
    died_at: Time


@dataclass(frozen=True, slots=True)
class DeadAnswer:
    """A page of dead letters, newest first."""

    total: Annotated[int, "Dead letters of the queue, of any cause."]
    letters: list[LetterAnswer]
    before: Annotated[str | None, "Pass it to get the next page; null: there is none."]


@dataclass(frozen=True, slots=True)
class FoundAnswer:
    """A message and where it was when it was found, without its body."""

    id: str
    queue: Annotated[str, "The queue, or the shard or partition."]
    state: Annotated[str, "ready, in_flight, delayed or dead."]
    position: Annotated[int | None, "How many messages are delivered before it, if it is ready."]
    canceled: Annotated[bool, "Whether it is ready, but becomes a dead letter when its turn comes."]
    lease_ends_in_seconds: float | None
    due_in_seconds: float | None
    worker: Annotated[str | None, "The worker that handles it; null: unknown."]
    deliveries: int
    cause: Annotated[str, "Of the last error; empty: none is recorded."]
    reason: Annotated[str, "Of a dead letter."]
    entry: Annotated[str, "Of a delayed message or a dead letter, for the commands of ackq."]
    size: Annotated[int, "Bytes of the body."]


@dataclass(frozen=True, slots=True)
class FindAnswer:
    """The messages that were found."""

    looked: Annotated[int, "How many messages were looked through."]
    messages: list[FoundAnswer]


@dataclass(frozen=True, slots=True)
class ScheduleAnswer:
    """A schedule that is stored for a queue."""

    name: str
    every_seconds: float | None
    cron: Annotated[str | None, "The fields of cron; null: it has every_seconds."]
    zone: Annotated[str, "The time zone of cron."]
    paused: bool
    next_at: Annotated[float | None, "The next tick; null: it is paused."]
    last_at: Annotated[float, "The last tick that was pushed, or when it was stored."]
    missed: Annotated[int, "Ticks that were missed because no worker ran."]
    catch_up: Annotated[str, "none, or last."]
    unique: Annotated[str | None, "done or taken; null: each tick is pushed."]


@dataclass(frozen=True, slots=True)
class SchedulesAnswer:
    """The stored schedules of a list queue."""

    known: Annotated[bool, "false: this user may not read them."]
    schedules: list[ScheduleAnswer]


@dataclass(frozen=True, slots=True)
class GroupAnswer:
    """A group of a list queue, as far as consumers have met it."""

    name: str
    waiting: Annotated[int, "Ready messages that consumers have moved aside."]
    in_flight: Annotated[int, "Messages that were delivered and are not settled."]
    oldest_seconds: Annotated[
        float | None, "Time since the first of these was moved aside; null: none, or not read."
    ]
    ready_seconds: Annotated[float | None, "Time since its turn came; null: it has not come."]
    stopped_by: Annotated[list[str], "The entries of the dead letters that stop it."]


@dataclass(frozen=True, slots=True)
class GroupsAnswer:
    """The groups of a list queue that come first, at most 20 of the 10,000 that are looked at."""

    known: Annotated[bool, "false: it has no groups, or this user may not list them."]
    groups: list[GroupAnswer]


@dataclass(frozen=True, slots=True)
class RunningAnswer:
    """A message that a worker works on."""

    queue: str
    id: Annotated[str, "Cropped to 64 characters."]
    since: Time


@dataclass(frozen=True, slots=True)
class WorkerAnswer:
    """A worker process."""

    id: str
    name: str
    host: str
    pid: int
    version: str
    queues: list[str]
    concurrency: int
    busy: int
    state: Annotated[str, "working, quieting, quiet, stopping or unknown."]
    late: Annotated[bool, "Whether a heartbeat is overdue."]
    order: Annotated[str, "An order that it has not received yet, or empty."]
    started_at: Time
    seen_at: Time
    running: list[RunningAnswer]


@dataclass(frozen=True, slots=True)
class WorkersAnswer:
    """All workers."""

    known: Annotated[bool, "false: this user may not list workers."]
    workers: list[WorkerAnswer]


@dataclass(frozen=True, slots=True)
class OperationsAnswer:
    """The last 100 operations and marks, newest first."""

    known: Annotated[bool, "false: this user may not read the log."]
    operations: list[MarkAnswer]


@dataclass(frozen=True, slots=True)
class ErrorAnswer:
    """Why there is no answer."""

    error: str


def _like(answer: type[_Answer], source: object, **others: Any) -> _Answer:
    """Return an answer with these fields; of those that are not given, what the source calls so."""
    names = {each.name for each in fields(answer)} - others.keys()
    return answer(**{name: getattr(source, name) for name in names}, **others)


def queue_of(row: Row) -> QueueAnswer:
    """Return a queue."""
    reading = row.reading
    return _like(
        QueueAnswer,
        reading,
        states=dict(reading.states),
        oldest_ready_seconds=reading.oldest_ready,
        lease_overdue_seconds=reading.overdue,
        rates=dict(row.rates),
        troubles=[each.key.kind for each in row.troubles],
        totals=reading.totals and _like(TotalsAnswer, reading.totals),
        lags=dict(reading.lags),
        parts=[part.name for part in reading.parts],
    )


def attention_of(sample: Sample) -> AttentionAnswer:
    """Return what needs a person."""
    return AttentionAnswer(
        sample.at,
        [TroubleAnswer(**each.as_dict()) for each in sample.troubles],
    )


def queues_of(sample: Sample, rows: Iterable[Row], total: int, pages: int) -> QueuesAnswer:
    """Return a page of queues, and the sums over all of a sample."""
    states = dict.fromkeys(("ready", "in_flight", "delayed", "dead"), 0)
    for row in sample.rows:
        for state in states:
            states[state] += row.reading.states.get(state, 0)
    return QueuesAnswer(
        sample.at,
        sample.trouble,
        sample.outdated,
        sample.snapshot.complete,
        sample.snapshot.left_out,
        total,
        pages,
        states,
        [*map(queue_of, rows)],
    )


def history_of(rows: Iterable[Minute], entries: Iterable[Entry], now: float) -> HistoryAnswer:
    """Return the past of a queue."""
    return HistoryAnswer(now, [*map(_minute, rows)], [*map(mark_of, entries)])


def _minute(row: Minute) -> MinuteAnswer:
    return MinuteAnswer(
        row.at,
        row.seconds,
        row.backlog,
        dict(zip(STATES, row.states, strict=True)),
        row.oldest,
        {name: count for name, count in row.counts.items() if count},
        row.dead,
        sum(row.work.durations.counts),
        _quantiles(row.work),
        {
            name: _like(TaskAnswer, work, handler_seconds=_quantiles(work))
            for name, work in row.work.tasks.items()
        },
    )


def _quantiles(work: Work | TaskWork) -> dict[str, float | None]:
    return {f"p{share}": work.durations.quantile(share / 100) for share in (50, 95, 99)}


def mark_of(entry: Entry) -> MarkAnswer:
    """Return an operation or a mark."""
    return _like(MarkAnswer, entry, queue=entry.name)


def cause_of(queue: Reading, cause: Cause, minutes_5: int, hour: int) -> CauseAnswer:
    """Return a cause in a queue."""
    return _like(
        CauseAnswer,
        cause,
        kind=queue.kind,
        queue=queue.name,
        repeated=cause.retried,
        first_at=cause.first,
        last_at=cause.last,
        last_5_minutes=minutes_5,
        last_hour=hour,
    )


def dead_of(total: int, page: DeadPage) -> DeadAnswer:
    """Return a page of dead letters."""
    return DeadAnswer(total, [*map(_letter, page.letters)], page.before)


def _letter(letter: DeadLetter) -> LetterAnswer:
    size, task = len(letter.body), letter.task or ""
    return _like(LetterAnswer, letter, task=task, deliveries=letter.receive_count, size=size)


def found_of(found: Found) -> FoundAnswer:
    """Return a message that was found."""
    return _like(
        FoundAnswer,
        found,
        lease_ends_in_seconds=found.lease_ends_in,
        due_in_seconds=found.due_in,
        deliveries=found.receive_count,
        cause=found.errors[-1].cause if found.errors else "",
        size=len(found.body),
    )


def schedule_of(stored: StoredSchedule) -> ScheduleAnswer:
    """Return a stored schedule."""
    times = {"every_seconds": stored.every, "next_at": stored.next, "last_at": stored.last}
    return _like(ScheduleAnswer, stored, **times)


def group_of(group: GroupStats) -> GroupAnswer:
    """Return a group."""
    times = {"oldest_seconds": group.oldest, "ready_seconds": group.turn_for}
    return _like(GroupAnswer, group, stopped_by=[*group.stopped_by], **times)


def worker_of(worker: WorkerInfo) -> WorkerAnswer:
    """Return a worker."""
    running = [RunningAnswer(each.queue, each.message_id, each.since) for each in worker.running]
    return _like(WorkerAnswer, worker, queues=[*worker.queues], running=running)
