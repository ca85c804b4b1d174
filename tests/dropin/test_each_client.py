"""What holds for both clients, blocking and on asyncio, and for both ends of a list."""

import asyncio
import itertools
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
import redis

import ackq
from ackq import dropin
from ackq.dropin.asyncio import Redis as AsyncRedis
from tests.dropin.seen import LEASE, come_back, in_flight, settled

#: What pushes and pops, by the end of the list that is popped.
COMMANDS = {"right": ("lpush", "rpop", "brpop"), "left": ("rpush", "lpop", "blpop")}


class Each:
    """One of the clients at one end, with methods to await, and its queue as others see it."""

    def __init__(self, r: Any, end: str, client: Any, queue: ackq.Queue) -> None:
        self.r, self.name, self.queue, self._client = r, queue.name, queue, client
        self.on_asyncio = isinstance(r, AsyncRedis)
        self._push, self._pop, self._wait = (getattr(r, each) for each in COMMANDS[end])

    async def ready(self, result: Any) -> Any:
        return await result if self.on_asyncio else result

    async def push(self, *bodies: Any, name: str = "") -> None:
        await self.ready(self._push(name or self.name, *bodies))

    async def pop(self, *count: int) -> Any:
        return await self.ready(self._pop(self.name, *count))

    async def wait(self, names: str | Sequence[str] = "", timeout: float = 0) -> Any:
        return await self.ready(self._wait(names or self.name, timeout))

    async def outside(self, call: Callable[..., Any], *args: Any) -> Any:
        """Return what ``call`` returns, which others do meanwhile."""
        return await asyncio.to_thread(call, *args) if self.on_asyncio else call(*args)

    @asynccontextmanager
    async def block(self, block: Any) -> AsyncIterator[None]:
        if self.on_asyncio:
            async with block:
                yield
        else:
            with block:
                yield

    def in_flight(self) -> list[bytes]:
        return in_flight(self.queue)

    def keys(self) -> Any:
        return self._client.keys(f"{self.name}*")


@pytest.fixture(params=itertools.product(["blocking", "asyncio"], COMMANDS), ids="-".join)
def each(
    request: pytest.FixtureRequest,
    start: Callable[..., AsyncRedis],
    plain_client: redis.Redis,
    name: str,
) -> Iterator[Each]:
    kind, end = request.param
    made: Any = (
        start()
        if kind == "asyncio"
        else dropin.Redis(plain_client, visibility_timeout=LEASE, hold=0)
    )
    with ackq.Queue(plain_client, name, visibility_timeout=LEASE, pop_from=end) as queue:
        yield Each(made, end, plain_client, queue)


async def fails(each: Each) -> None:
    await each.pop()
    raise ZeroDivisionError


async def test_a_message_is_settled_as_the_next_is_taken(each: Each) -> None:
    await each.push("a", "b", "c", "d")
    assert await each.pop() == b"a"
    assert each.in_flight() == [b"a"]
    assert await each.wait() == (each.name.encode(), b"b")
    assert each.in_flight() == [b"b"]
    assert await each.pop(5) == [b"c", b"d"]
    assert each.in_flight() == [b"c", b"d"]
    assert await each.pop(0) is None
    assert settled(each.queue)
    assert await each.pop(5) is await each.wait(timeout=0.05) is await each.pop() is None
    assert await each.ready(each.r.llen(each.name)) == 0


async def test_settling_costs_no_round_trip(each: Each, plain_client: redis.Redis) -> None:
    def calls() -> int:
        return int(plain_client.info("commandstats")["cmdstat_evalsha"]["calls"])

    await each.push(*range(21))
    await each.pop()
    before = calls()
    for _ in range(20):
        await each.pop()
    assert calls() - before == 20


async def test_several_lists_are_looked_at_in_their_order(each: Each) -> None:
    names = [f"{each.name}-{number}" for number in range(3)]
    for name in reversed(names):
        await each.push(f"in {name}", name=name)
    popped = [await each.wait(names) for _ in names]
    assert popped == [(name.encode(), f"in {name}".encode()) for name in names]
    assert await each.wait(names, 0.25) is None
    for name in names:
        assert await each.ready(each.r.llen(name)) == 0
        await each.ready(each.r.delete(name))
    assert not each.keys()


@pytest.mark.parametrize("several", [False, True])
async def test_a_wait_ends_with_a_push(each: Each, several: bool) -> None:
    push = each.queue.push
    timer = threading.Timer(0.2, lambda: push(b"late"))
    timer.start()
    names = [f"{each.name}-2", each.name] if several else each.name
    assert await each.wait(names) == (each.name.encode(), b"late")
    timer.join()
    assert await each.wait(names, 0.01) is None
    assert settled(each.queue)


async def test_the_lease_is_renewed_during_the_work(each: Each) -> None:
    await each.push("slow")
    await each.pop()
    assert await each.outside(each.queue.pop, 2 * LEASE) is None
    assert await each.pop() is None
    assert settled(each.queue)


async def test_a_function_that_failed_gives_its_message_back_although_its_caller_goes_on(
    each: Each, caplog: pytest.LogCaptureFixture
) -> None:
    await each.push("a")
    with pytest.raises(ZeroDivisionError):
        await fails(each)
    # It does not wait for the end of its lease.
    assert await each.outside(come_back, each.queue) == b"a"
    assert f"<ackq.ListQueue {each.name!r} on" in caplog.text
    assert "failed; it is redelivered" in caplog.text
    caplog.clear()  # a record keeps the queue


