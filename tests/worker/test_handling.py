"""What a handler returns or raises decides how its message is settled."""

import asyncio
import threading
import time
from typing import Any

import pytest
import redis

import ackq
from ackq import Queue
from ackq.errors import ConfigurationError
from ackq.worker import Backoff, Reject, Release, Worker, feeder
from tests.waiting import wait_until
from tests.worker.conftest import Rig

from .conftest import push, settled, until


def test_a_worker_that_drains_returns_when_nothing_is_ready(rig: Rig) -> None:
    queue = rig.queue_of()
    ids = push(queue, 50)
    made, before = rig.work(queue, start=False), threading.active_count()
    made.drain()
    wait_until(lambda: threading.active_count() <= before, "the end of all its threads")
    assert settled(queue)
    assert sorted(rig.handler.seen) == sorted(ids)
    with pytest.raises(ConfigurationError, match="runs once"):
        made.drain()


def test_a_worker_that_drains_takes_what_a_handler_pushed_while_a_take_found_nothing(
    plain_client: redis.Redis, name: str
) -> None:
    """The take saw an empty queue, but its reply comes after the handler's push and ack."""
    found_nothing = threading.Event()
    seen = []
    with Queue(plain_client, name) as queue, Queue(plain_client, name) as producer:
        pop_many = queue.pop_many

        def pop_slowly(*args: Any, **options: Any) -> list[ackq.Message]:
            messages = pop_many(*args, **options)
            if not messages and not found_nothing.is_set():
                found_nothing.set()
                wait_until(lambda: producer.stats().in_flight == 0, "the ack")
            return messages

        def handle(message: ackq.Message) -> None:
            seen.append(message.id)
            if message.id == "first":
                assert found_nothing.wait(30)
                producer.push({"id": "second"})

        queue.pop_many = pop_slowly  # type: ignore[method-assign]
        producer.push({"id": "first"})
        Worker(queue, handle).run(drain=True)
        assert seen == ["first", "second"]
        assert settled(queue)


def test_raising_nacks_with_the_backoff(rig: Rig) -> None:
    queue = rig.queue(1)

    def fail(message: ackq.Message) -> None:
        if message.receive_count < 3:
            raise RuntimeError("not yet")

    rig.handler.behave = fail
    started = time.monotonic()
    rig.work(queue, backoff=Backoff(base=0.2, factor=2, jitter=0))
    wait_until(lambda: settled(queue), "the ack of the third delivery")
    assert time.monotonic() - started >= 0.6  # 0.2 and 0.4 s
    assert rig.handler.seen == ["m0"] * 3
    assert rig.handler.counts["m0"] == 3


def test_a_message_that_always_fails_dies_at_max_receives(rig: Rig) -> None:
    queue = rig.queue(1, "bad", max_receives=3)
    push(queue, 20)

    def fail(message: ackq.Message) -> None:
        if message.id == "bad0":
            raise ValueError("poison")

    rig.handler.behave = fail
    rig.work(queue, backoff=Backoff(base=0, jitter=0))
    wait_until(lambda: settled(queue), "the rest")
    (letter,) = queue.dead_letters()
    assert (letter.id, letter.reason, letter.receive_count) == ("bad0", "max receives", 3)
    assert rig.handler.seen.count("bad0") == 3
    assert len(rig.handler.seen) == 23


def test_reject_goes_to_the_dead_letters_with_its_reason(rig: Rig) -> None:
    queue = rig.queue(1)

    def reject(message: ackq.Message) -> None:
        raise Reject("no such user \ud800" + "x" * 5000)  # not even UTF-8, and long

    rig.handler.behave = reject
    rig.work(queue)
    (letter,) = wait_until(queue.dead_letters, "the dead letter")
    assert letter.reason.startswith("no such user ?x")
    assert letter.receive_count == 1
    assert rig.handler.seen == ["m0"]


def test_release_with_a_delay_gives_back_later_and_uncounted(rig: Rig) -> None:
    queue = rig.queue(1, max_receives=1)

    def release(message: ackq.Message) -> None:
        raise Release(500)

    rig.handler.behave = release
    rig.work(queue)
    wait_until(lambda: queue.stats().delayed == 1, "the release")
    (waiting,) = queue.peek(1, "delayed")
    assert 400 < (waiting.at or 0) - time.time() <= 500
    assert waiting.receive_count == 0
    assert queue.run_now(waiting.entry) == 1
    rig.handler.wait_for(2)
    assert rig.handler.counts == {"m0": 1}


@pytest.mark.parametrize(
    "body", [b"", b"\x00\xff", b"[[[[", b'{"id": null}', b"[]", b'"expires_at"', b"1" * 100_000]
)
def test_any_body_reaches_the_handler(body: bytes, rig: Rig) -> None:
    queue = rig.queue_of()
    queue.push(body)
    bodies = []
    rig.work(queue, lambda message: bodies.append(message.body), expiry_field="expires_at")
    wait_until(lambda: settled(queue), "the ack")
    assert bodies == [body]


