"""Messages of a group are delivered in order, and only as many at a time as the group may have."""

import math
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from ackq import Groups
from ackq.config import OnDead
from ackq.errors import ConfigurationError, GroupsMismatch, LeaseLost
from ackq.queue import Claims, Staging
from ackq.queue.messages import AuditFinding
from ackq.staging.keys import Staged
from tests.conftest import MakeQueue
from tests.servers import Target
from tests.waiting import wait_until

CUSTOMER = Groups("customer")
REFUSED: dict[str, Callable[[Any], object]] = {
    "pop": lambda queue: queue.pop(),
    "wait": lambda queue: queue.pop(math.inf),
    "stats": lambda queue: queue.stats(),
    "peek": lambda queue: queue.peek(),
    "purge": lambda queue: queue.purge(),
    "push to the front": lambda queue: queue.push({"id": "x"}, front=True),
    "push a unique one": lambda queue: queue.push({"id": "x"}, unique="done"),
    "ack by id": lambda queue: queue.ack_id("a"),
    "find": lambda queue: queue.find("zz"),
    "cancel": lambda queue: queue.cancel(ids=["a"], running=True),
    "cancel delayed": lambda queue: queue.cancel("1795252215312092-a"),
    "run now": lambda queue: queue.run_now(ids=["a"]),
    "redrive": lambda queue: queue.redrive(),
    "redrive one": lambda queue: queue.redrive(entries=["1-1"]),
    "drop": lambda queue: queue.drop_dead_letters("1-1"),
    "count": lambda queue: queue.counters(),
    "oldest": lambda queue: queue.oldest_ready(),
    "claims": lambda queue: queue.claims(),
    "audit": lambda queue: queue.audit(repair=True),
    "drain": lambda queue: queue.drain(),
}


@pytest.fixture
def grouped(make_queue: MakeQueue) -> Callable[..., Any]:
    """``grouped(in_flight=…)``: a queue with groups."""

    def make(in_flight: int = 1, on_dead: OnDead = "continue", **settings: Any) -> Any:
        groups = Groups("customer", in_flight, on_dead=on_dead)
        return make_queue(pop_from="right", groups=groups, **settings)

    return make


def ids(messages: Any) -> list[str]:
    return [message.id for message in messages]


def test_the_messages_of_a_group_follow_each_other(grouped: Callable[..., Any]) -> None:
    queue = grouped()
    for number in range(4):
        for group in ("a", "b"):
            queue.push({"id": f"{group}{number}"}, group=group)
    queue.push_many([{"id": "a4", "customer": "a"}, {"id": "free"}])
    first = queue.pop()
    assert (first.id, first.group) == ("a0", "a")
    others = queue.pop_many(10)
    assert ids(others) == ["b0", "free", "b1", "b2", "b3"]
    assert queue.stats().ready == 4
    assert queue.pop() is None
    queue.ack(others)
    second = queue.pop(ack=first)
    assert second.id == "a1"
    queue.ack(second)
    assert ids(queue.pop_many(10)) == ["a2", "a3", "a4"]


def test_a_dead_letter_stops_its_group_until_somebody_decides(
    grouped: Callable[..., Any], target: Target, name: str
) -> None:
    queue = grouped(on_dead="stop")
    for group in "abcd":
        queue.push_many([{"id": f"{group}{number}"} for number in range(3)], group=group)
    held = {message.id: message for message in queue.pop_many(20)}
    queue.release(*(held[f"{group}{number}"] for group in "abcd" for number in (1, 2)))
    queue.reject(*(held[f"{group}0"] for group in "abcd"), reason="bad")
    assert queue.pop_many(20) == []
    letters = {letter.id: letter.entry for letter in queue.dead_letters(10)}
    assert {group.name: (group.waiting, group.stopped_by) for group in queue.groups()} == {
        group: (2, (letters[f"{group}0"],)) for group in "abcd"
    }
    assert queue.redrive(entries=[letters["a0"]]) == 1
    assert ids(queue.pop_many(20)) == ["a0", "a1", "a2"]
    assert queue.drop_dead_letters(letters["b0"]) == 1
    assert ids(queue.pop_many(20)) == ["b1", "b2"]
    assert (queue.resume_group("c"), queue.resume_group("c")) == (1, 0)
    assert ids(queue.pop_many(20)) == ["c1", "c2"]
    target.control.xdel(f"{name}DEAD", letters["d0"])
    assert queue.audit(repair=True).findings == (
        AuditFinding("stopped without its dead letter", f"d by {letters['d0']}", True),
    )
    assert queue.audit().findings == ()
    assert ids(queue.pop_many(20)) == ["d1", "d2"]


