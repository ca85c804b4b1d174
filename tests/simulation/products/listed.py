"""The list queue."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, ClassVar

from ackq.config import QueueConfig
from ackq.core.counters import MAX_WATCH
from ackq.core.effects import Operation, Sleep
from ackq.core.io.outside import SYSTEM
from ackq.queue import delayed_messages, inspection, push, settle, take
from ackq.queue.keys import QueueKeys
from ackq.queue.spec import QueueSpec
from tests.campaign.workloads.loops import id_of
from tests.campaign.workloads.rig import totals_left

from .product import LEASE, MAX_BLOCK, NAME, Got, Order, Product, Settings, bodiless


class ListQueue(Product):
    """The list queue."""

    rules: ClassVar[dict[str, Any]] = {"order": True}
    delayed = 0.15
    is_operated = True

    @staticmethod
    def draw_settings(draw: random.Random) -> Settings:
        settings = Product.draw_settings(draw)
        return {**settings, "pop_from": draw.choice(("right", "right", "right", "left"))}

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        config = QueueConfig(
            visibility_timeout=LEASE,
            max_receives=settings["max_receives"],
            pop_from=settings["pop_from"],
        )
        keys = QueueKeys.of(NAME, config.pop_from)
        self._spec = QueueSpec(NAME, keys, config, MAX_BLOCK, outside=SYSTEM)

    def prepare(self) -> Operation[None]:
        yield from inspection.counters(self._spec, MAX_WATCH)

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
            "dead": [[id_of(each.body) or each.id, each.receive_count] for each in dead],
            "findings": [*map(str, audit.findings), *bodiless(dead)],
            **totals_left((yield from inspection.counters(self._spec, MAX_WATCH)), dead),
        }

    def plan(self, draw: random.Random) -> Operation[Order | None]:
        """Choose dead letters to redrive, or delayed messages."""
        if draw.random() < 0.6:
            return (yield from self._plan_delayed(draw))
        letters = yield from inspection.dead_letters(self._spec, 20, (), None)
        if not letters:
            return None
        chosen = draw.sample(letters, min(len(letters), draw.choice((1, 2, 5))))
        entries = [each.entry for each in chosen]
        return Order(
            "redrive",
            [id_of(each.body) for each in chosen],
            lambda: inspection.redrive(self._spec, None, entries),
        )

    def _plan_delayed(self, draw: random.Random) -> Operation[Order | None]:
        """Choose delayed messages to run now or to cancel, by entry or by id, perhaps too late."""
        seen = yield from inspection.peek(self._spec, 20, "delayed", 0)
        if not seen:
            return None
        chosen = draw.sample(seen, min(len(seen), draw.choice((1, 1, 2, 5))))
        entries = [each.entry for each in chosen]
        ids = [each.id for each in chosen]
        yield Sleep(draw.choice((0.0, 0.0, 0.2)))
        by_id = draw.random() < 0.5
        verb, act = draw.choice(
            (("run now", delayed_messages.run_now), ("cancel", delayed_messages.cancel))
        )
        named: tuple[list[str], list[str]] = ([], ids) if by_id else (entries, [])
        return Order(verb, [id_of(each.body) for each in chosen], lambda: act(self._spec, *named))


class EqualIds(ListQueue):
    """The list queue with messages that share their ids. No operator names messages by id."""

    rules: ClassVar[dict[str, Any]] = {**ListQueue.rules, "shared": True}
    is_operated = False
    sharers = 3
