"""All clients of a queue pop from one end; a client that disagrees is refused."""

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import ackq
from ackq.errors import PopFromMismatch
from ackq.queue import Claims
from tests.conftest import MakeQueue
from tests.servers import Target
from tests.waiting import wait_until

USES: dict[str, Callable[[Any], object]] = {
    "pop": lambda queue: queue.pop(),
    "wait": lambda queue: queue.pop(math.inf),
    "push": lambda queue: queue.push({"id": "x"}),
    "push once": lambda queue: queue.push({"id": "x"}, dedup="once"),
    "push to the front": lambda queue: queue.push({"id": "x"}, front=True),
    "push many": lambda queue: queue.push_many([{"id": "x"}]),
    "stats": lambda queue: queue.stats(),
    "peek": lambda queue: queue.peek(),
    "drain": lambda queue: queue.drain(),
    "purge": lambda queue: queue.purge(),
    "audit": lambda queue: queue.audit(repair=True),
    "claims": lambda queue: queue.claims(),
}


def test_a_client_of_the_right_end_is_refused_by_a_queue_popped_from_the_left(
    make_queue: MakeQueue, target: Target, name: str
) -> None:
    left = make_queue(pop_from="left")
    left.push_many([{"id": "a"}, {"id": "b"}])
    before = {key: target.control.dump(key) for key in target.control.scan_iter(f"{name}*")}
    refused = r"popped from the left.*--pop-from left"
    for use in USES.values():  # each by a new client, which does not know the end yet
        with pytest.raises(PopFromMismatch, match=refused) as raised:
            use(make_queue(pop_from="right"))
        assert raised.value.recorded == "left"
    assert {key: target.control.dump(key) for key in target.control.scan_iter(f"{name}*")} == before
    assert left.pop().id == "a"


def test_a_client_of_the_left_end_is_refused_while_messages_are_taken_from_the_right(
    make_queue: MakeQueue,
) -> None:
    right = make_queue(pop_from="right")
    right.push_many([{"id": "a"}, {"id": "b"}])
    message = right.pop()
    for use in ("pop", "push", "push once", "push to the front", "push many", "drain"):
        with pytest.raises(PopFromMismatch, match="popped from the right") as raised:
            USES[use](make_queue(pop_from="left"))
        assert raised.value.recorded == "right"
    right.ack(message)
    assert right.pop().id == "b"


def test_a_queue_of_the_right_end_leaves_no_record(
    make_queue: MakeQueue, target: Target, name: str
) -> None:
    queue = make_queue(pop_from="right")
    queue.push({"id": "a"})
    queue.ack(queue.pop())
    assert queue.pop() is None
    assert list(target.control.scan_iter(f"{name}*")) == []


def test_a_lost_record_is_written_again_by_the_next_pop(
    make_queue: MakeQueue, target: Target, name: str
) -> None:
    queue = make_queue(pop_from="left")
    queue.push_many([{"id": "a"}, {"id": "b"}])
    target.control.delete(f"{name}RECORD")
    assert queue.pop().id == "a"
    assert target.control.hgetall(f"{name}RECORD") == {b"format": b"2", b"kind": b"left"}


def test_the_end_of_a_drained_queue_can_be_changed(make_queue: MakeQueue) -> None:
    left, right = make_queue(pop_from="left"), make_queue(pop_from="right")
    left.push_many([{"id": "a"}, {"id": "b"}])
    left.pop()
    left.drain()
    assert right.pop().id == "b"
    with pytest.raises(PopFromMismatch):
        left.pop()
    right.drain()
    assert left.pop() is not None


def test_two_ends_at_once_have_one_winner(make_queue: MakeQueue) -> None:
    right = make_queue(pop_from="right")
    right.push_many({"id": f"{n}"} for n in range(200))
    left = make_queue(pop_from="left")

    def consume(queue: Any) -> list[str]:
        taken = []
        try:
            while batch := queue.pop_many(5):
                taken += [message.id for message in batch]
        except PopFromMismatch:
            pass
        return taken

    with ThreadPoolExecutor(2) as pool:
        one, other = pool.map(consume, (left, right))
    winner = one or other
    assert not (one and other)
    assert sorted(winner, key=int) == [str(n) for n in range(200)]
    assert winner == sorted(winner, key=int, reverse=winner is one)


def test_a_consumer_that_dies_in_its_wait_leaves_the_message_in_front(
    make_queue: MakeQueue, target: Target, name: str
) -> None:
    queue = make_queue(pop_from="left")
    assert queue.pop() is None  # and record the end
    with target.make_client() as doomed, ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(doomed.blmove, name, f"{name}HANDOFF", 20, "LEFT", "LEFT")
        wait_until(
            lambda: any("blmove" in client["cmd"] for client in _clients(target)),
            "the wait to begin",
        )
        queue.push_many([{"id": "a"}, {"id": "b"}])
        waiting.result(timeout=10)
    assert [each.id for each in queue.peek()] == ["a", "b"]
    assert queue.pop().id == "a"


def _clients(target: Target) -> list[dict[str, str]]:
    control: Any = target.control
    found = control.client_list(**({"target_nodes": "primaries"} if target.cluster else {}))
    return [each for node in found.values() for each in node] if target.cluster else list(found)


def test_claims_of_the_left_end_are_read_and_returned_in_order(
    make_queue: MakeQueue, target: Target, name: str
) -> None:
    queue = make_queue(pop_from="left")
    bodies = [b'{"id":"%d"}' % n for n in range(30)]
    queue.push_many(bodies)
    with target.make_client() as client, Claims(client, name, "g", pop_from="left") as claims:
        claims.begin()
        whole = claims.claim(0, messages=30)
        assert whole is not None
        assert claims.read(whole.batch, 0, 30) == bodies
        assert claims.read(whole.batch, 7, 5) == bodies[7:12]
        claims.release()
        claims.begin()
        part = claims.claim(whole.batch, messages=10)
        assert part is not None
        assert claims.read(part.batch, 0, 10) == bodies[:10]
        claims.release()
    assert [each.body for each in queue.peek(50)] == bodies
    assert [each.body for each in queue.pop_many(50)] == bodies


def test_ackq_knows_two_ends_only(make_queue: MakeQueue) -> None:
    with pytest.raises(ackq.ConfigurationError, match="'right' or 'left', not 'top'"):
        make_queue(pop_from="top")
