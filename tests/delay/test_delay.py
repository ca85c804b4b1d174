"""What users of a delay queue may rely on, on every server and through both faces."""

import math
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

import ackq
from ackq.delay import DelayEntry, DelayQueue
from ackq.errors import DuplicateMessage
from tests.delay.conftest import MakeDelay
from tests.delay.partition import Partition
from tests.jitter import LEASES, TIMEOUT, check_jitter
from tests.large import CALLS, MAX_BODY_BYTES, large_bodies
from tests.servers import Target
from tests.waiting import wait_until

Handle = Callable[[Callable[[Any], object]], Any]


EAST = timezone(timedelta(hours=5, minutes=30))


def server_now(target: Target, name: str) -> float:
    """Return the time of the server that holds the topic."""
    seconds, micros = target.control.eval("return redis.call('TIME')", 1, f"{name}:z")
    return int(seconds) + int(micros) / 1e6


def keys_of(messages: list[Any]) -> list[str]:
    return [message.key for message in messages]


def test_a_message_is_taken_whole_and_deleted_with_all_its_records(
    delay: DelayQueue, target: Target, name: str
) -> None:
    delay.push("order-1", b"\x00\xff")
    (message,) = delay.take()
    assert (message.queue, message.key, message.body) == (name, "order-1", b"\x00\xff")
    assert (message.partition, message.receive_count, message.lease_lost) == (None, 1, False)
    assert message.lease_expires_at > message.ready_time
    assert delay.stats().in_flight == 1
    assert delay.delete(message) == 1
    assert delay.delete(message) == 0
    # A token for the next consumer that waits; at most one, and no message.
    assert set(target.control.scan_iter(f"{name}:*")) <= {f"{name}:wake".encode()}
    assert target.control.llen(f"{name}:wake") <= 1


def test_nothing_is_taken_before_its_time_by_the_servers_clock(
    delay: DelayQueue, target: Target, name: str
) -> None:
    delay.push("late", "x", delay=0.3)
    assert delay.take(10) == []
    (message,) = delay.take(10, timeout=5)
    assert message.ready_time <= server_now(target, name)
    delay.push("later", "x", delay=1000)
    assert delay.take(10, timeout=0.1) == []


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        ({}, 0),
        ({"delay": 97.25}, 97.25),
        ({"delay": timedelta(minutes=2)}, 120),
        ({"delay_ms": 1500}, 1.5),
    ],
)
def test_a_delay_counts_from_the_servers_now(
    delay: DelayQueue, target: Target, name: str, given: dict[str, Any], seconds: float
) -> None:
    before = server_now(target, name)
    delay.push("k", "x", **given)
    after = server_now(target, name)
    score = target.control.zscore(f"{name}:z", "k")
    assert score is not None
    assert before + seconds - 1e-6 <= score <= after + seconds + 1e-6


@pytest.mark.parametrize(
    ("given", "score"),
    [
        ({"at": 4_000_000_000}, 4_000_000_000.0),
        ({"at": 4_000_000_000.000001}, 4_000_000_000.000001),
        ({"at": datetime(2100, 1, 1, 0, 0, 0, 5, tzinfo=UTC)}, 4_102_444_800.000005),
        ({"at": datetime(2100, 1, 1, 5, 30, 0, 5, tzinfo=EAST)}, 4_102_444_800.000005),
        ({"at_ms": 4_000_000_000_123}, 4_000_000_000.123),
        ({"at": 0}, 0.0),
    ],
)
def test_a_ready_time_is_stored_to_the_microsecond(
    delay: DelayQueue, target: Target, name: str, given: dict[str, Any], score: float
) -> None:
    delay.push("k", "x", **given)
    assert target.control.zscore(f"{name}:z", "k") == score


@pytest.mark.parametrize(
    "given",
    [
        {"delay": -1},
        {"delay": math.nan},
        {"delay": math.inf},
        {"delay": True},
        {"delay": "1"},
        {"delay": 1, "at": 1},
        {"delay_ms": 1.5},
        {"delay_ms": -1},
        {"at": datetime(2100, 1, 1)},
        {"at": 1e10},
        {"at_ms": 10**14},
        {"delay": timedelta(seconds=-1)},
        {"delay": 4e9},
        {"partition": 1},
    ],
)
def test_a_time_that_cannot_be_is_refused_before_anything_is_sent(
    delay: DelayQueue, given: dict[str, Any]
) -> None:
    with pytest.raises(ackq.ConfigurationError):
        delay.push("k", "x", **given)
    assert delay.stats().ready == delay.stats().delayed == 0


