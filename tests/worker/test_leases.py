"""Leases are renewed while their handlers run; what happens when one is lost."""

import asyncio
import contextlib
import threading
from typing import Any

import pytest
import redis

import ackq
from ackq import Queue
from ackq.worker import Backoff, Hooks
from tests.waiting import wait_until
from tests.worker.conftest import Rig, StartWorker

from .conftest import settled, until

LEASE = 0.5


def test_a_handler_that_takes_three_leases_runs_once(rig: Rig) -> None:
    queue = rig.queue_of(visibility_timeout=LEASE)
    queue.push({"id": "long"})
    rig.handler.behave = lambda message: asyncio.sleep(3 * LEASE)
    # Two workers, so that the other would take it again.
    rig.work(queue)
    rig.work(queue)
    wait_until(lambda: rig.handler.seen and settled(queue), "the ack")
    assert rig.handler.seen == ["long"]


def test_what_waits_behind_a_slow_handler_keeps_its_lease(rig: Rig) -> None:
    queue = rig.queue_of(visibility_timeout=0.6)
    ids = [*(f"quick{n}" for n in range(400)), "slow", *(f"later{n}" for n in range(30))]
    queue.push_many([{"id": message_id} for message_id in ids])
    rig.handler.behave = lambda message: asyncio.sleep(1.0) if message.id == "slow" else None
    rig.work(queue, concurrency=1)
    wait_until(lambda: "slow" in rig.handler.running and queue.stats().in_flight == 31, "the rest")
    while rig.handler.running:
        assert not [each for each in queue.pop_many(31) if each.receive_count > 1]
    wait_until(lambda: settled(queue), "all")
    assert len(rig.handler.seen) == len(ids)


class Lost(Hooks):
    def __init__(self) -> None:
        self.ids: list[str] = []
        self.outcomes: list[str] = []

    def lost_lease(self, message: ackq.Message) -> None:
        self.ids.append(message.id)

    def after(self, message: ackq.Message, outcome: str, seconds: float) -> None:
        self.outcomes.append(outcome)


def take_over(queue: Queue, client: Any) -> ackq.Message:
    """Take a message from its lease holder, as a pop does when the lease has ended.

    In one step: between an end of the lease and a pop the worker itself might take it again.
    """
    seconds, micros = client.time()
    receipt = (seconds + 30) * 1_000_000 + micros
    with client.pipeline(transaction=True) as step:
        step.zadd(f"{queue.name}BACKUP", {"m": receipt})
        step.hdel(f"{queue.name}EXTENDED", "m")
        step.hset(f"{queue.name}RECEIVES", "m", 2)
        step.hget(f"{queue.name}CONTEXT", "m")
        body = step.execute()[-1]
    return ackq.Message(queue.name, b"m", body, receipt, 2)


def test_a_lost_lease_is_reported_and_its_ack_refused(plain_client: redis.Redis, rig: Rig) -> None:
    queue = rig.queue_of(visibility_timeout=LEASE)
    queue.push({"id": "m"})
    noted: list[ackq.Message] = []
    cancelled = threading.Event()

    async def wait_for_word(message: ackq.Message) -> None:
        try:
            while True:  # it is cancelled right after the flag is set
                await asyncio.sleep(0.005)
        except asyncio.CancelledError:
            cancelled.set()
            raise
        finally:
            noted.append(message)

    rig.handler.behave = wait_for_word
    lost = Lost()
    made = rig.work(queue, hooks=lost)
    rig.handler.wait_for(1)
    thief = rig.queue_of(visibility_timeout=30)
    taken = take_over(thief, plain_client)
    wait_until(lambda: lost.outcomes, "the handler to end")
    assert noted[0].lease_lost
    assert lost.ids == ["m"]
    assert lost.outcomes == ["lost"]
    assert cancelled.is_set()
    assert queue.stats().in_flight == 1  # the thief's
    assert thief.ack(taken) == 1
    assert made.running


