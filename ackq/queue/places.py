"""Where messages are: find them by id, or search for those whose bodies have certain fields.

Scripts look through one place of the queue after the other, in windows, and return the bodies that
may match. Whether one matches is decided here: a script must not decode long JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, get_args

import orjson
from redis.exceptions import NoPermissionError

from ackq import scripts
from ackq.core.call import call
from ackq.core.dead_stream import as_found
from ackq.core.effects import Arg, Operation, Request
from ackq.core.failure_notes import with_errors
from ackq.core.ids import key_of_id, text_of_key
from ackq.core.inspection_results import Found, Place
from ackq.core.search_terms import WITHIN, Fields, OnProgress, check_within, no_progress
from ackq.errors import ConfigurationError
from ackq.queue import cancel_notes, held_lists, inspection, moved_aside, registry
from ackq.queue.delayed_entries import entry_of
from ackq.queue.spec import QueueSpec

#: Lease keys that one call looks up.
CHUNK = 1000


@dataclass(frozen=True, slots=True)
class Target:
    """What is searched for, and how far."""

    #: Texts that stand in the JSON of every match, unless it writes them with escapes.
    texts: Sequence[bytes]
    matches: Callable[[Found], bool]
    #: Matches after which to stop.
    most: float
    #: Messages of each place to look through; None: all.
    within: int | None = WITHIN
    #: Lease keys under which to look first; empty: all.
    keys: Sequence[bytes] = ()
    on_progress: OnProgress = no_progress

    @classmethod
    def of_id(
        cls,
        message_id: str | int,
        most: float,
        within: int | None,
        on_progress: OnProgress | None = None,
    ) -> Target:
        """Search for messages with an id.

        Raises:
            ConfigurationError: no message can have this id, or ``within`` is out of range.
        """
        key = key_of_id(message_id)
        if key is None:
            raise ConfigurationError(f"{message_id!r} is not the id of a message")
        check_within(within)
        text = orjson.dumps(key)[1:-1]
        keys = [key.encode(), b"\0" + key.encode()]  # the latter names a message without an id

        def matches(found: Found) -> bool:
            return found.id == key

        return cls([text], matches, most, within, keys, on_progress or no_progress)

    @classmethod
    def of_fields(
        cls,
        where: Mapping[str, Any],
        most: int,
        within: int | None,
        on_progress: OnProgress | None = None,
    ) -> Target:
        """Search for messages with these fields.

        Raises:
            ConfigurationError: no or too many fields, or one that cannot be searched for.
        """
        fields = Fields.of(where, most)
        check_within(within)
        progress = on_progress or no_progress
        return cls(fields.texts, lambda found: fields.match(found.body), most, within, (), progress)

    def is_enough(self, seen: int) -> bool:
        """Return whether ``seen`` messages of a place are as many as were asked for."""
        return self.within is not None and seen >= self.within


@dataclass(frozen=True, slots=True)
class _Match:
    found: Found
    #: The lease key; empty if it has none.
    key: bytes = b""


def find(spec: QueueSpec, message_id: str | int, within: int | None) -> Operation[Found | None]:
    """Find one message; see `ackq.Queue.find`."""
    matches = yield from locate(spec, Target.of_id(message_id, 1, within))
    return matches[0] if matches else None


def nearest(matches: Sequence[Found | None]) -> Found | None:
    """Return the message that `Queue.find` would prefer, of those that the shards found."""
    states = get_args(Place)
    known = [match for match in matches if match is not None]
    return min(known, key=lambda match: states.index(match.state), default=None)


def find_all(
    spec: QueueSpec,
    message_id: str | int,
    within: int | None,
    on_progress: OnProgress | None = None,
) -> Operation[list[Found]]:
    """Find all messages with an id; see `ackq.Queue.find_all`."""
    return locate(spec, Target.of_id(message_id, float("inf"), within, on_progress))


def joined(matches: Sequence[list[Found]]) -> list[Found]:
    """Return the messages that all shards found, shard by shard."""
    return [match for part in matches for match in part]


def search(
    spec: QueueSpec,
    where: Mapping[str, Any],
    limit: int,
    within: int | None,
    on_progress: OnProgress | None = None,
) -> Operation[list[Found]]:
    """Search for messages by their fields; see `ackq.Queue.search`."""
    return locate(spec, Target.of_fields(where, limit, within, on_progress))


def locate(spec: QueueSpec, target: Target) -> Operation[list[Found]]:
    """Look through every place until there are enough matches, the quickest places first."""
    yield from inspection.compare_end(spec)
    matches: list[_Match] = yield from _look_up(spec, target, target.keys, ())
    for look in (_in_lists, _moved_aside, _in_sets, _in_dead_letters):
        if len(matches) < target.most:
            matches += yield from look(spec, target)
    # A consumer may have taken it from the list before the list was searched.
    matches = matches or (yield from _look_up(spec, target, target.keys, ()))
    return (yield from _completed(spec, matches[: int(min(target.most, len(matches)))]))


def _look_up(
    spec: QueueSpec, target: Target, keys: Sequence[bytes], texts: Sequence[bytes]
) -> Operation[list[_Match]]:
    """Return the matches among leased and delayed messages with these lease keys.

    A body that surely lacks one of the texts is not sent here.
    """
    matches = []
    at = 0
    while at < len(keys):
        chunk = keys[at : at + CHUNK]
        reply = yield from _call(spec, "find", len(texts), *texts, *chunk)
        now, expired, looked, *values = reply
        at += looked  # one call stops at 1 MiB of bodies
        for first in range(0, len(values), 6):
            match = _match_of(float(now), expired, *values[first : first + 6])
            if target.matches(match.found):
                matches.append(match)
    return matches


def _match_of(
    now: float,
    expired: int,
    key: bytes,
    place: bytes,
    score: bytes,
    rank: int,
    count: int,
    body: bytes,
) -> _Match:
    left = (float(score) - now) / 1_000_000
    ready = Found(text_of_key(key, body), "ready", body, count)
    if place == b"delayed":
        ready = replace(ready, entry=entry_of(score, key))
        if left > 0:
            return _Match(replace(ready, state="delayed", due_in=left), key)
        return _Match(replace(ready, position=expired + rank), key)
    if left > 0:
        return _Match(replace(ready, state="in_flight", lease_ends_in=left), key)
    return _Match(replace(ready, position=rank), key)


def _in_lists(spec: QueueSpec, target: Target) -> Operation[list[_Match]]:
    """Search the ready list, the hand-off list, and the lists that belong to the queue."""
    counted = yield from inspection.stats(spec)
    now, held = yield from held_lists.lists(spec)
    lists = _Lists(spec, target, now, counted.expired + counted.due)
    ended = [entry for entry in held if entry.score <= now]
    modes = {entry.name: held_lists.mode_of(spec, entry.name) for entry in ended}
    end = spec.keys.pop_from
    # Each list goes in front of those returned before it.
    for entry in reversed(ended):
        if modes[entry.name] == "front":
            yield from lists.search_ready("held", end, entry.name)
    yield from lists.search_ready("handoff", "right")
    yield from lists.search_ready("ready", end)
    for entry in ended:
        if modes[entry.name] == "back":
            yield from lists.search_ready("held", "right", entry.name)
        elif modes[entry.name] == "delayed":
            yield from lists.search("held", "right", entry.name, lists.delayed)
    for entry in held:
        if entry.score > now:
            left = (entry.score - now) / 1_000_000
            yield from lists.search("held", end, entry.name, _claimed(left))
    return (yield from _with_notes(spec, lists.matches, now))


def _with_notes(spec: QueueSpec, matches: Sequence[_Match], now: int) -> Operation[list[_Match]]:
    """Return the matches on lists, those marked that were canceled."""
    ready = [match.found for match in matches if match.found.state == "ready"]
    if not ready:
        return [*matches]
    noted = iter((yield from cancel_notes.with_notes(spec, ready, now)))
    return [_Match(next(noted)) if match.found.state == "ready" else match for match in matches]


def is_listed(
    spec: QueueSpec, message_id: str, marks: Collection[bytes] = ()
) -> Operation[bool | None]:
    """Return whether a message with this id is on a list of the queue, moved aside, or in a claim.

    One that is there during the whole search is found: lists are searched in the direction in which
    messages move. None if that is unknown, because claims were made or returned meanwhile.

    Args:
        spec: of the queue.
        message_id: of the message.
        marks: of bodies that it may have: one that was moved aside may be moved back to the list.
    """
    target = Target.of_id(message_id, 1, None)
    now, before = yield from held_lists.lists(spec)
    lists = _Lists(spec, target, now, 0)
    yield from lists.search_ready("ready", spec.keys.pop_from)
    yield from lists.search_ready("handoff", "right")
    for entry in before:
        mode = held_lists.mode_of(spec, entry.name)
        end = spec.keys.pop_from if mode == "front" else "right"
        yield from lists.search_ready("held", end, entry.name)
    if lists.matches or (yield from _is_moved_aside(spec, target, marks)):
        return True
    _, after = yield from held_lists.lists(spec)
    sizes = [[(entry.name, entry.rows) for entry in held] for held in (before, after)]
    return False if sizes[0] == sizes[1] else None


def _is_moved_aside(spec: QueueSpec, target: Target, marks: Collection[bytes]) -> Operation[bool]:
    """Return whether a matching message is among those that were moved aside, or may have been."""
    after, more = b"", spec.keys.grouped
    while more:
        after, woken, bodies = yield from moved_aside.page(spec, after, moved_aside.CHUNK)
        more = after != b""
        found = (Found(text_of_key(b"", body), "ready", body, 0) for body in bodies)
        if woken in marks or any(map(target.matches, found)):
            return True
    return False


def _claimed(left: float) -> Callable[[int, bytes], Found]:
    """Return what makes messages of a claim that ends in ``left`` seconds."""
    return lambda _, body: Found(text_of_key(b"", body), "in_flight", body, 1, lease_ends_in=left)


@dataclass(slots=True)
class _Lists:
    """What was found in the lists of a queue so far."""

    spec: QueueSpec
    target: Target
    #: The server's time in µs.
    now: int
    #: Ready messages that are delivered before those of the next list.
    before: int
    matches: list[_Match] = field(default_factory=list)

    def search_ready(self, place: str, taken: str, name: bytes | None = None) -> Operation[None]:
        """Search a list of ready messages, which are delivered after those searched before."""
        before = self.before

        def ready(offset: int, body: bytes) -> Found:
            return Found(text_of_key(b"", body), "ready", body, 0, position=before + offset)

        self.before += yield from self.search(place, taken, name, ready)

    def delayed(self, offset: int, text: bytes) -> Found:
        """Return a row that was committed with a delay: its due time in µs precedes the body."""
        due, colon, body = text.partition(b":")
        if not (colon and due.isdigit()):  # give_back takes it for a message that is due
            due, body = b"0", text
        left = max(0.0, (int(due) - self.now) / 1_000_000)
        return Found(text_of_key(b"", body), "delayed", body, 0, due_in=left)

    def search(
        self, place: str, taken: str, name: bytes | None, made: Callable[[int, bytes], Found]
    ) -> Operation[int]:
        """Search a list, and return its size.

        Args:
            place: as in search.lua.
            taken: the end from which it is taken.
            name: of a held list.
            made: returns what an offset and a text of the list stand for.
        """
        target = self.target
        own = () if name is None else (name,)
        # Windows go towards the end that is taken, so a search that goes far finds what is
        # delivered next last. Most messages that people look for are near that end.
        reported = 0
        for reach in (WITHIN, 2**53 - 1) if target.within is None else (target.within,):
            left, size, looked = reach, 0, 0
            matches: list[tuple[int, Found]] = []
            while left:
                reply = yield from _call(
                    self.spec, "search", place, left, taken, *target.texts, own=own
                )
                below, size = int(reply[0]), reply[1]
                looked += min(left, size) - below
                if looked > reported:
                    target.on_progress(looked - reported)
                    reported = looked
                for offset, text in zip(map(int, reply[2::2]), reply[3::2], strict=True):
                    match = made(offset, text)
                    if target.matches(match):
                        matches.append((offset, match))
                left = below
                matches.sort(key=lambda pair: pair[0])
                if len(matches) > target.most:
                    del matches[int(target.most) :]
            if len(matches) >= target.most or size <= reach:
                break
        self.matches += [_Match(match) for _, match in matches]
        return size


def _moved_aside(spec: QueueSpec, target: Target) -> Operation[list[_Match]]:
    """Search ready messages that were moved aside because their groups were busy."""
    matches: list[_Match] = []
    seen, after, more = 0, b"", spec.keys.grouped
    while more and not target.is_enough(seen) and len(matches) < target.most:
        after, _, bodies = yield from moved_aside.page(spec, after, moved_aside.CHUNK)
        more = after != b""
        seen += len(bodies)
        target.on_progress(len(bodies))
        found = [Found(text_of_key(b"", body), "ready", body, 0) for body in bodies]
        matches += [_Match(each) for each in found if target.matches(each)]
    return matches


def _may_have(key: bytes, ids: Collection[bytes]) -> bool:
    """Return whether a derived lease key may be of a message that has one of these ids."""
    known, has_id, _ = key[1:].rpartition(b"\0")
    return key[:1] == b"\0" and (known in ids or not has_id) and key not in ids


def recorded(spec: QueueSpec, ids: Collection[str]) -> Operation[dict[str, list[bytes]]]:
    """Return the lease keys under which leased and delayed messages have these ids, the id first.

    Several may have the same id, all but one of them under derived keys.
    """
    keys = {key: [key.encode()] for key in ids}
    names = [name for each in keys.values() for name in each]
    target = Target([], lambda found: found.id in keys, float("inf"), None, names)
    for match in sorted((yield from _in_sets(spec, target)), key=lambda match: match.key):
        keys[match.found.id].append(match.key)
    return keys


def _in_sets(spec: QueueSpec, target: Target) -> Operation[list[_Match]]:
    """Search leased and delayed messages; of ids, those recorded under other keys than these."""
    matches: dict[bytes, _Match] = {}
    ids = frozenset(target.keys)
    for place in ("backup", "delayed"):
        cursor: Arg = b"0"
        seen = 0
        while not target.is_enough(seen) and len(matches) < target.most:
            cursor, _, *keys = yield from _call(spec, "search", place, cursor, "right")
            seen += len(keys)
            target.on_progress(len(keys))
            if ids:
                keys = [key for key in keys if _may_have(key, ids)]
            # A scan may return a key twice.
            for match in (yield from _look_up(spec, target, keys, target.texts)):
                matches[match.key] = match
            if cursor == b"0":
                break
    return list(matches.values())


def _in_dead_letters(spec: QueueSpec, target: Target) -> Operation[list[_Match]]:
    """Search the dead letters, the newest first."""
    matches: list[_Match] = []
    entry: Arg = b"+"
    seen = 0
    while entry and not target.is_enough(seen) and len(matches) < target.most:
        entry, looked, *letters = yield from _call(
            spec, "search", "dead", entry, "right", *target.texts
        )
        seen += looked
        target.on_progress(looked)
        for letter in map(inspection.dead_letter_of, letters):
            dead = as_found(letter)
            if target.matches(dead):
                matches.append(_Match(dead))
    return matches


def _completed(spec: QueueSpec, matches: Sequence[_Match]) -> Operation[list[Found]]:
    """Return the matches with their errors, and with the workers that handle them."""
    completed = yield from with_errors(
        spec, spec.keys.errors, [match.found for match in matches], [match.key for match in matches]
    )
    holders: dict[str, str] = {}
    if any(match.state == "in_flight" for match in completed):
        with suppress(NoPermissionError):
            holders = yield from registry.holders(spec)
    return [
        replace(
            match,
            queue=spec.name,
            worker=holders.get(registry.cropped(match.id)) if match.state == "in_flight" else None,
        )
        for match in completed
    ]


def _call(spec: QueueSpec, script: str, *args: Arg, own: Sequence[bytes] = ()) -> Operation[Any]:
    request = Request(
        (*spec.keys.passed(script, *own), *args), script=scripts.load(script), resend=True
    )
    return (yield from call(spec, request))
