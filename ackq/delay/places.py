"""Where messages of a delay queue are: find them by key, or search for fields of their bodies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ackq.core.call import call
from ackq.core.dead_stream import search_dead
from ackq.core.effects import Operation, Request
from ackq.core.inspection_results import Found, PeekedMessage, Place, State
from ackq.core.search_terms import Fields, OnProgress, check_within, no_progress
from ackq.delay import peek
from ackq.delay.admin import dead_letter_of
from ackq.delay.messages import MAX_KEY, DelaySpec, decode_key, encode_key

#: Most rounds of looking for a message that changes its state meanwhile.
LOOKS = 3
#: The states to look in, in the order in which a message passes through them: one that moves on
#: during a round is found in its next state, unless it is delayed again.
ORDER: tuple[State, ...] = ("delayed", "ready", "in_flight")


def find(
    spec: DelaySpec, key: str, within: int | None, partition: int | None
) -> Operation[Found | None]:
    """Find one message; see `ackq.delay.DelayQueue.find`."""
    matches = yield from _find(spec, key, 1, within, partition, no_progress)
    return matches[0] if matches else None


def find_all(
    spec: DelaySpec,
    key: str,
    within: int | None,
    partition: int | None,
    on_progress: OnProgress | None = None,
) -> Operation[list[Found]]:
    """Find all messages with a key; see `ackq.delay.DelayQueue.find_all`."""
    return _find(spec, key, float("inf"), within, partition, on_progress or no_progress)


def _find(
    spec: DelaySpec,
    key: str,
    most: float,
    within: int | None,
    partition: int | None,
    on_progress: OnProgress,
) -> Operation[list[Found]]:
    check_within(within)
    raw = encode_key(key)
    index = spec.index_of(raw, partition)
    stored = yield from _stored(spec, index, raw)
    found = [stored] if stored else []

    def matches(found: Found) -> bool:
        return found.id == key

    if len(found) < most:
        found += yield from _dead(spec, index, matches, most, within, on_progress)
    return found


def _stored(spec: DelaySpec, index: int, raw: bytes) -> Operation[Found | None]:
    """Return the stored message with a key. Cost: O(log n)."""
    keys = spec.partitions[index]
    just_before = decode_key(_before(raw))
    for _ in range(LOOKS):
        due = yield from call(spec, Request((b"ZSCORE", keys.z, raw), resend=True))
        lease = yield from call(spec, Request((b"ZSCORE", keys.leases, raw), resend=True))
        if due is None:
            return None
        for state in ORDER:
            score = lease if state == "in_flight" else due
            if score is None:
                continue
            cursor = (index, float(score), just_before)
            seen, _ = yield from peek.page(spec, 1, state, cursor)
            if seen and seen[0].id == decode_key(raw):
                rank = yield from call(spec, Request((b"ZRANK", keys.z, raw), resend=True))
                now = yield from _now(spec)
                return _found(spec, index, seen[0], state, now, rank)
    return None


def _before(raw: bytes) -> bytes:
    """Return the greatest key that sorts before a key, in the order of bytes."""
    head, last = raw[:-1], raw[-1]
    return head + bytes([last - 1]) + b"\xff" * MAX_KEY if last else head


def search(
    spec: DelaySpec,
    where: Mapping[str, Any],
    limit: int,
    within: int | None,
    on_progress: OnProgress | None = None,
) -> Operation[list[Found]]:
    """Search for messages by their fields; see `ackq.delay.DelayQueue.search`."""
    fields = Fields.of(where, limit)
    check_within(within)
    return _Search(spec, fields, limit, within, on_progress or no_progress).run()


@dataclass(slots=True)
class _Search:
    """What is searched for, and what was found so far."""

    spec: DelaySpec
    fields: Fields
    limit: int
    within: int | None
    on_progress: OnProgress
    found: list[Found] = field(default_factory=list)

    @property
    def _left(self) -> int:
        return self.limit - len(self.found)

    def run(self) -> Operation[list[Found]]:
        now = yield from _now(self.spec)
        for index in range(len(self.spec.partitions)):
            for state in ("ready", "in_flight", "delayed"):
                if self._left:
                    yield from self._look_through(index, state, now)
            if self._left:
                self.found += yield from _dead(
                    self.spec, index, self._matches, self._left, self.within, self.on_progress
                )
        return self.found

    def _matches(self, found: Found) -> bool:
        return self.fields.match(found.body)

    def _look_through(self, index: int, state: State, now: float) -> Operation[None]:
        cursor: peek.Cursor | None = (index, None, "")
        seen = 0
        while cursor is not None and cursor[0] == index and self._left:
            wanted = peek.PAGE if self.within is None else min(peek.PAGE, self.within - seen)
            if not wanted:
                break
            page, cursor = yield from peek.page(self.spec, wanted, state, cursor)
            for offset, message in enumerate(page):
                if self._left and self.fields.match(message.body):
                    self.found.append(_found(self.spec, index, message, state, now, seen + offset))
            seen += len(page)
            self.on_progress(len(page))


def _found(
    spec: DelaySpec, index: int, message: PeekedMessage, state: Place, now: float, rank: int
) -> Found:
    found = Found(
        message.id,
        state,
        message.body,
        message.receive_count,
        _name(spec, index),
        errors=message.errors,
    )
    if state == "ready":
        return replace(found, position=rank)
    left = max(0.0, (message.at or 0.0) - now)
    if state == "in_flight":
        return replace(found, lease_ends_in=left)
    return replace(found, due_in=left)


def _dead(
    spec: DelaySpec,
    index: int,
    matches: Callable[[Found], bool],
    most: float,
    within: int | None,
    on_progress: OnProgress,
) -> Operation[list[Found]]:
    stream, name = spec.partitions[index].dead, _name(spec, index)
    return search_dead(spec, stream, name, dead_letter_of, matches, most, within, on_progress)


def _name(spec: DelaySpec, index: int) -> str:
    """Return the name under which a partition is a queue by itself."""
    number = spec.number(index)
    return spec.name if number is None else f"{spec.name}:{number}"


def _now(spec: DelaySpec) -> Operation[float]:
    seconds, microseconds = yield from call(spec, Request((b"TIME",), resend=True))
    return int(seconds) + int(microseconds) / 1_000_000
