"""What the client of a sharded queue does with what its shards answer, with no server.

The blocking client is generated from this one.
"""

import asyncio
import contextlib
import functools
import inspect
import math
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import redis
import redis.asyncio

import ackq
from ackq import Redriven
from ackq.errors import ConfigurationError, KeyTypeError
from ackq.membership.client_async import AsyncConsumerGroup
from ackq.membership.shards import Shards, shard_names
from ackq.queue import chosen_messages, inspection
from ackq.sharded import AsyncShardedQueue, ShardedQueue, client_async, operations
from ackq.sharded.client_async import READ_AGAIN_LATER, READ_INTERVAL, TRIES
from ackq.sharded.waiters import ShardWaiters
from ackq.sharded.waiters_async import AsyncShardWaiters

AWAY = redis.ConnectionError("gone")
REFUSED = KeyTypeError("closed")
FIRST = Shards(2, 2, version=1)
LATER = Shards(2, 3, version=3, draining=(2,))


class Clock:
    """Time that passes only when a shard is waited for."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(client_async, "time", made)
    return made


@pytest.fixture(autouse=True)
def left(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The consumers that have left: none of them has asked the server for anything."""
    found: list[Any] = []

    async def aclose(self: Any) -> None:
        found.append(self)

    monkeypatch.setattr(AsyncConsumerGroup, "aclose", aclose)
    return found


@contextlib.asynccontextmanager
async def _queue(shards: int | None = 2, **settings: Any) -> AsyncIterator[Any]:
    async with AsyncShardedQueue(redis.asyncio.Redis(), "jobs", shards, **settings) as queue:
        yield queue


