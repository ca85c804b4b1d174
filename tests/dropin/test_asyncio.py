"""The drop-in for redis.asyncio: what a task popped is settled, renewed or returned by task."""

import asyncio
import copy
import gc
import inspect
import logging
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
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


async def test_a_message_is_settled_as_the_next_is_taken(
    r: Redis, name: str, queue: ackq.Queue
) -> None:
    assert await r.lpush(name, "a", "b", "c") == 3
    assert await r.rpop(name) == b"a"
    assert in_flight(queue) == [b"a"]
    assert await r.brpop(name) == (name.encode(), b"b")
    assert in_flight(queue) == [b"b"]
    assert await r.rpop(name, 5) == [b"c"]
    assert await r.rpop(name, 5) is None
    assert await r.brpop([name, f"{name}-2"], 0.05) is None
    assert await r.rpop(name, 0) is None
    assert await r.llen(name) == 0
    assert settled(queue)


async def test_brpop_wakes_up(r: Redis, name: str) -> None:
    waiting = asyncio.create_task(r.brpop([f"{name}-1", name]))
    await asyncio.sleep(0)
    await r.lpush(name, "a")
    assert await waiting == (name.encode(), b"a")


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


async def test_the_lease_is_renewed_while_the_task_waits(
    r: Redis, name: str, queue: ackq.Queue
) -> None:
    await r.lpush(name, "slow")
    await r.rpop(name)
    assert await asyncio.to_thread(queue.pop, 2 * LEASE) is None
    assert await r.rpop(name) is None
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


async def test_a_loop_that_starts_a_failed_consumer_again_does_not_settle(
    r: Redis, name: str, queue: ackq.Queue
) -> None:
    done: list[bytes] = []

    async def work(raw: bytes) -> None:
        await asyncio.sleep(0)
        done.append(raw)
        if done.count(b"bad") == 1 and raw == b"bad":
            raise ZeroDivisionError

    async def consume(r: Redis) -> None:
        while found := await r.brpop(name, 2):
            await work(found[1])
            if len(done) == 4:
                return

    await r.lpush(name, "good", "bad", "good")
    with pytest.raises(ZeroDivisionError):
        await consume(r)
    await consume(r)
    assert done == [b"good", b"bad", b"good", b"bad"]
    await r.aclose()
    assert settled(queue)


async def test_generators_and_context_managers_may_do_the_popping(
    r: Redis, name: str, queue: ackq.Queue
) -> None:
    async def jobs() -> AsyncIterator[bytes]:
        while (raw := await r.rpop(name)) is not None:
            yield raw

    @asynccontextmanager
    async def job() -> AsyncIterator[bytes]:
        yield await r.rpop(name)

    async def fail() -> None:
        async with job():
            raise ZeroDivisionError

    await r.lpush(name, "a", "b", "c")
    async for raw in jobs():
        assert in_flight(queue) == [raw]
        if raw == b"b":
            break
    with pytest.raises(ZeroDivisionError):
        await fail()
    assert in_flight(queue) == [b"c"]
    assert await r.rpop(name) is None
    assert await asyncio.to_thread(come_back, queue) == b"c"


async def test_batch(r: Redis, name: str, queue: ackq.Queue) -> None:
    async def fail() -> None:
        async with r.batch(name):
            await r.rpop(name, 2)
            raise ZeroDivisionError

    await r.lpush(name, *range(30))
    async with r.batch(name):
        popped = [await r.rpop(name) for _ in range(28)]
        assert len(in_flight(queue)) == len(popped)
    assert not in_flight(queue)
    with pytest.raises(ZeroDivisionError):
        await fail()
    assert not in_flight(queue)
    for body in (b"28", b"29"):
        assert await asyncio.to_thread(come_back, queue) == body


async def test_reliable_list_commands_are_reported(r: Redis, name: str) -> None:
    await r.lpush(name, "a")
    with pytest.warns(dropin.UnprotectedWarning, match="^lmove takes") as caught:
        assert await r.lmove(name, f"{name}-x", "RIGHT", "LEFT") == b"a"
    assert caught[0].filename == __file__


