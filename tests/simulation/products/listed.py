"""The list queue."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar

import redis.asyncio

from ackq import AsyncQueue
from tests import products
from tests.products.bodies import group_of, id_of
from tests.products.listed import deep_after
from tests.products.product import Settings
from tests.simulation.steps import sleep

from .product import NAME, Order, SimulatedProduct

if TYPE_CHECKING:
    from tests.simulation.world import World

#: Ids of a history in which all pushes are unique.
UNIQUE_IDS = 5


class ListQueue(SimulatedProduct, products.ListQueue):
    """The list queue."""

    verbs: ClassVar[dict[str, int]] = {
        "ack": 40,
        "nack": 20,
        "release": 15,
        "fused": 25,
        "reject": 5,
    }
    chosen: ClassVar[tuple[str, ...]] = ("redrive", "run now", "cancel")
    delayed = 0.15
    is_operated = True
    has_unique = True

    @classmethod
    def draw_settings(cls, draw: random.Random) -> Settings:
        settings = SimulatedProduct.draw_settings(draw)
        unique = UNIQUE_IDS if cls is ListQueue and settings["salt"] % 3 == 0 else 0
        pop_from = draw.choice(("right", "right", "right", "left"))
        return {**settings, "pop_from": pop_from, "unique": unique}

    @classmethod
    @contextlib.contextmanager
    def environment(cls, world: World) -> Iterator[None]:
        """Let a list be deep after a few messages, so that these are canceled by notes."""
        with super().environment(world), deep_after(1):
            yield

    def _open(self, client: redis.asyncio.Redis) -> Any:
        settings = {each: self.settings[each] for each in ("max_receives", "pop_from")}
        return AsyncQueue(client, NAME, visibility_timeout=self.lease, **settings)

    async def plan(self, draw: random.Random) -> Order | None:
        """Choose dead letters to redrive, or messages to cancel or to run now."""
        if self.settings.get("unique"):
            return None  # what becomes of a dead letter depends on the others of its id
        # An id does not say which of the messages that share it is meant.
        if draw.random() < 0.5:
            by_id = self.sharers == 1 and draw.random() < 0.5
            return await _plan_delayed(self.queue, draw, by_id)
        if self.sharers == 1 and draw.random() < 0.4:
            return await self._plan_by_id(draw)
        letters = await self.queue.dead_letters(20)
        if not letters:
            return None
        chosen = draw.sample(letters, min(len(letters), draw.choice((1, 2, 5))))
        entries = [each.entry for each in chosen]
        ids = [id_of(each.body) for each in chosen]
        return Order("redrive", ids, lambda: self.queue.redrive(entries=entries))

    async def _plan_by_id(self, draw: random.Random) -> Order | None:
        """Choose messages that are ready or in flight, which may have changed by then."""
        seen = await self.queue.peek(20, draw.choice(("ready", "in_flight")))
        if not seen:
            return None
        chosen = draw.sample(seen, min(len(seen), draw.choice((1, 1, 2, 5))))
        ids, names = [each.id for each in chosen], [id_of(each.body) for each in chosen]
        await sleep(draw.choice((0.0, 0.0, 0.2)))
        if draw.random() < 0.3:
            return Order("run now", names, lambda: self.queue.run_now(ids=ids))
        running = draw.random() < 0.7
        return Order("cancel", names, lambda: self.queue.cancel(ids=ids, running=running))


class EqualIds(ListQueue):
    """The list queue with messages that share their ids. Operators name messages by entry."""

    rules: ClassVar[dict[str, Any]] = {**ListQueue.rules, "shared": True}
    has_unique = False
    sharers = 3


class GroupedListQueue(SimulatedProduct, products.GroupedListQueue):
    """The list queue with groups."""

    verbs: ClassVar[dict[str, int]] = {**ListQueue.verbs, "reject": 10}
    chosen: ClassVar[tuple[str, ...]] = ("redrive", "drop", "resume", "run now", "cancel")
    delayed = 0.1
    groups = 4
    is_operated = True

    @staticmethod
    def draw_settings(draw: random.Random) -> Settings:
        rate = draw.choice((None, None, (10, 1.0, 1), (20, 1.0, 3)))
        settings = SimulatedProduct.draw_settings(draw)
        stops = settings["salt"] % 2 == 1
        return {
            **settings,
            "group_in_flight": draw.choice((1, 1, 2)),
            "group_rate": rate,
            "group_stops": stops,
            "group_turns": rate is None and not stops,
            "max_in_flight": draw.choice((None, None, None, 1, 3)),
        }

    def _open(self, client: redis.asyncio.Redis) -> Any:
        return AsyncQueue(
            client,
            NAME,
            visibility_timeout=self.lease,
            max_receives=self.settings["max_receives"],
            **self.limits(),
        )

    async def plan(self, draw: random.Random) -> Order | None:
        """Choose dead letters to redrive or to drop, or one whose group goes on without it.

        Or choose delayed messages to run now or to cancel.
        """
        if draw.random() < 0.3:
            return await _plan_delayed(self.queue, draw, draw.random() < 0.5)
        letters = await self.queue.dead_letters(20) if self.settings["group_stops"] else []
        if not letters:
            return None
        chosen = draw.sample(letters, min(len(letters), draw.choice((1, 2, 5))))
        entries, ids = [each.entry for each in chosen], [id_of(each.body) for each in chosen]
        verb = draw.choice(("redrive", "redrive", "drop", "resume"))
        if verb == "redrive":
            return Order(verb, ids, lambda: self.queue.redrive(entries=entries))
        if verb == "drop":
            return Order(verb, ids, lambda: self.queue.drop_dead_letters(*entries))
        group = group_of(ids[0]) or ""
        return Order(verb, [group], lambda: self.queue.resume_group(group))


async def _plan_delayed(queue: AsyncQueue, draw: random.Random, by_id: bool) -> Order | None:
    """Choose delayed messages to run now or to cancel, by entry or by id, perhaps too late."""
    seen = await queue.peek(20, "delayed")
    if not seen:
        return None
    chosen = draw.sample(seen, min(len(seen), draw.choice((1, 1, 2, 5))))
    entries = [each.entry for each in chosen]
    ids = [each.id for each in chosen]
    await sleep(draw.choice((0.0, 0.0, 0.2)))
    verb, act = draw.choice((("run now", queue.run_now), ("cancel", queue.cancel)))
    names = [id_of(each.body) for each in chosen]
    return Order(verb, names, lambda: act(ids=ids) if by_id else act(*entries))