def test_a_batch_wakes_as_many_idle_handlers_as_it_needs(rig: Rig) -> None:
    queue = rig.queue_of()
    together = threading.Barrier(4, timeout=10)
    passed = []

    def handle(message: ackq.Message) -> None:
        if message.id != "first0":
            together.wait()
        passed.append(message.id)

    rig.work(queue, handle, concurrency=4)
    push(queue, 1, "first")
    wait_until(lambda: passed, "the worker to be up")
    wait_until(lambda: settled(queue), "everybody to be idle")
    push(queue, 4)
    wait_until(lambda: len(passed) == 5, "four at a time")


def test_a_slow_handler_holds_back_no_other_ack(rig: Rig) -> None:
    queue = rig.queue(1, "slow")
    push(queue, 100)
    released = threading.Event()
    rig.handler.behave = lambda message: until(released) if message.id == "slow0" else None
    rig.work(queue, concurrency=4)
    wait_until(lambda: queue.stats().in_flight == 1 and not queue.stats().ready, "100 acks")
    released.set()
    wait_until(lambda: settled(queue), "the last")


def test_acks_travel_with_the_next_take(monkeypatch: pytest.MonkeyPatch, rig: Rig) -> None:
    queue = rig.queue(2000)
    bare = getattr(queue, "_wrapped", queue)
    pop_many = bare.pop_many
    batches: list[tuple[int, int]] = []

    def spy(wanted: int, timeout: Any, visibility_timeout: Any, ack: list[ackq.Message]) -> Any:
        batches.append((wanted, len(ack)))
        return pop_many(wanted, timeout, visibility_timeout, ack)

    monkeypatch.setattr(bare, "pop_many", spy)
    rig.work(queue)
    wait_until(lambda: settled(queue), "all")
    taken, acked = max(wanted for wanted, _ in batches), sum(acks for _, acks in batches)
    assert taken > 100
    # The keeper acks every 50 ms what waits then; on a busy machine that may be many.
    assert acked > 500


def test_no_more_handlers_run_than_asked_for(rig: Rig) -> None:
    queue = rig.queue(60)
    rig.handler.behave = lambda message: asyncio.sleep(0.005)
    rig.work(queue, concurrency=3)
    wait_until(lambda: settled(queue), "all")
    assert rig.handler.most == 3


def test_idle_handlers_are_given_the_next_message_at_once(
    monkeypatch: pytest.MonkeyPatch, rig: Rig
) -> None:
    monkeypatch.setattr(feeder, "IDLE", 60)  # no handler looks by chance
    queue = rig.queue_of()
    released = threading.Event()
    rig.handler.behave = lambda message: until(released)
    rig.work(queue, concurrency=20)
    for number in range(20):
        push(queue, 1, f"{number}-")
        rig.handler.wait_for(number + 1)
    released.set()
    wait_until(lambda: settled(queue), "all")


def test_without_a_prefetch_a_worker_takes_only_what_it_can_handle_now(rig: Rig) -> None:
    queue = rig.queue(400, "quick")
    push(queue, 1, "slow")
    push(queue, 30, "later")
    released = threading.Event()
    rig.handler.behave = lambda message: until(released) if message.id == "slow0" else None
    rig.work(queue, concurrency=1, prefetch=0)
    wait_until(lambda: "slow0" in rig.handler.seen, "the slow one")
    assert queue.stats().ready == 30
    released.set()


def test_a_worker_that_took_too_many_gives_them_back(rig: Rig) -> None:
    queue = rig.queue(400, "quick")
    push(queue, 1, "slow")
    push(queue, 30, "later")
    released = threading.Event()
    rig.handler.behave = lambda message: until(released) if message.id == "slow0" else None
    rig.work(queue, concurrency=1)
    wait_until(lambda: "slow0" in rig.handler.seen, "the slow one")
    wait_until(lambda: queue.stats().in_flight == 31, "what waits behind it")
    wait_until(lambda: queue.stats().in_flight == 1, "that to be given back", 5)
    until_then = time.monotonic() + 0.3
    while time.monotonic() < until_then:
        assert queue.stats().in_flight == 1  # and it is not taken again at once
    taken: list[ackq.Message] = []

    def take() -> bool:
        taken.extend(queue.pop_many(30))
        return len(taken) == 30

    wait_until(take, "what waited behind it", 5)
    assert {message.receive_count for message in taken} == {1}
    queue.ack(*taken)
    released.set()
    wait_until(lambda: settled(queue), "the slow one")


def test_a_message_that_outlived_its_time_is_a_dead_letter(rig: Rig) -> None:
    queue = rig.queue_of()
    now = time.time()
    queue.push({"id": "old", "expires_at": now - 1})
    queue.push({"id": "new", "expires_at": now + 60})
    queue.push({"id": "text", "expires_at": "tomorrow"})
    queue.push({"id": "none"})
    rig.work(queue, expiry_field="expires_at", concurrency=1)
    wait_until(lambda: settled(queue), "all")
    assert sorted(rig.handler.seen) == ["new", "none", "text"]
    (letter,) = queue.dead_letters()
    assert (letter.id, letter.reason) == ("old", "expired")
