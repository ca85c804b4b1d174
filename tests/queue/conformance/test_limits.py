"""A queue's own limit, and the rate of each group: what consumers get, and when they are woken."""

import math
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

from ackq import Groups, RateLimit
from ackq.errors import ConfigurationError, GroupsMismatch
from tests.conftest import MakeQueue
from tests.waiting import wait_until


@pytest.fixture
def limited(make_queue: MakeQueue) -> Callable[..., Any]:
    """``limited(2)``: a queue of which so many messages are leased at a time."""
    return lambda most, **settings: make_queue(pop_from="right", max_in_flight=most, **settings)


def ids(messages: Any) -> list[str]:
    return [message.id for message in messages]


def test_a_queue_has_no_more_in_flight_than_it_may_have(limited: Callable[..., Any]) -> None:
    queue, other = limited(3), limited(3)
    queue.push_many([{"id": f"m{number}"} for number in range(6)])
    taken = queue.pop_many(2) + other.pop_many(10)
    assert ids(taken) == ["m0", "m1", "m2"]
    assert other.pop() is None
    assert other.pop(timeout=0.05) is None
    queue.nack(taken[0], delay=600)
    assert other.pop().id == "m3"
    assert queue.pop(ack=taken[1]).id == "m4"
    queue.reject(taken[2])
    assert ids(queue.pop_many(10)) == ["m5"]
    assert (queue.stats().in_flight, queue.stats().delayed, queue.stats().ready) == (3, 1, 0)


def test_a_consumer_at_the_limit_is_woken(limited: Callable[..., Any]) -> None:
    queue = limited(1)
    with ThreadPoolExecutor(1) as pool:
        for settle in (queue.ack, queue.release, queue.reject, queue.nack):
            queue.push_many([{"id": "first"}, {"id": "second"}])
            held, waiter = queue.pop(), limited(1)
            waiting = pool.submit(waiter.pop, math.inf)
            emptiness = waiter._spec.emptiness
            wait_until(partial(getattr, emptiness, "is_known"), "the consumer waits")
            began = time.monotonic()
            settle(held)
            assert waiting.result(5) is not None
            took = time.monotonic() - began
            queue.purge(dead=True)
            assert took < 0.5, settle  # without being woken, it looks once in a second


def test_a_consumer_without_work_is_woken_by_a_push(limited: Callable[..., Any]) -> None:
    queue, waiter = limited(2), limited(2)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(waiter.pop, math.inf)
        wait_until(lambda: waiter._spec.emptiness.is_known, "the consumer waits")
        queue.push({"id": "m"})
        assert waiting.result(5).id == "m"


def test_all_clients_have_to_agree_on_the_limit(
    limited: Callable[..., Any], make_queue: MakeQueue
) -> None:
    limited(3).pop()
    for other in (make_queue(pop_from="right"), limited(4), limited(3, groups=Groups("c"))):
        with pytest.raises(GroupsMismatch, match="has max_in_flight=3, recorded at") as raised:
            other.pop()
        assert raised.value.recorded == "max_in_flight=3"
    with pytest.raises(ConfigurationError, match="no push with front="):
        limited(3).push({"id": "m"}, front=True)


def test_a_group_is_taken_at_its_rate(make_queue: MakeQueue) -> None:
    groups = Groups("customer", in_flight=9, rate=RateLimit(5, per=1, burst=2))
    queue = make_queue(pop_from="right", groups=groups)
    queue.push_many([{"id": f"a{number}"} for number in range(4)], group="a")
    queue.push({"id": "b0"}, group="b")
    began = time.monotonic()
    assert ids(queue.pop_many(3)) == ["a0", "a1", "b0"]
    assert ids([queue.pop(timeout=5), queue.pop(timeout=5)]) == ["a2", "a3"]
    assert time.monotonic() - began >= 0.4
