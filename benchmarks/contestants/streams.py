"""Redis Streams with a consumer group, written as well as redis-py lets one.

The acks travel with the next read in one pipeline, and what is acked is deleted: XACK alone
leaves every message in memory. (With XACK and XDEL in a round trip of their own it was slower.)
"""

from __future__ import annotations

from typing import Any

import orjson

from benchmarks.contestants.base import Contestant, Messages

GROUP, CONSUMER = "group", "consumer"


class Stream(Contestant):
    """XADD, pipelined for a batch; XACK, XDEL and XREADGROUP in one round trip."""

    def __init__(self, url: str, key: str, messages: Messages, batch: int) -> None:
        super().__init__(url, key, messages, batch)
        self.client.xgroup_create(key, GROUP, id="0", mkstream=True)
        self._taken: list[Any] = []

    def cycle(self) -> int:
        self._push(self.batch)
        return self._read(self.batch)

    def hold(self, count: int) -> None:
        self._push(count)
        self._read(count)
        self._taken = []

    def _push(self, count: int) -> None:
        if count == 1:
            self.client.xadd(self.key, {"body": orjson.dumps(self.messages.one())})
            return
        pipeline = self.client.pipeline(transaction=False)
        for body in self.messages.many(count):
            pipeline.xadd(self.key, {"body": orjson.dumps(body)})
        pipeline.execute()

    def _read(self, count: int) -> int:
        pipeline = self.client.pipeline(transaction=False)
        if self._taken:
            pipeline.xack(self.key, GROUP, *self._taken)
            pipeline.xdel(self.key, *self._taken)
        pipeline.xreadgroup(GROUP, CONSUMER, {self.key: ">"}, count=count)
        entries = entries_of(pipeline.execute()[-1])
        self._taken = [entry for entry, _ in entries]
        return len(entries)


def entries_of(reply: Any) -> list[Any]:
    """Return the entries in a reply to XREADGROUP on one stream, in RESP2 or RESP3."""
    if not reply:
        return []
    if isinstance(reply, dict):
        ((pages,)) = reply.values()
        return list(pages[0])
    return list(reply[0][1])
