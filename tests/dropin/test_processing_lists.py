"""A pop from a processing list is an acknowledgement."""

import asyncio
from pathlib import Path

import pytest
import redis
import redis.asyncio

import ackq
from ackq import dropin
from ackq.config import PopFrom
from ackq.dropin.asyncio import Redis as AsyncRedis
from tests.dropin.seen import LEASE, come_back, in_flight, settled
from tests.dropin.test_shapes import Killed
from tests.waiting import wait_until

pytestmark = pytest.mark.filterwarnings("ignore:b?l?move takes|brpoplpush takes|rpoplpush takes")


def test_nothing_is_done_twice_after_kills(
    plain_client: redis.Redis, url: str, name: str, tmp_path: Path
) -> None:
    loop = Killed("processing list", plain_client, url, [name], tmp_path / "journal", True)
    loop.push(3, "before")
    loop.push(1, "hold")
    loop.push(3, "after")
    loop.kill(1)
    with ackq.Queue(plain_client, f"{name}-internal") as internal:
        wait_until(lambda: not in_flight(internal), "the end of every lease")
    loop.push(1, "hold-again")
    loop.kill(2)
    done = loop.journal.done()
    assert sorted(done) == sorted(set(done))
    assert len(done) == 7


@pytest.mark.parametrize("wait", ["blmove", "brpoplpush"])
@pytest.mark.parametrize("end", ["right", "left"])
def test_waiting_for_the_next_message_ends_the_acknowledgement(
    r: dropin.Redis, name: str, plain_client: redis.Redis, wait: str, end: PopFrom
) -> None:
    target = f"{name}-internal"

    def move() -> object:
        return (
            r.blmove(name, target, 1, "RIGHT", "LEFT")
            if wait == "blmove"
            else r.brpoplpush(name, target, 1)
        )

    r.lpush(name, "a", "b")
    with ackq.Queue(plain_client, target, pop_from=end) as queue:
        assert move() == b"a"
        assert (r.rpop if end == "right" else r.lpop)(target) == b"a"
        assert in_flight(queue) == [b"a"]
        assert move() == b"b"
        assert not in_flight(queue)
        # From now on, a pop is the client's own.
        assert (r.rpop if end == "right" else r.lpop)(target) == b"b"
        assert settled(queue)
        r.lpush(name, "c")
        assert (r.rpop if end == "right" else r.lpop)(name) == b"c"
    with ackq.Queue(plain_client, name, pop_from=end) as source:
        assert in_flight(source) == [b"c"]


def test_on_asyncio(plain_client: redis.Redis, url: str, name: str) -> None:
    target = f"{name}-internal"

    async def main() -> None:
        async with AsyncRedis(redis.asyncio.Redis.from_url(url), hold=0) as r:
            await r.lpush(name, "a", "b")
            for _ in "ab":
                await r.blmove(name, target, 1, "RIGHT", "LEFT")
                assert not in_flight(queue)
                await r.rpop(target)
            await r.settle(target)
            assert settled(queue)

    with ackq.Queue(plain_client, target) as queue:
        asyncio.run(main())


def test_a_wait_settles_nothing_of_what_a_function_failed_on(
    r: dropin.Redis, name: str, queue: ackq.Queue
) -> None:
    def fail() -> None:
        r.rpop(name)
        raise ZeroDivisionError

    r.lpush(name, "a")
    with pytest.raises(ZeroDivisionError):
        fail()
    r.lpush(f"{name}-source", "b")
    r.blmove(f"{name}-source", name, 1, "RIGHT", "LEFT")
    moved = queue.pop(timeout=5 * LEASE)
    assert moved is not None
    assert moved.body == b"b"
    queue.ack(moved)
    assert come_back(queue) == b"a"


def test_a_move_that_does_not_wait_may_bring_messages_back(
    r: dropin.Redis, name: str, queue: ackq.Queue
) -> None:
    """It settles nothing: the message being worked on may have been popped from that very list."""
    r.lpush(f"{name}-processing", "a", "b")
    r.rpoplpush(f"{name}-processing", name)
    with pytest.warns(dropin.UnprotectedWarning, match=r"If such a pop is an.*settle\('") as caught:
        assert r.rpop(name) == b"a"
    assert caught[0].filename == __file__
    r.lmove(f"{name}-processing", name, "RIGHT", "LEFT")
    assert in_flight(queue) == [b"a"]
    assert r.rpop(name) == b"b"  # no other warning
    assert in_flight(queue) == [b"b"]
    r.settle(name)
    assert settled(queue)


def test_a_name_that_ackq_cannot_use(r: dropin.Redis, name: str) -> None:
    r.lpush(name, "a", "b")
    assert r.blmove(name, f"{name}BACKUP", 1, "RIGHT", "LEFT") == b"a"
    assert r.rpoplpush(name, f"{name}BACKUP") == b"b"
    r.settle(f"{name}BACKUP")
