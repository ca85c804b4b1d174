"""What operators may rely on, on every server and through both faces."""

from typing import Any

import pytest

import ackq
from ackq.config import PopFrom
from tests.conftest import MakeQueue
from tests.servers.target import Target
from tests.waiting import wait_until


def test_stats_count_every_message_once(queue: Any) -> None:
    queue.push_many({"n": n} for n in range(6))
    queue.reject(queue.pop())
    queue.nack(queue.pop(), delay=60)
    queue.nack(queue.pop(), delay=0)
    queue.pop(visibility_timeout=60)
    stats = queue.stats()
    assert (stats.ready, stats.in_flight, stats.delayed, stats.dead) == (3, 1, 1, 1)
    assert (stats.expired, stats.due, stats.paused) == (0, 0, False)
    assert 0 < stats.next_event_in <= 61


def test_what_expired_or_is_due_counts_as_ready(queue: Any) -> None:
    queue.push_many({"id": n} for n in "abc")
    queue.pop(visibility_timeout=0.001)
    queue.nack(queue.pop(visibility_timeout=60), delay=0)
    wait_until(lambda: queue.stats().ready == 3, "the lease to end")
    stats = queue.stats()
    assert (stats.in_flight, stats.delayed, stats.next_event_in) == (0, 0, 0.0)
    assert [each.id for each in queue.peek()][-1] == "c"
    assert len(queue.peek(2)) == 2


def test_peek_shows_the_order_of_delivery_and_takes_nothing(queue: Any) -> None:
    ids = queue.push_many({"n": n} for n in range(1200))
    assert [each.id for each in queue.peek(1100)] == ids[:1100]
    assert queue.stats().ready == 1200
    queue.pop_many(3)
    (first, *_) = queue.peek(5, state="in_flight")
    assert first.receive_count == 1
    assert first.at is not None
    assert queue.peek(0) == []
    assert queue.peek(state="delayed") == []
    with pytest.raises(ackq.ConfigurationError):
        queue.peek(state="lost")


def test_purge_deletes_everything_and_the_dead_only_when_asked(queue: Any) -> None:
    queue.push_many({"n": n} for n in range(4))
    queue.reject(queue.pop())
    queue.nack(queue.pop(), delay=60)
    held = queue.pop()
    assert queue.purge() == 3
    assert queue.stats().dead == 1
    with pytest.raises(ackq.LeaseLost):
        queue.ack(held)
    assert queue.purge(dead=True) == 1
    assert queue.stats().dead == 0


def test_purge_leaves_the_markers_of_idempotent_pushes(queue: Any) -> None:
    queue.push({"id": "a"}, dedup="once", dedup_window=60)
    assert queue.purge(dead=True) == 1
    queue.push({"id": "a"}, dedup="once", dedup_window=60)
    assert queue.stats().ready == 0


def test_drain_gives_everything_back_to_a_bare_pop(
    queue: Any, target: Target, name: str, pop_from: PopFrom
) -> None:
    bodies = [b"%d" % n for n in range(5)]
    queue.push_many(bodies)
    queue.nack(queue.pop(), delay=60)
    queue.pop_many(2)
    assert queue.drain() == 3
    pop = target.control.rpop if pop_from == "right" else target.control.lpop
    left: list[Any] = [pop(name) for _ in range(5)]
    assert sorted(left) == bodies
    assert left[-2:] == bodies[3:], "those that were never taken come last"
    assert not target.control.exists(f"{name}HELD"), "a record without use"
    assert queue.stats().in_flight == queue.stats().delayed == 0


def test_chosen_delayed_messages_run_now_or_are_canceled(queue: Any) -> None:
    for name in ("a", "b", "b", "c", "\u00e9 /-"):
        queue.push({"id": name}, delay=600)
    queue.push({"id": "failed"})
    queue.nack(queue.pop(), delay=300, error=ValueError("no"))
    seen = queue.peek(10, "delayed")
    assert [each.id for each in seen] == ["failed", "a", "b", "b", "c", "\u00e9 /-"]
    assert queue.run_now(seen[3].entry, seen[5].entry, ids=["a", "none"]) == 3
    assert [each.id for each in queue.pop_many(5)] == ["b", "\u00e9 /-", "a"]
    assert queue.cancel(*(each.entry for each in seen)) == 3
    assert queue.cancel(*(each.entry for each in seen), ids=["a", "b"]) == 0
    letters = queue.dead_letters()
    assert [
        (letter.id, letter.reason, letter.cause, letter.receive_count) for letter in letters
    ] == [
        ("failed", "canceled", "canceled", 1),
        ("b", "canceled", "canceled", 0),
        ("c", "canceled", "canceled", 0),
    ]
    assert [error.type for error in letters[0].errors] == ["ValueError"]
    assert queue.redrive() == 3
    assert {each.id for each in queue.pop_many(5)} == {"failed", "b", "c"}
    assert (queue.audit().findings, queue.stats().delayed) == ((), 0)
    for wrong in ("a", "17-", "x-a", ""):
        with pytest.raises(ackq.ConfigurationError, match="entry"):
            queue.cancel(wrong)
    with pytest.raises(ackq.ConfigurationError, match="id"):
        queue.run_now(ids=[""])


