"""LPUSH and RPOP: the fastest queue, and one that loses what its consumer held."""

from __future__ import annotations

import orjson

from benchmarks.contestants.base import Contestant, bodies_of


class BareList(Contestant):
    """One message a call."""

    def cycle(self) -> int:
        self.client.lpush(self.key, orjson.dumps(self.messages.one()))
        return bodies_of(self.client.rpop(self.key))


class BareListBatch(Contestant):
    """One LPUSH and one RPOP with a count."""

    def cycle(self) -> int:
        self.client.lpush(self.key, *map(orjson.dumps, self.messages.many(self.batch)))
        return bodies_of(self.client.rpop(self.key, self.batch))