@pytest.mark.parametrize("key", ["", "x" * 513, "\ud800", b"bytes", 1, None])
def test_a_key_that_cannot_be_is_refused(delay: DelayQueue, key: Any) -> None:
    with pytest.raises(ackq.InvalidMessage):
        delay.push(key, "x")


@pytest.mark.parametrize("body", [None, 1, ["x"], {"x": object()}, {"x": [float("nan")]}, "\ud800"])
def test_a_body_that_cannot_be_is_refused(delay: DelayQueue, body: Any) -> None:
    with pytest.raises(ackq.InvalidMessage):
        delay.push("k", body)


def test_a_body_over_the_limit_is_refused(make_delay: MakeDelay) -> None:
    delay = make_delay(max_body_bytes=10)
    delay.push("a", b"x" * 10)
    with pytest.raises(ackq.MessageTooLarge):
        delay.push("b", b"x" * 11)


def test_a_stored_key_is_refused_and_its_message_left_as_it_was(
    delay: DelayQueue, target: Target, name: str
) -> None:
    delay.push("k", b"first", at=4e9)
    with pytest.raises(DuplicateMessage, match="'k'") as refused:
        delay.push("k", b"second")
    assert (refused.value.keys, refused.value.stored) == (("k",), 0)
    assert target.control.zscore(f"{name}:z", "k") == 4e9
    assert target.control.hget(f"{name}:h", "k") == b"first"


def test_a_leased_key_is_refused_and_a_deleted_one_is_free(delay: DelayQueue) -> None:
    delay.push("k", b"first")
    (message,) = delay.take()
    with pytest.raises(DuplicateMessage):
        delay.push("k", b"second")
    delay.delete(message)
    delay.push("k", b"second")
    (again,) = delay.take()
    assert (again.body, again.receive_count) == (b"second", 1)


def test_push_many_stores_all_but_the_keys_that_exist(delay: DelayQueue) -> None:
    delay.push("b", b"old", at=1)
    with pytest.raises(DuplicateMessage) as refused:
        delay.push_many([DelayEntry("a", "x"), DelayEntry("b", "x"), DelayEntry("c", "x")])
    assert (refused.value.keys, refused.value.stored) == (("b",), 2)
    taken = delay.take(10)
    assert sorted((message.key, message.body) for message in taken) == [
        ("a", b"x"),
        ("b", b"old"),
        ("c", b"x"),
    ]


def test_duplicates_in_any_part_are_named(delay: DelayQueue) -> None:
    delay.push_many([DelayEntry("first", "x"), DelayEntry("last", "x")])
    keys = ["first", *map(str, range(1000)), "last"]
    with pytest.raises(DuplicateMessage) as refused:
        delay.push_many(DelayEntry(key, "x") for key in keys)
    assert (refused.value.keys, refused.value.stored) == (("first", "last"), 1000)
    assert delay.cancel(*keys) == 1002


def test_push_many_takes_more_than_one_call_holds(delay: DelayQueue) -> None:
    assert delay.push_many(DelayEntry(f"k{n}", b"x") for n in range(2300)) == 2300
    taken = [message for _ in range(3) for message in delay.take(1000)]
    assert len({message.key for message in taken}) == 2300
    assert delay.delete(*taken) == 2300


def test_a_call_stores_4_mib_at_most(make_delay: MakeDelay, target: Target) -> None:
    delay = make_delay(max_body_bytes=MAX_BODY_BYTES)
    delay.push("the script is loaded now", b"")
    before = target.calls("evalsha")
    bodies = large_bodies()
    assert delay.push_many(DelayEntry(str(n), body) for n, body in enumerate(bodies)) == len(bodies)
    assert target.calls("evalsha") - before == len(CALLS)


def test_messages_come_in_the_order_of_their_ready_times(delay: DelayQueue) -> None:
    delay.push_many(
        [DelayEntry("b", "x", at=2), DelayEntry("c", "x", at=3.5), DelayEntry("a", "x", at=1.25)]
    )
    taken = delay.take(3)
    assert [(each.key, each.ready_time) for each in taken] == [("a", 1.25), ("b", 2), ("c", 3.5)]


def test_a_leased_message_is_nobody_elses_until_the_lease_ends(make_delay: MakeDelay) -> None:
    one, other = make_delay(visibility_timeout=0.2), make_delay()
    one.push("k", "x")
    (message,) = one.take()
    assert other.take() == []
    (again,) = other.take(timeout=5)
    assert (again.key, again.receive_count) == ("k", 2)
    assert again.ready_time == pytest.approx(message.lease_expires_at, abs=1e-5)
    for settle in (one.delete, one.nack, one.release, one.reject, one.extend):
        message.lease_lost = False
        with pytest.raises(ackq.LeaseLost, match="'k'") as refused:
            settle(message)
        assert refused.value.messages == (message,)
        assert message.lease_lost
    assert other.delete(again) == 1


