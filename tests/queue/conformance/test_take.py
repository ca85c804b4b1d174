"""What consumers may rely on, on every server and through both faces."""

import math
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import ackq
from ackq.core.chunks import settle_chunks
from tests.conftest import MakeQueue
from tests.servers.target import Target
from tests.waiting import wait_until


def test_pop_of_an_empty_queue_returns_at_once(queue: Any) -> None:
    assert queue.pop() is None
    assert queue.pop_many(10, timeout=0) == []


@pytest.mark.every_route
def test_a_popped_message_is_nobody_elses_until_its_lease_ends(make_queue: MakeQueue) -> None:
    one, other = make_queue(visibility_timeout=0.5), make_queue()
    one.push({"id": "m"})
    message = one.pop()
    assert other.pop() is None
    again = other.pop(timeout=5)
    assert (again.id, again.body, again.receive_count) == ("m", message.body, 2)
    with pytest.raises(ackq.LeaseLost, match="'m'") as refused:
        one.ack(message)
    assert refused.value.messages == (message,)
    assert message.lease_lost
    assert other.ack(again) == 1
    assert one.stats() == other.stats()
    assert one.stats().in_flight == 0


def test_a_late_ack_is_accepted_while_nobody_else_took_the_message(make_queue: MakeQueue) -> None:
    queue = make_queue(visibility_timeout=0.05)
    queue.push({"id": "m"})
    message = queue.pop()
    wait_until(lambda: queue.stats().expired == 1, "the lease to end")
    assert queue.ack(message) == 1
    assert queue.pop() is None


def test_a_repeated_ack_is_no_error(queue: Any) -> None:
    queue.push({"id": "m"})
    message = queue.pop()
    assert [queue.ack(message), queue.ack(message), queue.ack()] == [1, 0, 0]


@pytest.mark.every_route
def test_pop_settles_and_takes_in_one_call(queue: Any) -> None:
    queue.push_many([{"id": "a"}, {"id": "b"}])
    first = queue.pop()
    second = queue.pop(ack=first)
    assert (first.id, second.id) == ("a", "b")
    assert queue.stats().in_flight == 1
    assert queue.pop(ack=[second]) is None
    assert queue.stats().in_flight == 0


@pytest.mark.every_route
def test_a_refused_fused_ack_marks_the_message_and_still_takes(make_queue: MakeQueue) -> None:
    queue, thief = make_queue(visibility_timeout=0.05), make_queue()
    queue.push({"id": "a"})
    stale = queue.pop()
    stolen = thief.pop(timeout=5, visibility_timeout=60)
    queue.push({"id": "b"})
    assert queue.pop(ack=stale).id == "b"
    assert stale.lease_lost
    assert thief.ack(stolen) == 1


def test_more_acks_than_one_call_takes_are_all_settled(queue: Any) -> None:
    queue.push_many({"n": n} for n in range(2500))
    taken = [message for _ in range(3) for message in queue.pop_many(1000)]
    assert len(taken) == 2500
    assert queue.pop(ack=taken) is None
    assert queue.stats().in_flight == 0


def test_each_pop_may_choose_its_own_visibility_timeout(make_queue: MakeQueue) -> None:
    queue = make_queue(visibility_timeout=600)
    queue.push_many([{"id": "short"}, {"id": "long"}])
    short = queue.pop(visibility_timeout=0.1)
    queue.pop()
    assert short.lease_expires_at < time.time() + 30
    assert queue.pop(timeout=5).id == "short"
    assert queue.pop() is None


def test_a_nacked_message_comes_back_ahead_of_the_backlog_with_its_count(queue: Any) -> None:
    queue.push_many([{"id": "a"}, {"id": "b"}])
    assert queue.nack(queue.pop(), delay=0) == 1
    again = queue.pop()
    assert (again.id, again.receive_count) == ("a", 2)


def test_a_nack_waits_for_its_delay_and_for_a_backoff_without_one(queue: Any) -> None:
    queue.push_many([{"id": "a"}, {"id": "b"}])
    queue.nack(queue.pop(), delay=0.2)
    queue.nack(queue.pop())
    assert queue.pop() is None
    before = time.monotonic()
    assert [queue.pop(timeout=5).id, queue.pop(timeout=5).id] == ["a", "b"]
    assert time.monotonic() - before > 0.5


def test_a_release_does_not_count(make_queue: MakeQueue) -> None:
    queue = make_queue(max_receives=2)
    queue.push({"id": "a"})
    for _ in range(5):
        message = queue.pop()
        assert message.receive_count == 1
        assert queue.release(message) == 1
    message = queue.pop()
    assert queue.release(message, delay=500) == 1
    (waiting,) = queue.peek(1, "delayed")
    assert waiting.receive_count == 0
    assert 400 < (waiting.at or 0) - time.time() <= 500


