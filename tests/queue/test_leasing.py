"""The block of `lease` keeps its message for as long as it runs, and gives it back if it fails."""

import asyncio
import logging
import math
import os
import threading
import time
from typing import Any, assert_type

import pytest
import redis
import redis.asyncio

from ackq import AckqError, AsyncQueue, LeaseLost, Message, Queue
from ackq.queue import renewal, renewal_async
from ackq.queue.renewal import Renewer
from ackq.queue.renewal_async import AsyncRenewer
from tests.conftest import MakeQueue
from tests.waiting import wait_until


def test_a_block_may_take_longer_than_its_lease(make_queue: MakeQueue) -> None:
    queue, other = make_queue(visibility_timeout=2), make_queue()
    queue.push({"id": "a"})
    ends = set()
    with queue.lease() as message:
        first_end = message.lease_expires_at

        def renewed() -> bool:
            assert other.pop() is None
            ends.add(message.lease_expires_at)
            return bool(max(ends) > first_end + 2.1)

        wait_until(renewed, "renewals past its end")
    # Each after a third of the timeout: one that came at the very end would sometimes be late.
    assert len(ends - {first_end}) >= 3
    now = queue.stats()
    assert (now.ready, now.in_flight, now.delayed, message.lease_lost) == (0, 0, 0, False)


def test_a_block_with_a_timeout_of_its_own_is_renewed_to_that(queue: Any) -> None:
    queue.push({"id": "a"})
    with queue.lease(visibility_timeout=0.3) as message:
        first_end = message.lease_expires_at
        wait_until(lambda: message.lease_expires_at > first_end, "a renewal")
        assert message.lease_expires_at < first_end + 10


def test_a_lost_lease_is_marked_and_the_end_of_the_block_says_so(make_queue: MakeQueue) -> None:
    queue, other = make_queue(visibility_timeout=1), make_queue()
    queue.push({"id": "a"})

    def lose() -> None:
        with queue.lease() as message:
            queue.release(_copy(message))  # as if the lease had ended
            assert other.pop(visibility_timeout=60).id == "a"
            wait_until(lambda: message.lease_lost, "a renewal to be refused")

    with pytest.raises(LeaseLost):
        lose()
    assert queue.stats().in_flight == 1


def _copy(message: Message) -> Message:
    return Message(message.queue, message.key, message.body, message.receipt, 1)


def test_a_renewal_that_failed_is_tried_again(
    name: str, plain_client: redis.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    with Queue(plain_client, name, visibility_timeout=2) as queue:
        queue.push({"id": "a"})
        with (
            caplog.at_level(logging.WARNING, "ackq.queue"),
            queue.lease() as message,
        ):
            first_end = message.lease_expires_at
            plain_client.set(f"{name}EXTENDED", "of another type")
            wait_until(lambda: "could not be renewed" in caplog.text, "a failure")
            plain_client.delete(f"{name}EXTENDED")
            wait_until(lambda: message.lease_expires_at > first_end, "the next renewal")
        assert queue.stats().in_flight == 0


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit, LookupError])
def test_whatever_ends_a_block_gives_the_message_back(
    name: str, plain_client: redis.Redis, error: type[BaseException]
) -> None:
    with Queue(plain_client, name, visibility_timeout=600) as queue:
        queue.push({"id": "a"})
        with pytest.raises(error), queue.lease():
            raise error
        assert (queue.stats().delayed, queue.stats().in_flight) == (1, 0)


async def _with_queue(admin: redis.Redis, name: str) -> AsyncQueue:
    settings = admin.connection_pool.connection_kwargs
    place = {key: settings[key] for key in ("host", "port", "path") if key in settings}
    if "path" in place:
        client = redis.asyncio.Redis(unix_socket_path=place["path"])
    else:
        client = redis.asyncio.Redis(**place)
    return AsyncQueue(client, name, visibility_timeout=600)


def test_a_cancelled_block_gives_the_message_back_and_leaves_no_task(
    name: str, plain_client: redis.Redis
) -> None:
    async def cancelled() -> set[Any]:
        entered = asyncio.Event()

        async def block(queue: AsyncQueue) -> None:
            async with queue.lease():
                entered.set()
                await asyncio.sleep(math.inf)

        async with await _with_queue(plain_client, name) as queue:
            await queue.push({"id": "a"})
            task = asyncio.create_task(block(queue))
            await entered.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            now = await queue.stats()
            assert (now.delayed, now.in_flight) == (1, 0)
            return {each for each in asyncio.all_tasks() if each.get_name() == "ackq-lease"}

    assert asyncio.run(cancelled()) == set()