def test_a_message_that_is_gone_is_a_lost_lease(rig: Rig) -> None:
    queue = rig.queue_of(visibility_timeout=LEASE)
    queue.push({"id": "m"})

    async def wait_for_word(message: ackq.Message) -> None:
        while not message.lease_lost:
            await asyncio.sleep(0.005)

    rig.handler.behave = wait_for_word
    lost = Lost()
    made = rig.work(queue, hooks=lost)
    rig.handler.wait_for(1)
    assert rig.queue_of().ack_id("m") == 1  # as by one that took it over, or a purge
    wait_until(lambda: lost.outcomes, "the handler to end")
    assert lost.ids == ["m"]
    assert lost.outcomes == ["lost"]
    assert made.running


def test_a_canceled_message_ends_its_handler_and_no_other(rig: Rig) -> None:
    queue = rig.queue_of(visibility_timeout=LEASE)
    queue.push_many([{"id": "m"}, {"id": "other"}])
    cancelled: list[str] = []
    ended = threading.Event()

    async def wait(message: ackq.Message) -> None:
        nonlocal cancelled
        try:
            while not ended.is_set():
                await asyncio.sleep(0.005)
        except asyncio.CancelledError:
            cancelled += [message.id] * message.canceled
            raise

    rig.handler.behave = wait
    lost = Lost()
    rig.work(queue, hooks=lost)
    rig.handler.wait_for(2)
    assert rig.queue_of().cancel(ids=["m"], running=True) == 1
    wait_until(lambda: lost.outcomes, "the handler to end")
    assert (lost.ids, lost.outcomes, cancelled) == (["m"], ["canceled"], ["m"])
    ended.set()
    wait_until(lambda: lost.outcomes == ["canceled", "ack"], "the other")
    assert [letter.reason for letter in queue.dead_letters()] == ["canceled"]


def test_a_stale_ack_is_refused_and_not_fatal(plain_client: redis.Redis, rig: Rig) -> None:
    queue = rig.queue_of(visibility_timeout=30)  # so long that no renewal notices the loss
    queue.push({"id": "m"})
    started, go_on = threading.Event(), threading.Event()

    async def handle(message: ackq.Message) -> None:
        started.set()
        if message.id == "m":
            await until(go_on)

    lost = Lost()
    rig.work(queue, handle, hooks=lost)
    assert started.wait(10)
    thief = rig.queue_of(visibility_timeout=30)
    taken = take_over(thief, plain_client)
    go_on.set()
    wait_until(lambda: lost.ids == ["m"], "the refusal")
    queue.push({"id": "next"})
    wait_until(lambda: lost.outcomes == ["ack", "ack"], "the next message")
    assert thief.ack(taken) == 1


def test_a_nack_that_is_refused_is_not_repeated(
    plain_client: redis.Redis, caplog: pytest.LogCaptureFixture, rig: Rig
) -> None:
    queue = rig.queue_of(visibility_timeout=30)
    queue.push({"id": "m"})
    started, go_on = threading.Event(), threading.Event()

    async def fail(message: ackq.Message) -> None:
        started.set()
        await until(go_on)
        raise ValueError("too late")

    lost = Lost()
    rig.work(queue, fail, hooks=lost)
    assert started.wait(10)
    thief = rig.queue_of(visibility_timeout=30)
    taken = take_over(thief, plain_client)
    go_on.set()
    wait_until(lambda: lost.ids == ["m"], "the refusal")
    assert thief.ack(taken) == 1
    assert "settling failed" not in caplog.text


def test_a_handler_that_ignores_every_word_spoils_nothing_for_the_next(
    plain_client: redis.Redis, rig: Rig
) -> None:
    queue = rig.queue_of(visibility_timeout=LEASE)
    queue.push({"id": "m"})

    async def ignore(message: ackq.Message) -> None:
        while message.id == "m" and not message.timed_out:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(0.005)
        if message.id == "own":
            raise asyncio.CancelledError  # of the handler's making, not the worker's

    rig.handler.behave = ignore
    lost = Lost()
    rig.work(queue, time_limit=1.0, backoff=Backoff(base=60), hooks=lost, concurrency=1)
    rig.handler.wait_for(1)
    take_over(rig.queue_of(visibility_timeout=30), plain_client)
    wait_until(lambda: lost.outcomes == ["lost"], "the time limit, after the loss of the lease")
    queue.push_many([{"id": "own"}, {"id": "last"}])
    wait_until(lambda: lost.outcomes == ["lost", "nack", "ack"], "the next ones")


