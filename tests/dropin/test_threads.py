"""What happens to the last message when a consumer ends inside a program."""

import atexit
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import redis

import ackq
from ackq import dropin
from tests.dropin.seen import LEASE, come_back, in_flight, run_in_thread, settled
from tests.waiting import wait_until


def test_close_and_a_with_block_settle(
    plain_client: redis.Redis, name: str, queue: ackq.Queue
) -> None:
    for _ in range(2):
        with dropin.Redis(plain_client, hold=0) as r:
            r.lpush(name, "a")
            r.rpop(name)
        assert settled(queue)
        r.lpush(name, "b")
        r.rpop(name)
        r.close()
        assert settled(queue)


def test_a_with_block_that_raises_does_not_settle(
    plain_client: redis.Redis, name: str, queue: ackq.Queue
) -> None:
    def consume() -> None:
        with dropin.Redis(plain_client, visibility_timeout=LEASE, hold=0) as r:
            r.lpush(name, "a")
            r.rpop(name)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        consume()
    assert come_back(queue) == b"a"


def test_close_in_a_finally_clause_does_not_settle_what_failed(
    plain_client: redis.Redis, name: str, queue: ackq.Queue
) -> None:
    def consume() -> None:
        r = dropin.Redis(plain_client, visibility_timeout=LEASE, hold=0)
        try:
            r.lpush(name, "a")
            r.rpop(name)
            raise ZeroDivisionError
        finally:
            r.close()

    with pytest.raises(ZeroDivisionError):
        consume()
    assert come_back(queue) == b"a"


def test_a_client_that_is_open_and_was_used_is_closed_at_the_end_of_the_program(
    plain_client: redis.Redis, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_exit: list[Any] = []
    monkeypatch.setattr(atexit, "register", at_exit.append)
    monkeypatch.setattr(atexit, "unregister", at_exit.remove)
    r = dropin.Redis(plain_client, hold=0)
    r.lpush(name, "a", "b", "c")
    assert at_exit == []
    for _ in range(2):
        r.rpop(name)
        assert at_exit == [r._ackq._at_exit]
    r.close()
    assert at_exit == []
    r.rpop(name)
    assert at_exit == [r._ackq._at_exit]
    r.close()


def test_a_thread_that_returns_settles(r: dropin.Redis, name: str, queue: ackq.Queue) -> None:
    r.lpush(name, "a")
    run_in_thread(lambda: r.rpop(name))
    wait_until(lambda: settled(queue), "the ended thread's message to be settled")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("error", [ZeroDivisionError, SystemExit])
def test_a_thread_that_raises_does_not_settle(
    r: dropin.Redis, name: str, queue: ackq.Queue, error: type[BaseException]
) -> None:
    def consume() -> None:
        r.rpop(name)
        raise error

    r.lpush(name, "a")
    run_in_thread(consume)
    assert come_back(queue) == b"a"


def test_a_task_that_fails_in_an_executor_does_not_settle(
    r: dropin.Redis, name: str, queue: ackq.Queue
) -> None:
    def consume() -> None:
        r.rpop(name)
        raise ZeroDivisionError

    r.lpush(name, "a")
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(consume).exception() is not None
        # The thread lives on, and yet does not keep the lease alive.
        assert come_back(queue) == b"a"


def test_a_loop_that_starts_a_failed_consumer_again_does_not_settle(
    r: dropin.Redis, name: str, queue: ackq.Queue, caplog: pytest.LogCaptureFixture
) -> None:
    done = []

    def consume() -> None:
        while (raw := r.rpop(name)) is not None:
            if raw == b"bad" and raw not in done:
                done.append(raw)
                raise ZeroDivisionError
            done.append(raw)

    r.lpush(name, "good", "bad", "good")
    with pytest.raises(ZeroDivisionError):
        consume()
    consume()
    assert "is redelivered" in caplog.text
    wait_until(lambda: r.llen(name), "the message that failed")
    consume()
    assert done == [b"good", b"bad", b"good", b"bad"]
    assert settled(queue)


def test_a_helper_and_a_generator_may_do_the_popping(
    r: dropin.Redis, name: str, queue: ackq.Queue
) -> None:
    def jobs() -> Iterator[bytes]:
        while (raw := r.rpop(name)) is not None:
            yield raw

    def consume() -> None:
        for _ in jobs():
            time.sleep(2 * LEASE)  # the generator is suspended; its lease goes on
            assert queue.pop() is None
            raise ZeroDivisionError

    r.lpush(name, "a", "b")
    for raw in jobs():
        assert in_flight(queue) == [raw]
    assert settled(queue)
    r.lpush(name, "c")
    with pytest.raises(ZeroDivisionError):
        consume()
    assert come_back(queue) == b"c"
