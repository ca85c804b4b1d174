"""What `consume` takes, extends and settles, and when; in virtual time, with no server.

The blocking client is generated from this one.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest
import redis
import redis.asyncio

from ackq.core import observation
from ackq.delay import AsyncDelayQueue, base_client_async
from ackq.delay.messages import DelayedMessage
from ackq.delay.progress import MAX_TAKE, SETTLE_AFTER, BatchProgress
from ackq.errors import LeaseLost, UnknownOutcome

LOST = LeaseLost("lost")


class Fatal(BaseException):
    """Ends a handler, and `consume` with it."""


class Clock:
    """Time that passes in takes and handlers alone."""

    now = 100.0

    def monotonic(self) -> float:
        return self.now


def _messages(*keys: str) -> list[DelayedMessage]:
    return [DelayedMessage("d", key, b"{}", receipt=1) for key in keys]


class Queue(AsyncDelayQueue):
    """A delay queue that gives the takes of a test, and notes every call."""

    def __init__(self, clock: Clock, *takes: Any, slow: float = 0.0) -> None:
        super().__init__(redis.asyncio.Redis(), "d", visibility_timeout=10.0, record_errors="type")
        self.takes = list(takes)
        self.asked: list[Any] = []
        self.errors: dict[str, Exception] = {}
        self.prefetching: list[bool] = []
        self._clock, self._slow = clock, slow

    async def take(self, n: int = 1, timeout: Any = None, visibility_timeout: Any = None) -> Any:
        self.asked.append(("take", n, timeout))
        found = self.takes.pop(0) if self.takes else []
        self._clock.now += self._slow if found else timeout or 0.001
        return found

    async def _note(self, verb: str, messages: Any) -> int:
        self.asked.append((verb, "".join(message.key for message in messages)))
        if verb in self.errors:
            raise self.errors[verb]
        return len(messages)

    async def delete(self, *messages: Any) -> int:
        return await self._note("delete", messages)

    async def nack(self, *messages: Any, delay: Any = None, error: Any = None) -> int:
        return await self._note("nack", messages)

    async def release(self, *messages: Any) -> int:
        return await self._note("release", messages)

    async def extend(self, *messages: Any, timeout: Any = None) -> int:
        return await self._note("extend", messages)

    def handled_with(self, handle: Callable[[Any], Any], **settings: Any) -> int:
        async def handler(message: Any) -> None:
            handle(message)

        return asyncio.run(self.consume(handler, **settings))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(base_client_async, "time", made)
    return made


def _verbs(queue: Queue) -> list[Any]:
    return [each for each in queue.asked if each[0] != "take"]


def test_it_takes_until_it_was_idle_for_the_timeout(clock: Clock) -> None:
    queue = Queue(clock, _messages("a"), [], _messages("b", "c"))
    seen: list[str] = []
    assert (
        queue.handled_with(lambda each: seen.append(each.key), batch_size=7, idle_timeout=2.5) == 3
    )
    assert seen == ["a", "b", "c"]
    timeouts = [MAX_TAKE] * 5 + [0.5, 0.0]
    assert [each for each in queue.asked if each[0] == "take"] == [
        ("take", 7, timeout) for timeout in timeouts
    ]
    assert ("release", "") in queue.asked


def test_a_stop_is_asked_before_each_take_and_each_message(clock: Clock) -> None:
    stops = iter([False, False, False, True, True])
    queue = Queue(clock, _messages("a", "b", "c"))
    assert queue.handled_with(lambda each: None, stop=lambda: next(stops)) == 2
    assert _verbs(queue) == [("delete", "ab"), ("release", "c")]
    queue = Queue(clock, _messages("a"))
    assert queue.handled_with(print, stop=lambda: True) == 0
    assert queue.asked == []


def test_handled_messages_are_settled_every_tenth_of_a_second(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    queue = Queue(clock, _messages("a", "b", "c", "d", "e"))
    failed: list[DelayedMessage] = []

    def handle(message: DelayedMessage) -> None:
        clock.now += SETTLE_AFTER * 0.6
        if message.key in "bd":
            failed.append(message)
            raise ValueError("secret")

    with caplog.at_level(logging.WARNING, "ackq.delay"):
        assert queue.handled_with(handle, idle_timeout=0.001) == 3
    assert _verbs(queue) == [
        ("delete", "a"),
        ("nack", "b"),
        ("delete", "c"),
        ("nack", "d"),
        ("delete", "e"),
        ("release", ""),
    ]
    assert [each.failure for each in failed] == [failed[0].failure] * 2
    assert b'"type":"ValueError"' in failed[0].failure
    assert b"secret" not in failed[0].failure  # as record_errors says
    assert [each.partition(": ")[2] for each in caplog.messages] == ["the handler failed"] * 2
    assert caplog.records[0].exc_info


def test_leases_are_extended_when_half_of_their_time_has_passed(clock: Clock) -> None:
    queue = Queue(clock, _messages(*"abcd"), slow=1.0)  # a take counts, too
    queue.errors = {"extend": LOST}

    def handle(message: DelayedMessage) -> None:
        clock.now += 2.0

    assert queue.handled_with(handle, idle_timeout=0.001) == 4
    assert [each for each in queue.asked if each[0] == "extend"] == [("extend", "cd")]
    queue = Queue(clock, _messages(*"abcd"), slow=0.0)

    def slow(message: DelayedMessage) -> None:
        clock.now += 5.0

    queue.handled_with(slow, idle_timeout=0.001)
    assert [each[1] for each in queue.asked if each[0] == "extend"] == ["bcd", "cd", "d"]


def test_messages_whose_leases_were_lost_are_left_alone(clock: Clock) -> None:
    messages = _messages("a", "b", "c")
    messages[1].lease_lost = True
    queue = Queue(clock, messages)
    seen: list[str] = []
    assert queue.handled_with(lambda each: seen.append(each.key), idle_timeout=0.001) == 2
    assert seen == ["a", "c"]

    class Extending(Queue):
        async def extend(self, *messages: Any, timeout: Any = None) -> int:
            messages[0].lease_lost = True
            raise LOST

    queue = Extending(clock, _messages("a", "b", "c"))

    def slow(message: DelayedMessage) -> None:
        seen.append(message.key)
        clock.now += 5.0

    seen.clear()
    assert queue.handled_with(slow, idle_timeout=0.001) == 2
    assert seen == ["a", "c"]  # the extension found that b is lost


@pytest.mark.parametrize("error", [LOST, redis.ConnectionError("gone"), UnknownOutcome("lost")])
def test_an_error_that_ends_a_handler_is_raised_whatever_settles_say(
    clock: Clock, error: Exception
) -> None:
    queue = Queue(clock, _messages("a", "b", "c"))
    queue.errors = {"delete": error, "release": error}

    def handle(message: DelayedMessage) -> None:
        if message.key == "b":
            raise Fatal

    with pytest.raises(Fatal):
        queue.handled_with(handle)
    assert _verbs(queue) == [("delete", "a"), ("release", "bc")]


def test_lost_leases_at_a_settle_are_logged_and_other_errors_raised(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    queue = Queue(clock, _messages("a"))
    queue.errors = {"delete": LOST, "release": LOST}
    with caplog.at_level(logging.WARNING, "ackq.delay"):
        assert queue.handled_with(lambda each: None, idle_timeout=0.001) == 1
    assert caplog.messages == ["lost"]
    queue = Queue(clock, _messages("a"))
    queue.errors = {"delete": redis.ConnectionError("gone")}
    with pytest.raises(redis.ConnectionError):
        queue.handled_with(lambda each: None)


def test_an_observer_sees_the_handler_and_that_takes_are_ahead(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrapped: list[Any] = []

    def handled(handler: Any, addresses: Any) -> Any:
        wrapped.append((handler, addresses))
        return handler

    monkeypatch.setattr(observation, "handled", handled)
    queue = Queue(clock, _messages("a"))
    assert queue.handled_with(lambda each: None, idle_timeout=0.001) == 1
    ((handler, addresses),) = wrapped
    assert callable(handler)
    assert addresses == {"d": "localhost:6379/0"}


def test_the_progress_of_a_batch() -> None:
    a, b, c = _messages("a", "b", "c")
    batch = BatchProgress([a, b, c], 10.0, 50.0)
    assert batch.waiting == (a, b, c)
    assert [batch.must_extend(now) for now in (54.999, 55.0)] == [False, True]
    batch.extended(55.0)
    assert [batch.must_extend(now) for now in (59.999, 60.0)] == [False, True]
    last = 50.0 + SETTLE_AFTER
    assert [batch.must_settle(now) for now in (last - 0.001, last)] == [False, True]
    batch.done.append(a)
    batch.failed.append(b)
    assert batch.settle(60.0) == ([a], [b])
    assert batch.settle(60.0) == ([], [])
    assert not batch.must_settle(60.05)
    b.lease_lost = True
    left = []
    for message in batch:
        left.append((message, batch.waiting))
    assert left == [(a, (a, c)), (c, (c,))]
    assert len(batch.waiting) == 0
