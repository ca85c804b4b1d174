"""What producers may rely on, on every server and through both faces."""

import datetime
import json
import time
from collections.abc import Callable
from typing import Any

import pytest

import ackq
from tests.conftest import MakeQueue
from tests.servers.target import Target
from tests.waiting import wait_until


def test_a_pushed_mapping_arrives_as_json_with_its_id_first(queue: Any) -> None:
    assert queue.push({"task": "resize", "id": "a-1"}) == "a-1"
    message = queue.pop()
    assert message.body == b'{"id":"a-1","task":"resize"}'
    assert message.id == "a-1"
    assert message.json() == {"id": "a-1", "task": "resize"}


@pytest.mark.every_route
def test_a_plain_push_is_a_push(make_queue: MakeQueue, push_plainly: Callable[..., Any]) -> None:
    push_plainly(json.dumps({"id": "plain", "n": 1}))
    message = make_queue().pop()
    assert (message.id, message.json()["n"], message.receive_count) == ("plain", 1, 1)


@pytest.mark.every_route
def test_messages_are_delivered_in_the_order_of_their_push(queue: Any) -> None:
    ids = queue.push_many({"n": n} for n in range(2500))
    popped: list[Any] = []
    while batch := queue.pop_many(1000, ack=popped[-1000:]):
        popped += batch
    assert [message.id for message in popped] == ids


def test_push_many_of_nothing_sends_nothing(make_queue: MakeQueue) -> None:
    assert make_queue().push_many([]) == []


def test_a_body_over_the_limit_that_others_pushed_is_put_aside_and_can_be_redriven(
    make_queue: MakeQueue, push_plainly: Callable[..., Any]
) -> None:
    queue = make_queue(max_body_bytes=100)
    body = b'{"id":"big","x":"' + b"y" * 200 + b'"}'
    push_plainly(body, b'{"id":"small"}')
    assert queue.pop().id == "small"
    (letter,) = queue.dead_letters()
    assert (letter.id, letter.body, letter.reason) == ("big", body, "too large")
    assert queue.redrive() == 1
    assert queue.pop().body == body
    assert queue.dead_letters() == []


@pytest.mark.every_route
def test_a_delayed_message_is_not_delivered_early(queue: Any) -> None:
    before = time.monotonic()
    assert queue.push({"id": "later"}, delay=0.3) == "later"
    assert queue.pop() is None
    assert queue.stats().delayed == 1
    message = queue.pop(timeout=5)
    assert time.monotonic() - before >= 0.3
    assert (message.id, message.receive_count) == ("later", 1)


def test_a_message_can_be_scheduled_for_an_instant(queue: Any) -> None:
    now = time.time()
    queue.push({"id": "past"}, at=now - 10)
    zone = datetime.timezone(datetime.timedelta(hours=5, minutes=30))
    queue.push({"id": "soon"}, at=datetime.datetime.fromtimestamp(now + 3600, zone))
    queue.push({"id": "longest"}, delay=0)
    assert {queue.pop().id, queue.pop().id} == {"past", "longest"}
    (waiting,) = queue.peek(state="delayed")
    assert waiting.id == "soon"
    assert waiting.at == pytest.approx(now + 3600, abs=0.001)


def test_scheduled_messages_of_one_id_are_all_kept(queue: Any) -> None:
    queue.push_many([{"id": "same", "n": 1}, {"id": "same", "n": 2}, b"raw"], delay=0)
    assert {message.body for message in queue.pop_many(5)} == {
        b'{"id":"same","n":1}',
        b'{"id":"same","n":2}',
        b"raw",
    }


@pytest.mark.every_route
def test_a_second_push_under_one_key_stores_nothing_and_returns_the_first_id(queue: Any) -> None:
    first = queue.push({"n": 1}, dedup="order-7")
    again = queue.push({"n": 2}, dedup="order-7")
    assert isinstance(first, ackq.Pushed)
    assert again == first
    assert (first.stored, again.stored) == (True, False)
    assert queue.push({"n": 3}, dedup="order-8") != first
    assert queue.push({"n": 4}).stored is True
    assert [message.json()["n"] for message in queue.pop_many(5)] == [1, 3, 4]


