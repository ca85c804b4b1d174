"""Figures in, troubles out: `troubles_of_queue` and `troubles_of_server`. Nothing is read here."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from math import inf
from typing import Any, Literal, NamedTuple

from redis.exceptions import BusyLoadingError

from ackq.errors import ConfigurationError, redact
from ackq.escaping import printable
from ackq.ops.attention.marks import DEAD_WITHIN, FAILED_WITHIN, Marks, takeable
from ackq.ops.figures import count, span
from ackq.ops.readings import Reading
from ackq.ops.worker_info import WorkerInfo

Severity = Literal["critical", "warning"]


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of trouble."""

    severity: Severity
    title: str
    #: The command that shows more or helps; ``{queue}`` is the name. And the page that does.
    help: str
    page: str = "queue"


#: All kinds, by the names that commands, metrics and the API use.
KINDS = {
    "all_fail": Kind(
        "critical", "Every delivery fails", "ackq dead list {queue} --causes", "failures"
    ),
    "not_taken": Kind("critical", "Messages wait and none is taken", "ackq workers -q {queue}"),
    "no_worker": Kind(
        "critical", "Messages wait and no worker is there", "ackq workers -q {queue}"
    ),
    "pipeline": Kind("critical", "A pipeline has stopped", "ackq claims list {queue}"),
    "crashes": Kind("critical", "A worker crashes again and again", "ackq workers -q {queue}"),
    "oldest": Kind("warning", "A message has waited for too long", "ackq top {queue}"),
    "grows": Kind("warning", "The backlog grows", "ackq top {queue}"),
    "dead": Kind(
        "warning", "Messages became dead letters", "ackq dead list {queue} --causes", "failures"
    ),
    "stopped": Kind("warning", "A dead letter stops groups", "ackq groups {queue}"),
    "schedule": Kind("warning", "A schedule does not tick", "ackq schedules list {queue}"),
    "paused": Kind("warning", "A queue has been paused for long", "ackq resume {queue}"),
    "interrupted": Kind(
        "warning", "An operation was interrupted", "ackq web --operate", "operations"
    ),
    "unreadable": Kind("critical", "Redis cannot be read", "ackq doctor", "server"),
    "loading": Kind("critical", "Redis is still loading its data", "ackq doctor", "server"),
    "read_only": Kind(
        "critical", "Redis takes no writes: it is a replica", "ackq doctor", "server"
    ),
    "disk": Kind("critical", "Redis cannot write to its disk", "ackq doctor", "server"),
    "full": Kind("critical", "Redis is full", "ackq doctor", "server"),
    "evicting": Kind("critical", "Redis may drop messages", "ackq doctor", "server"),
    "nearly_full": Kind("warning", "Redis is nearly full", "ackq doctor", "server"),
}
#: Shares of maxmemory from which on Redis is nearly full, and full.
NEARLY_FULL, FULL = 0.9, 0.999


@dataclass(frozen=True, slots=True)
class Limits:
    """When troubles begin. All but the counts are in seconds; 0: never.

    The defaults show that nothing is taken, or that all deliveries fail, within a minute.
    """

    #: Deliveries that failed with no ack between them.
    all_fail: float = 20
    #: Time for which messages are ready and none is taken, while none is in flight; and while
    #: some are, since handlers may take long.
    not_taken: float = 45
    busy: float = 600
    #: Age of the oldest ready message.
    oldest: float = 600
    #: New dead letters within 15 minutes.
    dead: float = 1
    #: Messages of a backlog that has grown for 15 minutes.
    grows: float = 100
    paused: float = 3600
    #: Time since a tick that no worker pushed.
    schedule: float = 60
    #: Workers that vanished within half a minute, less than a minute after they had started.
    crashes: float = 3
    #: Time for which a server cannot be read.
    unreadable: float = 30
    #: Time for which a trouble is no longer seen until it is over, so that nothing flaps.
    calm: float = 30

    @classmethod
    def parse(cls, given: Iterable[str]) -> Limits:
        """Return the limits with those that are given, such as ``oldest=60``.

        Raises:
            ConfigurationError: there is no such limit, or it is no number from 0 to 1e9.
        """
        chosen: dict[str, float] = {}
        names = [each.name for each in fields(cls)]
        for text in given:
            name, _, number = text.partition("=")
            if name not in names:
                raise ConfigurationError(
                    f"{text!r}: write NAME=NUMBER with one of {', '.join(names)}"
                )
            try:
                chosen[name] = float(number)
            except ValueError:
                chosen[name] = -1.0
            if not 0 <= chosen[name] <= 1e9 or not number.isascii():
                raise ConfigurationError(f"{name} is a number from 0 to 1000000000, not {number!r}")
        return cls(**chosen)


