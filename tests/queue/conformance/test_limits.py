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


def test_limits_change_while_consumers_work(make_queue: MakeQueue) -> None:
    """Consumers that were given other limits use the new ones, waiting ones and later ones, too."""

    def opened(in_flight: int = 1, **settings: Any) -> Any:
        return make_queue(pop_from="right", groups=Groups("of", in_flight), **settings)

    queue, consumer = opened(), opened()
    queue.push_many([{"id": f"a{number}"} for number in range(9)], group="a")
    held = [consumer.pop()]
    assert consumer.pop() is None
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(consumer.pop, 10)
        wait_until(lambda: consumer._spec.emptiness.is_known, "the consumer waits")
        queue.set_groups(in_flight=3)
        held.append(waiting.result(10))
    held += opened().pop_many(5)
    assert ids(held) == ["a0", "a1", "a2"]
    with pytest.raises(GroupsMismatch, match="has groups=Groups"):
        make_queue(pop_from="right", groups=Groups("other", 3)).pop()
    queue.set_groups(in_flight=1, max_in_flight=9)
    assert consumer.pop(ack=held[:2]) is None  # a2 is in flight
    queue.release(held[2])
    assert ids(consumer.pop_many(2)) == ["a2", "a3"]  # one consumer has both
    assert opened(3).pop() is None
    assert (consumer.config.groups.in_flight, consumer.config.max_in_flight) == (1, 9)
    assert queue.audit().findings == ()
    queue.set_groups(rate=RateLimit(1, per=3600))
    queue.set_groups(rate=None, in_flight=3)  # the run of two counts
    assert queue.pop().id == "a4"


@pytest.mark.parametrize(
    "wrong",
    [
        {"in_flight": 0},
        {"in_flight": None},
        {"rate": 5},
        {"on_dead": "pause"},
        {"max_in_flight": 0},
        {"max_in_flight": True},
    ],
    ids=repr,
)
def test_a_wrong_limit_changes_nothing(make_queue: MakeQueue, wrong: dict[str, Any]) -> None:
    queue = make_queue(pop_from="right", groups=Groups("of"))
    with pytest.raises(ConfigurationError):
        queue.set_groups(**wrong)
    queue.push({"id": "a"}, group="a")
    held = queue.pop()
    with pytest.raises(ConfigurationError, match="are in flight"):
        queue.set_groups(on_dead="stop")
    queue.ack(held)
    assert queue.config.groups == Groups("of")
    with pytest.raises(ConfigurationError, match="has no groups"):
        make_queue(pop_from="right", max_in_flight=2).set_groups(rate=None)
    with pytest.raises(ConfigurationError, match="has no groups"):
        make_queue(pop_from="right").set_groups(max_in_flight=2)


def test_a_dead_letter_may_stop_its_group_from_now_on_or_no_longer(make_queue: MakeQueue) -> None:
    queue = make_queue(pop_from="right", groups=Groups("of"))
    queue.set_groups(on_dead="stop")
    queue.push_many([{"id": "a0"}, {"id": "a1"}], group="a")
    queue.reject(queue.pop())
    assert queue.pop() is None
    queue.set_groups(on_dead="continue")
    assert queue.pop().id == "a1"
    assert queue.audit().findings == ()


def test_one_group_is_paused(make_queue: MakeQueue) -> None:
    queue = make_queue(pop_from="right", groups=Groups("of", 2))
    queue.push_many([{"id": f"{group}{n}", "of": group} for n in range(3) for group in "ab"])
    held = queue.pop_many(1)
    queue.pause_group("a")
    queue.pause_group("a", 0.01)  # does not shorten it
    queue.pause_group("b", for_=0.3)
    queue.release(held)  # a redelivered message waits, too
    assert queue.pop_many(9) == []
    paused = {each.name: each.paused_for or 0 for each in queue.groups()}
    assert paused["a"] == math.inf > 0.3 > paused["b"]
    assert ids([queue.pop(timeout=9), *queue.pop_many(9)]) == ["b0", "b1"]
    assert (queue.resume_group("a"), queue.resume_group("a")) == (1, 0)
    assert ids(queue.pop_many(9)) == ["a1"]
    wait_until(lambda: (again := queue.pop()) and again.id == "a0", "the released message", 20)
    assert queue.audit().findings == ()
    seconds: tuple[Any, ...] = (0, -1, 2e9, math.nan, "30")
    for wrong in seconds:
        with pytest.raises(ConfigurationError, match="for_ is"):
            queue.pause_group("a", wrong)
    groups: tuple[Any, ...] = ("", 1.5, None, True, 2**53)
    for wrong in groups:
        with pytest.raises(ConfigurationError, match="a group is"):
            queue.pause_group(wrong)


def test_one_group_has_limits_of_its_own(make_queue: MakeQueue) -> None:
    queue = make_queue(pop_from="right", groups=Groups("of"))
    queue.push_many([{"id": f"{group}{n}", "of": group} for n in range(4) for group in "ab"])
    assert ids([queue.pop(), queue.pop()]) == ["a0", "b0"]
    assert queue.pop() is None
    queue.limit_group("a", in_flight=3)
    assert ids(queue.pop_many(9)) == ["a1", "a2"]
    queue.limit_group("a", in_flight=9, rate=RateLimit(1, per=3600))
    assert queue.pop().id == "a3"
    shown = {each.name: (each.limit, each.rate) for each in queue.groups()}
    assert shown == {"a": (9, RateLimit(1, 3600.0, 1)), "b": (None, None)}
    queue.limit_group("a")
    assert [each.limit for each in queue.groups()] == [None, None]
    assert queue.audit().findings == ()


def test_one_group_is_canceled(make_queue: MakeQueue) -> None:
    queue = make_queue(pop_from="right", groups=Groups("of"))
    queue.push_many([{"id": f"{group}{n}", "of": group} for n in range(3) for group in (17, 1)])
    queue.push(b'{"of":17}')
    assert ids(queue.pop_many(2)) == ["170", "10"]
    assert queue.pop() is None  # the others are moved aside
    queue.push_many([{"id": "173", "of": "17"}, {"id": "13", "of": "1"}])
    queue.push({"id": "174"}, group=17, delay=600)
    assert queue.cancel_group("17") == 5
    assert {letter.id for letter in queue.dead_letters()} == {"171", "172", "173", "174", ""}
    assert {letter.reason for letter in queue.dead_letters()} == {"canceled"}
    assert queue.stats().in_flight == 2
    assert (queue.cancel_group(17), queue.audit().findings) == (0, ())
