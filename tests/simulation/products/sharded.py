"""The sharded queue: its asyncio client in virtual time."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar
from unittest import mock

import redis.asyncio

from ackq.core.effects import Clock, Sleep
from ackq.core.io.together_async import Prepared
from ackq.errors import ConfigurationError
from ackq.membership.operations import GroupSpec
from ackq.membership.shards import Shards
from ackq.sharded import client_async, operations, shards_async
from ackq.sharded.client_async import AsyncShardedQueue
from tests import products
from tests.products.bodies import id_of
from tests.products.product import Settings
from tests.simulation.steps import Steps, sleep

from .group import POLL, Group
from .listed import ListQueue
from .product import SESSION, Order, SimulatedProduct

if TYPE_CHECKING:
    from tests.simulation.world import Life, World

_NAME = "jobs"
#: Seconds that a consumer waits for one of its shards before it looks at the next.
_TURN = 0.05


async def _run_all(prepared: Sequence[Prepared[Any]]) -> list[Any]:
    """Run operations one after the other: others may act, and faults strike, between them."""
    results: list[Any] = []
    for _, steps in prepared:
        try:
            results.append(await Steps(steps))
        except Exception as error:
            results.append(error)
    return results


class _Queue(AsyncShardedQueue):
    """The client, whose consumer groups send heartbeats here."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        self.joined: list[Group] = []
        super().__init__(*args, **settings)

    def _members_of(self, recorded: Shards) -> Any:
        name = operations.group_of(self.name, recorded)
        group = Group(GroupSpec.of(name, recorded.number, self._session_timeout))
        self.joined.append(group)
        return group


class _Waiters:
    """Waits for one shard after the other, not for all at once."""

    def __init__(self, queues: Sequence[Any]) -> None:
        self._queues = queues
        self._turn = 0

    def waits_on(self, shard: int) -> bool:
        return False

    def seen(self, counts: Mapping[int, operations.ShardCounts]) -> None:
        pass

    async def wait(self, shards: Sequence[int], timeout: float) -> list[int]:
        if not shards:
            await sleep(min(timeout, _TURN))
            return []
        self._turn += 1
        shard = shards[self._turn % len(shards)]
        seconds = min(timeout, _TURN)
        found = await self._queues[shard].execute(operations.wait, seconds, None)
        return [shard] if found else []

    async def close(self) -> None:
        pass


class ShardedQueue(SimulatedProduct, products.ShardedQueue):
    """The sharded queue. At times an operator changes the number of shards."""

    verbs: ClassVar[dict[str, int]] = ListQueue.verbs
    delayed = 0.15
    is_operated = True
    is_accounted = True
    chosen: ClassVar[tuple[str, ...]] = ("redrive",)

    @staticmethod
    def draw_settings(draw: random.Random) -> Settings:
        return {**SimulatedProduct.draw_settings(draw), "shards": draw.choice((1, 2, 3))}

    @classmethod
    @contextlib.contextmanager
    def environment(cls, world: World) -> Iterator[None]:
        clock = SimpleNamespace(monotonic=lambda: world.now / 1_000_000)
        with (
            super().environment(world),
            mock.patch.object(shards_async, "run_all", _run_all),
            mock.patch.object(shards_async, "AsyncShardWaiters", _Waiters),
            mock.patch.object(shards_async, "time", clock),
            mock.patch.object(client_async, "time", clock),
        ):
            yield

    def _open(self, client: redis.asyncio.Redis) -> Any:
        return _Queue(
            client,
            _NAME,
            visibility_timeout=self.lease,
            session_timeout=SESSION,
            max_receives=self.settings["max_receives"],
            **self.limits(),
        )

    async def prepare(self) -> None:
        client = redis.asyncio.Redis()
        await _Queue(client, _NAME, self.settings["shards"], **self.limits()).shards()

    def limits(self) -> dict[str, Any]:
        """Return the settings of the client that all clients need."""
        return {}

    def background(self) -> Life:
        """Send the heartbeats of all groups: of two while the number of shards changes."""
        due: dict[int, float] = {}
        while True:
            yield Sleep(POLL)
            now = yield Clock()
            for number, group in enumerate(self.queue.joined):
                if group.member.has_joined and now >= due.setdefault(number, 0.0):
                    yield from group.member.send()
                    due[number] = (yield Clock()) + group.member.session.next_heartbeat

    async def plan(self, draw: random.Random) -> Order | None:
        """Change the number of shards, or choose dead letters of a shard to redrive."""
        if draw.random() < 0.5:
            return await self._plan_redrive(draw)
        return Order("", [], lambda: self.queue.resize(draw.choice((1, 2, 3, 4))))

    async def _plan_redrive(self, draw: random.Random) -> Order | None:
        shard = draw.choice(await self.queue.shards())
        if not (letters := await shard.dead_letters(20)):
            return None
        chosen = draw.sample(letters, min(len(letters), draw.choice((1, 2, 5))))
        entries, ids = [each.entry for each in chosen], [id_of(each.body) for each in chosen]
        return Order("redrive", ids, lambda: shard.redrive(entries=entries))


class GroupedShardedQueue(products.GroupedShardedQueue, ShardedQueue):
    """The sharded queue with groups, whose order survives a change of the number of shards."""

    groups = 4
    delayed = 0.0
    chosen: ClassVar[tuple[str, ...]] = ()

    @staticmethod
    def draw_settings(draw: random.Random) -> Settings:
        return {**ShardedQueue.draw_settings(draw), "group_in_flight": draw.choice((1, 1, 2))}

    def limits(self) -> dict[str, Any]:
        return products.GroupedShardedQueue.limits(self)

    async def plan(self, draw: random.Random) -> Order | None:
        """Change the number of shards, if the change before is over."""

        async def change() -> None:
            with contextlib.suppress(ConfigurationError):
                await self.queue.resize(draw.choice((1, 2, 3, 4)))

        return Order("", [], change)