def test_what_is_released_comes_back_in_its_order_however_much_it_is(queue: Any) -> None:
    ids = [f"o{number}" for number in range(2500)]
    queue.push_many({"id": message_id} for message_id in ids)
    taken = [message for _ in range(3) for message in queue.pop_many(1000)]
    assert queue.release(*taken) == 2500
    taken = []
    while messages := queue.pop_many(1000):
        taken += messages
    assert [message.id for message in taken] == ids


@pytest.mark.parametrize("delay", [0, 0.01])
def test_what_is_nacked_comes_back_in_the_order_given_whatever_it_was_taken_with(
    queue: Any, delay: float
) -> None:
    queue.push_many({"id": f"o{number}"} for number in (8, 9, 10, 100))
    first, second = queue.pop_many(2), queue.pop_many(2)
    given = [first[1], second[1], second[0], first[0]]
    assert queue.nack(*given, delay=delay) == 4
    wait_until(lambda: queue.stats().due == 4, "the delay to end")
    assert [message.id for message in queue.pop_many(4)] == [message.id for message in given]


def test_a_message_dies_after_its_last_permitted_receive(make_queue: MakeQueue) -> None:
    queue = make_queue(max_receives=2)
    queue.push({"id": "poison"})
    queue.nack(queue.pop(), delay=0)
    queue.nack(queue.pop(), delay=0)
    assert queue.pop() is None
    (letter,) = queue.dead_letters()
    assert (letter.id, letter.reason, letter.receive_count) == ("poison", "max receives", 2)
    assert letter.died_at == pytest.approx(time.time(), abs=60)


def test_a_message_that_only_ever_expires_dies_too(make_queue: MakeQueue) -> None:
    queue = make_queue(max_receives=2, visibility_timeout=0.02)
    queue.push({"id": "killer"})
    assert queue.pop(timeout=5).receive_count == 1
    assert queue.pop(timeout=5).receive_count == 2
    wait_until(lambda: queue.pop() is None and queue.stats().dead == 1, "the message to die")


def test_a_message_on_its_last_permitted_receive_is_delivered_alone(make_queue: MakeQueue) -> None:
    queue = make_queue(max_receives=2)
    queue.push_many([{"id": "a"}, {"id": "b"}, {"id": "c"}])
    queue.nack(*queue.pop_many(2), delay=0)
    assert [len(queue.pop_many(10)) for _ in range(4)] == [1, 1, 1, 0]


def test_what_is_settled_in_several_calls_is_counted_and_refused_as_in_one(
    make_queue: MakeQueue,
) -> None:
    queue, other = make_queue(), make_queue()
    queue.push_many({"id": f"{number}", "x": "x" * 400_000} for number in range(7))
    messages = []
    while taken := queue.pop_many(7, visibility_timeout=60):
        messages += taken
    other.ack_id("1", "5")
    other.push_many([{"id": "1"}, {"id": "5"}])  # others are in flight under these ids
    other.pop_many(2, visibility_timeout=3600)
    with pytest.raises(ackq.LeaseLost) as refused:
        queue.reject(*messages, reason="too long")
    assert [message.id for message in refused.value.messages] == ["1", "5"]
    assert refused.value.settled == 5
    assert [letter.id for letter in queue.dead_letters()] == ["0", "2", "3", "4", "6"]


@pytest.mark.parametrize(
    ("count", "size", "calls"),
    [(0, 1, []), (2500, 1, [1000, 1000, 500]), (3, 0, [3]), (5, 3, [2, 2, 1]), (2, 9, [1, 1])],
)
@pytest.mark.every_route
def test_one_call_settles_a_thousand_messages_or_eight_mebibytes(
    count: int, size: int, calls: list[int]
) -> None:
    body = b"x" * (size << 20 if count < 10 else size)
    messages = [ackq.Message("jobs", b"k", body, 1, 1)] * count
    assert [len(chunk) for chunk in settle_chunks(messages)] == calls


@pytest.mark.every_route
def test_a_rejected_message_is_dead_with_its_reason_and_can_be_redriven(queue: Any) -> None:
    queue.push_many([{"id": "a"}, {"id": "b"}])
    assert queue.reject(*queue.pop_many(2), reason="no such user") == 2
    letters = queue.dead_letters()
    assert [(letter.id, letter.reason) for letter in letters] == [
        ("a", "no such user"),
        ("b", "no such user"),
    ]
    assert queue.redrive(entries=[letters[1].entry]) == 1
    assert queue.pop().id == "b"
    assert queue.redrive(1) == 1
    assert (queue.pop().receive_count, queue.redrive()) == (1, 0)