class Key(NamedTuple):
    """What a trouble is about. The queue and its kind are empty if it is about a server."""

    kind: str
    queue_kind: str
    queue: str


@dataclass(frozen=True, slots=True)
class Trouble:
    """Something that needs a person."""

    key: Key
    #: When it began, in seconds since the epoch; None: before anybody looked.
    since: float | None
    #: How bad it is: messages, deliveries, seconds or a share, as the evidence says.
    value: float
    #: A sentence without invisible characters.
    evidence: str

    @property
    def severity(self) -> Severity:
        """Whether it is critical or a warning."""
        return KINDS[self.key.kind].severity

    @property
    def title(self) -> str:
        """What is wrong, in a few words."""
        return KINDS[self.key.kind].title

    @property
    def help(self) -> str:
        """The command that shows more or helps."""
        return KINDS[self.key.kind].help.format(queue=shlex.quote(printable(self.key.queue)))

    @property
    def text(self) -> str:
        """The queue and the evidence."""
        return f"{printable(self.key.queue)}: {self.evidence}" if self.key.queue else self.evidence

    def as_dict(self) -> dict[str, Any]:
        """Return all of it, as JSON has it."""
        return {
            "kind": self.key.kind,
            "queue_kind": self.key.queue_kind,
            "queue": self.key.queue,
            "severity": self.severity,
            "since": None if self.since is None else round(self.since, 3),
            "value": round(self.value, 3),
            "title": self.title,
            "evidence": self.evidence,
            "help": self.help,
        }


@dataclass(frozen=True, slots=True)
class Details:
    """What is read of a queue only now and then."""

    workers: Sequence[WorkerInfo] = ()
    #: Schedules that did not tick, and when they should have.
    late: Mapping[str, float] = field(default_factory=dict)
    #: The cause of dead letters that was seen most in the last 15 minutes.
    cause: str = ""
    #: How the message that most crashed workers had ended its process, as far as it is recorded.
    end: str = ""
    #: Operations that were interrupted, and when they had begun.
    interrupted: Mapping[str, float] = field(default_factory=dict)


def arranged(troubles: Iterable[Trouble]) -> list[Trouble]:
    """Return critical ones first, then the oldest first."""
    return sorted(troubles, key=lambda one: (one.severity, one.since or 0.0, one.key))


