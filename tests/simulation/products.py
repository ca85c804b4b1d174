"""The products, as simulated processes use them: operations of ackq over one queue."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

from ackq.config import QueueConfig
from ackq.core.counters import LONGEST_WATCH
from ackq.core.effects import Operation
from ackq.delay import DelayEntry
from ackq.delay import admin as delay_admin
from ackq.delay import push as delay_push
from ackq.delay import settle as delay_settle
from ackq.delay import take as delay_take
from ackq.delay.messages import DelaySpec
from ackq.queue import inspection, push, settle, take
from ackq.queue.keys import QueueKeys
from ackq.queue.spec import QueueSpec
from ackq.staging.unfinished import UnfinishedCommits
from ackq.topic import consume, place, publish
from ackq.topic import settle as topic_settle
from ackq.topic.keys import TopicKeys
from ackq.topic.spec import TopicConfig, TopicSpec
from tests.campaign.workloads.rig import totals_left

#: Of every queue and topic.
NAME = "{jobs}"
#: Seconds that a lease lasts.
LEASE = 0.5
#: Seconds that a process waits in one blocking command, at most.
BLOCK_LIMIT = 0.3

Settings = Mapping[str, Any]


class Got(NamedTuple):
    """A message as its consumer receives it."""

    body: bytes
    received: int | None  #: how often
    until: float | None  #: end of the lease by the server's clock
    handle: Any  #: what settles it


class Product:
    """One product in one process."""

    #: What may become of a message, with weights.
    verbs: ClassVar[dict[str, int]] = {"ack": 40, "nack": 20, "release": 15, "fused": 25}
    #: Settings of the checker.
    rules: ClassVar[dict[str, Any]] = {}
    #: Share of pushes that are delayed.
    delayed = 0.0
    #: Whether the server's clock may be set.
    sets_clock = True
    #: What a fused ack that was not refused is: "gone" if it may have been applied before.
    fused = "ok"

    @staticmethod
    def draw_settings(draw: random.Random) -> Settings:
        """Draw the settings that all processes of a history have."""
        return {"max_receives": draw.choice((None, None, 2, 4))}

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def prepare(self) -> Operation[None]:
        """Set up what must exist before the first push."""
        return
        yield

    def push(
        self, entries: Sequence[tuple[str, bytes]], delay: float, is_once: bool
    ) -> Operation[dict[str, Any]]:
        """Store messages; return what the history is to know besides: the index, of a topic.

        ``is_once``: if the reply is lost, push again, unless the first push is known to be stored.
        """
        raise NotImplementedError

    def take(
        self, n: int, timeout: float | None, done: Sequence[Any]
    ) -> Operation[tuple[list[Got], dict[str, Any]]]:
        """Take messages, and ack ``done`` in the same call; return reader and index, of a topic."""
        raise NotImplementedError

    def settle(self, verb: str, handles: Sequence[Any], delay: float) -> Operation[int]:
        """Settle messages, and return how many."""
        raise NotImplementedError

    def stored(self) -> Operation[int]:
        """Return how many messages are stored, in any state but dead."""
        raise NotImplementedError

    def left(self) -> Operation[dict[str, Any]]:
        """Return ``dead`` and ``findings`` of the history's last event."""
        return {"dead": [], "findings": []}
        yield


