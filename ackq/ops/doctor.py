"""`Doctor`: examine a server before you trust it with messages; and convert queues of format 1."""

from __future__ import annotations

import re
import secrets
import time
from dataclasses import replace

import redis

from ackq import scripts
from ackq.config import PopFrom, QueueConfig
from ackq.core.client import Client
from ackq.core.effects import Operation, Request
from ackq.core.io.outside import SYSTEM
from ackq.errors import ConfigurationError
from ackq.membership.shards import GROUPED, shard_names
from ackq.ops.acl import SCRATCH
from ackq.ops.asking import read_clock
from ackq.ops.diagnosis import Diagnosis, judge
from ackq.ops.facts import Facts, read_facts
from ackq.ops.trials import try_out, untried
from ackq.queue.cancel_notes import LASTS
from ackq.queue.client import Queue
from ackq.queue.keys import QueueKeys
from ackq.queue.record import FIELDS
from ackq.queue.spec import QueueSpec

#: What RECEIVES had under these in format 1: notes of canceled messages, and of unique ones.
_CANCELED, _UNIQUE = b"\0canceled", b"\0unique:"
_LINE = re.compile(rb"([0-9]+):([0-9]+):([0-9]+:[0-9a-f]+)")
_LISTED = re.compile(rb"([0-9]+):([0-9]+:[0-9a-f]{2,})(?::([0-9]+))?")
#: What the script answers if it converted nothing, and why.
_REASONS = {
    b"busy": "its messages are leased or claimed: stop its consumers, wait until their leases end,"
    " and release its claims, then convert again",
    b"unknown": "the string there is not a record of ackq: rename that key or the queue",
}


def convert(
    client: redis.Redis | redis.RedisCluster, name: str, *, only_look: bool = False
) -> bool:
    """Convert a list queue, a shard, or a sharded queue of format 1. Stop its consumers first.

    Args:
        client: of its server.
        name: of the queue.
        only_look: change nothing. Defaults to False.

    Returns:
        Whether anything of it was of format 1.

    Raises:
        ConfigurationError: messages are leased or claimed, or a record is not one of ackq.
    """
    found = False
    if "{" not in name:
        with Queue(client, f"{{{name}}}") as whole:
            shards = whole.execute(_converted_shards, name)
            for shard in shards:
                convert(client, shard, only_look=only_look)
            if shards and not only_look:
                whole.execute(_converted_shards, name, done=True)
            found = bool(shards)
    with Queue(client, name) as queue:
        found = queue.execute(converted, only_look) or found
        return queue.execute(converted_notes, only_look) or found


def _converted_shards(spec: QueueSpec, name: str, done: bool = False) -> Operation[list[str]]:
    """Return the shards of a sharded queue with groups of format 1; convert its record if done."""
    record = spec.keys.ready + b":shards"
    kind: bytes = yield Request((b"TYPE", record), resend=True)
    if kind != b"hash":
        return []
    fields = ("format", "shards", "draining", "groups")
    format, number, draining, groups = yield Request((b"HMGET", record, *fields), resend=True)
    if format != b"3" or not groups:
        return []
    if done:
        values = ("2", "groups", *groups.decode().split(":", 5)[1:])
        pairs = [part for pair in zip(FIELDS, values, strict=True) for part in pair]
        yield Request((b"HSET", record, *pairs), resend=True)
        yield Request((b"HDEL", record, b"groups"), resend=True)
    numbers = [int(number), *map(int, draining.split())]
    return [each for number in numbers for each in shard_names(name, number, GROUPED)]


def converted(spec: QueueSpec, only_look: bool) -> Operation[bool]:
    """Convert a list queue or a shard, and return whether it was of format 1; see `convert`."""
    passed = (*spec.keys.passed("convert"), int(not only_look))
    answer: bytes = yield Request(passed, scripts.load("convert"), resend=True)
    if answer in _REASONS:
        raise ConfigurationError(
            f"queue {spec.name!r} has a string in {spec.keys.held.decode()!r}, as in format 1, but"
            f" was not converted: {_REASONS[answer]}"
        )
    return answer == b"converted"


def converted_notes(spec: QueueSpec, only_look: bool) -> Operation[bool]:
    """Move notes of format 1 from RECEIVES to NOTES, and return whether there was one.

    A note is written before it is deleted there, so a conversion that ends halfway can be repeated.
    """
    receives, cursor, found = spec.keys.receives, b"0", False
    kind: bytes = yield Request((b"TYPE", receives), resend=True)
    if kind != b"hash":
        return False
    head: bytes | None = yield Request((b"HGET", receives, _CANCELED), resend=True)
    since = int((head or b"0").partition(b":")[0])
    while True:
        cursor, pairs = yield Request((b"HSCAN", receives, cursor, b"COUNT", 100), resend=True)
        for name, note in zip(pairs[::2], pairs[1::2], strict=True):
            if not note.isdigit() and name != _CANCELED:
                if only_look:
                    return True
                found = True
                yield from _convert_note(spec, name, note, since)
        if cursor == b"0":
            yield Request((b"HDEL", receives, _CANCELED, _UNIQUE), resend=True)
            return found


