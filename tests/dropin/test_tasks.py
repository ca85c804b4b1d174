"""Asyncio tasks that share a blocking client: a message belongs to the task that popped it."""

import asyncio

import pytest

import ackq
from ackq import dropin
from tests.dropin.seen import come_back, in_flight, settled
from tests.waiting import wait_until


def test_a_message_belongs_to_the_task_that_popped_it(
    r: dropin.Redis, name: str, queue: ackq.Queue
) -> None:
    seen = []

    async def first() -> None:
        assert r.rpop(name) == b"a"
        await asyncio.sleep(0)
        seen.append(in_flight(queue))

    async def second() -> None:
        assert r.brpop(name) == (name.encode(), b"b")
        assert r.rpop(name) is None
        seen.append(in_flight(queue))

    async def main() -> None:
        await asyncio.gather(first(), second())

    r.lpush(name, "a", "b")
    asyncio.run(main())
    assert seen == [[b"a"], [b"a"]]
    wait_until(lambda: settled(queue), "the ended task's message to be settled")


@pytest.mark.parametrize("error", [ZeroDivisionError, asyncio.CancelledError])
def test_a_task_that_fails_gives_its_message_back(
    r: dropin.Redis, name: str, queue: ackq.Queue, error: type[BaseException]
) -> None:
    async def fail() -> None:
        r.rpop(name)
        raise error

    async def main() -> None:
        await asyncio.wait([asyncio.create_task(fail())])
        assert r.rpop(name) == b"b"  # of this task

    r.lpush(name, "a", "b")
    asyncio.run(main())
    assert come_back(queue) == b"a"


def test_a_batch_of_one_task_is_not_that_of_another(
    r: dropin.Redis, name: str, queue: ackq.Queue
) -> None:
    async def collect() -> None:
        with r.batch(name):
            assert r.rpop(name) == b"a"
            await asyncio.sleep(0)
            assert in_flight(queue) == [b"a"]

    async def other() -> None:
        assert r.rpop(name) == b"b"
        assert r.rpop(name) is None

    async def main() -> None:
        await asyncio.gather(collect(), other())

    r.lpush(name, "a", "b")
    asyncio.run(main())
    assert settled(queue)