def on_a_loop(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Run a test on an event loop, with a queue of two shards as its first argument."""
    signature = inspect.signature(test)

    @functools.wraps(test)
    def run(**given: Any) -> None:
        async def main() -> None:
            async with _queue() as queue:
                await test(queue, **given)

        asyncio.run(main())

    fixtures = list(signature.parameters.values())[1:]
    run.__signature__ = signature.replace(parameters=fixtures)  # type: ignore[attr-defined]
    return run


def _answering(*answers: Any, asked: list[Any] | None = None) -> Callable[..., Awaitable[Any]]:
    """Return a function that gives one answer after the other, and notes its arguments."""
    left = list(answers)

    async def answer(*args: Any, **keywords: Any) -> Any:
        if asked is not None:
            asked.append((*args, keywords) if keywords else args)
        found = left.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    return answer


def _by_name(*queues: Any) -> dict[Any, Any]:
    """Return queues of shards as the client keeps them."""
    names = shard_names("jobs", len(queues))
    return {(name, "open"): queue for name, queue in zip(names, queues, strict=True)}


def _message(id: str = "a", shard: int = 0) -> ackq.Message:
    return ackq.Message(shard_names("jobs", 2)[shard], id.encode(), b"{}", 1, 1)


# --- settings ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [AsyncShardedQueue, ShardedQueue])
def test_every_setting_reaches_the_shards_and_the_consumers(kind: Any) -> None:
    settings: dict[str, Any] = {
        "visibility_timeout": 9.0,
        "max_receives": 3,
        "requeue": "back",
        "max_body_bytes": 77,
        "pop_from": "left",
        "record_errors": "type",
        "time_field": "at",
    }
    url = "redis://127.0.0.1:7777/3"
    for make in (kind, kind.from_url):
        client = redis.asyncio.Redis if kind is AsyncShardedQueue else redis.Redis
        place = url if make == kind.from_url else client.from_url(url)
        queue = make(place, "jobs", 5, session_timeout=7.0, **settings)
        assert (queue.name, queue._given) == ("jobs", 5)
        assert repr(queue) == f"<ackq.{kind.__name__} 'jobs' on 127.0.0.1:7777/3>"
        assert queue._home.name == "{jobs}:all"
        assert (queue.config, queue.address) == (queue._home.config, "127.0.0.1:7777/3")
        other = queue.with_config(max_receives=4)
        assert (other.name, other._given, other._session_timeout) == ("jobs", 5, 7.0)
        assert other.config == replace(queue.config, max_receives=4)
        for config in (queue._home.config, queue.queue_of("{jobs:0.1}").config):
            assert {name: getattr(config, name) for name in settings} == settings
        spec = queue._members_of(Shards(2, 5))._spec
        assert (spec.name, spec.partitions, spec.session_us) == ("{jobs}:5", 5, 7_000_000)
        assert queue._members_of(Shards(1, 4))._spec.name == "{jobs}"
        assert queue.assigned == ()
    assert kind(client(), "jobs")._given is None


def test_bad_settings_are_refused_at_once() -> None:
    for name, value in (
        ("session_timeout", 0),
        ("session_timeout", 3601),
        ("visibility_timeout", 0),
    ):
        settings: dict[str, Any] = {name: value}
        with pytest.raises(ConfigurationError, match=name):
            ShardedQueue(redis.Redis(), "jobs", **settings)


def test_a_number_out_of_range_is_refused_before_anything_is_sent() -> None:
    with ShardedQueue(redis.Redis(), "jobs", 2) as queue:
        for wrong in (0, 1025):
            with pytest.raises(ConfigurationError, match="shards is an integer from 1 to 1024"):
                queue.resize(wrong)


def test_one_queue_is_kept_for_each_shard_and_others_refuse_messages() -> None:
    with ShardedQueue(redis.Redis(), "jobs", 2) as queue:
        shard = queue.queue_of("{jobs:0.1}")
        assert shard.name == "{jobs:0.1}"
        assert queue.queue_of("{jobs:0.1}") is shard
        assert queue.queue_of("{jobs:1.3}") is not shard
        for name in ("other", "{jobs}", "{other:0.1}"):
            assert queue.queue_of(name) is queue._home


# --- the record ----------------------------------------------------------------------------


@on_a_loop
async def test_the_record_is_read_again_after_a_second_and_later_if_that_failed(
    queue: Any, clock: Clock, left: list[Any]
) -> None:
    asked: list[Any] = []
    queue._home.execute = _answering(FIRST, FIRST, AWAY, OSError(), None, LATER, asked=asked)
    first = await queue._opened()
    assert [each.name for each in first.queues] == list(shard_names("jobs", 2))
    assert first.recorded == FIRST
    assert queue._next_read == clock.now + READ_INTERVAL
    clock.now += READ_INTERVAL - 0.01
    assert await queue._opened() is first
    assert len(asked) == 1
    clock.now += 0.01
    assert await queue._opened() is first  # nothing has changed
    assert asked[1] == (operations.read, "jobs")
    for _ in range(2):
        clock.now = queue._next_read
        assert await queue._opened() is first
        assert queue._next_read == clock.now + READ_AGAIN_LATER
    clock.now = queue._next_read
    assert await queue._opened() is first  # a record that is gone says nothing
    assert queue._next_read == clock.now + READ_INTERVAL
    clock.now = queue._next_read
    assert not left
    later = await queue._opened()
    assert later is not first
    assert later.recorded == LATER
    assert [each.name for each in later.used] == list(shard_names("jobs", 3))
    assert {each.name for each in later.draining} == (
        set(shard_names("jobs", 2)) - set(shard_names("jobs", 3))
    )
    assert later.members._spec.partitions == 3
    assert (queue._former, left) == ([first], [first.members])
    assert queue._next_read == clock.now + READ_INTERVAL


@on_a_loop
async def test_a_record_of_the_first_format_is_read_once(queue: Any) -> None:
    queue._home.execute = _answering(Shards(1, 2))
    opened = await queue._opened()
    assert [each.name for each in opened.queues] == ["{jobs:0}", "{jobs:1}"]
    assert queue._next_read == math.inf
    assert await queue._opened() is opened


@on_a_loop
async def test_a_record_is_read_now_if_a_shard_refused_a_call(queue: Any, clock: Clock) -> None:
    queue._home.execute = _answering(FIRST, FIRST, LATER)
    first = await queue._opened()
    assert await queue._reopened() is first
    later = await queue._reopened()
    assert later.recorded == LATER
    # What a call began with is not what is recorded: another try may help.
    queue._reopened = _answering(later, later)
    assert await queue._changed(first) is True


def test_tasks_that_begin_at_once_open_the_shards_once() -> None:
    asked: list[Any] = []

    async def read(*args: Any) -> Shards:
        asked.append(args)
        await asyncio.sleep(0)  # another task runs
        return FIRST

    async def run() -> None:
        async with _queue() as queue:
            queue._home.execute = read
            first, second = await asyncio.gather(queue._opened(), queue._opened())
            assert first is second

    asyncio.run(run())
    assert len(asked) == 1


# --- taking --------------------------------------------------------------------------------


class Shard:
    """A set of shards that gives what a test has written down."""

    def __init__(self, clock: Clock, *takes: Any, recorded: Shards = FIRST) -> None:
        self.recorded = recorded
        self.draining: tuple[Any, ...] = ()
        self.members = SimpleNamespace(join=_answering(*[None] * 99), partitions=(0,))
        self.takes: list[Any] = []
        self.waits: list[float] = []
        self.closed = 0
        self._clock = clock
        self._answers = list(takes)

    async def take(self, n: int, visibility_timeout: Any, acked: Any) -> Any:
        self.takes.append((n, visibility_timeout, dict(acked)))
        self._clock.now += 0.125
        found = self._answers.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    async def wait(self, timeout: float) -> None:
        self.waits.append(timeout)
        self._clock.now += min(timeout, 1.0)

    async def retire(self) -> bool:
        return True

    async def close(self) -> None:
        self.closed += 1


def _popping(
    shard: Shard, n: int = 5, timeout: float | None = None, **more: Any
) -> tuple[list[Any], Any]:
    """Return what a pop finds on these shards."""

    async def main() -> Any:
        async with _queue() as queue:
            queue._shards, queue._next_read = shard, math.inf
            return await queue.pop_many(n, timeout, **more)

    return asyncio.run(main()), shard


def test_a_pop_returns_what_the_first_take_finds(clock: Clock) -> None:
    found = [_message()]
    messages, shard = _popping(Shard(clock, found), 7, visibility_timeout=12.0)
    assert messages is found
    assert shard.takes == [(7, 12.0, {})]
    assert shard.waits == []
    assert shard.closed == 1
    messages, shard = _popping(Shard(clock, None))
    assert (messages, shard.waits) == ([], [])


def test_a_pop_tries_again_where_others_were_faster_but_not_for_ever(clock: Clock) -> None:
    messages, shard = _popping(Shard(clock, *[[]] * TRIES))
    assert (messages, len(shard.takes), shard.waits) == ([], TRIES, [])
    found = [_message()]
    messages, shard = _popping(Shard(clock, [], [], found))
    assert messages is found
    # It has time.
    messages, shard = _popping(Shard(clock, *[[]] * 8), timeout=1.0)
    assert (messages, len(shard.takes), shard.waits) == ([], 8, [])


def test_a_pop_waits_for_what_is_left_of_its_timeout(clock: Clock) -> None:
    messages, shard = _popping(Shard(clock, *[None] * 4), timeout=2.5)
    # Each look takes an eighth of a second, and a wait lasts a second at most.
    assert shard.waits == [2.375, 1.25, 0.125]
    assert messages == []
    found = [_message()]
    messages, shard = _popping(Shard(clock, None, found), timeout=math.inf)
    assert (messages, shard.waits) == (found, [math.inf])
    messages, shard = _popping(Shard(clock, None), timeout=0)
    assert (messages, shard.waits) == ([], [])


@on_a_loop
async def test_one_message_is_popped_with_the_same_settings(queue: Any) -> None:
    asked: list[Any] = []
    found = _message()
    queue.pop_many = _answering([found], [], asked=asked)
    assert await queue.pop(3.0, 4.0, [found]) is found
    assert await queue.pop() is None
    assert asked == [(1, 3.0, 4.0, [found]), (1, None, None, ())]


# --- pushing -------------------------------------------------------------------------------


def _stub(*answers: Any) -> Any:
    """Return a shard that answers pushes, and notes them in ``asked``."""
    asked: list[Any] = []
    push = _answering(*answers, asked=asked)
    return SimpleNamespace(asked=asked, push=push, push_many=push)


OPTIONS = {"delay": 2.0, "at": 3.0, "front": True, "confirm": 1}


@on_a_loop
async def test_a_push_reaches_its_shard_with_all_options(queue: Any) -> None:
    one, other = _stub("a", "b", "c"), _stub("d", "e")
    queue._opened = _answering(*[SimpleNamespace(used=(one, other))] * 5)
    queue._turns = iter([4, 7])
    key = next(str(n) for n in range(9) if operations.shard_of(str(n), 2) == 0)
    options = {**OPTIONS, "dedup_window": 60.0}
    assert await queue.push(b"1", **options) == "a"
    assert await queue.push(b"2") == "d"
    assert await queue.push(b"3", key=key, dedup="x") == "b"
    assert await queue.push(b"4", dedup=key) == "c"
    assert one.asked[0] == (b"1", {**options, "dedup": None})
    bare = {"delay": None, "at": None, "front": False, "confirm": None, "dedup_window": 3600.0}
    assert other.asked == [(b"2", {**bare, "dedup": None})]
    assert one.asked[1:] == [(b"3", {**bare, "dedup": "x"}), (b"4", {**bare, "dedup": key})]


# --- all shards ----------------------------------------------------------------------------


class Each:
    """A shard that counts the calls it gets."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.asked: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        async def answer(*args: Any, **keywords: Any) -> Any:
            self.asked.append((name, args, keywords))
            if name == "redrive":
                return Redriven.of(self.count, [f"{self.count}-0"])
            return [self.count] * self.count if name == "dead_letters" else self.count

        return answer


@on_a_loop
async def test_a_call_on_all_shards_adds_what_each_did(queue: Any) -> None:
    one, other = Each(2), Each(3)
    queue._opened = _answering(*[SimpleNamespace(recorded=SimpleNamespace(draining=()))] * 99)
    queue.shards = _answering(*[(one, other)] * 99)
    assert await queue.dead_letters() == [2, 2, 3, 3, 3]
    assert await queue.dead_letters(5) == [2, 2, 3, 3, 3]
    redriven = await queue.redrive()
    assert (redriven, redriven.refused) == (5, ("2-0", "3-0"))
    assert await queue.redrive(7, force=True) == 5
    assert await queue.purge() == 5
    assert await queue.purge(dead=True) == 5
    assert await queue.run_now("x", ids=iter([1])) == 5
    assert await queue.cancel("y", ids=iter([2])) == 5
    shared: list[Any] = [
        ("execute", (inspection.purge, False), {}),
        ("execute", (inspection.purge, True), {}),
        ("execute", (chosen_messages.run_now, ("x",), [1]), {}),
        ("execute", (chosen_messages.cancel, ("y",), [2], False), {}),
    ]
    for shard, letters, wanted in (
        (one, (100, 5), (None, 7)),
        (other, (98, 3), (None, 5)),
    ):
        assert shard.asked == [
            *(("dead_letters", (letter,), {}) for letter in letters),
            ("redrive", wanted[:1], {"force": False}),
            ("redrive", wanted[1:], {"force": True}),
            *shared,
        ]


@on_a_loop
async def test_settles_reach_the_queue_of_each_message_with_their_options(queue: Any) -> None:
    a, b = _message("a"), _message("b", 1)
    error = ValueError("why")
    one, other = Each(1), Each(1)
    queue._queues = _by_name(one, other)
    assert await queue.ack(a, b) == 2
    assert await queue.ack(a, confirm=1) == 1
    assert await queue.nack(a, delay=3.0, error=error) == 1
    assert await queue.release(a, delay=2.0) == 1
    assert await queue.reject(a, reason="no", error=error) == 1
    assert await queue.extend(a, timeout=5.0) == 1
    assert await queue.nack(b) == await queue.reject(b) == await queue.extend(b) == 1
    assert one.asked == [
        ("ack", (a,), {"confirm": None}),
        ("ack", (a,), {"confirm": 1}),
        ("nack", (a,), {"delay": 3.0, "error": error}),
        ("release", (a,), {"delay": 2.0}),
        ("reject", (a,), {"reason": "no", "error": error}),
        ("extend", (a,), {"timeout": 5.0}),
    ]
    assert other.asked == [
        ("ack", (b,), {"confirm": None}),
        ("nack", (b,), {"delay": None, "error": None}),
        ("reject", (b,), {"reason": "", "error": None}),
        ("extend", (b,), {"timeout": None}),
    ]


def test_a_close_leaves_every_set_of_shards(clock: Clock) -> None:
    async def main() -> None:
        former, current = Shard(clock), Shard(clock)
        async with _queue() as queue:
            queue._former, queue._shards = [former], current
        assert (former.closed, current.closed) == (1, 1)

    asyncio.run(main())


def test_the_turns_of_producers_begin_at_different_shards() -> None:
    begun = {next(ShardedQueue(redis.Redis(), "jobs", 2)._turns) for _ in range(12)}
    assert len(begun) > 1
    assert max(begun) < 1024


# --- waiting -------------------------------------------------------------------------------


def test_a_consumer_without_shards_sleeps_a_little(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr("time.sleep", slept.append)
    monkeypatch.setattr("asyncio.sleep", sleep)
    with ackq.Queue(redis.Redis(), "jobs") as queue:
        for limit in (0.02, 30.0):
            assert ShardWaiters([queue]).wait([], limit) == []
            assert asyncio.run(AsyncShardWaiters([]).wait([], limit)) == []
    assert slept == [0.02, 0.02, 0.1, 0.1]