def _convert_note(spec: QueueSpec, name: bytes, note: bytes, since: int) -> Operation[None]:
    """Move one note; see "Notes" in ``lua/README.md``."""
    keys = spec.keys
    count = b""
    if name.startswith(_CANCELED):
        id = name.removeprefix(_CANCELED + b":")
        for ends, canceled, mark in _LINE.findall(note):
            if int(ends) >= since + LASTS:
                yield from _note_listed(spec, mark + b":" + id, int(ends) - LASTS, 0, int(canceled))
    elif name.startswith(_UNIQUE) and note[:1] == b"\0":
        id, old = name.removeprefix(_UNIQUE), note.replace(b"-", b":")
        body = yield Request((b"HGET", keys.context, old), resend=True)
        due = yield Request((b"ZSCORE", keys.delayed, old), resend=True)
        if body is not None and due is not None:
            key = b"\0" + id + old
            yield Request((b"HSET", keys.context, key, body), resend=True)
            yield Request((b"ZADD", keys.delayed, due, key), resend=True)
            yield Request((b"ZREM", keys.delayed, old), resend=True)
            yield Request((b"HDEL", keys.context, old), resend=True)
            yield from _note_name(spec, id, old[1:])
    elif listed := _LISTED.fullmatch(note):
        id = name.removeprefix(_UNIQUE)
        if int(listed[1]):
            yield from _note_listed(spec, listed[2] + b":" + id, 1, int(listed[1]), 0)
        if listed[3]:
            yield from _note_name(spec, id, listed[2] + b"/" + listed[3])
    else:
        count = note.rstrip(b" :")
        is_there = yield Request((b"HEXISTS", keys.context, name), resend=True)
        if is_there and name[:1] != b"\0":
            yield from _note_name(spec, name, b"=")
    if count.isdigit():
        yield Request((b"HSET", keys.receives, name, count), resend=True)
    else:
        yield Request((b"HDEL", keys.receives, name), resend=True)


def _note_listed(
    spec: QueueSpec, field: bytes, since: int, count: int, canceled: int
) -> Operation[None]:
    known: bytes | None = yield Request((b"HGET", spec.keys.notes, field), resend=True)
    before = [int(each) for each in (known or b"0 0 0").split()]
    numbers = map(max, before, (since, count, canceled))
    yield Request((b"HSET", spec.keys.notes, field, b"%d %d %d" % (*numbers,)), resend=True)


def _note_name(spec: QueueSpec, id: bytes, name: bytes) -> Operation[None]:
    known: bytes | None = yield Request((b"HGET", spec.keys.notes, b":" + id), resend=True)
    names = b" ".join(dict.fromkeys([*(known or b"").split(), name]))
    yield Request((b"HSET", spec.keys.notes, b":" + id, names), resend=True)


class Doctor(Client):
    """Examine one server, and try every operation on a queue of its own there."""

    def __init__(
        self, client: redis.Redis, scratch: str | None = None, pop_from: PopFrom = "right"
    ) -> None:
        """Prepare; nothing is sent.

        Args:
            client: of the server.
            scratch: name of the queue to try operations on. No one else may use it, and all of
                it is deleted. Defaults to a new name for each doctor, beginning with `SCRATCH`.
            pop_from: the end of the list from which the queue is popped, "right" or "left". Choose
                the end of your queues: users of the left end may have no permissions for the
                right one. Defaults to "right".
        """
        scratch = scratch or SCRATCH + secrets.token_hex(8)
        super().__init__(client, scratch)
        config = QueueConfig(pop_from=pop_from)
        keys = QueueKeys.of(scratch, pop_from)
        self._spec = QueueSpec(scratch, keys, config, self._block_limit, outside=SYSTEM)

    @property
    def address(self) -> str:
        """The address of the server that is examined."""
        return self._driver.route.address

    def examine(self) -> Diagnosis:
        """Examine the server and try what the user may do. About 40 round trips.

        This also works on servers that ackq does not support, and for users with few permissions.
        """
        facts = self._with_clock(self._driver.run(read_facts()))
        # If the server is not writable, do not try: calls would wait for a failover to end.
        tried = self._driver.run(try_out(self._spec)) if facts.writable else untried()
        return judge(facts, tried)

    def _with_clock(self, facts: Facts) -> Facts:
        before = time.time()
        server = self._driver.run(read_clock())
        after = time.time()
        if server is None:
            return facts
        middle, half = (before + after) / 2, (after - before) / 2
        return replace(facts, clock_ahead=server - middle, clock_uncertainty=half)