def troubles_of_queue(
    reading: Reading,
    marks: Marks,
    details: Details,
    limits: Limits,
    now: float,
    room: float | None = None,
    once: bool = False,
) -> Iterator[Trouble]:
    """Yield the troubles of a queue.

    Args:
        reading: its figures.
        marks: what happened to it.
        details: what else is known.
        limits: when troubles begin.
        now: the server's time in seconds since the epoch.
        room: how many more messages the memory of the servers can hold; None: unknown.
        once: nobody looks again, so that a wait of unknown length is a trouble at once.
    """

    def trouble(kind: str, since: float | None, value: float, evidence: str) -> Trouble:
        return Trouble(Key(kind, reading.kind, reading.name), since, value, evidence)

    def over(value: float, limit: float) -> bool:
        return bool(limit) and limit <= value < inf

    since = marks.failing_since
    fails = now - marks.failed_at < FAILED_WITHIN
    if since is not None and fails and over(marks.failed, limits.all_fail):
        failed = f"{count(marks.failed)} deliveries failed"
        text = f"{failed} within {span(marks.failed_at - since)}, and none was acked"
        yield trouble("all_fail", since, marks.failed, text)
    new, first = marks.new_dead(now)
    if over(new, limits.dead):
        text = f"{count(new)} new dead letter{'s' * (new > 1)} within {span(DEAD_WITHIN)}"
        cause = f", mostly by {printable(details.cause)}" if details.cause else ""
        yield trouble("dead", first, new, text + cause)
    if reading.groups is not None and (stopped := reading.groups.stopped):
        text = f"{count(stopped)} stopped until a dead letter of each is redriven or dropped"
        yield trouble("stopped", None, stopped, f"groups: {text}")
    yield from _of_workers(reading, details, limits, now, trouble)
    for what, begun in details.interrupted.items():
        text = f'"{printable(what)}" ended without a result: start it again'
        yield trouble("interrupted", begun, now - begun, text)
    if reading.paused:
        since = marks.paused_since if marks.paused_since is not None else now
        if over(paused := now - since, limits.paused):
            text = f"paused for at least {span(paused)}, with a backlog of {count(reading.backlog)}"
            yield trouble("paused", since, paused, text)
        return
    if unserved := _unserved(reading, marks, details, limits, now, once):
        yield trouble(*unserved)
    age = reading.oldest_ready
    if age is not None and over(age, limits.oldest):
        yield trouble("oldest", now - age, age, f"the oldest message has waited for {span(age)}")
    growing = marks.growth(now)
    if growing is not None and over(reading.backlog, limits.grows):
        speed, began = growing
        text = f"its backlog of {count(reading.backlog)} grows by {speed:,.2f} messages a second"
        if room is not None:
            end = datetime.fromtimestamp(min(now + room / speed, 4e9), UTC)
            text += f"; if that goes on, memory ends at about {end:%Y-%m-%d %H:00} UTC"
        yield trouble("grows", began, reading.backlog, text)


def _unserved(
    reading: Reading, marks: Marks, details: Details, limits: Limits, now: float, once: bool
) -> tuple[str, float | None, float, str] | None:
    """Return the trouble of a queue from which nothing is taken; None: there is none."""
    ready, since = takeable(reading), marks.waiting_since
    if not ready or not limits.not_taken or since is None:
        return None
    overdue = reading.overdue or 0.0
    since = min(since, now - overdue)
    idle = reading.workers == 0 or (
        bool(details.workers)
        and all(each.state in ("quiet", "quieting") for each in details.workers)
    )
    held = reading.states.get("in_flight", 0)
    claimed = reading.stats.claimed if reading.stats is not None else 0
    limit = limits.busy if held or claimed else limits.not_taken
    # A consumer that is there and free would have taken one at once.
    at_once = once and idle and not held and now > since
    if now - since < limit and not at_once:
        return None
    waited = f"at least {span(now - since)}" if marks.unseen else span(now - since)
    text = f"{count(ready)} messages are ready, and none was taken for {waited}"
    kind = "not_taken"
    if claimed:
        kind, text = "pipeline", f"{text}; a query holds {count(claimed)} more"
    elif reading.workers == 0:
        kind, text = "no_worker", f"{text}: there is no worker"
    elif idle:
        text = f"{text}: its workers are quiet"
    elif reading.workers is not None:
        text = f"{text}, though there are workers: {count(reading.workers)}"
    return kind, None if at_once and marks.unseen else since, ready, text


