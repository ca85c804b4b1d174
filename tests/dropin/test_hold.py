"""`collect="hold"`: the last messages stay leased until newer ones were taken, or are settled."""

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import redis

import ackq
from ackq import dropin
from ackq.dropin.asyncio import Redis as AsyncRedis
from tests.dropin.seen import LEASE, come_back, in_flight, run_in_thread, settled
from tests.waiting import wait_until


@pytest.fixture
def held(plain_client: redis.Redis) -> Iterator[dropin.Redis]:
    """A client that holds the last two messages."""
    with dropin.Redis(plain_client, visibility_timeout=LEASE, collect="hold", hold=2) as r:
        yield r


def test_the_last_messages_stay_leased(held: dropin.Redis, name: str, queue: ackq.Queue) -> None:
    held.lpush(name, *"abcde")
    assert [held.rpop(name) for _ in "abc"] == [b"a", b"b", b"c"]
    assert in_flight(queue) == [b"a", b"b", b"c"]
    assert held.brpop(name) == (name.encode(), b"d")
    assert in_flight(queue) == [b"b", b"c", b"d"]
    assert held.brpop([f"{name}-2", name]) == (name.encode(), b"e")
    assert held.rpop(name) is None
    assert in_flight(queue) == [b"d", b"e"]
    assert queue.pop(timeout=2 * LEASE) is None  # all are renewed
    held.close()
    assert settled(queue)


def test_a_batch_and_a_count(held: dropin.Redis, name: str, queue: ackq.Queue) -> None:
    held.lpush(name, *"abcdefg")
    assert held.rpop(name, 3) == [b"a", b"b", b"c"]
    assert held.rpop(name, 2) == [b"d", b"e"]
    assert in_flight(queue) == [b"b", b"c", b"d", b"e"]
    with held.batch(name):
        assert not in_flight(queue)
        assert held.rpop(name) == b"f"
        assert held.rpop(name) == b"g"
        assert held.settle(name) == held.settle(name, "f") == 0
        assert in_flight(queue) == [b"f", b"g"]
    assert settled(queue)


def test_settle(held: dropin.Redis, name: str, queue: ackq.Queue) -> None:
    held.lpush(name, *"abb", "c")
    assert [held.rpop(name) for _ in "ab"] == [b"a", b"b"]
    assert held.settle(name, b"a", "x") == 1
    assert held.rpop(name, 2) == [b"b", b"c"]
    assert in_flight(queue) == [b"b", b"b", b"c"]
    assert held.settle(name, "b") == 1
    assert in_flight(queue) == [b"b", b"c"]
    assert held.settle(name) == 2
    assert settled(queue)
    assert held.settle(name) == held.settle(name, "a") == 0
    assert held.settle(f"{name}-2") == 0


def test_settle_in_another_thread(held: dropin.Redis, name: str, queue: ackq.Queue) -> None:
    held.lpush(name, "a", "b")
    held.rpop(name, 2)
    found: list[int] = []
    run_in_thread(lambda: found.extend([held.settle(name), held.settle(name, "a")]))
    assert found == [0, 1]
    assert in_flight(queue) == [b"b"]


def test_settle_from_the_left_end(held: dropin.Redis, name: str, plain_client: redis.Redis) -> None:
    held.rpush(name, "a", "b")
    held.lpop(name, 2)
    assert held.settle(name, "a") == 1
    assert held.settle(name) == 1
    with ackq.Queue(plain_client, name, pop_from="left") as queue:
        assert settled(queue)


def test_settle_after_the_lease_was_lost(
    plain_client: redis.Redis, name: str, queue: ackq.Queue
) -> None:
    r = dropin.Redis(plain_client, collect="hold", hold=2)
    r.lpush(name, "a")
    r.rpop(name)
    key: Any
    (key,) = plain_client.zrange(f"{name}BACKUP", 0, 0)
    plain_client.zadd(f"{name}BACKUP", {key: 1})  # its lease has ended
    taken = queue.pop()
    assert taken is not None
    with pytest.raises(ackq.LeaseLost):
        r.settle(name, "a")
    queue.ack(taken)
    r.close()


def test_an_ended_thread_holds_on(held: dropin.Redis, name: str, queue: ackq.Queue) -> None:
    """Others may be working on what it popped."""
    held.lpush(name, "a")
    run_in_thread(lambda: held.rpop(name))
    assert queue.pop(timeout=3 * LEASE) is None
    assert held.settle(name, "a") == 1
    assert settled(queue)


def test_a_function_that_fails_returns_all(
    held: dropin.Redis, name: str, queue: ackq.Queue
) -> None:
    def store() -> None:
        held.rpop(name)
        raise ZeroDivisionError

    held.lpush(name, "a", "b")
    held.rpop(name)
    with pytest.raises(ZeroDivisionError):
        store()
    assert held.rpop(name) is None
    assert {come_back(queue), come_back(queue)} == {b"a", b"b"}


def test_several_threads_settle_what_one_pops(
    plain_client: redis.Redis, name: str, queue: ackq.Queue
) -> None:
    r = dropin.Redis(plain_client, collect="hold", hold=1000)
    r.lpush(name, *range(100, 300))
    threads = []
    while raw := r.rpop(name):
        threads.append(threading.Thread(target=r.settle, args=(name, raw)))
        threads[-1].start()
    for thread in threads:
        thread.join()
    assert settled(queue)
    r.close()


def test_on_asyncio(url: str, name: str, queue: ackq.Queue) -> None:
    async def main() -> None:
        client = AsyncRedis.from_url(url, visibility_timeout=LEASE, collect="hold", hold=2)
        async with client as r:
            await r.lpush(name, *"abcd")

            async def fetch() -> None:
                for _ in "abcd":
                    await r.rpop(name)

            await asyncio.create_task(fetch())
            assert in_flight(queue) == [b"b", b"c", b"d"]
            assert await asyncio.to_thread(queue.pop, 2 * LEASE) is None
            assert await r.settle(name, "b", "d") == 2
            assert in_flight(queue) == [b"c"]
        assert settled(queue)

    asyncio.run(main())


def test_a_copy_has_the_same_settings(held: dropin.Redis, name: str, queue: ackq.Queue) -> None:
    held.lpush(name, "a", "b")
    with held.client() as other:
        assert [other.rpop(name), other.rpop(name)] == [b"a", b"b"]
        assert in_flight(queue) == [b"a", b"b"]
    wait_until(lambda: settled(queue), "the end of the copy")
