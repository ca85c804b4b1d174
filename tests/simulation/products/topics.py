"""The topic."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from ackq.core.effects import Operation
from ackq.core.io.outside import SYSTEM
from ackq.staging.recovery import UnfinishedCommits
from ackq.topic import consume, place, publish, settle
from ackq.topic.keys import TopicKeys
from ackq.topic.spec import TopicConfig, TopicSpec

from .product import LEASE, MAX_BLOCK, NAME, Got, Product, Settings


class Topic(Product):
    """The topic, with consumer ids that several readers share. A batch is settled whole."""

    READERS = ("one", "other")
    rules: ClassVar[dict[str, Any]] = {"readers": READERS}
    verbs: ClassVar[dict[str, int]] = {"ack": 60, "release": 15, "fused": 25}
    fused = "gone"
    #: Without receive counts, only the ends of leases show the order of deliveries.
    sets_clock = False

    @staticmethod
    def draw_settings(draw: random.Random) -> Settings:
        return {"salt": draw.randrange(1 << 30)}

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        config = TopicConfig(visibility_timeout=LEASE)
        self._spec = TopicSpec(NAME, TopicKeys.of(NAME), config, MAX_BLOCK, outside=SYSTEM)
        self._unfinished = UnfinishedCommits(NAME)
        self._turn = 0

    def prepare(self) -> Operation[None]:
        for reader in self.READERS:
            yield from place.subscribe(self._spec, reader, "oldest")

    def push(
        self, entries: Sequence[tuple[str, bytes]], delay: float, is_once: bool
    ) -> Operation[dict[str, Any]]:
        bodies = [body for _, body in entries]
        if len(bodies) == 1:
            dedup = entries[0][0] if is_once else None
            return {"index": (yield from publish.publish(self._spec, bodies[0], dedup, 60, None))}
        return {"index": (yield from publish.publish_many(self._spec, bodies, None))[0]}

    def take(
        self, n: int, timeout: float | None, done: Sequence[Any]
    ) -> Operation[tuple[list[Got], dict[str, Any]]]:
        self._turn += 1
        reader = self.READERS[self._turn % 2]
        done = list(dict.fromkeys(done))
        batch = yield from consume.consume(
            self._spec, reader, n, timeout, None, done, self._unfinished
        )
        got = [Got(each.body, None, batch.lease_expires_at, batch) for each in batch]
        return got, {"reader": reader, "index": batch.first}

    def settle(self, verb: str, handles: Sequence[Any], delay: float) -> Operation[int]:
        act: Callable[..., Operation[int]]
        match verb:
            case "ack":
                act = settle.commit
            case "extend":
                act = _extend
            case _:
                act = settle.release
        return len(handles) * (yield from act(self._spec, handles[:1]))

    def stored(self) -> Operation[int]:
        lags = []
        for reader in self.READERS:
            lags.append((yield from place.lag(self._spec, reader)))
        return max(lags)


def _extend(spec: TopicSpec, batches: Sequence[Any]) -> Operation[int]:
    return (yield from settle.extend(spec, batches, None))