def test_an_asynchronous_handler_over_its_time_limit_is_cancelled_in_both_workers(rig: Rig) -> None:
    queue = rig.queue_of(max_receives=1)
    queue.push({"id": "m"})
    cancelled: list[bool] = []

    async def hang(message: ackq.Message) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(message.timed_out)
            raise

    rig.handler.behave = hang
    rig.work(queue, time_limit=0.2)
    (letter,) = wait_until(queue.dead_letters, "the end of its only receive")
    assert cancelled == [True]
    assert (letter.errors[0].type, letter.errors[0].text) == ("TimeoutError", "over the time limit")
    rig.handler.behave = None
    queue.push({"id": "next"})  # the same thread or task handles it
    wait_until(lambda: settled(queue), "the next message")
    assert rig.handler.seen == ["m", "next"]


def test_an_awaitable_that_is_returned_after_the_time_limit_is_cancelled(
    plain_client: redis.Redis, token: str, work: StartWorker
) -> None:
    cancelled = threading.Event()

    def begin(message: ackq.Message) -> Any:
        wait_until(lambda: message.timed_out, "the time limit")
        return hang()

    async def hang() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    with Queue(plain_client, token, max_receives=1) as queue:
        queue.push({"id": "m"})
        made = work(queue, begin, time_limit=0.1)
        assert cancelled.wait(10)
        wait_until(queue.dead_letters, "the end of its only receive")
        made.stop()
        made.join()


@pytest.mark.parametrize("kind", ["function", "deaf coroutine"])
def test_a_handler_that_ignores_its_time_limit_keeps_its_message_until_it_ends(
    kind: str, rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    """It is not handled a second time meanwhile, and all of it counts as one failure."""
    lease = 6.0  # two thirds of it are longer than a busy machine stands still
    queue = rig.queue_of(visibility_timeout=lease, max_receives=2)
    queue.push({"id": "m"})
    go_on = threading.Event()
    taken: list[ackq.Message] = []
    running, most = 0, 0

    def begin(message: ackq.Message) -> bool:
        nonlocal running, most
        taken.append(message)
        running += 1
        most = max(most, running)
        return message.receive_count == 1

    def function(message: ackq.Message) -> None:
        nonlocal running
        if begin(message):
            go_on.wait(20)
        running -= 1

    async def deaf(message: ackq.Message) -> None:
        nonlocal running
        if begin(message):
            while not go_on.is_set():
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.sleep(0.005)
        running -= 1

    handle: Any = function if kind == "function" else deaf
    rig.work(queue, handle, time_limit=0.1, concurrency=2, backoff=Backoff(base=0))
    wait_until(lambda: taken, "the first delivery")
    first = taken[0].receipt / 1_000_000
    wait_until(lambda: taken[0].lease_expires_at > first + lease / 2, "two renewals")
    assert taken[0].timed_out
    assert caplog.text.count("over its time limit queue=") == 1
    assert (len(taken), queue.stats().in_flight) == (1, 1)
    go_on.set()
    wait_until(lambda: settled(queue), "the second delivery")
    assert [message.receive_count for message in taken] == [1, 2]
    assert most == 1
    assert queue.dead_letters() == []


def test_a_message_that_returns_while_its_handler_runs_here_is_given_back_uncounted(
    plain_client: redis.Redis, rig: Rig
) -> None:
    """As after a standstill of this process that is longer than its lease."""
    queue = rig.queue_of(visibility_timeout=30, max_receives=2)
    queue.push({"id": "m"})
    counts: list[int] = []
    started, go_on = threading.Event(), threading.Event()

    def handle(message: ackq.Message) -> None:  # a plain function: a thread in both runtimes
        counts.append(message.receive_count)
        started.set()
        go_on.wait(20)

    rig.work(queue, handle, concurrency=2)
    assert started.wait(10)
    plain_client.zadd(f"{queue.name}BACKUP", {"m": 1})  # its lease has ended
    wait_until(lambda: queue.stats().delayed == 1, "its return")
    assert counts == [1]
    go_on.set()
    wait_until(lambda: settled(queue), "the delivery after the end of the handler")
    assert counts == [1, 2]
    assert queue.dead_letters() == []