def test_iterating_waits_in_one_pop_for_as_long_as_it_takes(
    name: str, plain_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[Any] = []

    def pop(self: Queue, timeout: Any = None) -> Message:
        waits.append(timeout)
        return Message(name, b"a", b"", 1, 1)

    async def pop_later(self: AsyncQueue, timeout: Any = None) -> Message:
        return pop(self, timeout)  # type: ignore[arg-type]

    async def first() -> None:
        async with await _with_queue(plain_client, name) as queue:
            async for _ in queue:
                break

    monkeypatch.setattr(AsyncQueue, "pop", pop_later)
    monkeypatch.setattr(Queue, "pop", pop)
    asyncio.run(first())
    with Queue(plain_client, name) as queue:
        next(iter(queue))
    assert waits == [math.inf, math.inf]


def test_blocks_share_a_thread_and_a_short_one_costs_no_request(
    name: str, plain_client: redis.Redis
) -> None:
    def extensions() -> int:
        found = plain_client.hgetall(f"{name}EXTENDED")
        return len(found)

    with Queue(plain_client, name) as queue:
        queue.push_many([{"n": number} for number in range(20)])
        for _ in range(10):
            with queue.lease(), queue.lease():
                threads = [each for each in threading.enumerate() if each.name == "ackq-lease"]
                assert extensions() == 0
    # Threads of other tests may not have ended yet; each queue has one at most.
    assert 1 <= len(threads) < 10


def test_a_renewal_that_is_under_way_ends_before_the_block_does() -> None:
    begun, go, order = threading.Event(), threading.Event(), []

    def extend(message: Message, timeout: float) -> None:
        begun.set()
        go.wait(20)
        order.append("renewed")

    def block() -> None:
        with Renewer(extend).renewing(Message("jobs", b"a", b"", 1, 1), 0.03):
            begun.wait(20)
        order.append("ended")

    thread = threading.Thread(target=block)
    thread.start()
    assert begun.wait(20)
    thread.join(0.2)
    assert order == []
    go.set()
    thread.join(20)
    assert order == ["renewed", "ended"]


def test_a_renewal_in_progress_ends_before_its_block_does_on_asyncio() -> None:
    async def run() -> list[str]:
        begun, go, order = asyncio.Event(), asyncio.Event(), []

        async def extend(message: Message, timeout: float) -> None:
            begun.set()
            await go.wait()
            order.append("renewed")

        async def block() -> None:
            async with AsyncRenewer(extend).renewing(Message("jobs", b"a", b"", 1, 1), 0.03):
                await begun.wait()
            order.append("ended")

        task = asyncio.create_task(block())
        await begun.wait()
        for _ in range(20):  # turns of the loop in which the block could end too early
            await asyncio.sleep(0)
        assert order == []
        go.set()
        await task
        return order

    assert asyncio.run(run()) == ["renewed", "ended"]


def test_a_forked_child_renews_what_it_takes_and_its_parent_goes_on(
    name: str, plain_client: redis.Redis
) -> None:
    with Queue(plain_client, name, visibility_timeout=0.6) as queue:
        queue.push_many([{"id": "parents"}, {"id": "childs"}])
        with queue.lease() as message:
            child = os.fork()
            if child == 0:
                try:
                    with queue.lease() as own:
                        first_end = own.lease_expires_at
                        wait_until(lambda: own.lease_expires_at > first_end, "the child's", 10)
                    os._exit(0)
                finally:
                    os._exit(1)
            first_end = message.lease_expires_at
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
            wait_until(lambda: message.lease_expires_at > first_end, "the parent's")
        assert queue.stats().in_flight == 0


def test_a_block_without_a_timeout_always_has_a_message(
    name: str, plain_client: redis.Redis
) -> None:
    """mypy checks the types of this test, in strict mode."""
    with Queue(plain_client, name) as queue:
        queue.push_many([{"id": each} for each in "abc"])
        with queue.lease() as message:
            assert_type(message, Message)
            assert message.id == "a"
        with queue.lease(visibility_timeout=5) as message:
            assert_type(message, Message)
        with queue.lease(timeout=5) as perhaps:
            assert_type(perhaps, Message | None)
        with queue.lease(0) as perhaps:
            assert_type(perhaps, Message | None)
            assert perhaps is None

    async def awaited() -> None:
        async with await _with_queue(plain_client, name) as queue:
            await queue.push({"id": "a"})
            async with queue.lease() as message:
                assert_type(message, Message)
                assert message.id == "a"
            async with queue.lease(timeout=0) as perhaps:
                assert_type(perhaps, Message | None)
                assert perhaps is None

    asyncio.run(awaited())


@pytest.mark.parametrize("error", [redis.ConnectionError("away"), LeaseLost("it ended")])
def test_the_error_of_a_block_passes_also_if_its_message_cannot_be_returned(
    make_queue: MakeQueue, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(*args: object, **settings: object) -> None:
        raise error

    queue = make_queue()
    queue.push({"id": "a"})
    for each in (Queue, AsyncQueue):
        monkeypatch.setattr(each, "nack", fail)
    with pytest.raises(ValueError, match="of the block"), queue.lease():
        raise ValueError("of the block")


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_a_lease_is_renewed_after_a_third_of_its_time_or_a_twelfth_if_that_failed(
    is_async: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    message = Message("q", b"a", b"{}", 1, 1)
    answers: list[Any] = [
        None,
        redis.ConnectionError("redis://:secret@h is gone"),
        OSError("x"),
        AckqError("odd"),
        None,
        LeaseLost("lost"),
        None,
    ]
    pauses: list[float] = []
    asked: list[Any] = []

    def extend(*args: Any) -> None:
        asked.append(args)
        if (answer := answers.pop(0)) is not None:
            raise answer

    if is_async:

        async def extend_later(*args: Any) -> None:
            extend(*args)

        async def ends_within(_: Any, seconds: float) -> bool:
            pauses.append(seconds)
            return False

        monkeypatch.setattr(renewal_async, "_ends_within", ends_within)
        asyncio.run(renewal_async._renew(extend_later, message, 30.0, asyncio.Event()))
    else:
        monkeypatch.setattr(time, "monotonic", lambda: 100.0)
        renewer, held = renewal.Renewer(extend), renewal._Held(message, 30.0)
        renewer._held.add(held)
        while held in renewer._held:
            pauses.append(held.due - 100.0)
            renewer._renew(held)
    assert pauses == [10.0, 10.0, 2.5, 2.5, 2.5, 10.0]
    assert asked == [(message, 30.0)] * 6
    assert caplog.messages == [
        f"a lease of {message!r} could not be renewed and will be retried: {why}"
        for why in ("redis://***@h is gone", "x", "odd")
    ]