def _of_workers(
    reading: Reading, details: Details, limits: Limits, now: float, trouble: Any
) -> Iterator[Trouble]:
    crashed, running = fallen(details.workers)
    if limits.crashes and len(crashed) >= limits.crashes:
        text = f"{len(crashed)} workers ended within a minute of their start"
        for most, number in running.most_common(1):
            text += f"; message '{printable(most)}' was in {number} of them"
            text += f" and {printable(details.end)}" if details.end else ""
        yield trouble("crashes", min(each.seen_at for each in crashed), len(crashed), text)
    for name, due in details.late.items():
        if limits.schedule and now - due >= limits.schedule:
            missed = f"schedule {printable(name)!r} did not tick {span(now - due)} ago"
            yield trouble("schedule", due, now - due, f"{missed}: no worker pushes its ticks")


def fallen(workers: Iterable[WorkerInfo]) -> tuple[list[WorkerInfo], Counter[str]]:
    """Return the workers that vanished soon after their start, and in how many a message was."""
    crashed = [each for each in workers if each.late and each.seen_at - each.started_at < 60.0]
    return crashed, Counter(sorted(one.message_id for each in crashed for one in each.running))


def troubles_of_server(
    address: str, problem: Exception | None, up: bool, info: Mapping[str, str]
) -> Iterator[Trouble]:
    """Yield the troubles of a server.

    Args:
        address: its address.
        problem: why it cannot be read.
        up: whether it can be read.
        info: what INFO said; empty if this user may not ask.
    """
    found = problems_in(info)
    if not up:
        kind = "loading" if isinstance(problem, BusyLoadingError) else "unreadable"
        why = redact(str(problem)) or type(problem).__name__ if problem else "no answer"
        found = iter([(kind, f"it cannot be read: {printable(why)}", 1.0)])
    for kind, text, value in found:
        yield Trouble(Key(kind, "", ""), None, value, f"{address}: {text}")


def problems_in(info: Mapping[str, str]) -> Iterator[tuple[str, str, float]]:
    """Yield what is wrong with a server according to INFO: the kind, a sentence and how bad."""

    def number(name: str) -> int:
        text = info.get(name, "")
        return int(text) if text.isdigit() else 0

    if number("loading"):
        yield "loading", "the server is still loading its data", 1.0
    if info.get("role") == "slave":
        yield "read_only", "this is a replica: pushes and pops are refused here", 1.0
    names = ("aof_last_write_status", "aof_last_bgrewrite_status", "rdb_last_bgsave_status")
    if failed := [name for name in names if info.get(name, "ok") != "ok"]:
        text = f"writing to disk fails ({', '.join(failed)}): check the server's log and its disk"
        yield "disk", text, 1.0
    policy = info.get("maxmemory_policy", "")
    if policy.startswith("allkeys-"):
        text = f"{policy}: when memory runs out, messages are dropped without an error. Set"
        text += " maxmemory-policy noeviction, with CONFIG SET and in redis.conf"
        yield "evicting", text, number("evicted_keys")
        return
    used, limit = number("used_memory"), number("maxmemory")
    if limit and used > limit * NEARLY_FULL:
        text = f"{mebibytes(used)} of {mebibytes(limit)} used"
        if used >= limit * FULL:
            yield "full", f"{text}: pushes are refused", used / limit
        else:
            yield "nearly_full", f"{text}: once it is full, pushes are refused", used / limit


def mebibytes(size: int) -> str:
    """Return a number of bytes in MiB."""
    return f"{size / 2**20:,.1f} MiB"


def room_in(infos: Iterable[Mapping[str, str]], readings: Iterable[Reading]) -> float | None:
    """Return about how many more messages the servers hold; None: unknown, or there is no limit.

    A message counts as large as all memory divided by all messages, which is rather too large.
    """
    known = [(int(info.get("used_memory", 0)), int(info.get("maxmemory", 0))) for info in infos]
    messages = sum(sum(each.states.values()) for each in readings)
    used = sum(each for each, _ in known)
    if not known or not messages or not used or not all(limit for _, limit in known):
        return None
    return max(0.0, sum(limit - each for each, limit in known)) / (used / messages)
