"""The sharded queue: its asyncio client in virtual time."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Coroutine, Generator, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar
from unittest import mock

import redis.asyncio

from ackq.core import client_async as core_client
from ackq.core.effects import Clock, Effect, Operation, Sleep
from ackq.core.io.together_async import Prepared
from ackq.membership.operations import Assignment, GroupSpec
from ackq.membership.shards import Shards
from ackq.sharded import client_async, operations, shards_async
from ackq.sharded.client_async import AsyncShardedQueue

from .group import POLL, Member
from .product import LEASE, SESSION, Got, Order, Product, Settings

if TYPE_CHECKING:
    from tests.simulation.world import Life, World

_NAME = "jobs"
#: Seconds that a consumer waits for one of its shards before it looks at the next.
_TURN = 0.05


class _Steps:
    """What a coroutine awaits to have an operation's effects answered by the world."""

    def __init__(self, steps: Operation[Any]) -> None:
        self._steps = steps

    def __await__(self) -> Operation[Any]:
        return self._steps


def _awaited(
    call: Callable[..., Coroutine[Any, Any, Any]], *args: Any, **settings: Any
) -> Operation[Any]:
    """Make a call of the client, as an operation."""
    return (yield from call(*args, **settings).__await__())


class _Driver:
    """Takes the place of the driver, which would answer effects over a connection."""

    def __init__(self, route: Any) -> None:
        self.route = route

    async def run(self, steps: Operation[Any]) -> Any:
        return await _Steps(steps)


async def _run_all(prepared: Sequence[Prepared[Any]]) -> list[Any]:
    """Run operations one after the other: others may act, and faults strike, between them."""
    results: list[Any] = []
    for _, steps in prepared:
        try:
            results.append(await _Steps(steps))
        except Exception as error:
            results.append(error)
    return results


class _Group:
    """A member of the consumers, which sends heartbeats beside the work of its process."""

    def __init__(self, group: GroupSpec) -> None:
        self.member = Member(group)

    @property
    def partitions(self) -> tuple[int, ...]:
        return self.member.session.owns()

    async def join(self) -> Assignment:
        joined: Assignment = await _Steps(self.member.join())
        return joined

    async def aclose(self) -> None:
        with contextlib.suppress(redis.RedisError):
            await _Steps(self.member.leave())


class _Queue(AsyncShardedQueue):
    """The client, whose consumer groups send heartbeats here."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        self.groups: list[_Group] = []
        super().__init__(*args, **settings)

    def _members_of(self, recorded: Shards) -> Any:
        name = operations.group_of(self.name, recorded)
        group = _Group(GroupSpec.of(name, recorded.number, self._session_timeout))
        self.groups.append(group)
        return group


class _Waiters:
    """Waits for one shard after the other, not for all at once."""

    def __init__(self, queues: Sequence[Any]) -> None:
        self._queues = queues
        self._turn = 0

    def waits_on(self, shard: int) -> bool:
        return False

    def seen(self, counts: Mapping[int, operations.Look]) -> None:
        pass

    async def wait(self, shards: Sequence[int], timeout: float) -> list[int]:
        if not shards:
            await _Steps(_sleep(min(timeout, _TURN)))
            return []
        self._turn += 1
        shard = shards[self._turn % len(shards)]
        seconds = min(timeout, _TURN)
        found = await self._queues[shard].execute(operations.wait, seconds, None)
        return [shard] if found else []

    async def close(self) -> None:
        pass


def _sleep(seconds: float) -> Generator[Effect, Any, None]:
    yield Sleep(seconds)


class ShardedQueue(Product):
    """The sharded queue. At times an operator changes the number of shards."""

    rules: ClassVar[dict[str, Any]] = {}
    delayed = 0.15
    is_operated = True
    is_accounted = True
    #: An ack beside a take from another shard is sent again if its reply was lost.
    fused = "gone"

    @staticmethod
    def draw_settings(draw: random.Random) -> Settings:
        return {**Product.draw_settings(draw), "shards": draw.choice((1, 2, 3))}

    @classmethod
    @contextlib.contextmanager
    def environment(cls, world: World) -> Iterator[None]:
        clock = SimpleNamespace(monotonic=lambda: world.now / 1_000_000)
        with (
            mock.patch.object(core_client, "Driver", _Driver),
            mock.patch.object(shards_async, "run_all", _run_all),
            mock.patch.object(shards_async, "AsyncShardWaiters", _Waiters),
            mock.patch.object(shards_async, "time", clock),
            mock.patch.object(client_async, "time", clock),
        ):
            yield

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._queue = _Queue(
            redis.asyncio.Redis(),
            _NAME,
            visibility_timeout=LEASE,
            session_timeout=SESSION,
            max_receives=settings["max_receives"],
        )

    def prepare(self) -> Operation[None]:
        creator = _Queue(redis.asyncio.Redis(), _NAME, self.settings["shards"])
        yield from _awaited(creator.shards)

    def background(self) -> Life:
        """Send the heartbeats of all groups: of two while the number of shards changes."""
        due: dict[int, float] = {}
        while True:
            yield Sleep(POLL)
            now = yield Clock()
            for number, group in enumerate(self._queue.groups):
                if group.member.has_joined and now >= due.setdefault(number, 0.0):
                    yield from group.member.send()
                    due[number] = (yield Clock()) + group.member.session.next_heartbeat

    def close(self) -> Operation[None]:
        yield from _awaited(self._queue.aclose)

    def push(
        self, entries: Sequence[tuple[str, bytes]], delay: float, is_once: bool
    ) -> Operation[dict[str, Any]]:
        bodies = [body for _, body in entries]
        if len(bodies) == 1:
            dedup = entries[0][0] if is_once else None
            later = delay or None
            yield from _awaited(self._queue.push, bodies[0], delay=later, dedup=dedup)
        else:
            yield from _awaited(self._queue.push_many, bodies, delay=delay or None)
        return {}

    def take(
        self, n: int, timeout: float | None, done: Sequence[Any]
    ) -> Operation[tuple[list[Got], dict[str, Any]]]:
        found = yield from _awaited(self._queue.pop_many, n, timeout, None, done)
        return [Got(m.body, m.receive_count, m.receipt / 1e6, m) for m in found], {}

    def settle(self, verb: str, handles: Sequence[Any], delay: float) -> Operation[int]:
        settings = {"delay": delay} if verb == "nack" else {}
        settled: int = yield from _awaited(getattr(self._queue, verb), *handles, **settings)
        return settled

    def stored(self) -> Operation[int]:
        stats = yield from _awaited(self._queue.stats)
        return int(stats.ready + stats.in_flight + stats.delayed)

    def left(self) -> Operation[dict[str, Any]]:
        dead = yield from _awaited(self._queue.dead_letters, 10_000)
        findings: list[str] = []
        for shard in (yield from _awaited(self._queue.shards)):
            findings += map(str, (yield from _awaited(shard.audit)).findings)
        return {"dead": [[each.id, each.receive_count] for each in dead], "findings": findings}

    def plan(self, draw: random.Random) -> Operation[Order | None]:
        """Change the number of shards."""
        return Order("", [], lambda: _awaited(self._queue.resize, draw.choice((1, 2, 3, 4))))
        yield
