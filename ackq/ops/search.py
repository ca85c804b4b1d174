"""Find the queues of all kinds on a server, by the names of their keys, in bounded steps."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from redis.exceptions import ResponseError

from ackq.core.effects import Operation, Request
from ackq.core.names import HISTORY, SCHEDULES, SUFFIXES, WORKERS_SEEN
from ackq.ops.asking import queue_name
from ackq.ops.kinds.delays import partitions_of
from ackq.ops.kinds.kind import has_type
from ackq.ops.readings import Found, KindName
from ackq.ops.sharded import shard_names_of

#: Keys that one SCAN examines.
SCANNED = 1000
#: Most consumers of one topic that are remembered.
MAX_CONSUMERS = 1000
#: A pattern for the ends of the keys in `_ENDS`, so that the server can filter keys.
_PATTERN = b"*[A-Z:adesu][DFNPSTdpstxz]"
_CONSUMERS = b":consumers:"
#: A list queue's side keys. COUNTERS is none of them: reading the counters of a queue makes it.
_SIDE = tuple(
    ending.encode() for ending in (*SUFFIXES, WORKERS_SEEN, SCHEDULES) if ending != "COUNTERS"
)
#: The key with the past of a list queue, which is there for a day. All others may be gone.
_PAST = f"{HISTORY}list".encode()
#: What comes before the name of the record of a sharded queue's shards.
_SHARDED = re.compile(r"\{(?P<name>[^{}]+)\}")
#: The name of the consumer group of a sharded queue.
_NUMBERED = re.compile(r"^(\{[^{}]+\}):\d+$")


@dataclass(slots=True)
class Search:
    """What a search has found on one server so far, and where it goes on."""

    #: Queues, shards and partitions, as their keys suggest. Reading them shows what they are.
    queues: set[Found] = field(default_factory=set)
    #: The consumers of each topic.
    consumers: dict[str, set[str]] = field(default_factory=dict)
    #: The names of consumer groups, of sharded queues and of partitioned delay queues.
    groups: set[str] = field(default_factory=set)
    #: Whether all keys were examined once.
    complete: bool = False
    #: The shards and partitions of the queues whose records were seen, wherever they are. A part
    #: that is empty has no keys, but its counters are those of the queue.
    shards: set[Found] = field(default_factory=set)
    _namespaces: set[str] = field(default_factory=set)
    _sharded: set[str] = field(default_factory=set)
    _delays: set[str] = field(default_factory=set)
    _past: set[str] = field(default_factory=set)
    _cursor: bytes = b"0"
    _consumers_cursor: bytes = b"0"

    def proceed(self, steps: int) -> Operation[None]:
        """Examine ``steps`` times `SCANNED` keys, twice if the server has topics."""
        for _ in range(steps):
            self._cursor, keys = yield _scan(self._cursor, _PATTERN)
            for key in keys:
                self._note(key)
            if self._cursor == b"0":
                self.complete = True
                break
        while self._sharded:
            # They may have messages and no keys beside them, if no consumer has come yet.
            name = self._sharded.pop()
            self.shards |= {Found("list", shard) for shard in (yield from shard_names_of(name))}
        while self._delays:
            name = self._delays.pop()
            number = yield from partitions_of(name)
            self.shards |= {Found("delay", f"{name}:{each}") for each in range(number)}
        while self._past:
            # A list that was left behind when its last consumer ended.
            name = self._past.pop()
            if Found("list", name) not in self.queues and (yield from has_type(name, b"list")):
                self.queues.add(Found("list", name))
        if any(queue.kind == "topic" for queue in self.queues):
            yield from self.find_consumers(steps)
        for namespace in sorted(self._namespaces):
            yield from self._list_rsmq(namespace, steps)

    def find_consumers(self, steps: int) -> Operation[None]:
        """Examine ``steps`` times `SCANNED` keys for the consumers of topics."""
        for _ in range(steps):
            self._consumers_cursor, keys = yield _scan(
                self._consumers_cursor, b"*" + _CONSUMERS + b"*"
            )
            for key in keys:
                self._note_consumer(key)
            if self._consumers_cursor == b"0":
                return

    def _note(self, key: bytes) -> None:
        for suffix in _SIDE:
            if key.endswith(suffix):
                self._add("list", key.removesuffix(suffix))
        if key.endswith(_PAST) and (text := queue_name(key.removesuffix(_PAST))):
            self._past.add(text)
        name, _, part = key.rpartition(b":")
        if part in (b"z", b"dead"):
            self._add("delay", name)
        elif part == b"nextIndex":
            self._add("topic", name)
        elif part == b"group" and (text := queue_name(name)):
            # A sharded queue has a group for each number of shards that it has had.
            self.groups.add(_NUMBERED.sub(r"\1", text))
            if not _NUMBERED.match(text):
                self._delays.add(text)
        elif part == b"shards" and (match := _SHARDED.fullmatch(queue_name(name) or "")):
            self.groups.add(match[0])
            self._sharded.add(match["name"])
        elif part == b"QUEUES" and (text := queue_name(name)):
            self._namespaces.add(text)

    def _add(self, kind: KindName, name: bytes) -> None:
        if text := queue_name(name):
            self.queues.add(Found(kind, text))

    def _note_consumer(self, key: bytes) -> None:
        topic, _, consumer = key.partition(_CONSUMERS)
        try:
            name, id = topic.decode(), consumer.decode()
        except UnicodeDecodeError:
            return
        known = self.consumers.setdefault(name, set())
        if id and id.isprintable() and len(known) < MAX_CONSUMERS:
            known.add(id)

    def _list_rsmq(self, namespace: str, steps: int) -> Operation[None]:
        cursor = b"0"
        for _ in range(steps):
            request = (b"SSCAN", f"{namespace}:QUEUES", cursor, b"COUNT", SCANNED)
            try:
                cursor, names = yield Request(request, resend=True)
            except ResponseError:  # a key of another program
                self._namespaces.discard(namespace)
                return
            for name in names:
                self._add("rsmq", f"{namespace}:".encode() + name)
            if cursor == b"0":
                return


def _scan(cursor: bytes, pattern: bytes) -> Request:
    return Request((b"SCAN", cursor, b"MATCH", pattern, b"COUNT", SCANNED), resend=True)
