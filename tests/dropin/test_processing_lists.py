"""Moves into a list that the same program pops from: an acknowledgement, or more work."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
import redis
import redis.asyncio

import ackq
from ackq import dropin
from ackq.config import PopFrom
from ackq.dropin.asyncio import Redis as AsyncRedis
from tests.dropin.seen import LEASE, come_back, in_flight, settled
from tests.dropin.test_reports import MOVES
from tests.dropin.test_shapes import Killed

pytestmark = pytest.mark.filterwarnings("ignore:(b?l?move|b?rpoplpush) takes")


def test_a_kill_repeats_at_most_one_message_of_a_processing_list(
    plain_client: redis.Redis, url: str, name: str, tmp_path: Path
) -> None:
    loop = Killed("processing list", plain_client, url, [name], tmp_path / "journal", True)
    pushed = loop.push(3, "before") + loop.push(1, "hold") + loop.push(3, "after")
    loop.kill(1)
    loop.push(1, "hold-again")
    loop.kill(2)
    done = loop.journal.done()
    assert set(done) == set(pushed)
    assert len(done) <= len(pushed) + 1


@pytest.mark.parametrize("move", MOVES.values(), ids=list(MOVES))
@pytest.mark.parametrize("end", ["right", "left"])
def test_a_move_into_a_list_settles_nothing_of_it(
    r: dropin.Redis,
    name: str,
    plain_client: redis.Redis,
    move: Callable[[object, str], object],
    end: PopFrom,
) -> None:
    """The message being worked on may have been popped from that very list."""
    target = f"{name}-x"
    pop = r.rpop if end == "right" else r.lpop
    r.lpush(name, "a", "b")
    with ackq.Queue(plain_client, target, pop_from=end) as queue:
        move(r, name)
        with pytest.warns(dropin.UnprotectedWarning, match=r"If such a pop is.*settle\('") as given:
            assert pop(target) == b"a"
        assert given[0].filename == __file__
        move(r, name)
        assert in_flight(queue) == [b"a"]
        assert pop(target) == b"b"  # no other warning
        assert in_flight(queue) == [b"b"]
        assert r.settle(target) == 1
        assert settled(queue)


@pytest.mark.filterwarnings("ignore:this client moves")
def test_on_asyncio(plain_client: redis.Redis, url: str, name: str) -> None:
    target = f"{name}-internal"

    async def main() -> None:
        async with AsyncRedis(redis.asyncio.Redis.from_url(url), hold=0) as r:
            await r.lpush(name, "a", "b")
            await r.blmove(name, target, 1, "RIGHT", "LEFT")
            assert await r.rpop(target) == b"a"
            await r.blmove(name, target, 1, "RIGHT", "LEFT")
            assert in_flight(queue) == [b"a"]
            assert await r.rpop(target) == b"b"
            assert in_flight(queue) == [b"b"]

    with ackq.Queue(plain_client, target) as queue:
        asyncio.run(main())
        assert settled(queue)


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


def test_a_name_that_ackq_cannot_use(r: dropin.Redis, name: str) -> None:
    r.lpush(name, "a", "b")
    assert r.blmove(name, f"{name}BACKUP", 1, "RIGHT", "LEFT") == b"a"
    assert r.rpoplpush(name, f"{name}BACKUP") == b"b"
    r.settle(f"{name}BACKUP")