async def test_a_loop_that_starts_a_failed_consumer_again_does_not_settle(each: Each) -> None:
    done: list[bytes] = []

    async def consume() -> None:
        while len(done) < 4 and (found := await each.wait(timeout=2)):
            done.append(found[1])
            if done.count(b"bad") == 1 and found[1] == b"bad":
                raise ZeroDivisionError

    await each.push("good", "bad", "good")
    with pytest.raises(ZeroDivisionError):
        await consume()
    await consume()
    assert done == [b"good", b"bad", b"good", b"bad"]
    assert await each.pop() is None
    assert settled(each.queue)


async def test_generators_and_context_managers_may_do_the_popping(each: Each) -> None:
    async def jobs() -> AsyncIterator[bytes]:
        while (raw := await each.pop()) is not None:
            yield raw

    @asynccontextmanager
    async def job() -> AsyncIterator[bytes]:
        yield await each.pop()

    async def fail(how: Any) -> None:
        async with how:
            # It is suspended; its lease goes on.
            assert await each.outside(each.queue.pop, 2 * LEASE) is None
            raise ZeroDivisionError

    await each.push("a", "b", "c")
    async for raw in jobs():
        assert each.in_flight() == [raw]
        if raw == b"b":
            break
    with pytest.raises(ZeroDivisionError):
        await fail(job())
    assert await each.pop() is None
    assert await each.outside(come_back, each.queue) == b"c"


async def test_a_batch_is_settled_or_returned_as_a_whole(each: Each) -> None:
    async def fail() -> None:
        async with each.block(each.r.batch(each.name)):
            assert await each.pop(2) == [b"28", b"29"]
            assert await each.wait() == (each.name.encode(), b"30")
            raise ZeroDivisionError

    await each.push(*range(31))
    async with each.block(each.r.batch(each.name)):
        popped = [await each.pop() for _ in range(28)]
        assert popped == [b"%d" % number for number in range(28)]
        assert each.in_flight() == sorted(popped)
    assert not each.in_flight()
    with pytest.raises(ZeroDivisionError):
        await fail()
    assert not each.in_flight()
    for body in (b"28", b"29", b"30"):
        assert await each.outside(come_back, each.queue) == body


async def test_a_list_that_is_used_once_leaves_nothing_behind(each: Each) -> None:
    """Even if it was empty at first."""
    async with each.block(each.r.batch(each.name)):
        assert await each.pop() is None
    await each.push("a")
    async with each.block(each.r.batch(each.name)):
        assert await each.wait() == (each.name.encode(), b"a")
    assert not each.keys()


@pytest.mark.parametrize("delete", ["delete", "unlink", "flushdb"])
async def test_nothing_comes_back_after_a_deletion_of_the_list(
    each: Each, delete: str, caplog: pytest.LogCaptureFixture
) -> None:
    await each.push("a", "b")
    assert await each.pop() == b"a"
    await each.ready(getattr(each.r, delete)(*(() if delete == "flushdb" else (each.name,))))
    assert not each.keys()
    if delete == "delete":  # one wait for what would come back is enough
        await each.push("c")
        await each.pop()
        await each.ready(each.r.delete(f"{each.name}-other"))
        assert await each.outside(each.queue.pop, 2 * LEASE) is None
        assert each.in_flight() == [b"c"]
    assert await each.pop() is None
    assert not caplog.records


async def test_closing_settles_and_a_block_that_raises_returns_its_messages(each: Each) -> None:
    async def fail() -> None:
        async with each.block(each.r):
            await each.pop()
            raise ZeroDivisionError

    async def fail_and_close() -> None:
        try:
            await fails(each)
        finally:
            await each.ready(close())

    close = each.r.aclose if each.on_asyncio else each.r.close
    await each.push("a", "b")
    await each.pop()
    await each.ready(close())
    assert not each.in_flight()
    async with each.block(each.r):
        await each.pop()
    assert not each.in_flight()
    assert not each.on_asyncio or len(asyncio.all_tasks()) == 1
    for failing, body in ((fail, b"c"), (fail_and_close, b"d")):
        await each.push(body)
        with pytest.raises(ZeroDivisionError):
            await failing()
        assert not each.in_flight()
        assert await each.outside(come_back, each.queue) == body


async def test_moves_are_reported_at_the_line_of_the_user(each: Each) -> None:
    await each.ready(each.r.lpush(each.name, "a"))
    with pytest.warns(dropin.UnprotectedWarning, match="^lmove takes") as caught:
        await each.ready(each.r.lmove(each.name, f"{each.name}-x", "RIGHT", "LEFT"))
    assert caught[0].filename == __file__


async def test_errors(each: Each) -> None:
    await each.ready(each.r.set(each.name, "text"))
    with pytest.raises(redis.ResponseError, match="is a string"):
        await each.pop()
    with pytest.raises(dropin.ListNameRefused):
        await each.wait("xBACKUP")
    assert await each.ready(each.r.llen("xBACKUP")) == 0
    with pytest.raises(redis.ResponseError, match="must be positive"):
        await each.pop(-1)
    with pytest.raises(dropin.Refused, match="make a client with db=5"):
        await each.ready(each.r.select(5))
    await each.ready(each.r.select(0))
