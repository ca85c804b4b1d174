"""The drop-in for redis.asyncio: what a task popped is settled, renewed or returned by task."""

import asyncio
import copy
import gc
import inspect
import logging
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
import redis
import redis.asyncio

import ackq
from ackq import dropin
from ackq.dropin.asyncio import Redis
from tests.dropin.seen import LEASE, come_back, in_flight, settled
from tests.waiting import wait_until


@pytest.fixture
def r(start: Callable[..., Redis]) -> Redis:
    return start()


async def until(condition: Callable[[], bool]) -> None:
    await asyncio.to_thread(wait_until, condition, "the condition of a task")


async def test_the_clients_decoding_is_honoured(start: Callable[..., Redis], name: str) -> None:
    async with start(decode_responses=True) as r:
        await r.lpush(name, "ä", "b")
        assert await r.rpop(name) == "ä"
        assert await r.brpop(name) == (name, "b")


async def test_each_task_has_its_own(r: Redis, name: str, queue: ackq.Queue) -> None:
    popped, go = asyncio.Event(), asyncio.Event()

    async def consume() -> None:
        assert await r.rpop(name) == b"b"
        popped.set()
        await go.wait()
        assert await r.rpop(name) is None

    await r.lpush(name, "a", "b")
    await r.rpop(name)
    task = asyncio.create_task(consume())
    await popped.wait()
    assert in_flight(queue) == [b"a", b"b"]
    go.set()
    await task
    assert in_flight(queue) == [b"a"]
    await r.aclose()
    assert settled(queue)


async def ends(r: Redis, name: str) -> None:
    await r.rpop(name)


async def ends_after_a_caught_error(r: Redis, name: str) -> None:
    await r.rpop(name)
    try:
        raise ZeroDivisionError
    except ZeroDivisionError:
        pass


async def raises(r: Redis, name: str) -> None:
    await r.rpop(name)
    raise ZeroDivisionError


async def raises_in_what_it_awaits(r: Redis, name: str) -> None:
    async def work() -> None:
        await asyncio.sleep(0)
        raise ZeroDivisionError

    await r.rpop(name)
    await work()


async def is_cancelled(r: Redis, name: str) -> None:
    await r.brpop(name)
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(60)


async def runs_out_of_time(r: Redis, name: str) -> None:
    async with asyncio.timeout(None) as limit:
        await r.rpop(name)
        limit.reschedule(asyncio.get_running_loop().time())
        await asyncio.sleep(60)


async def is_cancelled_by_its_group(r: Redis, name: str) -> None:
    async def fail() -> None:
        raise ZeroDivisionError

    async with asyncio.TaskGroup() as group:
        await r.rpop(name)
        group.create_task(fail())
        await asyncio.sleep(60)


@pytest.mark.parametrize("consume", [ends, ends_after_a_caught_error])
async def test_a_task_that_ends_settles(
    r: Redis, name: str, queue: ackq.Queue, consume: Callable[[Redis, str], Awaitable[None]]
) -> None:
    await r.lpush(name, "a")
    await asyncio.gather(asyncio.ensure_future(consume(r, name)))
    await until(lambda: settled(queue))


@pytest.mark.parametrize(
    "consume",
    [raises, raises_in_what_it_awaits, is_cancelled, runs_out_of_time, is_cancelled_by_its_group],
)
async def test_a_task_that_fails_returns_its_messages(
    r: Redis, name: str, queue: ackq.Queue, consume: Callable[[Redis, str], Awaitable[None]]
) -> None:
    await r.lpush(name, "a")
    task = asyncio.ensure_future(consume(r, name))
    await asyncio.wait([task])
    assert task.cancelled() or task.exception()
    # Long before its lease would end if it were renewed, and its consumer is not restarted.
    await until(lambda: not in_flight(queue))
    assert await asyncio.to_thread(come_back, queue) == b"a"


async def test_the_error_of_a_task_is_still_reported(r: Redis, name: str) -> None:
    unseen: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unseen.append(context))
    await r.lpush(name, "a")
    task = asyncio.create_task(raises(r, name))
    await asyncio.wait([task])
    await until(lambda: not r._ackq._renewal.all_in_flight())
    del task
    async with asyncio.timeout(30):
        while not unseen:
            gc.collect()
            await asyncio.sleep(0)
    assert "never retrieved" in unseen[0]["message"]


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_the_last_message_when_the_program_ends(
    start: Callable[..., Redis], name: str, queue: ackq.Queue, caplog: pytest.LogCaptureFixture
) -> None:
    """Without closing the client: asyncio.run ends the loop."""
    # The record of a warning would keep the queue, and so its open connections.
    caplog.set_level(logging.ERROR, "ackq.dropin")

    async def main(fails: bool) -> None:
        r = start()
        await r.lpush(name, "a")
        await r.rpop(name)
        if fails:
            raise ZeroDivisionError

    asyncio.run(main(False))
    assert settled(queue)
    with pytest.raises(ZeroDivisionError):
        asyncio.run(main(True))
    assert come_back(queue) == b"a"
    gc.collect()  # the connections that were left open, as with redis-py's own client


async def test_it_is_a_client(r: Redis, name: str) -> None:
    assert isinstance(r, redis.asyncio.Redis)
    async with r.pipeline() as pipeline:
        pipeline.lpush(name, "a", "b", "c")
        assert await pipeline.execute() == [3]
    async with r.lock(f"{name}-lock", timeout=5):
        assert await r.rpop(name) == b"a"
    async with r.client() as one:
        assert isinstance(one, Redis)
        assert await one.rpop(name) == b"b"
    async with copy.copy(r) as other:
        assert await other.rpop(name) == b"c"
    assert await r.rpop(name) is None


def test_both_clients_have_the_same_methods() -> None:
    def public(kind: type) -> dict[str, list[str]]:
        return {
            name.replace("aclose", "close"): list(inspect.signature(each).parameters)
            for base in kind.__mro__[:-1]
            for name, each in vars(base).items()
            if not name.startswith("_") and callable(each)
        }

    assert public(dropin.Redis) == public(Redis)


def test_a_pop_may_be_called_before_the_event_loop_runs(
    start: Callable[..., Redis], plain_client: redis.Redis, name: str, queue: ackq.Queue
) -> None:
    plain_client.lpush(name, "a")
    r = start()
    pop = r.rpop(name)

    async def main() -> None:
        async with r:
            assert await pop == b"a"
            assert in_flight(queue) == [b"a"]

    asyncio.run(main())
    assert settled(queue)


@pytest.fixture(autouse=True)
def no_task_is_left(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    yield
    assert "Task was destroyed" not in caplog.text


async def test_the_only_connection_of_a_client_is_gone_once_the_drop_in_is_closed(
    start: Callable[..., Redis], name: str
) -> None:
    client: Any = await start(single_connection_client=True)._ackq.client.initialize()
    r = Redis(client, hold=0)
    await r.lpush(name, "a")
    assert r.connection is client.connection is not None
    await r.aclose()
    assert client.connection is None
    await client.aclose()  # releases nothing twice


def test_leases_are_renewed_in_each_event_loop(
    start: Callable[..., Redis], name: str, queue: ackq.Queue
) -> None:
    r = start()

    async def main() -> None:
        await r.lpush(name, "a")
        await r.rpop(name)
        assert await asyncio.to_thread(queue.pop, 2 * LEASE) is None
        await r.aclose()

    for _ in range(2):
        asyncio.run(main())
        assert settled(queue)