async def test_nothing_comes_back_after_a_deletion(
    r: Redis, name: str, queue: ackq.Queue, caplog: pytest.LogCaptureFixture
) -> None:
    for delete in (r.delete, r.unlink):
        await r.lpush(name, "a", "b")
        await r.rpop(name)
        assert await delete(name) == 1
        assert not await r.keys(f"{name}*")
    assert await asyncio.to_thread(queue.pop, 2 * LEASE) is None
    await r.aclose()
    assert not caplog.records


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


async def test_closing_settles_and_a_block_that_raises_returns_its_messages(
    r: Redis, name: str, queue: ackq.Queue
) -> None:
    async def fail() -> None:
        async with r:
            await r.rpop(name)
            raise ZeroDivisionError

    await r.lpush(name, "a", "b")
    await r.rpop(name)
    await r.aclose()
    assert in_flight(queue) == []
    with pytest.raises(ZeroDivisionError):
        await fail()
    assert in_flight(queue) == []
    assert await asyncio.to_thread(come_back, queue) == b"b"
    assert len(asyncio.all_tasks()) == 1


def test_a_kill_returns_messages(
    tmp_path: Path, plain_client: redis.Redis, url: str, name: str, queue: ackq.Queue
) -> None:
    script = tmp_path / "consumer.py"
    script.write_text(
        "import asyncio, sys, redis.asyncio, ackq.dropin.asyncio\n"
        "async def main():\n"
        "    r = ackq.dropin.asyncio.Redis(redis.asyncio.Redis.from_url(sys.argv[1]),\n"
        "                                  visibility_timeout=0.6, hold=0)\n"
        "    print(await r.brpop(sys.argv[2]), flush=True)\n"
        "    await asyncio.sleep(60)\n"
        "asyncio.run(main())\n"
    )
    plain_client.lpush(name, "a")
    with subprocess.Popen(
        [sys.executable, str(script), url, name], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert queue.pop(timeout=2 * LEASE) is None
        process.kill()
    assert come_back(queue) == b"a"


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


async def test_errors(r: Redis, name: str) -> None:
    await r.set(name, "text")
    with pytest.raises(redis.ResponseError, match="is a string"):
        await r.rpop(name)
    with pytest.raises(dropin.ListNameRefused):
        await r.brpop("xBACKUP")
    assert await r.llen("xBACKUP") == 0
    with pytest.raises(redis.ResponseError, match="must be positive"):
        await r.rpop(name, -1)
    with pytest.raises(dropin.Refused, match="make a client with db=5"):
        await r.select(5)
    await r.select(0)


def test_both_clients_have_the_same_methods() -> None:
    def public(kind: type) -> dict[str, list[str]]:
        return {
            name.replace("aclose", "close"): list(inspect.signature(each).parameters)
            for base in kind.__mro__[:-1]
            for name, each in vars(base).items()
            if not name.startswith("_") and callable(each)
        }

    assert public(dropin.Redis) == public(Redis)


async def test_a_function_that_failed_returns_its_message_although_its_task_goes_on(
    r: Redis, name: str, queue: ackq.Queue, caplog: pytest.LogCaptureFixture
) -> None:
    await r.lpush(name, "a")
    with pytest.raises(ZeroDivisionError):
        await raises(r, name)
    # It does not wait for the end of its lease.
    await until(lambda: "failed; it is redelivered" in caplog.text)
    assert f"<ackq.ListQueue {name!r} on" in caplog.text
    await until(lambda: not in_flight(queue))
    assert await asyncio.to_thread(come_back, queue) == b"a"
    await r.aclose()
    caplog.clear()  # a record keeps the queue


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


async def test_a_deletion_forgets_what_is_in_flight_of_its_own_list_alone(
    r: Redis, name: str, queue: ackq.Queue
) -> None:
    await r.lpush(name, "a", "b")
    assert await r.rpop(name) == b"a"
    await r.delete(f"{name}-other")
    await asyncio.sleep(1.5 * LEASE)  # what was forgotten would have come back
    assert in_flight(queue) == [b"a"]
    await r.delete(name)
    assert not await r.keys(f"{name}*")
    assert await r.rpop(name) is None
    await r.aclose()
    assert settled(queue)


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