def test_a_late_delete_is_accepted_while_nobody_else_took_the_message(
    make_delay: MakeDelay,
) -> None:
    delay = make_delay(visibility_timeout=0.05)
    delay.push("k", "x")
    (message,) = delay.take()
    wait_until(lambda: delay.stats().ready == 1, "the lease to end")
    assert delay.delete(message) == 1


def test_extend_keeps_receipt_and_lease(make_delay: MakeDelay) -> None:
    delay = make_delay(visibility_timeout=0.3)
    delay.push("k", "x")
    (message,) = delay.take()
    before = message.lease_expires_at
    assert delay.extend([message], timeout=60) == 1
    assert message.lease_expires_at > before + 30
    assert delay.take(timeout=0.5) == []
    assert delay.extend(message) == 1
    assert delay.delete(message) == 1
    assert delay.extend(message) == 0


@pytest.mark.parametrize("verb", ["take", "extend"])
def test_a_lease_ends_up_to_66_ms_later_than_asked(
    make_delay: MakeDelay, target: Target, name: str, verb: str
) -> None:
    delay = make_delay(visibility_timeout=TIMEOUT)
    delay.push_many(DelayEntry(str(number), b"") for number in range(LEASES))
    message = delay.take()[0] if verb == "extend" else None

    def lease() -> float:
        held = message or delay.take()[0]
        assert verb == "take" or delay.extend(held) == 1
        return float(held.lease_expires_at)

    check_jitter(target, name, lease)


def test_a_nacked_message_comes_back_after_its_delay_and_is_counted(delay: DelayQueue) -> None:
    delay.push("k", "x")
    (message,) = delay.take()
    assert delay.nack([message], delay=0.2) == 1
    assert delay.take() == []
    assert delay.nack(message, delay=0.2) == 0
    (again,) = delay.take(timeout=5)
    assert again.receive_count == 2
    with pytest.raises(ackq.LeaseLost):
        delay.delete(message)


def test_a_nack_without_a_delay_backs_off_by_count(
    delay: DelayQueue, target: Target, name: str
) -> None:
    delay.push("k", "x")
    for backoff in (1, 2, 4):
        (message,) = delay.take(timeout=10)
        before = server_now(target, name)
        delay.nack(message)
        score = target.control.zscore(f"{name}:z", "k")
        assert score == pytest.approx(before + backoff, abs=0.5)
        delay.reschedule("k")


def test_a_released_message_is_ready_at_once_and_not_counted(delay: DelayQueue) -> None:
    delay.push("k", "x")
    for _ in range(3):
        (message,) = delay.take()
        assert message.receive_count == 1
        assert delay.release([message]) == 1


def test_a_message_dies_at_max_receives_and_can_be_redriven(make_delay: MakeDelay) -> None:
    delay = make_delay(max_receives=2)
    delay.push("k", b"poison")
    for _ in range(2):
        (message,) = delay.take()
        delay.nack(message, delay=0)
    assert delay.take() == []
    (letter,) = delay.dead_letters()
    assert (letter.id, letter.body, letter.reason, letter.receive_count) == (
        "k",
        b"poison",
        "max receives",
        2,
    )
    assert delay.stats().dead == 1
    assert delay.redrive() == 1
    (again,) = delay.take()
    assert (again.body, again.receive_count) == (b"poison", 1)
    assert delay.stats().dead == 0


def test_a_message_on_its_last_receive_travels_alone(make_delay: MakeDelay) -> None:
    delay = make_delay(max_receives=2)
    delay.push_many([DelayEntry(key, "x", at=1) for key in "abc"])
    first = delay.take(3)
    delay.release(first[0], first[2])
    delay.nack(first[1], delay=0)
    assert [keys_of(delay.take(3)) for _ in range(3)] == [["a", "c"], ["b"], []]


def test_reject_and_redrive_leave_a_key_that_is_stored_again(make_delay: MakeDelay) -> None:
    delay = make_delay()
    delay.push_many([DelayEntry("a", "1", at=1), DelayEntry("b", "2", at=2)])
    a, b = delay.take(2)
    assert delay.reject(a, b, reason="broken") == 2
    assert {letter.reason for letter in delay.dead_letters()} == {"broken"}
    delay.push("a", b"new")
    assert delay.redrive() == 1
    assert {(each.key, each.body) for each in delay.take(9)} == {("a", b"new"), ("b", b"2")}
    assert [(letter.id, letter.body) for letter in delay.dead_letters()] == [("a", b"1")]