@pytest.mark.parametrize("end", ["right", "left"])
def test_ready_messages_are_canceled_or_run_now(make_queue: MakeQueue, end: str) -> None:
    queue = make_queue(pop_from=end)
    queue.push_many({"id": f"{n}", "x": {"id": "a"}} for n in range(50))
    queue.push_many([{"id": "a"}, {"n": 1, "id": "a"}, {"id": "b"}])
    queue.push({"id": "a"}, delay=600)
    assert queue.cancel(ids=["a", 7, "none"]) == 4
    assert queue.run_now(ids=["b", 30, "none"]) == 2
    assert [message.id for message in queue.pop_many(4)] == ["30", "b", "0", "1"]
    letters = queue.dead_letters()
    assert sorted(letter.id for letter in letters) == ["7", "a", "a", "a"]
    assert {(letter.reason, letter.receive_count) for letter in letters} == {("canceled", 0)}
    assert queue.redrive() == 4
    counts = queue.stats()
    assert (counts.ready, counts.in_flight, counts.delayed, counts.dead) == (50, 4, 0, 0)
    assert queue.audit().findings == ()


def test_of_many_ids_the_first_run_first(queue: Any) -> None:
    queue.push_many({"id": f"{n}"} for n in range(1300))
    assert queue.run_now(ids=range(100, 1300)) == 1200
    taken = [message.id for message in [*queue.pop_many(1000), queue.pop()]]
    assert [taken[0], *taken[-2:]] == ["100", "1099", "1100"]


def test_a_running_message_is_canceled_and_its_holder_can_see_it(queue: Any) -> None:
    queue.push_many([{"id": "a"}, {"id": "b"}])
    first, other = queue.pop_many(2)
    assert queue.cancel(ids=["a", "b", "none"]) == 0
    assert queue.cancel(ids=["a", "none"], running=True) == 1
    with pytest.raises(ackq.LeaseLost, match="extend refused for 'a'"):
        queue.extend(other, first)
    assert (first.canceled, first.lease_lost) == (True, True)
    assert (other.canceled, other.lease_lost) == (False, False)
    with pytest.raises(ackq.LeaseLost):
        queue.ack(first)
    assert queue.redrive() == 1
    again = queue.pop()
    with pytest.raises(ackq.LeaseLost):
        queue.extend(first)
    assert (queue.extend(again), again.canceled) == (1, False)
    assert queue.ack(again, other) == 2
    assert (queue.audit().findings, queue.stats().dead) == ((), 0)


def test_an_entry_does_not_name_a_later_message_with_the_same_id(queue: Any) -> None:
    queue.push({"id": "a", "n": 1}, delay=600)
    (seen,) = queue.peek(1, "delayed")
    queue.run_now(seen.entry)
    queue.ack(queue.pop())
    queue.push({"id": "a", "n": 2}, delay=900)
    assert (queue.run_now(seen.entry), queue.cancel(seen.entry)) == (0, 0)
    assert queue.stats().delayed == 1


def test_an_audit_of_a_sound_queue_finds_nothing(queue: Any) -> None:
    queue.push_many({"n": n} for n in range(300))
    queue.nack(*queue.pop_many(100), delay=60)
    queue.pop_many(100)
    report = queue.audit()
    assert report.findings == ()
    assert report.sound
    assert report.checked >= 200


def test_an_audit_finds_and_mends_what_does_not_belong(
    make_queue: MakeQueue, target: Target, name: str
) -> None:
    queue, control = make_queue(), target.control
    queue.push({"id": "listed"})
    control.hset(f"{name}CONTEXT", "orphan", b"body")
    control.zadd(f"{name}BACKUP", {"hollow": 1})
    control.zadd(f"{name}BACKUP", {"far": 2e18})
    control.hset(f"{name}CONTEXT", "far", b"far body")
    control.hset(f"{name}RECEIVES", "nobody", 3)
    control.hset(f"{name}EXTENDED", "nobody", "1:2")
    control.expire(f"{name}CONTEXT", 1000)
    problems = {(finding.problem, finding.key) for finding in queue.audit().findings}
    assert problems == {
        ("orphan body", "orphan"),
        ("body missing", "hollow"),
        ("deadline out of range", "far"),
        ("stale count", "nobody"),
        ("stale extension", "nobody"),
        ("the key expires", f"{name}CONTEXT"),
    }
    assert queue.audit(repair=True).sound
    assert queue.audit().findings == ()
    assert {each.body for each in queue.pop_many(2)} == {b"body", b"far body"}
    assert [letter.reason for letter in queue.dead_letters()] == ["body missing"]
    assert control.ttl(f"{name}CONTEXT") == -1


def test_many_large_dead_letters_are_all_redriven(queue: Any) -> None:
    queue.push_many(b"x" * 1_000_000 for _ in range(20))
    while message := queue.pop():
        queue.reject(message)
    letters = queue.dead_letters()
    assert queue.redrive(entries=[letter.entry for letter in letters[:15]] + ["1-1"]) == 15
    assert queue.redrive() == 5
    assert queue.stats().ready == 20
    with pytest.raises(ackq.ConfigurationError, match="not a dead letter"):
        queue.redrive(entries=["one"])


@pytest.mark.refused_by_the_client
@pytest.mark.parametrize(
    "settings",
    [
        {"max_receives": 0},
        {"max_receives": 1.5},
        {"max_receives": True},
        {"requeue": "left"},
        {"max_body_bytes": 0},
        {"max_body_bytes": 2**30},
    ],
)
def test_a_setting_out_of_range_is_refused(make_queue: MakeQueue, settings: Any) -> None:
    with pytest.raises(ackq.ConfigurationError):
        make_queue(**settings)


def test_a_cluster_needs_a_hash_tag_before_anything_is_written(
    make_queue: MakeQueue, target: Target, token: str
) -> None:
    queue = make_queue(token)
    if target.cluster:
        for operation in (queue.pop, lambda: queue.push({"n": 1})):
            with pytest.raises(ackq.CrossSlotError, match=r"\{t-"):
                operation()
    else:
        queue.push({"n": 1})
        assert queue.pop().json()["n"] == 1
