"""Claims of a dead driver go back to the queue with the next take of any consumer."""

import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import redis

from ackq import Queue
from ackq.core.claim_groups import Claim
from ackq.errors import Fenced
from ackq.queue.claims_client import Claims
from tests.conftest import MakeQueue
from tests.queue.claims.conftest import MakeClaims, push
from tests.waiting import wait_until


def test_an_ordinary_pop_takes_an_expired_claim_back_in_its_order(
    make_queue: MakeQueue, queue: Queue, claims: Claims, expire: Callable[..., None]
) -> None:
    bodies = push(queue, 2500)
    claims.claim(0, messages=2300)
    consumer = make_queue()
    assert consumer.pop().body == bodies[2300]
    expire(1)
    assert [each.body for each in consumer.pop_many(500)] == bodies[:500]
    assert claims.open() == []
    assert consumer.stats().claimed == 0


def test_several_claims_go_back_in_their_order(queue: Queue, claims: Claims, client: Any) -> None:
    bodies = push(queue, 9)
    for batch in range(3):
        claims.claim(batch, messages=2)
    claims.beat()  # the oldest ends last, so that it is put in front of the others
    held = f"{queue.name}HELD"
    scores = client.zrange(held, 0, -1, withscores=True)
    for name, score in scores:
        client.zadd(held, {name: score - 10**12})
    assert [each.body for each in queue.pop_many(9)] == bodies


def test_a_waiting_pop_is_given_what_a_claim_gives_back(
    make_queue: MakeQueue, queue: Queue, make_claims: MakeClaims
) -> None:
    push(queue, 1)
    claims = make_claims(timeout=1)
    claims.begin()
    claims.claim(0, messages=1)
    message = make_queue().pop(timeout=20)
    assert message is not None
    assert message.body == b'{"id":"0"}'


def test_a_claim_goes_back_in_its_order_while_consumers_wait(
    plain_client: redis.Redis, token: str
) -> None:
    client, stopped = plain_client, threading.Event()

    def wait() -> None:
        while not stopped.is_set():
            client.blmove(token, f"{token}HANDOFF", 1, "RIGHT", "LEFT")  # as a waiting pop does

    with Queue(client, token) as queue, Claims(client, token, "group") as claims:
        bodies = push(queue, 3500)
        claims.begin()
        claims.claim(0, messages=3500)
        threads = [threading.Thread(target=wait) for _ in range(4)]
        for thread in threads:
            thread.start()
        wait_until(lambda: client.info("clients")["blocked_clients"] >= 4, "all to wait")
        assert claims.release() == 3500
        stopped.set()
        for thread in threads:
            thread.join()
        assert [each.body for each in queue.peek(3500)] == bodies


def test_another_group_takes_an_expired_claim_back(
    queue: Queue, claims: Claims, make_claims: MakeClaims, expire: Callable[..., None]
) -> None:
    bodies = push(queue, 3000)
    claims.claim(0, messages=2500)
    expire(1)
    other = make_claims("other")
    other.begin()
    assert other.claim(0, messages=3000) == Claim(1, 3000)
    assert other.read(1, 0, 3000) == bodies


def test_an_operator_releases_what_a_dead_driver_left(
    queue: Queue, claims: Claims, make_claims: MakeClaims
) -> None:
    bodies = push(queue, 5000)
    for batch in range(2):
        claims.claim(batch, messages=2200)
    operator = make_claims()
    assert operator.release() == 4400
    assert [each.body for each in queue.peek(5000)] == bodies
    assert operator.release() == 0


def test_a_claim_is_not_replayed_once_its_return_has_begun(
    queue: Queue, claims: Claims, make_claims: MakeClaims, expire: Callable[..., None]
) -> None:
    push(queue, 5000)
    claims.claim(0, messages=4500)
    expire(1)
    from ackq.queue.held_lists import return_some

    spec = claims._group.spec
    left = claims._run(return_some(spec, spec.keys.claim("group", 1)))
    assert left == [1000, 3500]
    successor = make_claims()
    successor.begin()
    assert successor.open() == successor.readable(1, 1) == []
    successor.beat()
    [seen] = queue.claims()
    assert (seen.rows, seen.lease_ends_in) == (3500, None)
    assert queue.stats().ready == 5000
    assert successor.claim(0, messages=5000) == Claim(2, 5000)


