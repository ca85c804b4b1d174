"""The messages that all contestants send."""

from __future__ import annotations

import random
import string
from functools import lru_cache
from itertools import cycle, islice

import orjson

#: Number of ids: more than any contestant holds at once, so that no id repeats.
POOL = 20_000
#: Most bytes of different payloads in a supply; beyond that, messages share payloads.
MEMORY = 16 * 1024 * 1024

#: A letter for each byte.
LETTERS = (string.ascii_letters * 5).encode()[:256]

Body = dict[str, str]


class Messages:
    """An endless supply of JSON messages of ``size`` bytes, the same for the same seed."""

    def __init__(self, seed: int, size: int = 100, prefix: str = "m") -> None:
        self._supply = cycle(_pool(seed, size, prefix))

    def one(self) -> Body:
        return next(self._supply)

    def many(self, count: int) -> list[Body]:
        return list(islice(self._supply, count))


@lru_cache(4)
def _pool(seed: int, size: int, prefix: str) -> list[Body]:
    draw = random.Random(seed)
    names = [f"{prefix}{number:08d}" for number in range(POOL)]
    room = size - len(orjson.dumps({"id": names[0], "payload": ""}))
    payloads = [
        draw.randbytes(room).translate(LETTERS).decode()
        for _ in range(max(1, min(POOL, MEMORY // size)))
    ]
    return [{"id": name, "payload": payloads[at % len(payloads)]} for at, name in enumerate(names)]
