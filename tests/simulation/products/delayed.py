"""The delay queue, plain and partitioned."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from ackq.config import QueueConfig
from ackq.core.counters import MAX_WATCH
from ackq.core.effects import Operation, Sleep
from ackq.core.inspection_results import State
from ackq.core.io.outside import SYSTEM
from ackq.delay import DelayEntry
from ackq.delay import admin as delay_admin
from ackq.delay import peek as delay_peek
from ackq.delay import push as delay_push
from ackq.delay import settle as delay_settle
from ackq.delay import take as delay_take
from ackq.delay.messages import DelaySpec
from ackq.membership.operations import GroupSpec, Session
from ackq.staging.recovery import UnfinishedCommits
from tests.campaign.workloads.rig import totals_left

from .group import Member
from .product import LEASE, MAX_BLOCK, NAME, SESSION, Got, Order, Product, Settings, bodiless

if TYPE_CHECKING:
    from tests.simulation.world import Life


class DelayQueue(Product):
    """The delay queue."""

    verbs: ClassVar[dict[str, int]] = {"ack": 60, "nack": 25, "release": 15}
    delayed = 0.5
    is_operated = True

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        config = QueueConfig(visibility_timeout=LEASE, max_receives=settings["max_receives"])
        self._spec = self._opened(config)
        self._unfinished = UnfinishedCommits(NAME)

    def _opened(self, config: QueueConfig) -> DelaySpec:
        return DelaySpec.plain(NAME, config, MAX_BLOCK, SYSTEM)

    def prepare(self) -> Operation[None]:
        yield from delay_admin.counters(self._spec, MAX_WATCH)

    def push(
        self, entries: Sequence[tuple[str, bytes]], delay: float, is_once: bool
    ) -> Operation[dict[str, Any]]:
        delayed = [DelayEntry(key, body, delay=delay) for key, body in entries]
        yield from delay_push.push_many(self._spec, delayed)
        return {}

    def take(
        self, n: int, timeout: float | None, done: Sequence[Any]
    ) -> Operation[tuple[list[Got], dict[str, Any]]]:
        session = yield from self._session()
        found = yield from delay_take.take(self._spec, n, timeout, None, session, self._unfinished)
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

    def _session(self) -> Operation[Session | None]:
        return None
        yield

    def plan(self, draw: random.Random) -> Operation[Order | None]:
        """Choose dead letters to redrive, or messages to delete or to reschedule."""
        plans = (
            self._plan_redrive,
            self._plan_delete,
            self._plan_reschedule,
            self._plan_reschedule,
        )
        act = draw.choice(plans)
        return (yield from act(draw))

    def _plan_redrive(self, draw: random.Random) -> Operation[Order | None]:
        part = draw.randrange(len(self._spec.partitions))
        letters = yield from delay_admin.dead_letters(self._spec, 20, None, part)
        if not letters:
            return None
        chosen = draw.sample(letters, min(len(letters), draw.choice((1, 2, 5))))
        entries = [each.entry for each in chosen]
        return Order(
            "redrive",
            [each.id for each in chosen],
            lambda: delay_admin.redrive(self._spec, None, entries, part),
        )

    def _plan_delete(self, draw: random.Random) -> Operation[Order | None]:
        in_flight = draw.random() < 0.3
        states: tuple[State, ...] = ("ready", "delayed", "in_flight")
        seen = yield from delay_peek.peek(self._spec, 20, draw.choice(states[: 2 + in_flight]))
        if not seen:
            return None
        ids = [each.id for each in draw.sample(seen, min(len(seen), draw.choice((1, 1, 2))))]
        yield Sleep(draw.choice((0.0, 0.0, 0.2)))
        return Order("delete", ids, lambda: delay_push.cancel(self._spec, ids, None, in_flight))

    def _plan_reschedule(self, draw: random.Random) -> Operation[Order | None]:
        states: tuple[State, ...] = ("ready", "delayed", "in_flight")
        seen = yield from delay_peek.peek(self._spec, 20, draw.choice(states))
        if not seen:
            return None
        key, delay = draw.choice(seen).id, draw.choice((0.0, 0.3, 1.0))
        yield Sleep(draw.choice((0.0, 0.0, 0.2)))
        return Order(
            "reschedule",
            [key],
            lambda: delay_push.reschedule(self._spec, key, delay, None, None, None, None),
            delay=delay,
            is_resent=True,
        )

    def stored(self) -> Operation[int]:
        stats = yield from delay_admin.stats(self._spec)
        return stats.ready + stats.in_flight + stats.delayed

    def left(self) -> Operation[dict[str, Any]]:
        dead = yield from delay_admin.dead_letters(self._spec, 10_000, None, None)
        return {
            "dead": [[each.id, each.receive_count] for each in dead],
            "findings": bodiless(dead),
            **totals_left((yield from delay_admin.counters(self._spec, MAX_WATCH)), dead),
        }


class PartitionedDelayQueue(DelayQueue):
    """The partitioned delay queue: its consumers divide the partitions."""

    rules: ClassVar[dict[str, Any]] = {"sessions": True}

    @staticmethod
    def draw_settings(draw: random.Random) -> Settings:
        return {**Product.draw_settings(draw), "partitions": draw.choice((1, 2, 3, 5))}

    def _opened(self, config: QueueConfig) -> DelaySpec:
        self._group = GroupSpec.of(NAME, self.settings["partitions"], SESSION)
        self._member = Member(self._group)
        return DelaySpec.partitioned(NAME, config, self._group, MAX_BLOCK, SYSTEM)

    def background(self) -> Life:
        return self._member.beat()

    def close(self) -> Operation[None]:
        yield from self._member.leave()

    def _session(self) -> Operation[Session | None]:
        yield from self._member.join()
        return self._member.session