def test_claims_and_consumers_share_a_queue_and_lose_nothing(
    make_queue: MakeQueue, queue: Queue, make_claims: MakeClaims, client: Any
) -> None:
    """A driver claims, acks some and loses some, while others pop, and messages come in."""
    consumer, driver = make_queue(), make_claims()
    driver.begin()
    seen: Counter[bytes] = Counter()
    pushed: list[bytes] = []
    stop = threading.Event()

    def consume() -> None:
        while not stop.is_set() or consumer.stats().ready:
            for message in consumer.pop_many(7):
                seen[message.body] += 1
                consumer.ack(message)

    thread = threading.Thread(target=consume)
    thread.start()
    batch = 0
    for turn in range(60):
        pushed += push(queue, 50, first=50 * turn)
        claim = driver.claim(batch, messages=30)
        if claim is None:
            continue
        batch = claim.batch
        if turn % 3:
            rows = driver.read(batch, 0, claim.rows)
            assert driver.ack(batch, keep=0) == claim.rows
            seen.update(rows)
        else:
            client.zadd(f"{queue.name}HELD", {f"{queue.name}CLAIM:group:{batch}": 1}, xx=True)
    stop.set()
    thread.join()
    assert seen == Counter(pushed)


# What others see.


def test_stats_peek_and_the_list_of_claims_know_them(
    make_queue: Callable[..., Any], queue: Queue, claims: Claims, expire: Callable[..., None]
) -> None:
    bodies = push(queue, 6)
    claims.claim(0, messages=2)
    claims.claim(1, messages=3)
    consumer = make_queue()
    consumer.pop()
    before = time.time()
    stats = consumer.stats()
    assert (stats.ready, stats.in_flight, stats.claimed) == (0, 6, 5)
    assert 0 < stats.next_event_in <= 31
    assert [each.body for each in consumer.peek(10, "in_flight")] == [bodies[5], *bodies[:5]]
    assert all(each.at > before for each in consumer.peek(10, "in_flight"))
    first, second = consumer.claims()
    assert (first.group, first.batch, first.rows) == ("group", 1, 2)
    assert (second.batch, second.rows) == (2, 3)
    assert 604_700 < first.lease_ends_in <= 604_800
    expire(2)
    stats = consumer.stats()
    assert (stats.ready, stats.in_flight, stats.claimed) == (3, 3, 2)
    assert [each.body for each in consumer.peek(10)] == bodies[2:5]
    assert consumer.claims()[1].lease_ends_in < 0
    assert consumer.audit().findings == ()


def test_a_drain_ends_claims_and_fences_their_driver(
    make_queue: MakeQueue, queue: Queue, claims: Claims
) -> None:
    bodies = push(queue, 5)
    claims.claim(0, messages=2)
    queue.pop()
    assert make_queue().drain() == 3
    assert [each.body for each in queue.peek(10)] == [bodies[2], *bodies[:2], *bodies[3:]]
    assert queue.claims() == []
    with pytest.raises(Fenced):
        claims.open()


def test_an_audit_finds_what_is_wrong_with_claims(
    make_queue: MakeQueue, queue: Queue, claims: Claims, client: Any
) -> None:
    push(queue, 5)
    for batch in range(3):
        claims.claim(batch, messages=1)
    name = queue.name
    client.expire(f"{name}CLAIM:group:1", 1000)
    client.delete(f"{name}CLAIM:group:2")
    client.hset(f"{name}HELDROWS", f"{name}CLAIM:group:3", 7)
    client.hset(f"{name}HELDROWS", "nobody's", 1)
    report = make_queue().audit(repair=True)
    assert {(finding.problem, finding.key) for finding in report.findings} == {
        ("the key expires", f"{name}CLAIM:group:1"),
        ("held list missing", f"{name}CLAIM:group:2"),
        ("wrong row count", f"{name}CLAIM:group:3"),
        ("stale row count", "nobody's"),
    }
    assert report.sound
    assert queue.audit().findings == ()
    assert queue.stats().claimed == 2


def test_a_move_takes_what_a_dead_driver_left_and_leaves_what_is_claimed(
    queue: Queue, claims: Claims, client: Any, expire: Callable[..., None]
) -> None:
    from ackq.ops.move import move

    bodies = push(queue, 6)
    claims.claim(0, messages=2)
    claims.claim(1, messages=2)
    expire(1)
    with Queue(client, f"{queue.name}-2") as destination:
        assert move(queue, destination) == 4
        assert [each.body for each in destination.peek(9)] == [*bodies[:2], *bodies[4:]]
    assert queue.stats().claimed == 2


@pytest.mark.parametrize("window", [0, -1, 604801])
def test_a_window_out_of_range_is_refused(queue: Queue, window: float) -> None:
    with pytest.raises(ValueError, match="window"):
        queue.counters(window)