def test_rejected_messages_are_dead_letters_in_the_order_of_the_call(queue: Any) -> None:
    queue.push_many([{"id": id} for id in "abcd"])
    (a, b), (c, d) = queue.pop_many(2), queue.pop_many(2)
    assert queue.reject(c, a, d, b) == 4
    assert [letter.id for letter in queue.dead_letters()] == ["c", "a", "d", "b"]


def test_dead_letters_are_walked_through_from_one_to_the_next(queue: Any) -> None:
    ids = queue.push_many([{"n": n} for n in range(205)])
    queue.reject(*queue.pop_many(205))
    first = queue.dead_letters(3)
    rest = queue.dead_letters(1000, after=first[-1].entry)
    assert [each.id for each in (*first, *rest)] == ids
    assert queue.dead_letters(after=rest[-1].entry) == []
    with pytest.raises(ackq.errors.ConfigurationError, match="after is an entry"):
        queue.dead_letters(after="yesterday")


def test_dead_letters_can_be_dropped(queue: Any) -> None:
    queue.push_many([{"n": n} for n in range(3)])
    queue.reject(*queue.pop_many(3))
    letters = queue.dead_letters(2)
    assert queue.drop_dead_letters(*(letter.entry for letter in letters)) == 2
    assert queue.stats().dead == 1


@pytest.mark.every_route
def test_an_extended_lease_keeps_the_message_and_its_receipt(make_queue: MakeQueue) -> None:
    queue = make_queue(visibility_timeout=0.1)
    queue.push({"id": "slow"})
    message = queue.pop()
    receipt = message.receipt
    assert queue.extend(message, timeout=60) == 1
    assert message.receipt == receipt
    assert message.lease_expires_at == pytest.approx(time.time() + 60, abs=30)
    assert queue.pop(timeout=0.3) is None
    assert queue.ack(message) == 1
    assert queue.extend(message) == 0


def test_every_settle_takes_messages_and_lists_of_them(queue: Any) -> None:
    queue.push_many([{"n": n} for n in range(9)])

    def taken() -> list[Any]:
        first, second = queue.pop_many(8), queue.pop()
        return [tuple(first[:3]), first[3], iter(first[4:]), [[second]], []]

    assert queue.extend(*taken()) == 9
    queue.purge()
    for settle in (queue.release, queue.nack, queue.reject, queue.ack):
        queue.push_many([{"n": n} for n in range(9)])
        assert settle(*taken()) == 9
        assert settle([]) == settle() == 0
        queue.purge()
    queue.push_many([{"n": n} for n in range(9)])
    assert queue.pop(ack=taken()) is None
    assert queue.stats().in_flight == 0


def test_a_message_that_is_passed_twice_counts_once(queue: Any) -> None:
    queue.push({"id": "a"})
    message = queue.pop()
    assert queue.extend(message, message) == 1
    assert queue.ack(message, message) == 1


def test_extend_of_a_lost_lease_is_refused(make_queue: MakeQueue) -> None:
    queue = make_queue(visibility_timeout=0.05)
    queue.push({"id": "slow"})
    message = queue.pop()
    queue.pop(timeout=5, visibility_timeout=60)
    with pytest.raises(ackq.LeaseLost):
        queue.extend(message)


@pytest.mark.every_route
def test_a_batch_settle_settles_the_valid_ones_and_names_the_refused(queue: Any) -> None:
    queue.push_many([{"id": "a"}, {"id": "b"}])
    held = queue.pop(visibility_timeout=60)
    lost = queue.pop(visibility_timeout=0.02)
    assert queue.pop(timeout=5, visibility_timeout=60).id == lost.id
    with pytest.raises(ackq.LeaseLost) as refused:
        queue.nack(lost, held, delay=0)
    assert (refused.value.messages, refused.value.settled) == ((lost,), 1)
    assert queue.pop().id == held.id


def test_lease_acks_on_success_and_nacks_on_an_exception(queue: Any) -> None:
    queue.push({"id": "a"})
    with pytest.raises(LookupError), queue.lease() as message:
        raise LookupError(message.id)
    assert queue.run_now(ids=["a"]) == 1  # it was delayed
    with queue.lease(timeout=5) as message:
        assert (message.id, message.receive_count) == ("a", 2)
    with queue.lease(timeout=0) as message:
        assert message is None
    assert queue.stats() == queue.stats()
    assert queue.stats().in_flight == 0


def test_iteration_waits_and_the_body_settles(queue: Any) -> None:
    queue.push_many([{"n": 0}, {"n": 1}])
    seen = []
    iterator = iter(queue)
    for message in iterator:
        seen.append(message.json()["n"])
        queue.ack(message)
        if len(seen) == 2:
            break
    iterator.close()
    assert seen == [0, 1]


