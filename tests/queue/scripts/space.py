"""The key space of one queue: set by hand, changed by raw script calls, compared as values."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from redis.exceptions import NoScriptError

from ackq.queue import take
from tests.queue.scripts import meter
from tests.queue.scripts.headers import parse, passed, read
from tests.queue.scripts.meter import Metered

#: Two instants that no clock will reach while the suite runs, in µs since the epoch.
PAST = 1_000_000
FUTURE = 4_000_000_000_000_000
#: What a frozen script takes for the present.
NOW = 1_700_000_000_123_456
SECOND = 1_000_000
#: What follows the queue's name in the keys that stand for any group and any batch.
GROUP, CLAIM = "CLAIMS:<group>", "CLAIM:<group>:<batch>"
MIB = 1024 * 1024

#: The command that reads a whole key of each type.
READS: dict[bytes, Callable[[bytes], tuple[Any, ...]]] = {
    b"list": lambda key: ("LRANGE", key, 0, -1),
    b"zset": lambda key: ("ZRANGE", key, 0, -1, "WITHSCORES"),
    b"hash": lambda key: ("HGETALL", key),
    b"stream": lambda key: ("XRANGE", key, "-", "+"),
    b"set": lambda key: ("SMEMBERS", key),
    b"string": lambda key: ("GET", key),
}

COUNTS = ("acked", "returned", "nacked", "released", "dead", "redriven", "dropped", "dead_dropped")

Value = bytes | str | int | float
Group = Sequence[Value]


def body(id: str, padding: int = 0) -> bytes:
    """Return a message as ackq's own producers write it, longer by ``padding`` bytes."""
    rest = b',"x":"%s"' % (b"x" * (padding - 7)) if padding else b""
    return b'{"id":"%s"%s}' % (id.encode(), rest)


def listed_field(id: str | bytes, body: bytes) -> bytes:
    """Return the field of NOTES for a message on a list."""
    return mark(body) + b":" + (id.encode() if isinstance(id, str) else id)


def mark(body: bytes) -> bytes:
    """Return what ties a count or a note of failures to a body."""
    digest = hashlib.sha1(body[:512] + body[-512:]).hexdigest()
    return b"%d:%s" % (len(body), digest.encode())


@dataclass(frozen=True)
class Popped:
    """The reply of pop by the names in its header."""

    status: str
    refused: list[int]
    deadline: int = 0
    counts: list[int] = field(default_factory=list)
    messages: list[tuple[bytes, bytes]] = field(default_factory=list)
    wait: int | None = None
    held: bytes = b""
    waiters: int | None = None

    @classmethod
    def of(cls, reply: list[Any]) -> Popped:
        status, refused = reply[take.STATUS].decode(), reply[take.REFUSED]
        if reply[take.STATUS] not in take.TAKEN:
            held = reply[take.HELD] if status == "held" else b""
            wait = reply[take.WAIT] if reply[take.STATUS] in take.NOTHING else None
            waiters = reply[take.WAITERS] if len(reply) > take.WAITERS else None
            return cls(status, refused, wait=wait, held=held, waiters=waiters)
        pairs, counts = list(take.messages_in(reply)), reply[take.COUNTS]
        counts += [1] * (len(pairs) - len(counts))
        return cls(status, refused, reply[take.RECEIPT], counts, pairs)

    @property
    def keys(self) -> list[bytes]:
        return [key for key, _ in self.messages]

    @property
    def bodies(self) -> list[bytes]:
        return [body for _, body in self.messages]


def evalsha(client: Any, text: str, keys: Sequence[Any], *args: Value) -> Any:
    """Call a script by EVALSHA, and load it first if the server does not know it."""
    call = ("EVALSHA", hashlib.sha1(text.encode()).hexdigest(), len(keys), *keys, *args)
    try:
        return client.execute_command(*call)
    except NoScriptError:
        client.script_load(text)
        return client.execute_command(*call)


def counted(counters: Any) -> dict[str, int]:
    """Return the counts that are not 0, but the number of pushes and takes always."""
    found = {name: getattr(counters, name) for name in COUNTS if getattr(counters, name)}
    return {"pushed": counters.pushed, "taken": counters.taken, **found}