def test_every_delivery_of_a_run_counts(
    grouped: Callable[..., Any], target: Target, name: str
) -> None:
    """While another consumer has the first message again, the others wait; they were delivered."""
    queue = grouped()
    queue.push_many([{"id": f"a{number}"} for number in range(3)], group="a")
    run = queue.pop_many(3)
    target.control.zadd(f"{name}BACKUP", {each.key: 1 for each in run})
    first = queue.pop(visibility_timeout=600)
    assert (first.id, first.receive_count) == ("a0", 2)
    assert queue.pop_many(3) == []
    queue.ack(first)
    again: list[tuple[str, int]] = []

    def rest() -> bool:
        taken = queue.pop_many(3)
        again.extend((each.id, each.receive_count) for each in taken)
        queue.ack(*taken)
        return len(again) == 2

    wait_until(rest, "the others of the run")
    assert again == [("a1", 2), ("a2", 2)]


def test_every_delivery_of_a_run_counts_if_one_call_takes_it_back(
    grouped: Callable[..., Any], target: Target, name: str
) -> None:
    """Equal deadlines are ordered by key: `a` comes before `b`, has to wait, and follows it."""
    queue = grouped()
    queue.push_many([{"id": "b"}, {"id": "a"}], group="g")
    target.control.zadd(f"{name}BACKUP", {each.key: 1 for each in queue.pop_many(2)})
    assert [(each.id, each.receive_count) for each in queue.pop_many(2)] == [("b", 2), ("a", 2)]


def test_messages_are_canceled_by_their_ids_wherever_they_are(grouped: Callable[..., Any]) -> None:
    queue = grouped()
    queue.push_many([{"id": f"a{number}"} for number in range(5)], group="a")
    held = queue.pop()
    assert queue.pop() is None  # a1 to a4 are moved aside
    queue.push({"id": "later"}, group="b", delay=600)
    queue.push_many([{"id": "b0"}, {"id": "listed"}], group="b")
    assert queue.cancel(ids=["a1", "a3", "later", "listed", "none", held.id]) == 4
    assert ids(queue.dead_letters(9)) == ["later", "listed", "a1", "a3"]
    assert {letter.reason for letter in queue.dead_letters(9)} == {"canceled"}
    assert queue.cancel(ids=[held.id], running=True) == 1
    with pytest.raises(LeaseLost):
        queue.ack(held)
    assert sorted(ids(queue.pop_many(9))) == ["a2", "a4", "b0"]
    assert queue.stats().groups.moved_aside == 0
    assert queue.redrive() == 5
    queue.purge()


def test_only_delayed_messages_run_now(grouped: Callable[..., Any]) -> None:
    queue = grouped()
    queue.push_many([{"id": "a0"}, {"id": "a1"}], group="a")
    queue.push({"id": "later"}, group="b", delay=600)
    for _ in range(2):  # a1 is on the list, then moved aside
        with pytest.raises(ConfigurationError, match="keeps the order of ready messages"):
            queue.run_now(ids=["later", "a1"])
        taken = queue.pop_many(1)
    assert not taken
    assert queue.stats().delayed == 1
    assert queue.run_now(ids=["later", "none", "a0"]) == 1
    assert queue.pop().id == "later"
    queue.purge()


@pytest.mark.parametrize("believed", [86400.0, 0.000_001], ids=["believed", "searched"])
def test_unique_messages_are_known_where_they_were_moved(
    grouped: Callable[..., Any], believed: float
) -> None:
    queue = grouped()

    def push(unique: str = "done", **fields: Any) -> bool:
        pushed = queue.push({"id": "u"} | fields, group="a", unique=unique, unique_for=believed)
        return bool(pushed.stored)

    queue.push({"id": "first"}, group="a")
    held = queue.pop()
    assert push()
    assert not push()
    assert queue.pop() is None  # it is moved aside, and no list has anything
    assert queue.stats().groups.moved_aside == 1
    assert not push()
    assert not push("taken")
    assert queue.cancel(ids=["u"]) == 1
    assert push("taken", n=1)
    assert queue.pop() is None
    assert not push("taken", n=1)
    taken = queue.pop(ack=held)
    assert (taken.id, taken.json()["n"]) == ("u", 1)
    assert not push()
    assert push("taken", n=2)
    queue.nack(taken, delay=600)
    assert not push("taken", n=3)
    queue.purge()


