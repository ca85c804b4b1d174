"""A consumer whose lease ended gets the state of its message, wherever it is by then.

A message that is gone was settled by its holder, or it was not. The holder knows which: its own
settle may be repeated, and anything else is refused.
"""

from collections.abc import Callable
from typing import Any

import pytest

import ackq
from ackq import Queue
from ackq.queue.claims_client import Claims
from tests.conftest import MakeQueue
from tests.servers import Target
from tests.waiting import wait_until

Take = Callable[[Any, Target], None]


def died(queue: Queue, target: Target) -> None:
    assert queue.pop() is None
    assert queue.stats().dead == 1


def back_on_the_list(queue: Any, target: Target) -> None:
    queue.push({"id": "before"})
    assert queue.pop().id == "before"  # the other was put behind it
    assert queue.stats().ready == 1


def into_a_claim(queue: Queue, target: Target) -> None:
    client = target.make_client()
    with Claims(client, queue.name, "group") as claims:
        claims.begin()
        claim = claims.claim(0, messages=10)
        assert claim is not None
        assert claim.rows == 1
    client.close()


def acked_by_another(queue: Any, target: Target) -> None:
    assert queue.ack(queue.pop()) == 1


def nacked_by_another(queue: Any, target: Target) -> None:
    assert queue.nack(queue.pop(), delay=60) == 1


def taken_by_another(queue: Any, target: Target) -> None:
    assert queue.pop().id == "m"


def purged(queue: Queue, target: Target) -> None:
    assert queue.purge() == 1


WHERE: list[tuple[Take, dict[str, Any]]] = [
    (died, {"max_receives": 1}),
    (back_on_the_list, {"requeue": "back"}),
    (into_a_claim, {}),
    (acked_by_another, {}),
    (nacked_by_another, {}),
    (taken_by_another, {}),
    (purged, {}),
]


@pytest.mark.parametrize(("take", "settings"), WHERE, ids=[take.__name__ for take, _ in WHERE])
def test_every_settle_of_a_late_holder_is_refused(
    make_queue: MakeQueue, target: Target, take: Take, settings: dict[str, Any]
) -> None:
    queue = make_queue(**settings)
    queue.push({"id": "m"})
    late = expired(queue)
    take(queue, target)
    for settle in (queue.extend, queue.ack, queue.nack, queue.release, queue.reject):
        late.lease_lost = False
        with pytest.raises(ackq.LeaseLost, match="'m'") as caught:
            settle(late)
        assert late.lease_lost
        assert (caught.value.messages, caught.value.settled) == ((late,), 0)
    late.lease_lost = False
    queue.pop(ack=late)
    assert late.lease_lost
    assert queue.audit().sound


def expired(queue: Any) -> ackq.Message:
    """Take the message under a lease that ends at once."""
    message: ackq.Message = queue.pop(visibility_timeout=1e-6)
    assert message.id == "m"
    end_leases(queue)
    return message


def end_leases(queue: Queue) -> None:
    """Wait for the jitter of a lease."""
    wait_until(lambda: queue.stats().in_flight == 0, "the lease to end")


@pytest.mark.parametrize("first", ["ack", "reject"])
def test_who_settled_a_message_may_settle_it_again(queue: Any, first: str) -> None:
    queue.push({"id": "m"})
    message = queue.pop()
    assert getattr(queue, first)(message) == 1
    for settle in (queue.ack, queue.extend, queue.nack, queue.release, queue.reject):
        assert settle(message) == 0
    assert queue.pop(ack=message) is None
    assert not message.lease_lost


@pytest.mark.parametrize("first", ["nack", "release"])
def test_a_message_that_was_given_back_is_not_settled_otherwise(
    queue: Any, target: Target, first: str
) -> None:
    queue.push({"id": "m"})
    mine = queue.pop()
    getattr(queue, first)(mine, **({"delay": 0} if first == "nack" else {}))
    theirs = alike(queue, target, mine)
    assert getattr(queue, first)(mine) == 0
    assert not mine.lease_lost
    for verb in {"ack", "extend", "nack", "release", "reject"} - {first}:
        mine.lease_lost = False
        with pytest.raises(ackq.LeaseLost, match=f"has returned the message with {first}"):
            getattr(queue, verb)(mine)
        assert mine.lease_lost
    queue.pop(ack=mine)
    assert queue.ack(theirs) == 1


@pytest.mark.parametrize("first", ["ack", "reject"])
def test_a_settled_message_is_not_settled_again_for_another_holder(
    queue: Any, target: Target, first: str
) -> None:
    queue.push({"id": "m"})
    mine = queue.pop()
    getattr(queue, first)(mine)
    queue.push({"id": "m"})
    theirs = alike(queue, target, mine)
    for settle in (queue.ack, queue.extend, queue.nack, queue.release, queue.reject):
        assert settle(mine) == 0
    queue.pop(ack=mine)
    assert queue.ack(theirs) == 1


def alike(queue: Any, target: Target, mine: ackq.Message) -> ackq.Message:
    """Take the message again, under the receipt of ``mine``, as jitters that fit would have it."""
    theirs: ackq.Message = queue.pop()
    assert theirs.key == mine.key
    target.control.zadd(f"{queue.name}BACKUP", {mine.key: mine.receipt})
    theirs.receipt = mine.receipt
    return theirs
