"""What happens to the last message when a consumer ends inside a program."""

import atexit
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import redis

import ackq
from ackq import dropin
from tests.dropin.seen import come_back, run_in_thread, settled
from tests.waiting import wait_until


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
