"""A pop that a task of its own awaits: the message belongs to the task that called it."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import ackq
from ackq.dropin.asyncio import Redis
from tests.dropin.seen import come_back, in_flight, settled


@pytest.fixture
def r(start: Callable[..., Redis]) -> Redis:
    return start()


async def in_a_task(r: Redis, name: str) -> Any:
    return await asyncio.create_task(r.rpop(name))


async def with_a_time_limit(r: Redis, name: str) -> Any:
    # What asyncio.wait_for does before Python 3.12.
    found = await asyncio.wait_for(asyncio.ensure_future(r.brpop(name)), 10)
    return found[1]


async def shielded(r: Redis, name: str) -> Any:
    return await asyncio.shield(r.rpop(name))


async def until_a_signal_to_stop(r: Redis, name: str) -> Any:
    stop = asyncio.create_task(asyncio.Event().wait())
    pop = asyncio.create_task(r.brpop([name, f"{name}:low"]))
    await asyncio.wait({stop, pop}, return_when=asyncio.FIRST_COMPLETED)
    stop.cancel()
    return pop.result()[1]


@pytest.mark.parametrize("pop", [in_a_task, with_a_time_limit, shielded, until_a_signal_to_stop])
async def test_it_is_settled_as_the_caller_asks_for_the_next(
    r: Redis, name: str, queue: ackq.Queue, pop: Callable[[Redis, str], Awaitable[Any]]
) -> None:
    await r.lpush(name, "a", "b")
    assert await pop(r, name) == b"a"
    await ticks_of_renewal(r)
    assert in_flight(queue) == [b"a"]
    assert await pop(r, name) == b"b"
    assert in_flight(queue) == [b"b"]
    await r.aclose()
    assert settled(queue)


async def test_other_calls_of_the_caller_settle_it_too(
    r: Redis, name: str, queue: ackq.Queue
) -> None:
    await r.lpush(f"{name}-2", "x")
    for other in (r.brpop([f"{name}-2", name]), r.rpop(name, 0)):
        await r.lpush(name, "a")
        assert await in_a_task(r, name) == b"a"
        assert in_flight(queue) == [b"a"]
        await asyncio.create_task(other)
        assert in_flight(queue) == []


async def test_it_is_given_back_if_the_caller_fails(r: Redis, name: str, queue: ackq.Queue) -> None:
    async def consume(r: Redis) -> None:
        await in_a_task(r, name)
        raise ZeroDivisionError

    await r.lpush(name, "a")
    with pytest.raises(ZeroDivisionError):
        await asyncio.create_task(consume(r))
    assert await asyncio.to_thread(come_back, queue) == b"a"


async def test_pops_at_the_same_time_are_held_together(
    r: Redis, name: str, queue: ackq.Queue
) -> None:
    await r.lpush(name, *"abcdefg")
    for expected in ([b"a", b"b", b"c"], [b"d", b"e", b"f"]):
        popped = await asyncio.gather(*(r.rpop(name) for _ in range(3)))
        assert sorted(popped) == expected
        await ticks_of_renewal(r)
        assert in_flight(queue) == expected
    await r.aclose()
    assert not in_flight(queue)


async def test_pops_at_the_same_time_belong_to_the_batch(
    r: Redis, name: str, queue: ackq.Queue
) -> None:
    await r.lpush(name, *"abc")
    async with r.batch(name):
        await asyncio.gather(*(r.rpop(name) for _ in range(2)))
        await r.rpop(name)
        assert in_flight(queue) == [b"a", b"b", b"c"]
    assert settled(queue)


async def test_a_call_that_another_task_awaits_and_works_on_belongs_to_that_task(
    r: Redis, name: str, queue: ackq.Queue
) -> None:
    async def work(pop: Awaitable[bytes], go_on: asyncio.Event) -> None:
        await pop
        await go_on.wait()

    await r.lpush(name, "a", "b")
    go_on = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(work(r.rpop(name), go_on))
        await until(lambda: in_flight(queue) == [b"a"])
        assert await r.rpop(name) == b"b"
        assert in_flight(queue) == [b"a", b"b"]
        go_on.set()
    await until(lambda: in_flight(queue) == [b"b"])


async def ticks_of_renewal(r: Redis) -> None:
    """Wait until the renewal has looked at every task twice: it settles for ended ones."""
    looked, twice = 0, threading.Event()
    for each in r._ackq._renewal.all_in_flight():
        tend = each.tend

        async def count(tend: Callable[[], Awaitable[bool]] = tend) -> bool:
            nonlocal looked
            looked += 1
            if looked >= 2:
                twice.set()
            return await tend()

        each.tend = count  # type: ignore[method-assign]
    await until(twice.is_set)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.01)
