"""`lpop` and `blpop`: what holds for the right end of a list holds for the left end."""

import subprocess
import threading
import warnings
from collections.abc import Callable, Iterator

import pytest
import redis
import redis.asyncio

import ackq
import ackq.dropin.asyncio
from ackq import dropin
from tests.dropin.seen import LEASE, come_back, in_flight
from tests.dropin.seen import settled as is_settled
from tests.waiting import wait_until


@pytest.fixture
def queue(plain_client: redis.Redis, name: str) -> Iterator[ackq.Queue]:
    """The same queue, seen from outside."""
    with ackq.Queue(plain_client, name, visibility_timeout=LEASE, pop_from="left") as queue:
        yield queue


def test_a_message_is_settled_as_the_next_is_taken(
    r: dropin.Redis, name: str, queue: ackq.Queue
) -> None:
    r.rpush(name, "a", "b", "c", "d")
    assert r.lpop(name) == b"a"
    assert in_flight(queue) == [b"a"]
    assert r.blpop(name) == (name.encode(), b"b")
    assert in_flight(queue) == [b"b"]
    assert r.lpop(name, 5) == [b"c", b"d"]
    assert in_flight(queue) == [b"c", b"d"]
    assert r.lpop(name, 0) is None
    assert is_settled(queue)
    assert r.blpop(name, 0.05) is None
    assert r.lpop(name, 5) is None


def test_one_round_trip_for_each(r: dropin.Redis, name: str, plain_client: redis.Redis) -> None:
    r.rpush(name, *range(21))
    r.lpop(name)
    before = plain_client.info("commandstats")["cmdstat_evalsha"]["calls"]
    for _ in range(10):
        r.lpop(name)
    after = plain_client.info("commandstats")["cmdstat_evalsha"]["calls"]
    assert after - before == 10


def test_blpop_wakes_up_and_looks_at_several_lists_in_their_order(
    r: dropin.Redis, name: str
) -> None:
    names = [f"{name}-{n}" for n in range(3)]
    timer = threading.Timer(0.1, lambda: r.rpush(names[2], "late"))
    timer.start()
    assert r.blpop(names[2]) == (names[2].encode(), b"late")
    timer.join()
    for each in reversed(names):
        r.rpush(each, f"in {each}")
    popped = [r.blpop(names) for _ in names]
    assert popped == [(each.encode(), f"in {each}".encode()) for each in names]
    assert r.blpop(names, timeout=0.25) is None


def test_the_lease_is_renewed_and_an_exception_returns_it(
    r: dropin.Redis, name: str, queue: ackq.Queue
) -> None:
    def consume() -> None:
        r.lpop(name)
        assert queue.pop(timeout=2 * LEASE) is None
        raise ZeroDivisionError

    r.rpush(name, "a")
    with pytest.raises(ZeroDivisionError):
        consume()
    assert come_back(queue) == b"a"


def test_a_kill_returns_messages_in_order(
    script: Callable[[str], subprocess.Popen[str]], queue: ackq.Queue, r: dropin.Redis, name: str
) -> None:
    r.rpush(name, "0")
    process = script("r.rpush(name, 'b'); print(r.lpop(name, 2), flush=True); time.sleep(60)")
    assert process.stdout is not None
    process.stdout.readline()
    process.kill()
    wait_until(lambda: queue.stats().expired == 2, "the leases to end")
    assert r.llen(name) == 3
    assert sorted(r.lpop(name, 2) or []) == [b"0", b"a"]
    assert r.lpop(name) == b"b"


def test_batch(r: dropin.Redis, name: str, queue: ackq.Queue) -> None:
    r.rpush(name, "a", "b")
    with r.batch(name):
        assert r.lpop(name) == b"a"
        assert r.blpop(name) == (name.encode(), b"b")
        assert in_flight(queue) == [b"a", b"b"]
    assert is_settled(queue)


def test_a_list_that_is_used_once_leaves_nothing_behind(r: dropin.Redis, name: str) -> None:
    r.rpush(name, "a")
    with r.batch(name):
        assert r.blpop(name) == (name.encode(), b"a")
    assert not r.keys(f"{name}*")


@pytest.mark.parametrize("delete", ["delete", "unlink", "flushdb"])
def test_nothing_is_left_after_a_deletion(
    r: dropin.Redis, name: str, queue: ackq.Queue, delete: str
) -> None:
    r.rpush(name, "a", "b")
    r.lpop(name)
    getattr(r, delete)(*(() if delete == "flushdb" else (name,)))
    assert not r.keys(f"{name}*")
    r.lpush(name, "c")  # now the other end, if somebody wants to
    assert r.rpop(name) == b"c"
    r.delete(name)
    assert delete != "delete" or queue.pop(timeout=2 * LEASE) is None


def test_a_deletion_removes_the_record_of_the_end(r: dropin.Redis, name: str) -> None:
    r.rpush(name, "a")
    assert [r.lpop(name), r.lpop(name)] == [b"a", None]
    assert r.keys(f"{name}*")
    assert r.delete(name) == 0
    assert not r.keys(f"{name}*")


@pytest.mark.parametrize(
    ("first", "second"),
    [("lpop", "rpop"), ("rpop", "lpop"), ("blpop", "brpop"), ("brpop", "blpop")],
)
def test_the_other_end_is_as_unsafe_as_before_and_reported(
    r: dropin.Redis, name: str, first: str, second: str
) -> None:
    r.rpush(name, 1, 2, 3)
    getattr(r, first)(name)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        popped = [getattr(r, second)(name) for _ in range(2)]
    left = [b"1", b"2", b"3"][slice(None, -1) if first.endswith("rpop") else slice(1, None)]
    expected = left if second.endswith("lpop") else left[::-1]
    assert popped == [(name.encode(), e) if second[0] == "b" else e for e in expected]
    (report,) = caught
    assert report.category is dropin.UnprotectedWarning
    assert str(report.message).startswith(f"{second} pops from one end of {name!r}")
    assert report.filename == __file__
    assert getattr(r, first)(name, **({"timeout": 0.05} if first[0] == "b" else {})) is None


def test_the_other_end_among_several_lists_is_refused(r: dropin.Redis, name: str) -> None:
    r.rpush(name, 1, 2)
    r.lpop(name)
    with pytest.raises(redis.ResponseError, match="popped from the left"):
        r.brpop([f"{name}-2", name], 1)
    r.delete(name)


async def test_on_asyncio(
    start: Callable[..., dropin.asyncio.Redis], name: str, queue: ackq.Queue
) -> None:
    async with start() as r:
        await r.rpush(name, "a", "b", "c")
        assert await r.lpop(name) == b"a"
        assert await r.blpop([name, f"{name}-2"]) == (name.encode(), b"b")
        assert in_flight(queue) == [b"b"]
        async with r.batch(name):
            assert await r.lpop(name, 1) == [b"c"]
        assert await r.llen(name) == 0
    assert is_settled(queue)


def test_a_list_that_is_used_once_leaves_nothing_behind_even_if_it_was_empty_at_first(
    r: dropin.Redis, name: str
) -> None:
    with r.batch(name):
        assert r.lpop(name) is None
    r.rpush(name, "a")
    with r.batch(name):
        assert r.lpop(name) == b"a"
    assert not r.keys(f"{name}*")