def test_a_dedup_key_is_forgotten_after_its_window(queue: Any) -> None:
    queue.push({"n": 1}, dedup="k", dedup_window=0.05)
    wait_until(
        lambda: queue.push({"n": 2}, dedup="k", dedup_window=0.05) and queue.stats().ready == 2,
        "the window to pass",
    )


def test_a_scheduled_push_can_be_deduplicated(queue: Any) -> None:
    first = queue.push({"n": 1}, dedup="tick", delay=60)
    again = queue.push({"n": 2}, dedup="tick", delay=60)
    assert again == first
    assert (first.stored, again.stored) == (True, False)
    assert queue.stats().delayed == 1


def test_each_message_of_a_push_of_many_has_a_dedup_key(queue: Any) -> None:
    first = queue.push_many([{"n": 1}, {"n": 2}], dedup=["one", "two"])
    again = queue.push_many(
        ({"n": n} for n in (1, 3, 3)), dedup=lambda message: ["", "one", "", "three"][message["n"]]
    )
    assert [each.stored for each in (*first, *again)] == [True, True, False, True, False]
    assert again[0] == first[0]
    assert again[1] == again[2]
    later = queue.push_many([{"n": 2}, {"n": 4}], delay=60, dedup=["two", "four"])
    assert [each.stored for each in later] == [False, True]
    assert [message.json()["n"] for message in queue.pop_many(9)] == [1, 2, 3]


@pytest.mark.parametrize("dedup", ["", "x" * 513])
def test_a_dedup_key_has_a_length(make_queue: MakeQueue, dedup: str) -> None:
    with pytest.raises(ackq.ConfigurationError, match="dedup"):
        make_queue().push({"n": 1}, dedup=dedup)


def keeps_a_log(target: Target) -> bool:
    client: Any = target.control
    if target.cluster:
        client = client.get_redis_connection(client.get_default_node())
    return bool(client.info("persistence")["aof_enabled"])


@pytest.mark.every_route
def test_a_push_and_an_ack_wait_for_the_disk_where_redis_can(queue: Any, target: Target) -> None:
    on_disk = ackq.Confirm(fsync=True, timeout=2)
    if tuple(map(int, target.version.split(".")[:2])) < (7, 2):
        with pytest.raises(ackq.UnsupportedServer, match=r"Redis 7\.2"):
            queue.push({"n": 1}, confirm=on_disk)
        assert queue.stats().ready == 0
        return
    if not keeps_a_log(target):
        with pytest.raises(ackq.NotConfirmed, match="appendonly is disabled"):
            queue.push({"n": 1}, confirm=on_disk)
        assert queue.stats().ready == 1
        return
    queue.push({"n": 1}, confirm=on_disk)
    assert queue.ack(queue.pop(), confirm=on_disk) == 1
    with pytest.raises(ackq.NotConfirmed) as raised:
        queue.push({"n": 2}, confirm=ackq.Confirm(replicas=9, fsync=True, timeout=0.05))
    assert (raised.value.confirmed, raised.value.required) == (0, 9)
    assert queue.stats().ready == 1


@pytest.mark.parametrize("pop_from", ["right", "left"])
@pytest.mark.every_route
def test_pushes_to_the_front_are_delivered_first_and_in_their_order(
    make_queue: MakeQueue, pop_from: Any
) -> None:
    queue = make_queue(pop_from=pop_from)
    # The first is on the ready list if no consumer waits; the next one must not pass it.
    assert queue.push({"id": "f1"}, front=True) == "f1"
    queue.push({"id": "r1"})
    assert queue.push_many([{"id": "f2"}, {"id": "f3"}], front=True) == ["f2", "f3"]
    assert queue.push({"id": "f4"}, front=True, dedup="f4").stored
    queue.push({"id": "r2"})
    assert [each.id for each in queue.peek()] == ["f1", "f2", "f3", "f4", "r1", "r2"]
    assert [message.id for message in queue.pop_many(9)] == ["f1", "f2", "f3", "f4", "r1", "r2"]


def test_redelivered_messages_still_come_before_the_front(queue: Any) -> None:
    queue.push_many([{"id": "nacked"}, {"id": "ready"}])
    queue.nack(queue.pop(), delay=0)
    queue.push({"id": "front"}, front=True)
    assert [message.id for message in queue.pop_many(9)] == ["nacked", "front", "ready"]
