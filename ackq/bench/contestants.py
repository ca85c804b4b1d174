"""Ways to push, take and settle messages: an adapter for each."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import Any

import orjson
import redis

from ackq.bench.messages import Messages
from ackq.bench.rounds import Player
from ackq.core.names import SUFFIXES
from ackq.queue.client import Queue
from ackq.queue.messages import Message

#: Lease time in seconds; longer than any run.
LONG = 12 * 3600.0
#: Names for streams.
GROUP, CONSUMER = "group", "consumer"


class Contestant(Player):
    """Push, take and settle messages on one connection, ``batch`` at a time.

    Every contestant gets mappings, encodes with orjson and returns bodies as bytes. An ack may
    travel with the next take, so one batch can be unsettled between two cycles.
    """

    def __init__(self, url: str, key: str, messages: Messages, batch: int) -> None:
        self.client: redis.Redis = redis.Redis.from_url(url)
        self.key = key
        self.messages = messages
        self.batch = batch
        self.clear()

    def side_keys(self) -> Iterable[str]:
        """Return the keys that this contestant uses besides ``key``."""
        return ()

    @abstractmethod
    def cycle(self) -> int:
        """Push, take and settle ``batch`` messages each; return how many were taken."""

    def clear(self) -> None:
        """Delete every key."""
        self.client.unlink(self.key, *self.side_keys())

    def close(self) -> None:
        """Delete every key and disconnect."""
        self.clear()
        self.client.close()


class BareList(Contestant):
    """LPUSH and RPOP, with a count for batches: the upper limit, but a crash loses messages."""

    def cycle(self) -> int:
        if self.batch == 1:
            self.client.lpush(self.key, orjson.dumps(self.messages.one()))
            return bodies_of(self.client.rpop(self.key))
        self.client.lpush(self.key, *map(orjson.dumps, self.messages.many(self.batch)))
        return bodies_of(self.client.rpop(self.key, self.batch))


class Stream(Contestant):
    """A stream with a consumer group: XADD, pipelined for a batch; XACK, XDEL and XREADGROUP.

    The acks travel with the next read in one pipeline. Acked messages are deleted, since XACK alone
    leaves them in memory. (XACK and XDEL in a separate round trip were slower.)
    """

    def __init__(self, url: str, key: str, messages: Messages, batch: int) -> None:
        super().__init__(url, key, messages, batch)
        self.client.xgroup_create(key, GROUP, id="0", mkstream=True)
        self._taken: list[Any] = []
        # One for all cycles: a pipeline has a __del__, in which Python would swallow Ctrl-C.
        self._pipeline = self.client.pipeline(transaction=False)

    def cycle(self) -> int:
        self._push(self.messages, self.batch)
        return self._read(self.batch)

    def hold(self, messages: Messages, count: int) -> bool:
        self._push(messages, count)
        self._read(count)
        self._taken = []
        return True

    def _push(self, messages: Messages, count: int) -> None:
        if count == 1:
            self.client.xadd(self.key, {"body": orjson.dumps(messages.one())})
            return
        pipeline = self._pipeline
        for body in messages.many(count):
            pipeline.xadd(self.key, {"body": orjson.dumps(body)})
        pipeline.execute()

    def _read(self, count: int) -> int:
        pipeline = self._pipeline
        if self._taken:
            pipeline.xack(self.key, GROUP, *self._taken)
            pipeline.xdel(self.key, *self._taken)
        pipeline.xreadgroup(GROUP, CONSUMER, {self.key: ">"}, count=count)
        entries = entries_of(pipeline.execute()[-1])
        self._taken = [entry for entry, _ in entries]
        return len(entries)


class Ackq(Contestant):
    """push, and pop with the ack of the message before; push_many and pop_many for batches."""

    def __init__(self, url: str, key: str, messages: Messages, batch: int) -> None:
        super().__init__(url, key, messages, batch)
        self.queue = Queue(self.client, key, visibility_timeout=LONG)
        self._taken: list[Message] | Message | tuple[()] = ()

    def side_keys(self) -> Iterable[str]:
        return (self.key + suffix for suffix in SUFFIXES)

    def hold(self, messages: Messages, count: int) -> bool:
        self.queue.push_many(messages.many(count))
        while count > 0:
            count -= len(self.queue.pop_many(count))
        return True

    def cycle(self) -> int:
        if self.batch == 1:
            self.queue.push(self.messages.one())
            message = self.queue.pop(ack=self._taken)
            self._taken = message or ()
            return 1 if message else 0
        self.queue.push_many(self.messages.many(self.batch))
        taken = self.queue.pop_many(self.batch, ack=self._taken)
        while 0 < (missing := self.batch - len(taken)) < self.batch:
            more = self.queue.pop_many(missing)  # one call moves 1 MiB
            if not more:
                break
            taken += more
        self._taken = taken
        return len(taken)

    def close(self) -> None:
        self.queue.close()
        super().close()


def bodies_of(reply: Any) -> int:
    """Count the bodies in a reply, which is None, one body or a list of bodies."""
    if reply is None:
        return 0
    return len(reply) if isinstance(reply, list) else 1


def entries_of(reply: Any) -> list[Any]:
    """Return the entries in a reply to XREADGROUP on one stream, in RESP2 or RESP3."""
    if not reply:
        return []
    if isinstance(reply, dict):
        ((pages,)) = reply.values()
        return list(pages[0])
    return list(reply[0][1])
