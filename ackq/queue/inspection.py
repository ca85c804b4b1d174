"""Inspect and maintain a queue: stats, peek, purge, dead letters, audit, pause, drain."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from ackq import scripts
from ackq.config import Seconds, check_integer, microseconds
from ackq.core.call import call
from ackq.core.counters import MAX_WATCH, derived
from ackq.core.counters import total as total_of
from ackq.core.creation_time import CLOUDEVENT, created_at
from ackq.core.dead_stream import read_dead
from ackq.core.effects import Arg, Operation, Request
from ackq.core.failure import parse
from ackq.core.failure_notes import with_errors
from ackq.core.ids import text_of_key
from ackq.core.inspection_results import DeadLetter, PeekedMessage, State
from ackq.errors import ConfigurationError
from ackq.queue import group_audit, held_lists, moved_aside, record, stopped_groups
from ackq.queue.cancel_notes import with_notes
from ackq.queue.claims import end_holds
from ackq.queue.delayed_entries import entry_of
from ackq.queue.messages import (
    AuditFinding,
    AuditReport,
    GroupCounts,
    QueueCounters,
    QueueStats,
    Redriven,
)
from ackq.queue.spec import QueueSpec

#: Most messages that one call reads or moves.
CHUNK = 1000
#: Most dead letters that one call deletes: it frees their bodies, whose sizes are unknown.
DROP_CHUNK = 50
#: Most claims and committed lists, of each kind, that a peek reads.
PEEKED = 1000

_ENTRY = re.compile(r"\d+-\d+")


def stats(spec: QueueSpec) -> Operation[QueueStats]:
    """Count; see `ackq.Queue.stats`."""
    yield from compare_end(spec)
    return read_stats((yield from _call(spec, "stats", spec.keys.pop_from)))


def read_stats(reply: Sequence[int]) -> QueueStats:
    """Return the counts that stats.lua replies."""
    (
        listed,
        handed,
        leased,
        expired,
        delayed,
        due,
        dead,
        paused,
        lease_end,
        due_in,
        claimed,
        returned,
        later,
        held_until,
        *groups,
    ) = reply
    events = [us for us, count in ((lease_end, leased), (due_in, delayed)) if count]
    if held_until:
        events.append(held_until)
    return QueueStats(
        ready=listed + handed + expired + due + returned,
        in_flight=leased - expired + claimed,
        delayed=delayed - due + later,
        dead=dead,
        expired=expired,
        due=due,
        paused=bool(paused),
        next_event_in=max(0.0, min(events) / 1_000_000) if events else None,
        lease_ends_in=lease_end / 1_000_000 if leased else None,
        claimed=claimed,
        groups=_group_counts(*groups) if groups else None,
    )


def _group_counts(
    moved_aside: int, in_flight: int, ready: int, limited: int, stopped: int, since: int
) -> GroupCounts:
    return GroupCounts(moved_aside, in_flight, ready, limited, stopped, since / 1_000_000)


def total(counts: Sequence[QueueStats]) -> QueueStats:
    """Return the sum of the shards' counts."""
    events = [count.next_event_in for count in counts if count.next_event_in is not None]
    groups = [count.groups for count in counts if count.groups is not None]
    return QueueStats(
        ready=sum(count.ready for count in counts),
        in_flight=sum(count.in_flight for count in counts),
        delayed=sum(count.delayed for count in counts),
        dead=sum(count.dead for count in counts),
        expired=sum(count.expired for count in counts),
        due=sum(count.due for count in counts),
        paused=any(count.paused for count in counts),
        next_event_in=min(events, default=None),
        claimed=sum(count.claimed for count in counts),
        groups=total_of_groups(groups) if groups else None,
    )


def total_of_groups(counts: Sequence[GroupCounts]) -> GroupCounts:
    """Return the sum of the shards' counts of groups."""
    return GroupCounts(
        moved_aside=sum(count.moved_aside for count in counts),
        in_flight=sum(count.in_flight for count in counts),
        ready=sum(count.ready for count in counts),
        limited=sum(count.limited for count in counts),
        stopped=sum(count.stopped for count in counts),
        turn_for=max(count.turn_for for count in counts),
    )