def test_a_waiting_consumer_wakes_when_a_group_is_free(
    grouped: Callable[..., Any], target: Target, name: str
) -> None:
    with grouped() as queue, grouped() as other, ThreadPoolExecutor() as pool:
        queue.push_many([{"id": f"a{number}"} for number in range(4)], group="a")
        held, took = queue.pop(), []
        for _ in range(3):
            looks = f"{name}WAITERS:LOOKS"
            target.control.delete(looks)
            waiting = pool.submit(other.pop, 10)
            wait_until(lambda: target.control.exists(looks), "a consumer to wait")  # noqa: B023
            began = time.monotonic()
            queue.ack(held)
            held = waiting.result()
            took.append(time.monotonic() - began)
        assert min(took) < 0.5  # without being woken, it looks once in a second


def test_clients_without_groups_are_refused(
    grouped: Callable[..., Any], make_queue: MakeQueue, target: Target, name: str
) -> None:
    queue = grouped()
    queue.push_many([{"id": "a"}, {"id": "b"}], group="g")
    held = queue.pop()
    for use in REFUSED.values():
        with pytest.raises(GroupsMismatch, match=r"has groups=Groups\(field='customer'") as raised:
            use(make_queue(pop_from="right"))
        assert raised.value.recorded == f"groups={CUSTOMER!r}"
    with pytest.raises(GroupsMismatch):
        make_queue(pop_from="right", groups=Groups("other")).pop()
    client = target.make_client()
    with Claims(client, name, "readers") as claims, Staging(client, name, "writer") as staging:
        claims.begin()
        with pytest.raises(GroupsMismatch, match=f"Spark cannot read.*ackq groups {name} --off"):
            claims.claim(0, messages=10)
        staged = Staged("only")
        staging.stage(0, staged, [b"row"])
        with pytest.raises(GroupsMismatch, match="Spark cannot write"):
            staging.commit(0, [staged])
    client.close()
    target.control.delete(*target.control.scan_iter(f"{name}STAG*"))
    for use in (lambda left: left.pop(), lambda left: left.push({"id": "x"})):
        with pytest.raises(GroupsMismatch, match="has groups="):
            use(make_queue(pop_from="left"))
    make_queue(pop_from="right").push({"id": "plain", "customer": "other"})
    assert queue.pop(ack=held).id == "b"
    queue.drain()
    assert {message.id for message in make_queue(pop_from="right").pop_many(9)} == {"b", "plain"}


def test_groups_begin_once_nobody_without_them_holds_messages(
    grouped: Callable[..., Any], make_queue: MakeQueue
) -> None:
    plain, queue = make_queue(pop_from="right"), grouped()
    plain.push_many([{"id": "a", "customer": "g"}, {"id": "b", "customer": "g"}])
    held = plain.pop()
    with pytest.raises(GroupsMismatch, match="consumers without groups hold messages"):
        queue.pop()
    plain.nack(held, delay=0)
    assert ids([queue.pop()]) == ["a"]
    assert queue.pop() is None


@pytest.mark.parametrize("deleted", ["FLIGHT", "TURNS", "RUNS", "BUSY"])
def test_an_audit_mends_groups_of_which_a_key_was_deleted(
    grouped: Callable[..., Any], target: Target, name: str, deleted: str
) -> None:
    queue = grouped()
    pushed = [f"{group}{number}" for number in "123" for group in "abc"]
    queue.push_many({"id": each, "customer": each[0]} for each in pushed)
    first, second = queue.pop_many(2)
    assert ids(queue.pop_many(4, visibility_timeout=0.001)) == ["c1", "c2", "c3"]
    queue.ack(first)  # the turn of a
    queue.release(second)
    assert target.control.delete(f"{name}GROUPS:{deleted}") == 1
    assert queue.audit().findings
    assert queue.audit(repair=True).sound
    assert queue.audit().findings == ()
    found: list[str] = []
    while len(found) < 8:
        messages = queue.pop_many(2, timeout=5.0)
        assert messages
        found += ids(messages)
        queue.ack(*messages)
    assert sorted(found) == sorted(pushed[1:])


def test_parked_messages_are_counted_drained_and_purged(grouped: Callable[..., Any]) -> None:
    queue = grouped()
    queue.push_many([{"id": f"a{number}"} for number in range(4)], group="a")
    queue.pop()
    assert queue.pop() is None
    assert (queue.stats().ready, queue.stats().in_flight) == (3, 1)
    assert queue.audit(repair=True).findings == ()
    assert queue.drain() == 4
    assert ids(queue.pop_many(9)) == ["a0", "a1", "a2", "a3"]
    queue.push({"id": "a4"}, group="a")
    assert queue.pop() is None
    assert queue.purge() == 5
    assert queue.stats().ready == 0
    queue.push({"id": "a5"}, group="a")
    assert queue.pop().id == "a5"