@pytest.mark.every_route
def test_a_waiting_pop_is_woken_by_a_plain_push(
    queue: Any, target: Target, push_plainly: Callable[..., Any]
) -> None:
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(queue.pop, 20)
        wait_until(lambda: _blocked(target) > 0, "the consumer to block")
        pushed = time.monotonic()
        push_plainly(b'{"id":"wake"}')
        message = waiting.result(timeout=10)
    assert message.id == "wake"
    assert time.monotonic() - pushed < 5
    assert queue.stats().in_flight == 1


def test_a_waiting_pop_gives_up_after_its_timeout(make_queue: MakeQueue) -> None:
    before = time.monotonic()
    assert make_queue().pop(timeout=0.3) is None
    assert time.monotonic() - before >= 0.3


@pytest.mark.every_route
def test_a_waiting_pop_finds_what_expires_and_what_becomes_due(queue: Any) -> None:
    queue.push({"id": "leased"})
    queue.pop(visibility_timeout=0.2)
    queue.push({"id": "due"}, delay=0.5)
    assert [queue.pop(timeout=10).id, queue.pop(timeout=10).id] == ["leased", "due"]


@pytest.mark.every_route
def test_one_push_is_taken_by_one_of_many_waiters(make_queue: MakeQueue) -> None:
    producer = make_queue()
    queues = [make_queue() for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        waiting = [pool.submit(queue.pop, 0.8) for queue in queues]
        producer.push({"id": "one"})
        taken = [future.result() for future in waiting]
    assert [message.id for message in taken if message] == ["one"]


def test_nothing_is_taken_while_paused_and_acks_go_on(queue: Any) -> None:
    queue.push_many([{"id": "a"}, {"id": "b"}])
    message = queue.pop()
    queue.pause()
    assert queue.stats().paused
    assert queue.pop(ack=message) is None
    assert queue.stats().in_flight == 0
    timer = threading.Timer(0.2, queue.resume)
    timer.start()
    assert queue.pop(timeout=10).id == "b"
    timer.join()


def test_pausing_does_not_move_the_backlog(queue: Any, target: Target, name: str) -> None:
    queue.push_many({"n": n} for n in range(5))
    queue.pause()
    assert queue.pop(timeout=0.8) is None
    assert target.control.llen(name) == 5


def test_ack_by_bare_id_is_not_fenced(queue: Any) -> None:
    queue.push_many([{"id": "a"}, {"id": 7}])
    queue.pop_many(2)
    assert queue.ack_id("a", 7, "unknown") == 2
    assert queue.stats().in_flight == 0


@pytest.mark.refused_by_the_client
@pytest.mark.parametrize("wanted", [0, -1, 1.5, True, "2"])
def test_pop_many_takes_a_whole_number(make_queue: MakeQueue, wanted: Any) -> None:
    with pytest.raises(ackq.ConfigurationError):
        make_queue().pop_many(wanted)


@pytest.mark.refused_by_the_client
@pytest.mark.parametrize("timeout", [-1, math.nan, "5", True])
def test_a_wait_is_a_number_of_seconds(make_queue: MakeQueue, timeout: Any) -> None:
    with pytest.raises(ackq.ConfigurationError):
        make_queue().pop(timeout)


@pytest.mark.refused_by_the_client
@pytest.mark.parametrize("seconds", [0, -1, 43201, math.nan, math.inf, "5", True])
def test_a_visibility_timeout_is_1_us_to_12_h(make_queue: MakeQueue, seconds: Any) -> None:
    queue = make_queue()
    queue.push({"id": "a"})
    with pytest.raises(ackq.ConfigurationError, match="visibility_timeout"):
        queue.pop(visibility_timeout=seconds)
    with pytest.raises(ackq.ConfigurationError, match="visibility_timeout"):
        make_queue(visibility_timeout=seconds)
    assert queue.stats().ready == 1


def test_a_message_of_another_queue_is_refused(make_queue: Any, name: str) -> None:
    queue, other = make_queue(), make_queue(f"{name}-other")
    queue.push({"id": "a"})
    message = queue.pop()
    for settle in (other.ack, other.nack, other.release, other.reject, other.extend):
        with pytest.raises(ackq.ConfigurationError, match="settle it there"):
            settle(message)
    with pytest.raises(ackq.ConfigurationError, match="settle it there"):
        other.pop(ack=message)
    with pytest.raises(ackq.ConfigurationError, match="not a str"):
        queue.ack("a")
    assert queue.ack(message) == 1


def _blocked(target: Target) -> int:
    nodes = {"target_nodes": "primaries"} if target.cluster else {}
    info: Any = target.control.info("clients", **nodes)
    parts = info.values() if target.cluster else [info]
    return sum(int(part["blocked_clients"]) for part in parts)
