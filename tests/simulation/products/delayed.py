"""The delay queue, plain and partitioned."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any, ClassVar

import redis.asyncio

from ackq.core.inspection_results import State
from ackq.delay import AsyncDelayQueue, AsyncPartitionedDelayQueue
from tests import products
from tests.products.product import Settings
from tests.simulation.steps import sleep

from .group import Group
from .product import NAME, SESSION, Order, SimulatedProduct

if TYPE_CHECKING:
    from tests.simulation.world import Life


class DelayQueue(SimulatedProduct, products.DelayQueue):
    """The delay queue."""

    verbs: ClassVar[dict[str, int]] = {"ack": 60, "nack": 25, "release": 15}
    is_operated = True

    def _open(self, client: redis.asyncio.Redis) -> Any:
        most = self.settings["max_receives"]
        return AsyncDelayQueue(client, NAME, visibility_timeout=self.lease, max_receives=most)

    async def plan(self, draw: random.Random) -> Order | None:
        """Choose dead letters to redrive, or messages to delete or to reschedule."""
        plans = (
            self._plan_redrive,
            self._plan_delete,
            self._plan_reschedule,
            self._plan_reschedule,
        )
        act = draw.choice(plans)
        return await act(draw)

    async def _plan_redrive(self, draw: random.Random) -> Order | None:
        part = draw.randrange(self.settings.get("partitions", 1))
        letters = await self.queue.dead_letters(20, partition=part)
        if not letters:
            return None
        chosen = draw.sample(letters, min(len(letters), draw.choice((1, 2, 5))))
        entries = [each.entry for each in chosen]
        return Order(
            "redrive",
            [each.id for each in chosen],
            lambda: self.queue.redrive(entries=entries, partition=part),
        )

    async def _plan_delete(self, draw: random.Random) -> Order | None:
        in_flight = draw.random() < 0.3
        states: tuple[State, ...] = ("ready", "delayed", "in_flight")
        seen = await self.queue.peek(20, draw.choice(states[: 2 + in_flight]))
        if not seen:
            return None
        ids = [each.id for each in draw.sample(seen, min(len(seen), draw.choice((1, 1, 2))))]
        await sleep(draw.choice((0.0, 0.0, 0.2)))
        return Order("delete", ids, lambda: self.queue.cancel(*ids, in_flight=in_flight))

    async def _plan_reschedule(self, draw: random.Random) -> Order | None:
        states: tuple[State, ...] = ("ready", "delayed", "in_flight")
        seen = await self.queue.peek(20, draw.choice(states))
        if not seen:
            return None
        key, delay = draw.choice(seen).id, draw.choice((0.0, 0.3, 1.0))
        await sleep(draw.choice((0.0, 0.0, 0.2)))
        act = self.queue.reschedule
        return Order(
            "reschedule", [key], lambda: act(key, delay=delay), delay=delay, is_resent=True
        )


class PartitionedDelayQueue(DelayQueue, products.PartitionedDelayQueue):
    """The partitioned delay queue: its consumers divide the partitions."""

    rules: ClassVar[dict[str, Any]] = products.PartitionedDelayQueue.rules

    @staticmethod
    def draw_settings(draw: random.Random) -> Settings:
        settings = SimulatedProduct.draw_settings(draw)
        return {**settings, "partitions": draw.choice((1, 2, 3, 5))}

    def _open(self, client: redis.asyncio.Redis) -> Any:
        queue = AsyncPartitionedDelayQueue(
            client,
            NAME,
            self.settings["partitions"],
            visibility_timeout=self.lease,
            max_receives=self.settings["max_receives"],
            session_timeout=SESSION,
        )
        self._members = Group(queue._members._spec)
        queue._members = self._members  # type: ignore[assignment]
        return queue

    def background(self) -> Life:
        return self._members.member.beat()