class ListQueue(Product):
    """The list queue."""

    rules: ClassVar[dict[str, Any]] = {"order": True}
    delayed = 0.15

    @staticmethod
    def draw_settings(draw: random.Random) -> Settings:
        settings = Product.draw_settings(draw)
        return {**settings, "pop_from": draw.choice(("right", "right", "right", "left"))}

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        config = QueueConfig(visibility_timeout=LEASE, **settings)
        keys = QueueKeys.of(NAME, config.pop_from)
        self._spec = QueueSpec(NAME, keys, config, BLOCK_LIMIT)

    def prepare(self) -> Operation[None]:
        yield from inspection.counters(self._spec, LONGEST_WATCH)

    def push(
        self, entries: Sequence[tuple[str, bytes]], delay: float, is_once: bool
    ) -> Operation[dict[str, Any]]:
        bodies = [body for _, body in entries]
        if len(bodies) == 1:
            dedup = entries[0][0] if is_once else None
            yield from push.push(self._spec, bodies[0], delay or None, None, dedup, 60, None)
        else:
            yield from push.push_many(self._spec, bodies, delay or None, None, None)
        return {}

    def take(
        self, n: int, timeout: float | None, done: Sequence[Any]
    ) -> Operation[tuple[list[Got], dict[str, Any]]]:
        found = yield from take.pop_many(self._spec, n, timeout, None, done)
        return [Got(m.body, m.receive_count, m.receipt / 1e6, m) for m in found], {}

    def settle(self, verb: str, handles: Sequence[Any], delay: float) -> Operation[int]:
        match verb:
            case "ack":
                return (yield from settle.ack(self._spec, handles))
            case "extend":
                return (yield from settle.extend(self._spec, handles, None))
        is_nack = verb == "nack"
        return (yield from settle.nack(self._spec, handles, delay if is_nack else 0.0, is_nack))

    def stored(self) -> Operation[int]:
        stats = yield from inspection.stats(self._spec)
        return stats.ready + stats.in_flight + stats.delayed

    def left(self) -> Operation[dict[str, Any]]:
        audit = yield from inspection.audit(self._spec, False)
        dead = yield from inspection.dead_letters(self._spec, 10_000, (), None)
        return {
            "dead": [[each.id, each.receive_count] for each in dead],
            "findings": [str(each) for each in audit.findings],
            **totals_left((yield from inspection.counters(self._spec, LONGEST_WATCH)), dead),
        }


class DelayQueue(Product):
    """The delay queue."""

    verbs: ClassVar[dict[str, int]] = {"ack": 60, "nack": 25, "release": 15}
    delayed = 0.5

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        config = QueueConfig(visibility_timeout=LEASE, **settings)
        self._spec = DelaySpec.plain(NAME, config, BLOCK_LIMIT)
        self._unfinished = UnfinishedCommits(NAME)

    def prepare(self) -> Operation[None]:
        yield from delay_admin.counters(self._spec, LONGEST_WATCH)

    def push(
        self, entries: Sequence[tuple[str, bytes]], delay: float, is_once: bool
    ) -> Operation[dict[str, Any]]:
        delayed = [DelayEntry(key, body, delay=delay) for key, body in entries]
        yield from delay_push.push_many(self._spec, delayed)
        return {}

    def take(
        self, n: int, timeout: float | None, done: Sequence[Any]
    ) -> Operation[tuple[list[Got], dict[str, Any]]]:
        found = yield from delay_take.take(self._spec, n, timeout, None, None, self._unfinished)
        return [Got(m.body, m.receive_count, m.receipt / 1e6, m) for m in found], {}

    def settle(self, verb: str, handles: Sequence[Any], delay: float) -> Operation[int]:
        match verb:
            case "ack":
                return (yield from delay_settle.delete(self._spec, handles))
            case "extend":
                return (yield from delay_settle.extend(self._spec, handles, None))
        is_nack = verb == "nack"
        again = delay if is_nack else 0.0
        return (yield from delay_settle.nack(self._spec, handles, again, is_nack))

    def stored(self) -> Operation[int]:
        stats = yield from delay_admin.stats(self._spec)
        return stats.ready + stats.in_flight + stats.delayed

    def left(self) -> Operation[dict[str, Any]]:
        dead = yield from delay_admin.dead_letters(self._spec, 10_000, None, None)
        return {
            "dead": [[each.id, each.receive_count] for each in dead],
            "findings": [],
            **totals_left((yield from delay_admin.counters(self._spec, LONGEST_WATCH)), dead),
        }


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
        return {}

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        config = TopicConfig(visibility_timeout=LEASE)
        self._spec = TopicSpec(NAME, TopicKeys.of(NAME), config, BLOCK_LIMIT)
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
                act = topic_settle.commit
            case "extend":
                act = _extend
            case _:
                act = topic_settle.release
        return len(handles) * (yield from act(self._spec, handles[:1]))

    def stored(self) -> Operation[int]:
        lags = []
        for reader in self.READERS:
            lags.append((yield from place.lag(self._spec, reader)))
        return max(lags)


def _extend(spec: TopicSpec, batches: Sequence[Any]) -> Operation[int]:
    return (yield from topic_settle.extend(spec, batches, None))


#: A history's seed chooses one, by its remainder.
PRODUCTS: tuple[type[Product], ...] = (ListQueue, ListQueue, DelayQueue, Topic)
