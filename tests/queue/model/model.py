"""What a queue should do, in plain Python: no Redis, no clock, no retries.

A message is in exactly one place: `ready`, `handoff`, `leased`, `delayed` or `dead`; or it is
gone, counted in `acked` or `deleted`. Each lease has a generation, a number that no other lease
has: whoever holds the newest one of a key is the rightful holder, whatever the receipts say.

Times are the server's, in µs. The model cannot know the instant at which the server read its
clock, so a new time is a `Window`, and becomes a number when the server's is seen to lie in it.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, cast


class Window(NamedTuple):
    """Bounds, both included, of a time that the server chose."""

    low: int
    high: int


_LEADING = re.compile(rb'\{"id":\s?(?:"([^"\\\x00-\x1f\x7f]+)"|([1-9]\d{0,14})[,}])')
#: A derived key of a message that has an id.
_DERIVED = re.compile(rb"\0(.+)\0[\d:]+", re.DOTALL)


@dataclass
class Kept:
    """A message in flight or delayed."""

    body: bytes
    receives: int  #: true count of deliveries; an equal id or a requeue to the back loses it
    at: int | Window
    generation: int = 0  #: 0 while it is delayed


class Handle(NamedTuple):
    """What a consumer holds: the key, and the lease that it was given."""

    key: bytes
    generation: int


@dataclass(frozen=True)
class Taken:
    """A delivery that the model expects. ``key`` is None where a key has to be derived."""

    key: bytes | None
    body: bytes
    count: int
    receives: int


@dataclass(frozen=True)
class Dead:
    """A dead letter."""

    key: bytes
    body: bytes
    reason: str
    count: int


@dataclass(frozen=True)
class Settled:
    """The result of a settle: how many counted, and the positions of the refused ones.

    Refused is whatever its holder does not hold: a holder does not ask again for what it settled.
    """

    count: int
    refused: list[int]


@dataclass
class Model:
    """The queue. Index 0 of a list is its left end; -1 is the right end, where a pop takes."""

    max_receives: int
    requeue: Literal["front", "back"]
    max_body: int
    #: The key that each body asks for, None where it has no usable id.
    natural: dict[bytes, bytes | None] = field(default_factory=dict)
    ready: list[bytes] = field(default_factory=list)
    handoff: list[bytes] = field(default_factory=list)
    leased: dict[bytes, Kept] = field(default_factory=dict)
    delayed: dict[bytes, Kept] = field(default_factory=dict)
    #: Delayed messages whose derived key is not known yet.
    nameless: list[Kept] = field(default_factory=list)
    dead: list[Dead] = field(default_factory=list)
    #: Receive counts by key, of messages that came back.
    counts: dict[bytes, int] = field(default_factory=dict)
    #: Likewise of messages on lists, with ``requeue="back"``: by their ids and bodies.
    listed: dict[tuple[bytes, bytes], int] = field(default_factory=dict)
    accepted: Counter[bytes] = field(default_factory=Counter)
    acked: Counter[bytes] = field(default_factory=Counter)
    deleted: Counter[bytes] = field(default_factory=Counter)
    markers: dict[str, str] = field(default_factory=dict)
    paused: bool = False
    _generations: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    # --- pushing ---------------------------------------------------------------------

    def push(self, body: bytes) -> None:
        self.accepted[body] += 1
        self.ready.insert(0, body)

    def schedule(self, key: bytes | None, body: bytes, due: Window) -> None:
        self.accepted[body] += 1
        self._delay(key, Kept(body, 0, due))

    def _delay(self, key: bytes | None, kept: Kept) -> bool:
        """Delay under ``key``; return False if it is taken, so that one has to be derived."""
        if key is None or key in self.leased or key in self.delayed:
            self.nameless.append(kept)
            return False
        self.delayed[key] = kept
        return True

    def has(self, key: bytes) -> bool:
        """Return whether a message of this id is ready, delayed or in flight."""
        listed = any(self.natural[body] == key for body in (*self.ready, *self.handoff))
        return listed or key in self.leased or key in self.delayed

    def replace(self, key: bytes, body: bytes, due: Window) -> None:
        """Delete the delayed message under ``key``, and delay another one under it."""
        self.deleted[self.delayed.pop(key).body] += 1
        self._uncount(key)
        self.schedule(key, body, due)

    # --- taking ----------------------------------------------------------------------

    def hand_over(self) -> None:
        """BLMOVE ready handoff RIGHT LEFT."""
        if self.ready:
            self.handoff.insert(0, self.ready.pop())

    def take(self, now: int, wanted: int) -> list[Taken]:
        """Remove and return what a pop at ``now`` must deliver, for `lease` to take in."""
        while not self.paused:
            dead_lettered = len(self.dead)
            taken = self._take_once(now, wanted)
            if not taken and len(self.dead) == dead_lettered:
                self.listed.clear()  # both lists are empty
            if taken or len(self.dead) == dead_lettered:
                return taken
        return []

    def _take_once(self, now: int, wanted: int) -> list[Taken]:
        taken: list[Taken] = []
        if not self._take_back(self.leased, 1, now, wanted, taken):
            return taken
        if not self._take_back(self.delayed, 0, now, wanted, taken):
            return taken
        for source in (self.handoff, self.ready):
            while source and len(taken) < wanted:
                body = source[-1]
                key, count = self.natural[body], 1 + self._listed_count(body)
                if len(body) > self.max_body:
                    self.dead.append(Dead(b"", source.pop(), "too large", 0))
                    self._unlist(body)
                    continue
                if key is None or key in self.leased or self._is_context(key, taken):
                    key = None
                if self._is_last(count) and taken:
                    return taken
                source.pop()
                self._unlist(body)
                if key is not None and count > 1:
                    self._count(key, count)
                taken.append(Taken(key, body, count, 1))
                if self._is_last(count):
                    return taken
        return taken

    def _is_context(self, key: bytes, taken: Iterable[Taken]) -> bool:
        return key in self.delayed or any(each.key == key for each in taken)

    def _is_last(self, count: int) -> bool:
        return 0 < self.max_receives <= count

    def _take_back(
        self, source: dict[bytes, Kept], absent: int, now: int, wanted: int, taken: list[Taken]
    ) -> bool:
        """Take what ended or is due; return whether the pop may go on to other places."""
        ended = [(kept.at, key) for key, kept in source.items() if _passed(kept.at, now)]
        goes_back = self.requeue == "back" and source is self.leased
        for _, key in sorted(ended)[: wanted - len(taken) if goes_back else None]:
            if len(taken) == wanted:
                return False
            kept = source[key]
            count = 1 + self.counts.get(key, absent)
            if 0 < self.max_receives < count:
                del source[key]
                self._uncount(key)
                self.dead.append(Dead(key, kept.body, "max receives", count - 1))
            elif self._is_last(count) and taken:
                return False
            elif goes_back:
                del source[key]
                self._uncount(key)
                self.ready.insert(0, kept.body)
                self._list(kept.body, count - 1)
            else:
                del source[key]
                if count > 1:
                    self._count(key, count)
                taken.append(Taken(key, kept.body, count, kept.receives + 1))
                if self._is_last(count):
                    return False
        return len(taken) < wanted

    def lease(self, key: bytes, expected: Taken, deadline: int) -> Handle:
        """Put what was taken under a lease."""
        generation = next(self._generations)
        self.leased[key] = Kept(expected.body, expected.receives, deadline, generation)
        if expected.key is None and expected.count > 1:
            self._count(key, expected.count)
        return Handle(key, generation)

    # --- settling --------------------------------------------------------------------

    def _sort(self, handles: Sequence[Handle]) -> tuple[list[bytes], Settled]:
        held: list[bytes] = []
        refused: list[int] = []
        for position, (key, generation) in enumerate(handles):
            if key in self.leased and self.leased[key].generation == generation:
                held.append(key)
            else:
                refused.append(position)
        unique = list(dict.fromkeys(held))
        return unique, Settled(len(unique), refused)

    def ack(self, handles: Sequence[Handle]) -> Settled:
        held, answer = self._sort(handles)
        for key in held:
            self.acked[self._settle(key).body] += 1
        return answer

    def ack_id(self, key: bytes) -> int:
        if key not in self.leased:
            return 0
        self.acked[self._settle(key).body] += 1
        return 1

    def _count(self, key: bytes, count: int) -> None:
        self._uncount(key)
        self.counts[key] = count

    def _uncount(self, key: bytes) -> None:
        self.counts.pop(key, None)

    def _list(self, body: bytes, count: int) -> None:
        key = self.natural[body]
        if count and key is not None:
            self.listed[key, body] = count

    def _unlist(self, body: bytes) -> None:
        self.listed.pop((self.natural[body] or b"", body), None)

    def _listed_count(self, body: bytes) -> int:
        return self.listed.get((self.natural[body] or b"", body), 0)

    def _settle(self, key: bytes) -> Kept:
        self._uncount(key)
        return self.leased.pop(key)

    def give_back(
        self, handles: Sequence[Handle], due: dict[bytes, Window | None], charge: bool
    ) -> Settled:
        """Nack, or release with ``charge`` False; ``due`` None pushes onto the list."""
        held, answer = self._sort(handles)
        for key in held:
            count = self.counts.get(key, 1)
            kept = self._settle(key)
            if charge and 0 < self.max_receives <= count:
                self.dead.append(Dead(key, kept.body, "max receives", count))
                continue
            count -= not charge
            at = due[key]
            if at is None:
                self.ready.insert(0, kept.body)
            else:
                self.delayed[key] = Kept(kept.body, kept.receives - (not charge), at)
            if at is None:
                self._list(kept.body, count)
            elif count:
                self._count(key, count)
        return answer

    def reject(self, handles: Sequence[Handle], reason: str) -> Settled:
        held, answer = self._sort(handles)
        for key in held:
            count = self.counts.get(key, 1)
            self.dead.append(Dead(key, self._settle(key).body, reason, count))
        return answer

    def extend(self, handles: Sequence[Handle], deadline: Window) -> Settled:
        held, answer = self._sort(handles)
        for key in held:
            self.leased[key].at = deadline
        return answer

    # --- looking after it ------------------------------------------------------------

    def redrive(
        self,
        positions: Iterable[int],
        due: Window,
        unique: bytes,
    ) -> int:
        """Redrive all but those with the id ``unique`` that is in the queue; return how many."""
        redriven = 0
        for letter in [self.dead[position] for position in positions]:
            if self.natural[letter.body] == unique and self.has(unique):
                continue
            redriven += 1
            key: bytes | None = letter.key
            if not key or key.startswith(b"\0"):
                derived = _DERIVED.fullmatch(letter.key)
                key = derived[1] if derived else _leading_id(letter.body)
            if self._delay(key, Kept(letter.body, 0, due)):
                assert key is not None
                self._uncount(key)
            self.dead.remove(letter)
        return redriven

    def drop(self, positions: Iterable[int]) -> None:
        for letter in [self.dead[position] for position in positions]:
            self.dead.remove(letter)
            self.deleted[letter.body] += 1

    def delayed_after(self, now: int) -> list[bytes]:
        """Return the keys of the messages that are not due yet, the soonest first."""
        later = [(cast(int, kept.at), key) for key, kept in self.delayed.items()]
        return [key for at, key in sorted(later) if at > now]

    def run_now(self, keys: Sequence[bytes], due: Window) -> None:
        for key in keys:
            self.delayed[key].at = due

    def cancel(self, keys: Sequence[bytes]) -> None:
        for key in keys:
            self._cancel(key, self.delayed, 0)

    def _cancel(self, key: bytes, place: dict[bytes, Kept], absent: int) -> None:
        count = self.counts.get(key, absent)
        self.dead.append(Dead(key, place.pop(key).body, "canceled", count))
        self._uncount(key)

    def cancel_ids(self, keys: Sequence[bytes], now: int, running: bool) -> int:
        """Cancel all messages of these ids, but those whose leases run only if ``running``."""
        before = len(self.dead)
        self._cancel_recorded(keys, now, running)
        for place in (self.ready, self.handoff):
            found = self._pick(place, keys)
            counts = [self._listed_count(body) for body in found]
            for body, count in zip(found, counts, strict=True):
                key = cast(bytes, self.natural[body])
                self.dead.append(Dead(key, body, "canceled", count))
                self._unlist(body)
        self._cancel_recorded(self._derived(keys), now, running)
        return len(self.dead) - before

    def _cancel_recorded(self, keys: Sequence[bytes], now: int, running: bool) -> None:
        for key in keys:
            if key in self.delayed:
                self._cancel(key, self.delayed, 0)
            elif key in self.leased and (running or _passed(self.leased[key].at, now)):
                self._cancel(key, self.leased, 1)

    def _derived(self, ids: Sequence[bytes]) -> list[bytes]:
        """Return the derived keys under which messages have these ids."""
        places = {**self.leased, **self.delayed}
        derived = sorted(key for key in places if key.startswith(b"\0"))
        return [key for id in ids for key in derived if self.natural[places[key].body] == id]

    def run_ids(self, keys: Sequence[bytes], now: int, due: Window) -> int:
        """Make all delayed and listed messages of these ids the next ones."""
        all_keys = [each for key in keys for each in (key, *self._derived([key]))]
        later = [key for key in all_keys if key in self.delayed]
        later = [key for key in later if not _passed(self.delayed[key].at, now)]
        self.run_now(later, due)
        moved = len(later)
        for place in (self.handoff, self.ready):
            found = self._pick(place, keys)
            self.handoff += found
            moved += len(found)
        return moved

    def _pick(self, place: list[bytes], keys: Sequence[bytes]) -> list[bytes]:
        """Take the messages of these ids out of a list, the newest first."""
        found = [body for body in place if self.natural[body] in keys]
        place[:] = [body for body in place if self.natural[body] not in keys]
        return found

    def drain(self) -> int:
        moved = len(self.handoff) + len(self.delayed) + len(self.leased)
        self.ready += self.handoff
        self.handoff.clear()
        for source in (self.delayed, self.leased):
            for _, key in sorted(((kept.at, key) for key, kept in source.items()), reverse=True):
                self.ready.append(source.pop(key).body)
                self._uncount(key)
        return moved

    def purge(self, dead: bool) -> int:
        kept = [each.body for each in (*self.leased.values(), *self.delayed.values())]
        bodies = [*self.ready, *self.handoff, *kept]
        if dead:
            bodies += [letter.body for letter in self.dead]
            self.dead.clear()
        for place in (
            self.ready,
            self.handoff,
            self.leased,
            self.delayed,
            self.counts,
            self.listed,
        ):
            place.clear()
        self.deleted.update(bodies)
        return len(bodies)

    def advance(self, shift: int) -> None:
        """Let ``shift`` µs pass: every time that lies ahead comes nearer."""
        for kept in (*self.leased.values(), *self.delayed.values()):
            assert isinstance(kept.at, int)
            kept.at -= shift

    # --- laws ------------------------------------------------------------------------

    def everywhere(self) -> Counter[bytes]:
        """Count the bodies that are somewhere."""
        kept = (*self.leased.values(), *self.delayed.values(), *self.nameless)
        return (
            Counter([*self.ready, *self.handoff])
            + Counter(each.body for each in kept)
            + Counter(each.body for each in self.dead)
            + self.acked
            + self.deleted
        )


def _leading_id(body: bytes) -> bytes | None:
    """Return the id with which a JSON object begins, as the scripts see it without decoding."""
    found = _LEADING.match(body)
    return (found[1] or found[2]) if found and len(found[1] or found[2]) <= 512 else None


def _passed(at: int | Window, now: int) -> bool:
    assert isinstance(at, int)
    return at <= now
