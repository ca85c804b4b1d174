"""A server, with helpers that bring it into a bad state quickly."""

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any, Self, TypeVar

import redis

from ackq import Message, Queue, scripts
from ackq.core.client import Closable
from ackq.queue.keys import QueueKeys
from benchmarks.stalls import LONGEST
from benchmarks.thread_cpu import MeteredConnection, ScriptCpu

Owned = TypeVar("Owned", bound=Closable)
NAME = "ackq-benchmark:blocked"
KIB, MIB = 1024, 1024 * 1024
#: Nearly the longest body that a queue takes: 0.9 MiB, since others choose the number as well.
LARGE = 9 * MIB // 10
#: The longest lease: a score that is not reached while a case is measured.
LEASE_US = 12 * 3600 * 1_000_000
#: A number of messages that no run makes smaller: long ones, whose length is scaled.
FEW = 1000
#: Bytes of bodies that one call fills in, and messages.
CHUNK_BYTES, CHUNK = 64 * MIB, 10_000
#: Makes messages on the server, so that a gigabyte of them takes no time on the wire.
FILL = """
local text = string.rep('x', tonumber(ARGV[3]))
for n = tonumber(ARGV[1]), tonumber(ARGV[2]) do
  local id = string.format('m%07.0f', n)
  local body = '{"id":"' .. id .. '","p":"' .. text .. '"}'
  local score = string.format('%.6f', ARGV[4] + n * ARGV[5])
  LINE
end"""
#: What `Scene.fill` does with each message, by the keys that it is given.
LISTED = "redis.call('LPUSH', KEYS[1], body)"
LEASED = "redis.call('ZADD', KEYS[1], score, id) redis.call('HSET', KEYS[2], id, body)"
DEAD = (
    "redis.call('XADD', KEYS[1], '*', 'key', id, 'body', body, 'reason', 'nacked',"
    " 'count', 3, 'time', 1)"
)


class Scene:
    """One server for one case. ``share`` scales the number of messages, ``bodies`` their length;
    both are 1 except in quick and smoke runs."""

    def __init__(self, url: str, share: float = 1.0, bodies: float = 1.0) -> None:
        self.share, self.bodies = share, bodies
        self.cpu = ScriptCpu()
        self.client: redis.Redis = redis.Redis.from_url(
            url, socket_timeout=LONGEST, connection_class=MeteredConnection, meter=self.cpu
        )
        self.keys = QueueKeys.of(NAME)
        self.far = round(time.time() * 1_000_000) + LEASE_US
        self._stack = ExitStack()
        self._stack.callback(self.client.close)
        with self.client.pipeline(transaction=False) as pipeline:
            for name in scripts.names():  # so that each call is an EVALSHA, and counted
                pipeline.script_load(scripts.load(name).text)
            pipeline.execute()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def many(self, count: int) -> int:
        """Scale ``count``, the number of messages in a full run, to this run: not a few."""
        return count if count <= FEW else max(20, round(count * self.share))

    def size(self, full: int) -> int:
        """Scale ``full``, a body's bytes in a full run, to this run."""
        return max(100, round(full * self.bodies))

    def own(self, client: Owned) -> Owned:
        """Close ``client`` at the end."""
        self._stack.enter_context(client)
        return client

    def queue(self, **settings: Any) -> Queue:
        """Return the queue of this scene."""
        return self.own(Queue(self.client, NAME, **settings))

    def fill(
        self,
        line: str,
        keys: Sequence[bytes],
        count: int,
        size: int = 100,
        score: float = 0,
        step: float = 0,
        first: int = 1,
    ) -> None:
        """Make ``count`` messages with bodies of about ``size`` bytes, and do ``line`` with each.

        In it ``id``, ``body``, ``score`` (from ``score``, in steps) and KEYS have values.
        """
        text = FILL.replace("LINE", line)
        some = max(1, min(CHUNK, CHUNK_BYTES // size))
        for at in range(first, first + count, some):
            last = min(at + some, first + count) - 1
            self.client.eval(
                text, len(keys), *keys, at, last, max(0, size - 30), repr(score), repr(step)
            )

    def of_groups(self, *names: str) -> list[bytes]:
        """Return keys that a queue with groups has besides, such as ``PARKED``."""
        return [self.keys.ready + f"GROUPS:{name}".encode() for name in names]

    def ready(self, count: int, size: int = 100) -> None:
        """Push messages."""
        self.fill(LISTED, (self.keys.ready,), count, size)

    def leased(self, count: int, size: int = 100, score: float = 1, step: float = 0) -> None:
        """Lease messages; by default all leases have ended and have the same score."""
        self.fill(LEASED, (self.keys.backup, self.keys.context), count, size, score, step)

    def held(self, count: int, size: int = 100) -> list[Message]:
        """Lease messages for a long time, and return them as their consumer has them.

        They share one body as long as theirs: its length decides how many one call settles.
        """
        self.leased(count, size, self.far)
        body = bytes(size)
        return [Message(NAME, b"m%07d" % n, body, self.far, 1) for n in range(1, count + 1)]

    def delayed(self, count: int, size: int = 100, score: float = 1, step: float = 0) -> None:
        """Delay messages; by default all are due at the same time."""
        self.fill(LEASED, (self.keys.delayed, self.keys.context), count, size, score, step)

    def dead(self, count: int, size: int = 100) -> None:
        """Make dead letters."""
        self.fill(DEAD, (self.keys.dead,), count, size)

    def counted(self, count: int, receives: int) -> None:
        """Set the receive count of each of the first messages."""
        line = f"redis.call('HSET', KEYS[1], id, {receives})"
        self.fill(line, (self.keys.receives,), count)


#: The operation to measure once a server is in a bad state. Its result is ignored.
Act = Callable[[], object]
Prepare = Callable[[Scene], Act]


def times(calls: int, act: Act) -> Act:
    """Return a function that calls ``act`` this many times."""

    def repeated() -> None:
        for _ in range(calls):
            act()

    return repeated