def test_what_is_settled_in_several_calls_is_counted_and_refused_as_in_one(
    make_delay: MakeDelay,
) -> None:
    queue, other = make_delay(), make_delay()
    queue.push_many(DelayEntry(f"late{n}", b"x" * 400_000) for n in range(2))
    first, last = queue.take(2, visibility_timeout=0.02)
    assert len(wait_until(lambda: other.take(2), "two leases to end")) == 2
    queue.push_many(DelayEntry(f"{number}", b"x" * 400_000) for number in range(5))
    messages = []
    while taken := queue.take(5, visibility_timeout=60):
        messages += taken
    with pytest.raises(ackq.LeaseLost) as refused:
        queue.reject(first, messages[:4], last, messages[4], reason="too long")
    assert (refused.value.messages, refused.value.settled) == ((first, last), 5)
    assert [letter.id for letter in queue.dead_letters()] == keys_of(messages)


def test_redrive_of_a_few_begins_with_the_oldest(delay: DelayQueue) -> None:
    delay.push_many([DelayEntry(key, "x", at=n) for n, key in enumerate("abc", 1)])
    delay.reject(*delay.take(3))
    assert delay.redrive(2) == 2
    assert sorted(keys_of(delay.take(9))) == ["a", "b"]
    assert delay.redrive(0) == 0


def test_chosen_dead_letters_are_redriven(make_delay: MakeDelay) -> None:
    delay = make_delay()
    delay.push_many([DelayEntry(f"k{n:03}", "x", at=n + 1) for n in range(120)])
    delay.reject(*delay.take(120))
    letters = delay.dead_letters(200)
    chosen = [each.entry for each in letters[5:115]]
    assert delay.redrive(entries=[*chosen, "1-1"]) == 110
    assert delay.redrive(entries=chosen[:3]) == 0
    assert [each.id for each in delay.dead_letters()] == [
        each.id for each in (*letters[:5], *letters[115:])
    ]
    with pytest.raises(ackq.ConfigurationError, match="not the entry"):
        delay.redrive(entries=["x"])
    assert delay.redrive(0, entries=[]) == 0


def test_cancel_deletes_what_waits_and_leaves_what_is_held(delay: DelayQueue) -> None:
    delay.push("waits", "x", delay=100)
    delay.push("held", "x")
    (message,) = delay.take()
    assert delay.cancel("waits", "held", "never") == 1
    assert delay.stats().delayed == 0
    assert delay.cancel("held", in_flight=True) == 1
    with pytest.raises(ackq.LeaseLost):
        delay.delete(message)
    assert delay.stats().in_flight == 0


def test_reschedule_moves_what_waits_and_leaves_what_is_held(
    delay: DelayQueue, target: Target, name: str
) -> None:
    delay.push("k", b"body", delay=1000)
    assert delay.reschedule("k", at=4e9)
    assert target.control.zscore(f"{name}:z", "k") == 4e9
    assert delay.reschedule("k")
    (message,) = delay.take()
    assert not delay.reschedule("k", delay=5)
    assert not delay.reschedule("never", delay=5)
    assert (message.body, delay.delete(message)) == (b"body", 1)


def test_a_message_rescheduled_after_its_lease_cannot_be_deleted_by_its_old_holder(
    make_delay: MakeDelay,
) -> None:
    delay = make_delay(visibility_timeout=0.01)
    delay.push("k", "x")
    (message,) = delay.take()
    wait_until(lambda: delay.reschedule("k", delay=1000), "the lease to end")
    with pytest.raises(ackq.LeaseLost):
        delay.delete(message)
    assert delay.stats().delayed == 1


@pytest.mark.parametrize("late", ["push", "reschedule", "nack"])
def test_a_waiting_consumer_is_woken_by_an_earlier_arrival(
    make_delay: MakeDelay, target: Target, late: str
) -> None:
    producer, consumer = make_delay(), make_delay()
    held: list[Any] = []
    producer.push("far", "x", delay=1000)
    if late == "nack":
        producer.push("k", "x")
        held = producer.take()
    taken: list[tuple[list[Any], float]] = []

    def wait() -> None:
        found = consumer.take(timeout=20)
        taken.append((found, time.monotonic()))

    waits = []
    for _ in range(3):
        thread = threading.Thread(target=wait)
        thread.start()
        wait_until(lambda: blocked(target), "the consumer to wait")
        began = time.monotonic()
        if late == "push":
            producer.push("k", "x")
        elif late == "reschedule":
            assert producer.reschedule("far")
        else:
            producer.nack(*held, delay=0)
        thread.join()
        found, ended = taken[-1]
        assert len(found) == 1
        waits.append(ended - began)
        if late == "nack":
            held = found
        elif late == "reschedule":
            consumer.nack(*found, delay=1000)
        else:
            consumer.delete(*found)
    assert min(waits) < 0.3