class Space:
    """The keys of queue ``name``, and the scripts of ``directory`` called on them."""

    def __init__(
        self,
        client: Any,
        name: str,
        directory: Path,
        now: int | None = None,
        end: str = "right",
        near: int | None = None,
        grouped: bool = False,
    ) -> None:
        self.client = client
        self.name = name
        self.directory = directory
        self._now = now
        self.end = end
        self._near = near
        #: Whether scripts get the keys of groups; see `tests.queue.scripts.grouped.record`.
        self.grouped = grouped

    def frozen(self, now: int = NOW) -> Space:
        """Return the same keys, with scripts for which it is always ``now``.

        Only so can a test stand on the very microsecond at which a lease ends.
        """
        return Space(
            self.client, self.name, self.directory, now, self.end, self._near, self.grouped
        )

    def popped_from_the_left(self) -> Space:
        """Return the same keys as those of a queue that is popped from the left, and record it."""
        self.client.hset(self.key("RECORD"), mapping={"format": 2, "kind": "left"})
        return Space(self.client, self.name, self.directory, self._now, "left", self._near)

    def deep_after(self, near: int) -> Space:
        """Return the same keys, with a pick for which a list is deep after ``near`` messages."""
        return Space(self.client, self.name, self.directory, self._now, self.end, near)

    @contextlib.contextmanager
    def batched(self) -> Iterator[Space]:
        """Yield the same keys for many writes, all of which are sent when the block ends."""
        with self.client.pipeline(transaction=False) as pipeline:
            yield Space(pipeline, self.name, self.directory, self._now)
            pipeline.execute()

    def now(self) -> int:
        """Return the server's time in µs."""
        seconds, microseconds = self.client.time()
        return int(seconds) * SECOND + int(microseconds)

    def key(self, suffix: str) -> bytes:
        """Return the name of a key."""
        return (self.name + suffix).encode()

    # Calls.

    def call(self, script: str, *args: Value, lists: Sequence[str] = ()) -> Any:
        """Call a script by EVALSHA, with the keys that its header names, then ``lists``."""
        text, keys = self._text_and_keys(script, lists)
        return evalsha(self.client, text, keys, *args)

    def weigh(self, script: str, *args: Value, lists: Sequence[str] = ()) -> Metered:
        """Call a script, and weigh what it reads."""
        text, keys = self._text_and_keys(script, lists)
        return meter.call(self.client, text, keys, *args)

    def _text_and_keys(self, script: str, lists: Sequence[str]) -> tuple[str, list[bytes]]:
        text = read(self.directory, script)
        header = parse(text)
        suffixes = [slot.suffix for slot in passed(script, header, self.grouped)]
        keys = [self.key(suffix) for suffix in (*suffixes, *lists)]
        if self._near is not None and script == "pick":
            assert text.count("local NEAR = 50000 ") == 1
            text = text.replace("local NEAR = 50000 ", f"local NEAR = {self._near} ")
        if self._now is not None:
            assert text.count("redis.call('TIME')") == 1, "a script reads the clock once"
            clock = f"{{'{self._now // SECOND}', '{self._now % SECOND}'}}"
            text = text.replace("redis.call('TIME')", clock)
        return text, keys

    def pop(
        self,
        wanted: Value = 1,
        *,
        timeout: Value = 30 * SECOND,
        jitter: Value = 0,
        max_receives: Value = 0,
        max_body: Value = MIB,
        requeue: str = "front",
        waited: Value = -1,
        settled: Iterable[Group] = (),
    ) -> Popped:
        """Pop; ``settled`` are groups of a receipt and its lease keys."""
        reply = self.call(
            *("pop", wanted, timeout, jitter, max_receives, max_body, requeue, self.end, waited),
            *flat(settled),
        )
        return Popped.of(reply)

    def ack(self, *groups: Group) -> list[int]:
        """Ack groups of a receipt and its lease keys."""
        reply: list[int] = self.call("ack", *flat(groups))
        return reply

    def nack(
        self,
        *groups: Group,
        way: str = "nack",
        max_receives: Value = 0,
        reason: str = "",
        errors: Sequence[Value] = (),
    ) -> list[Any]:
        """Nack groups of a receipt, a delay and the lease keys; ``errors`` are pairs."""
        tail = ("errors", *errors) if errors else ()
        reply: list[Any] = self.call(
            *("nack", way, max_receives, reason), *flat(groups, heads=2), *tail
        )
        return reply

    def reject(
        self, *groups: Group, reason: str = "bad", errors: Sequence[Value] = ()
    ) -> list[int]:
        """Reject groups of a receipt and its lease keys; ``errors`` are pairs."""
        named = [(receipt, 0, *keys) for receipt, *keys in groups]
        return self.nack(*named, way="reject", reason=reason, errors=errors)

    def extend(self, *groups: Group, timeout: Value = 30 * SECOND, jitter: Value = 0) -> list[int]:
        """Extend groups of a receipt and its lease keys."""
        reply: list[int] = self.call("extend", timeout, jitter, *flat(groups))
        return reply

    # What a test begins with.

    def push(self, *bodies: bytes) -> None:
        """Push as any producer does; the first is taken first."""
        self._append(self.name.encode(), bodies)

    def hand_over(self, *bodies: bytes) -> None:
        """Put on the hand-off list what BLMOVE puts there; the first is taken first."""
        self.client.lpush(self.key("HANDOFF"), *bodies)

    def lease(
        self,
        key: str | bytes,
        body_: bytes | None = None,
        deadline: float = FUTURE,
        count: int | None = None,
        extended: str | None = None,
    ) -> None:
        """Put a message in flight; a body that is not given is made from the key."""
        self._record("BACKUP", key, body_, deadline, count)
        if extended is not None:
            self.client.hset(self.key("EXTENDED"), key, extended)

    def delay(
        self,
        key: str | bytes,
        body_: bytes | None = None,
        due: float = FUTURE,
        count: int | None = None,
    ) -> None:
        """Put a message among the delayed."""
        self._record("DELAYED", key, body_, due, count)

    def _record(
        self,
        zset: str,
        key: str | bytes,
        body_: bytes | None,
        score: float,
        count: int | None,
    ) -> None:
        raw = key.encode() if isinstance(key, str) else key
        self.client.zadd(self.key(zset), {raw: score})
        self.client.hset(self.key("CONTEXT"), raw, b'{"id":"%s"}' % raw if body_ is None else body_)
        if count is not None:
            self.client.hset(self.key("RECEIVES"), raw, count)

    def die(self, key: str | bytes, body_: bytes, reason: str = "max receives") -> str:
        """Add a dead letter and return its stream id."""
        fields = {"key": key, "body": body_, "reason": reason, "count": 3, "time": PAST}
        entry: bytes = self.client.xadd(self.key("DEAD"), fields)
        return entry.decode()

    def hold(self, *bodies: bytes, until: float = FUTURE, suffix: str = CLAIM) -> None:
        """Put messages into a held list; the first is taken first."""
        self._append(self.key(suffix), bodies)
        self.client.zadd(self.key("HELD"), {self.key(suffix): until})
        self.client.hset(self.key("HELDROWS"), self.key(suffix), len(bodies))

    def note(self, key: str | bytes, body_: bytes, *lines: bytes) -> None:
        """Note failures of a message: lines of a receive count, a time and an error."""
        self.client.hset(self.key("ERRORS"), key, b"\n".join((mark(body_), *lines)))

    def know(self, **facts: Value) -> None:
        """Set what is known of the group of claims."""
        self.client.hset(self.key(GROUP), mapping=facts)

    def clear(self) -> None:
        """Delete every key that begins with the queue's name."""
        if keys := [*self.client.scan_iter(f"{self.name}*", 1000)]:
            self.client.unlink(*keys)

    # What it compares.

    def dump(self) -> dict[str, Any]:
        """Return every key that begins with the queue's name, by suffix, as a Python value.

        "EXPIRES" lists the suffixes of keys that have a time to live.
        """
        keys = sorted(self.client.scan_iter(f"{self.name}*", 1000))
        suffixes = [key.decode().removeprefix(self.name) for key in keys]
        # Two round trips for all keys: a test may compare hundreds of dumps.
        with self.client.pipeline(transaction=False) as pipeline:
            for key in keys:
                pipeline.type(key).pttl(key)
            facts = pipeline.execute()
            kinds, lives = facts[::2], facts[1::2]
            for key, kind in zip(keys, kinds, strict=True):
                pipeline.execute_command(*READS[kind](key))
            values = map(_value, kinds, pipeline.execute())
            found = dict(zip(suffixes, values, strict=True))
        expiring = [suffix for suffix, life in zip(suffixes, lives, strict=True) if life >= 0]
        return {**found, "EXPIRES": expiring} if expiring else found

    @property
    def ready(self) -> list[bytes]:
        """The ready list, what is taken first at the front."""
        return self.in_order("")

    def in_order(self, suffix: str) -> list[bytes]:
        """Return a list, the message that is taken first at the front."""
        found: list[bytes] = self.client.lrange(self.key(suffix), 0, -1)
        return found if self.end == "left" else found[::-1]

    def _append(self, key: bytes, bodies: Sequence[bytes]) -> None:
        (self.client.rpush if self.end == "left" else self.client.lpush)(key, *bodies)

    @property
    def front(self) -> list[bytes]:
        """The hand-off list and the ready list, what is taken first at the front."""
        return [*reversed(self.client.lrange(self.key("HANDOFF"), 0, -1)), *self.ready]

    @property
    def leases(self) -> dict[bytes, int]:
        return self._scores("BACKUP")

    @property
    def delayed(self) -> dict[bytes, int]:
        return self._scores("DELAYED")

    def _scores(self, suffix: str) -> dict[bytes, int]:
        pairs = self.client.zrange(self.key(suffix), 0, -1, withscores=True)
        return {key: int(score) for key, score in pairs}

    @property
    def bodies(self) -> dict[bytes, bytes]:
        found: dict[bytes, bytes] = self.client.hgetall(self.key("CONTEXT"))
        return found

    @property
    def receives(self) -> dict[bytes, int]:
        found = self.client.hgetall(self.key("RECEIVES"))
        return {key: int(count) for key, count in found.items()}

    @property
    def listed(self) -> dict[bytes, tuple[int, int]]:
        """The count of messages on lists, and how many are canceled, by their fields of NOTES."""
        found = self.client.hgetall(self.key("NOTES")).items()
        numbers = {field: note.split() for field, note in found if field[:1] not in (b"", b":")}
        return {field: (int(count), int(some)) for field, (_, count, some) in numbers.items()}

    @property
    def named(self) -> dict[bytes, bytes]:
        """The names of messages of unique pushes, by their ids."""
        found = self.client.hgetall(self.key("NOTES"))
        return {field[1:]: note for field, note in found.items() if field[:1] == b":"}

    def list_note(
        self, id: str, body_: bytes, count: int = 0, canceled: int = 0, since: int = PAST
    ) -> None:
        """Note the count of a message on a list, or that it is canceled."""
        note = f"{since} {count} {canceled}"
        self.client.hset(self.key("NOTES"), listed_field(id, body_), note)

    @property
    def extended(self) -> dict[bytes, bytes]:
        found: dict[bytes, bytes] = self.client.hgetall(self.key("EXTENDED"))
        return found

    def noted(self, key: str | bytes) -> list[bytes]:
        """Return the noted failures of a message; empty if there is no note."""
        note: bytes | None = self.client.hget(self.key("ERRORS"), key)
        return note.split(b"\n")[1:] if note else []

    @property
    def dead_lettered(self) -> list[list[bytes]]:
        """The failures of the dead letters, oldest letter first."""
        found = self.client.xrange(self.key("DEAD"))
        return [
            fields[b"errors"].split(b"\n") if b"errors" in fields else [] for _, fields in found
        ]

    @property
    def dead(self) -> list[tuple[bytes, bytes, str, int]]:
        """Key, body, reason and count of the dead letters, oldest first."""
        return [
            (letter[b"key"], letter[b"body"], letter[b"reason"].decode(), int(letter[b"count"]))
            for _, letter in self.client.xrange(self.key("DEAD"))
        ]


def _value(kind: bytes, reply: Any) -> Any:
    if kind != b"zset":
        return reply
    # Pairs of numbers by the newer protocol, flat text by the older.
    nested = reply and isinstance(reply[0], list | tuple)
    return {key: float(score) for key, score in (reply if nested else chunked(reply))}


def chunked(values: Sequence[Any]) -> list[tuple[Any, Any]]:
    """Return the values in pairs."""
    return list(zip(values[::2], values[1::2], strict=True))


def flat(groups: Iterable[Group], heads: int = 1) -> list[Value]:
    """Return groups as scripts take them: the heads, the number of keys, the keys."""
    args: list[Value] = []
    for group in groups:
        args += [*group[:heads], len(group) - heads, *group[heads:]]
    return args
