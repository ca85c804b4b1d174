"""`hold=n`: the last messages stay leased until newer ones were taken, or are settled."""

import asyncio
import math
import re
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import redis
import redis.asyncio

import ackq
from ackq import dropin
from ackq.dropin.asyncio import Redis as AsyncRedis
from tests.dropin.seen import LEASE, come_back, in_flight, run_in_thread, settled
from tests.waiting import wait_until


@pytest.fixture
def held(plain_client: redis.Redis) -> Iterator[dropin.Redis]:
    """A client that holds the last two messages."""
    with dropin.Redis(plain_client, visibility_timeout=LEASE, hold=2) as r:
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
    held.close()  # says nothing of the work on them
    assert {come_back(queue), come_back(queue)} == {b"d", b"e"}


def test_a_count(held: dropin.Redis, name: str, queue: ackq.Queue) -> None:
    held.lpush(name, *"abcdefg")
    assert held.rpop(name, 3) == [b"a", b"b", b"c"]
    assert held.rpop(name, 2) == [b"d", b"e"]
    assert in_flight(queue) == [b"b", b"c", b"d", b"e"]
    assert held.settle(name) == 4
    with pytest.raises(ackq.ConfigurationError, match="hold=0"), held.batch(name):
        pass


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
    assert held.settle(name) == held.settle(name, "a") == held.settle(f"{name}-2") == 0


def test_of_equal_messages_those_of_this_thread_are_settled_first(
    held: dropin.Redis, name: str, queue: ackq.Queue
) -> None:
    held.lpush(name, *"aaaa")
    run_in_thread(lambda: held.rpop(name, 2))
    held.rpop(name, 2)
    assert held.settle(name, "a") == 1
    assert held.settle(name) == 1
    assert held.settle(name, *"aaa") == 2
    assert settled(queue)


def test_each_list_and_each_thread_holds_its_own(
    held: dropin.Redis, name: str, queue: ackq.Queue
) -> None:
    other = f"{name}-2"
    held.lpush(name, *"abcd")
    held.lpush(other, *"wxyz")
    run_in_thread(lambda: [held.rpop(name) for _ in "abc"])
    assert [held.brpop([other, name])[1] for _ in "wxyzd"] == [b"w", b"x", b"y", b"z", b"d"]
    assert in_flight(queue) == [b"a", b"b", b"c", b"d"]
    assert held.rpop(other) is held.rpop(name) is None
    assert held.settle(name) == 1
    assert held.settle(other) == 2
    assert held.settle(name, *"abc") == 3
    assert settled(queue)


@pytest.mark.parametrize("last", [0, 1])
def test_messages_of_the_last_seconds_stay_leased_too(
    plain_client: redis.Redis, name: str, queue: ackq.Queue, last: int
) -> None:
    r = dropin.Redis(plain_client, visibility_timeout=LEASE, hold=last, for_=0.3)
    r.lpush(name, *"abc")
    begin = time.monotonic()
    assert [r.rpop(name) for _ in "abc"] == [b"a", b"b", b"c"]
    assert r.rpop(name) is None
    if time.monotonic() < begin + 0.3:
        assert in_flight(queue) == [b"a", b"b", b"c"]
    wait_until(lambda: time.monotonic() > begin + 1, "the seconds to be over")
    assert in_flight(queue) == [b"a", b"b", b"c"]  # nothing has been asked for
    assert r.brpop([f"{name}-2", name], 0.5) is None
    assert in_flight(queue) == [b"c"][:last]
    r.settle(name)
    r.close()


def test_a_wait_settles_nothing_that_is_younger_than_the_call(
    plain_client: redis.Redis, name: str, queue: ackq.Queue
) -> None:
    """A loop that looks at its clock after each pop flushes only then."""
    with dropin.Redis(plain_client, visibility_timeout=LEASE, hold=0, for_=0.2) as r:
        r.lpush(name, "a")
        r.rpop(name)
        assert r.brpop([name, f"{name}-2"], 0.8) is None
        assert in_flight(queue) == [b"a"]
        assert r.rpop(name) is None
        assert settled(queue)


