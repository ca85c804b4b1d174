"""`drain` settles as a worker does, and shows what a handler raises."""

import asyncio
import re
import threading
from collections.abc import Callable
from typing import Any

import pytest
import redis

from ackq import Message, Queue
from ackq.errors import ConfigurationError
from ackq.sharded import ShardedQueue
from ackq.testing import drain
from ackq.worker import Again, Failed, Reject, Release
from tests.worker.crooked import RAN, RESULTS, generates

Call = Callable[..., Any]


def test_every_message_is_handled_and_acked(queue: Queue, call: Call) -> None:
    queue.push_many([{"id": "a"}, {"id": "b"}])
    queue.push({"id": "later"}, delay=3600)
    seen: list[str] = []
    handled = call(drain, lambda message: seen.append(message.id))
    assert seen == [message.id for message in handled] == ["a", "b", "later"]
    stats = queue.stats()
    assert (stats.ready, stats.in_flight, stats.delayed, stats.dead) == (0, 0, 0, 0)


def test_delayed_messages_stay_where_the_test_says_so(queue: Queue, call: Call) -> None:
    queue.push({"id": "later"}, delay=3600)
    assert call(drain, print, delayed=False) == []
    assert queue.stats().delayed == 1


def test_what_a_handler_pushes_is_handled_too(queue: Queue, call: Call) -> None:
    def handle(message: Message) -> None:
        if message.id == "a":
            queue.push({"id": "b"}, delay=60)

    queue.push({"id": "a"})
    assert [message.id for message in call(drain, handle)] == ["a", "b"]


def test_an_exception_is_raised_and_the_message_is_back_uncounted(queue: Queue, call: Call) -> None:
    def fail(message: Message) -> None:
        raise KeyError(message.id)

    queue.push({"id": "a"})
    with pytest.raises(KeyError, match="a"):
        call(drain, fail)
    (handled,) = call(drain, print)
    assert (handled.id, handled.receive_count) == ("a", 1)


def test_verdicts_settle_as_in_a_worker(queue: Queue, call: Call) -> None:
    verdicts: dict[str, list[Exception]] = {
        "retry": [Again()],
        "release": [Release(60)],
        "reject": [Reject("no such user")],
    }
    counts: dict[str, list[int]] = {name: [] for name in verdicts}

    def handle(message: Message) -> None:
        counts[message.id].append(message.receive_count)
        if verdicts[message.id]:
            raise verdicts[message.id].pop()

    queue.push_many({"id": name} for name in verdicts)
    call(drain, handle)
    assert counts == {"retry": [1, 2], "release": [1, 1], "reject": [1]}
    assert [dead.reason for dead in queue.dead_letters()] == ["no such user"]


def test_a_handler_that_always_retries_ends(queue: Queue, call: Call) -> None:
    def handle(message: Message) -> None:
        raise Again(0)

    queue.push({"id": "a"})
    with pytest.raises(AssertionError, match=re.escape("5 messages were handled")):
        call(drain, handle, limit=5)
    assert queue.stats().ready == 1


def test_a_paused_queue_is_left_alone(queue: Queue, call: Call) -> None:
    queue.push({"id": "a"})
    queue.push({"id": "b"}, delay=3600)
    queue.pause()
    assert call(drain, print) == []
    queue.resume()


def test_every_shard_of_a_sharded_queue(kit_url: str, token: str) -> None:
    with redis.Redis.from_url(kit_url) as client, ShardedQueue(client, token, 3) as queue:
        queue.push_many({"id": str(n)} for n in range(20))
        queue.push({"id": "later"}, delay=3600)
        assert len(drain(queue, print)) == 21
        assert queue.stats().ready == 0


def test_the_handler_runs_in_the_thread_of_the_test(queue: Queue) -> None:
    threads = []
    queue.push({"id": "a"})
    drain(queue, lambda message: threads.append(threading.current_thread()))
    assert threads == [threading.current_thread()]


def test_a_coroutine_function_runs_beside_the_loop_of_an_asynchronous_test(queue: Queue) -> None:
    seen = []

    async def handle(message: Message) -> None:
        await asyncio.sleep(0)
        seen.append(message.id)

    async def test() -> None:
        queue.push({"id": "a"})
        drain(queue, handle)

    asyncio.run(test())
    assert seen == ["a"]


@pytest.mark.parametrize("name", RESULTS)
def test_what_a_handler_returns_decides_as_in_a_worker(queue: Queue, call: Call, name: str) -> None:
    handle, text = RESULTS[name]
    RAN.clear()
    queue.push({"id": name})
    if not text:
        call(drain, lambda message: handle(message.id))
        assert {name} == RAN
    elif text in ("a verdict", "rejected", "awaited"):
        call(drain, lambda message: handle(message.id))
        assert [letter.reason for letter in queue.dead_letters()] == [text]
    else:
        with pytest.raises((TypeError, ValueError), match=re.escape(text)):
            call(drain, lambda message: handle(message.id))
        assert [message.receive_count for message in queue.peek(9)] == [0]


def test_a_handler_with_a_yield_is_refused(queue: Queue, call: Call) -> None:
    with pytest.raises(ConfigurationError, match="has a yield"):
        call(drain, generates)


def test_a_group_of_errors_and_a_failed_count_as_in_a_worker(queue: Queue, call: Call) -> None:
    def handle(message: Message) -> None:
        raise (
            Failed({message: Reject("one")})
            if message.id == "a"
            else ExceptionGroup("", [Reject("two")])
        )

    queue.push_many([{"id": "a"}, {"id": "b"}])
    call(drain, handle)
    assert [letter.reason for letter in queue.dead_letters()] == ["one", "two"]