def oldest_ready(spec: QueueSpec) -> Operation[float | None]:
    """Return how long the oldest ready message is ready; see `ackq.Queue.oldest_ready`."""
    field = spec.config.time_field
    yield from compare_end(spec)
    reply = yield from _call(spec, "oldest", spec.keys.pop_from, CLOUDEVENT, field or CLOUDEVENT)
    return read_oldest(reply, field)


def read_oldest(reply: Sequence[Any], field: str | None) -> float | None:
    """Return how long the oldest ready message is ready, from what oldest.lua replies."""
    now, since, listed, body = reply
    times = [since / 1_000_000] if since else []
    if listed:
        created = created_at(body, field)
        if created is None:
            return None
        times.append(created)
    return max(0.0, now / 1_000_000 - min(times)) if times else 0.0


def oldest(ages: Sequence[float | None]) -> float | None:
    """Return the greatest of the shards' ages; None if one is unknown."""
    known = [age for age in ages if age is not None]
    return max(known) if len(known) == len(ages) else None


def counters(spec: QueueSpec, window: Seconds) -> Operation[QueueCounters]:
    """Read the counters; see `ackq.Queue.counters`."""
    milliseconds = max(1, microseconds(window, "window", MAX_WATCH) // 1000)
    now, live, held, *pairs = yield from _call(spec, "watch", milliseconds, spec.keys.pop_from)
    return read_counters(now, live, held, dict(zip(pairs[::2], map(int, pairs[1::2]), strict=True)))


def read_counters(now: int, live: int, held: int, counted: Mapping[bytes, int]) -> QueueCounters:
    """Return the counts; ``live`` messages are in the queue now, ``held`` of them in flight."""
    fields = derived(now, live, held, counted)
    if b"live" not in counted:  # a former release began to count, and counted what was taken
        fields |= {"pushed": None, "taken": counted.get(b"taken", 0)}
    timeouts: dict[int, int] = {}
    rows = 0
    for name, count in counted.items():
        kind, colon, rest = name.partition(b":")
        if not colon:
            continue
        if kind in (b"lease", b"timeout"):
            timeouts[int(rest)] = timeouts.get(int(rest), 0) + count
        elif kind == b"rows":
            reason = rest.decode(errors="replace")
            fields["dead"][reason] = fields["dead"].get(reason, 0) + count
            rows += count
    return QueueCounters(**fields, timeouts=timeouts, dead_rows=rows)


def counted(parts: Sequence[QueueCounters]) -> QueueCounters:
    """Return the sum of the shards' counters."""
    timeouts = sum((Counter(part.timeouts) for part in parts), Counter[int]())
    rows = sum(part.dead_rows for part in parts)
    return QueueCounters(**asdict(total_of(parts)), timeouts=timeouts, dead_rows=rows)


def peek(
    spec: QueueSpec, wanted: int, state: State, skip: int = 0, group: str | int | None = None
) -> Operation[list[PeekedMessage]]:
    """Return messages without taking them; see `ackq.Queue.peek`."""
    if state not in ("ready", "in_flight", "delayed"):
        raise ConfigurationError(f"state is 'ready', 'in_flight' or 'delayed', not {state!r}")
    check_integer(wanted, "peek", 0, 2**53)
    check_integer(skip, "skip", 0, 2**52)
    yield from compare_end(spec)
    if group is not None:
        if not spec.keys.grouped:
            raise ConfigurationError(f"queue {spec.name!r} has no groups: leave out group=")
        if state != "ready":
            raise ConfigurationError(
                f"group= shows ready messages that were moved aside, not those that are {state}:"
                " leave out one of the two"
            )
        return (yield from _moved_aside(spec, skip, wanted, group))
    now, held = yield from held_lists.lists(spec)
    names = [each.name for each in held]
    # Each list goes in front of those returned before it.
    front = [name for name in names if held_lists.mode_of(spec, name) == "front"][-PEEKED:][::-1]
    back = [name for name in names if held_lists.mode_of(spec, name) == "back"][:PEEKED]
    seen: list[PeekedMessage] = []
    kept: list[bytes] = []
    while len(seen) < wanted:
        reply = yield from _call(
            spec,
            "peek",
            state,
            skip + len(seen),
            min(CHUNK, wanted - len(seen)),
            len(front),
            spec.keys.pop_from,
            own=(*front, *back),
        )
        for at in range(0, len(reply), 5):
            _, key, body, count, score = reply[at : at + 5]
            when = float(score) / 1_000_000
            created = created_at(body, spec.config.time_field)
            entry = entry_of(score, key) if state == "delayed" else ""
            seen.append(
                PeekedMessage(text_of_key(key, body), body, count, when or None, (), created, entry)
            )
            kept.append(key)
        if not reply:
            break
    if state == "ready" and spec.keys.grouped and len(seen) < wanted:
        first = 0 if seen else (yield from _behind_lists(spec, skip))
        aside = yield from _moved_aside(spec, first, wanted - len(seen))
        seen += aside
        kept += [b""] * len(aside)
    elif state == "ready":
        listed = iter((yield from with_notes(spec, [each for each in seen if not each.at], now)))
        seen = [each if each.at else next(listed) for each in seen]
    return (yield from with_errors(spec, spec.keys.errors, seen, kept))


def _behind_lists(spec: QueueSpec, skip: int) -> Operation[int]:
    """Return how many of the messages that were moved aside to skip, after all others."""
    if not skip:
        return 0
    counts = yield from stats(spec)
    return max(0, skip - counts.ready + (counts.groups.moved_aside if counts.groups else 0))


def _moved_aside(
    spec: QueueSpec, skip: int, wanted: int, group: str | int | None = None
) -> Operation[list[PeekedMessage]]:
    """Return messages that were moved aside: of all groups, or of one."""
    seen: list[PeekedMessage] = []
    after, more = b"", True
    while more and len(seen) < wanted:
        after, _, bodies = yield from moved_aside.page(
            spec, after, skip + wanted - len(seen), group
        )
        more = after != b""
        for body in bodies[skip:]:
            created = created_at(body, spec.config.time_field)
            seen.append(PeekedMessage(text_of_key(b"", body), body, 0, None, (), created, ""))
        skip = max(0, skip - len(bodies))
    return seen


def purge(spec: QueueSpec, dead: bool) -> Operation[int]:
    """Delete everything; see `ackq.Queue.purge`."""
    deleted = 0
    yield from compare_end(spec)
    # Purge these lists first: if one is returned meanwhile, the last call deletes its messages.
    for held in (yield from held_lists.lists(spec))[1]:
        deleted += yield from _call(spec, "held/drop", own=(held.name,))
    if spec.keys.grouped:
        deleted += yield from _call(spec, "groups/purge", int(dead))
    rest: int = yield from _call(spec, "purge", int(dead))
    if spec.keys.pop_from == "left":
        yield from record.forget(spec.keys)
    return deleted + rest


def has_keys(spec: QueueSpec) -> Operation[int]:
    """Return how many keys the queue has. An empty one may have none."""
    existing: int = yield Request((b"EXISTS", *spec.keys.all()), resend=True)
    return existing


def pause(spec: QueueSpec) -> Operation[None]:
    """Stop deliveries; see `ackq.Queue.pause`. The key says since when."""
    yield Request((b"SET", spec.keys.paused, spec.outside.now(), b"NX"), resend=True)


def resume(spec: QueueSpec) -> Operation[None]:
    """Resume deliveries; see `ackq.Queue.resume`."""
    yield Request((b"DEL", spec.keys.paused), resend=True)


def drain(spec: QueueSpec, on_step: Callable[[int], None] | None = None) -> Operation[int]:
    """Put all messages back on the list; see `ackq.Queue.drain`.

    Args:
        spec: of the queue.
        on_step: called with the number so far. Defaults to None.
    """
    keys = spec.keys
    if keys.pop_from == "left":
        yield from record.record(spec)
    moved = yield from end_holds(spec)
    # Parked messages first: those in flight come before them in the order of their groups.
    for script in ("groups/drain", "drain") if keys.grouped else ("drain",):
        while step := (yield from _call(spec, script, CHUNK, keys.known)):
            moved += step
            if on_step is not None:
                on_step(moved)
    if keys.known != "right":
        yield from record.forget(keys)
    return moved


def dead_letters(
    spec: QueueSpec, wanted: int, entries: Sequence[str], after: str | None = None
) -> Operation[list[DeadLetter]]:
    """Read dead letters, oldest first; see `ackq.Queue.dead_letters`."""
    check_integer(wanted, "dead_letters", 0, 2**53)
    if after is not None and not _ENTRY.fullmatch(after):
        raise ConfigurationError(f"after is an entry such as '17-0', not {after!r}")
    if not entries:
        return (yield from read_dead(spec, spec.keys.dead, dead_letter_of, wanted, after))
    letters: list[DeadLetter] = []
    for entry in entries:
        request = Request((b"XRANGE", spec.keys.dead, entry, entry, b"COUNT", 1), resend=True)
        letters += map(dead_letter_of, (yield from call(spec, request)))
    return letters


def redrive(
    spec: QueueSpec,
    wanted: int | None,
    entries: Sequence[str],
    on_step: Callable[[int], None] | None = None,
    force: bool = False,
) -> Operation[Redriven]:
    """Make dead letters ready again; see `ackq.Queue.redrive`.

    Args:
        spec: of the queue.
        wanted: how many, or None for all.
        entries: which, instead.
        on_step: called with the number so far, unless there are entries. Defaults to None.
        force: also those whose ids are in the queue. Defaults to False.

    Raises:
        ConfigurationError: one of the entries is none, or the queue is a sealed shard.
    """
    if spec.keys.stage == "sealed":
        raise ConfigurationError(
            f"queue {spec.name!r} is a former shard, which delivers no messages any more: redrive"
            " with ShardedQueue.redrive, which pushes its dead letters to the new shards"
        )
    redriven = 0
    refused: list[str] = []
    for entry in entries:
        if not _ENTRY.fullmatch(entry):
            raise ConfigurationError(
                f"redrive: {entry!r} is not a dead letter: pass DeadLetter.entry, as '17-0'"
            )
    if entries:
        wanted = len(entries)
    elif wanted is None:
        # Messages that die again meanwhile are appended, so stop at the present length.
        wanted = (yield from stats(spec)).dead
    check_integer(wanted, "redrive", 0, 2**53)
    after: Arg = ""
    looked = 0
    while looked < wanted:
        chunk = entries[looked : looked + CHUNK]
        most = len(chunk) or min(CHUNK, wanted - looked)
        count, seen, after, *stay = yield from _call(
            spec, "redrive", most, after, int(force), *chunk
        )
        redriven += count
        refused += (entry.decode() for entry in stay)
        looked += seen  # one call stops at 1 MiB of bodies
        if on_step is not None and not entries:
            on_step(redriven)
        if not seen:
            break
    return Redriven.of(redriven, refused)


def drop_dead_letters(spec: QueueSpec, entries: Sequence[str]) -> Operation[int]:
    """Delete dead letters; see `ackq.Queue.drop_dead_letters`."""
    dropped = 0
    for first in range(0, len(entries), DROP_CHUNK):
        chunk = entries[first : first + DROP_CHUNK]
        dropped += yield from _call(spec, "drop", *chunk)
    return dropped


def audit(spec: QueueSpec, repair: bool) -> Operation[AuditReport]:
    """Check every record; see `ackq.Queue.audit`."""
    findings: list[AuditFinding] = []
    checked = 0
    yield from record.compare(spec)
    expected = spec.keys.types()
    rows = yield from _call(spec, "audit", int(repair))
    for (key, kind), (actual, expires) in zip(expected.items(), rows, strict=False):
        if actual.decode() not in (kind, "none"):
            problem = f"a {actual.decode()} where a {kind} belongs"
            findings.append(AuditFinding(problem, key.decode(), False))
        if expires:
            findings.append(AuditFinding("the key expires", key.decode(), repair))
    if len(rows) == len(expected):
        return AuditReport(checked, tuple(findings))
    leased, bodies, delayed, _ = rows[-1]
    for walk in ("backup", "delayed", "extended", "heldrows", "errors", "receives", "notes"):
        seen, found_here = yield from _walk(spec, walk, repair)
        checked += seen
        findings += found_here
    for held in (yield from held_lists.lists(spec))[1]:
        checked += 1
        problems = yield from _call(spec, "held/audit", int(repair), own=(held.name,))
        name = held.name.decode(errors="replace")
        findings += [AuditFinding(problem.decode(), name, repair) for problem in problems]
    if spec.keys.grouped:
        seen, found_here = yield from stopped_groups.audit(spec, repair)
        checked += seen
        findings += found_here
    # Scanning CONTEXT reads all bodies, so do it only if the sizes do not add up, or if a missing
    # body may hide an orphan.
    if bodies != leased + delayed or any(finding.problem == "body missing" for finding in findings):
        seen, found_here = yield from _walk(spec, "context", repair)
        checked += seen
        findings += found_here
    if spec.keys.grouped:
        findings += yield from group_audit.audit(spec, repair)
    return AuditReport(checked, tuple(findings))


def _walk(spec: QueueSpec, walk: str, repair: bool) -> Operation[tuple[int, list[AuditFinding]]]:
    findings: dict[tuple[str, str], AuditFinding] = {}
    checked = 0
    cursor: Arg = b"0"
    while True:
        cursor, seen, *problems = yield from _call(spec, "audit_scan", walk, cursor, int(repair))
        checked += seen
        for at in range(0, len(problems), 2):
            problem, key = problems[at].decode(), problems[at + 1].decode(errors="replace")
            # A scan may return an entry twice.
            findings[problem, key] = AuditFinding(problem, key, repair)
        if cursor == b"0":
            return checked, list(findings.values())


def dead_letter_of(entry: Sequence[Any]) -> DeadLetter:
    """Return the dead letter that an entry of the stream stands for."""
    fields = dict(zip(entry[1][::2], entry[1][1::2], strict=True))
    body = fields.get(b"body", b"")
    return DeadLetter(
        entry=entry[0].decode(),
        id=text_of_key(fields.get(b"key", b""), body),
        body=body,
        reason=fields.get(b"reason", b"").decode(errors="replace"),
        receive_count=_number(fields.get(b"count")),
        died_at=_number(fields.get(b"time")) / 1_000_000,
        errors=parse(fields.get(b"errors", b"")),
        unique=b"unique" in fields,
    )


def _number(text: bytes | None) -> int:
    """Return a field's number, or 0 if another program left it out or wrote something else."""
    return int(text) if text and text.isdigit() else 0


def compare_end(spec: QueueSpec) -> Operation[None]:
    """Raise an error if this client has another end than the queue, or other groups."""
    # The scripts here notice another client's record, but not other settings of groups.
    if spec.config.grouped:
        yield from record.compare(spec)


def _call(spec: QueueSpec, script: str, *args: Arg, own: Sequence[bytes] = ()) -> Operation[Any]:
    # Applied twice, purge, drain and redrive could affect more messages than requested.
    resend = script in ("stats", "oldest", "peek", "audit", "audit_scan", "watch", "held/audit")
    passed = spec.keys.passed(script, *own)
    request = Request((*passed, *args), script=scripts.load(script), resend=resend)
    return (yield from call(spec, request))