WRONG: list[tuple[dict[str, Any], str]] = [
    ({}, "hold= is missing"),
    ({"hold": None}, "hold= is missing"),
    *(({"hold": hold}, "hold is a whole number") for hold in (True, -1, 1.0, "3", 10**7, 2**70)),
    *(({"hold": 1, "for_": each}, "for_ is") for each in (True, 0, -1, "3", math.inf, math.nan)),
]


@pytest.mark.parametrize(("settings", "text"), WRONG)
def test_settings_that_mean_nothing(
    plain_client: redis.Redis, url: str, settings: dict[str, Any], text: str
) -> None:
    for make in (
        lambda: dropin.Redis(plain_client, **settings),
        lambda: dropin.Redis.from_url(url, **settings),
        lambda: AsyncRedis(redis.asyncio.Redis(), **settings),
        lambda: AsyncRedis.from_url(url, **settings),
    ):
        with pytest.raises(ackq.ConfigurationError, match=text):
            make()


def test_without_hold_the_error_has_a_line_for_each_answer() -> None:
    with pytest.raises(ackq.ConfigurationError) as caught:
        dropin.Redis(redis.Redis())  # type: ignore[call-arg]
    lines = re.findall(r"Redis\(client, ([^)]*)\)", str(caught.value))
    assert lines == ["hold=100", "hold=100_000", "hold=0, for_=10", "hold=0"]
    for line in lines:
        assert eval(f"dropin.Redis(redis.Redis(), {line})", {"dropin": dropin, "redis": redis})


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
    r = dropin.Redis(plain_client, hold=2)
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


def test_a_lost_lease_keeps_no_other_message_from_being_settled(
    held: dropin.Redis, name: str, queue: ackq.Queue, plain_client: redis.Redis
) -> None:
    """Whichever thread popped it."""
    held.lpush(name, *"abc")
    held.rpop(name)
    key: Any
    (key,) = plain_client.zrange(f"{name}BACKUP", 0, 0)
    run_in_thread(lambda: [held.rpop(name) for _ in "bc"])
    plain_client.zadd(f"{name}BACKUP", {key: 1})  # its lease has ended
    taken = queue.pop()
    assert taken is not None
    with pytest.raises(ackq.LeaseLost) as caught:
        held.settle(name, *"abc")
    assert caught.value.settled == 2
    assert [message.body for message in caught.value.messages] == [b"a"]
    queue.ack(taken)
    assert settled(queue)


def test_what_a_failed_call_did_not_settle_the_next_pop_settles(
    held: dropin.Redis, name: str, queue: ackq.Queue, plain_client: redis.Redis
) -> None:
    held.lpush(name, *"ab")
    assert [held.rpop(name), held.rpop(name)] == [b"a", b"b"]
    plain_client.rename(f"{name}BACKUP", f"{name}-saved")
    plain_client.set(f"{name}BACKUP", "not a sorted set")
    with pytest.raises(ackq.KeyTypeError):
        held.settle(name, "a")
    plain_client.rename(f"{name}-saved", f"{name}BACKUP")
    assert held.rpop(name) is None
    assert in_flight(queue) == [b"b"]
    assert held.settle(name) == 1


@pytest.mark.parametrize("end", ["settle", "close"])
def test_a_list_that_was_popped_from_the_left_once_leaves_no_key(
    plain_client: redis.Redis, name: str, end: str
) -> None:
    with dropin.Redis(plain_client, hold=0) as r:
        r.rpush(name, "reply")
        assert r.blpop(name, 1) == (name.encode(), b"reply")
        assert end == "close" or r.settle(name) == 1
    assert not plain_client.keys(f"{name}*")


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
    r = dropin.Redis(plain_client, hold=1000)
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
        client = AsyncRedis.from_url(url, visibility_timeout=LEASE, hold=2)
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
            assert await r.settle(name, "c") == 1
        assert settled(queue)

    asyncio.run(main())


def test_a_copy_has_the_same_settings(held: dropin.Redis, name: str, queue: ackq.Queue) -> None:
    held.lpush(name, "a", "b")
    with held.client() as other:
        assert [other.rpop(name), other.rpop(name)] == [b"a", b"b"]
        assert in_flight(queue) == [b"a", b"b"]
        assert other.settle(name) == 2
