"""What a contestant does, and the messages that all of them carry."""

from __future__ import annotations

import random
import string
from abc import ABC, abstractmethod
from collections.abc import Iterable
from itertools import cycle, islice
from typing import Any

import orjson
import redis

#: Bytes of one message as JSON.
SIZE = 100
#: Different messages; more than any contestant holds at once, since ids must not repeat.
POOL = 20_000

Body = dict[str, str]


class Messages:
    """An endless supply of messages of `SIZE` bytes; the same for the same seed."""

    def __init__(self, seed: int, prefix: str = "m") -> None:
        draw = random.Random(seed)
        self._supply = cycle([message(draw, f"{prefix}{n:08d}") for n in range(POOL)])

    def one(self) -> Body:
        return next(self._supply)

    def many(self, count: int) -> list[Body]:
        return list(islice(self._supply, count))


def message(draw: random.Random, name: str) -> Body:
    """Return a message of `SIZE` bytes as JSON, its id first."""
    room = SIZE - len(orjson.dumps({"id": name, "payload": ""}))
    return {"id": name, "payload": "".join(draw.choices(string.ascii_letters, k=room))}


class Contestant(ABC):
    """Pushes, takes and settles messages, one connection, ``batch`` at a time.

    Everybody gets mappings, encodes with orjson and returns bodies as bytes. An ack may travel
    with the next take, so one batch can be unsettled between two cycles.
    """

    def __init__(self, url: str, key: str, messages: Messages, batch: int) -> None:
        self.client: redis.Redis = redis.Redis.from_url(url)
        self.key = key
        self.messages = messages
        self.batch = batch
        self.clear()

    def side_keys(self) -> Iterable[str]:
        """Return the keys beside ``key`` that this contestant makes."""
        return ()

    @abstractmethod
    def cycle(self) -> int:
        """Push ``batch`` messages, take ``batch`` and settle as many; return how many came."""

    def hold(self, count: int) -> None:
        """Take ``count`` messages and never settle them."""
        raise NotImplementedError(f"{type(self).__name__} has nothing in flight")

    def clear(self) -> None:
        """Delete every key."""
        self.client.delete(self.key, *self.side_keys())

    def close(self) -> None:
        """Delete every key and disconnect."""
        self.clear()
        self.client.close()


def bodies_of(reply: Any) -> int:
    """Count the bodies in a reply that may be nothing, one body or a list of them."""
    if reply is None:
        return 0
    return len(reply) if isinstance(reply, list) else 1