def blocked(target: Target) -> bool:
    """Return whether a client of some node waits."""
    control: Any = target.control
    if not target.cluster:
        return bool(control.info("clients")["blocked_clients"])
    found = control.info("clients", target_nodes=type(control).PRIMARIES)
    return any(node["blocked_clients"] for node in found.values())


def test_a_wait_for_a_time_sleeps_in_the_server(delay: DelayQueue, target: Target) -> None:
    delay.take()
    delay.push("a", "x", delay=0.5)
    before = target.calls("evalsha", "blpop")
    assert keys_of(delay.take(timeout=30)) == ["a"]
    # A wait in the server, until a tick before the time; then a look each 20 ms.
    assert target.calls("evalsha", "blpop") - before < 25


def test_one_arrival_after_another_wakes_one_consumer_each(make_delay: MakeDelay) -> None:
    producer = make_delay()
    consumers = [make_delay() for _ in range(4)]
    taken: list[Any] = []
    threads = [
        threading.Thread(target=lambda each=each: taken.extend(each.take(1, timeout=20)))
        for each in consumers
    ]
    for thread in threads:
        thread.start()
    producer.push_many(DelayEntry(f"k{n}", "x") for n in range(4))
    for thread in threads:
        thread.join()
    assert sorted(keys_of(taken)) == ["k0", "k1", "k2", "k3"]


def test_only_a_take_that_leaves_messages_wakes_the_next_consumer(partition: Partition) -> None:
    for key in "ab":
        partition.store(key)
    for woken in ([b"1"], []):
        assert len(partition.take(1)[1]) == 1
        assert partition.client.lrange(partition.key("wake"), 0, -1) == woken
        partition.client.delete(partition.key("wake"))


def test_consume_deletes_only_what_its_handler_finished(
    make_delay: MakeDelay, handle: Handle, caplog: pytest.LogCaptureFixture
) -> None:
    delay = make_delay(max_receives=1)
    delay.push_many([DelayEntry(f"k{n}", b"x") for n in range(7)])
    seen = []

    def handler(message: Any) -> None:
        seen.append(message.key)
        if message.key == "k3":
            raise ValueError("no")

    assert delay.consume(handle(handler), batch_size=3, idle_timeout=0.05) == 6
    assert sorted(seen) == [f"k{n}" for n in range(7)]
    assert [letter.id for letter in delay.dead_letters()] == ["k3"]
    assert delay.stats().in_flight == 0
    assert "the handler failed" in caplog.text


def test_a_message_of_another_queue_is_refused(make_delay: MakeDelay, name: str) -> None:
    one, other = make_delay(), make_delay(name=name + "-other")
    one.push("k", "x")
    (message,) = one.take()
    for settle in (other.delete, other.nack, other.extend):
        with pytest.raises(ackq.ConfigurationError, match="was taken from delay queue"):
            settle(message)
    with pytest.raises(ackq.ConfigurationError):
        one.delete("k")  # type: ignore[arg-type]


def test_a_key_of_another_type_is_named_and_nothing_is_changed(
    delay: DelayQueue, target: Target, name: str
) -> None:
    delay.push("k", "x")
    target.control.rpush(f"{name}:h2", "x")
    target.control.rename(f"{name}:h", f"{name}:h3")
    target.control.rename(f"{name}:h2", f"{name}:h")
    for operation in (delay.take, lambda: delay.push("l", "x")):
        with pytest.raises(ackq.KeyTypeError, match=f"{name}:h' is a list, not a hash"):
            operation()
    assert target.control.zcard(f"{name}:z") == 1


def test_a_body_is_not_shown_by_repr(delay: DelayQueue) -> None:
    delay.push("k", b"secret")
    (message,) = delay.take()
    assert "secret" not in repr(message)
    assert "6 bytes" in repr(message)


def test_long_dead_letters_are_read_one_by_one(delay: DelayQueue, target: Target) -> None:
    bodies = [f"{number}".encode() * 600_000 for number in range(4)]
    delay.push_many(DelayEntry(str(number), body) for number, body in enumerate(bodies))
    taken: list[Any] = []
    while len(taken) < 4:
        taken += delay.take(4)
    delay.reject(*taken)
    before = target.calls("xrange")
    assert sorted(letter.body for letter in delay.dead_letters(4)) == bodies
    assert target.calls("xrange") - before == 4
