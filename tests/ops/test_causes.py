"""Why messages failed: counts for each cause that outlive the dead letters."""

import secrets
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
import redis

from ackq import Queue
from ackq.core.effects import Operation
from ackq.core.io.driver import Driver
from ackq.core.io.routes import route_of
from ackq.delay import DelayQueue
from ackq.ops.chronicle import causes
from ackq.ops.chronicle.causes import MAX_CAUSES, Cause, Causes, CauseTable, add, count_dead
from ackq.ops.chronicle.minutes import MINUTE, OTHERS
from ackq.ops.chronicle.store import history_key

NOON = 1_800_000_000 // MINUTE * MINUTE


@pytest.fixture
def driver(plain_client: redis.Redis) -> Iterator[Driver]:
    driver = Driver(route_of(plain_client, b""))
    yield driver
    driver.route.close()


def count(driver: Driver, name: str, kind: str = "list") -> bool:
    return driver.run(count_dead(kind, name, secrets.token_hex(4)))


def table(driver: Driver, name: str, kind: str = "list") -> CauseTable:
    return driver.run(causes.read(history_key(kind, name)))


def kill(queue: Queue, number: int, reason: str, **fields: str) -> None:
    queue.push_many([{"id": f"{reason} {each}", **fields} for each in range(number)])
    while taken := queue.pop_many(100):
        queue.reject(*taken, reason=reason)


def dead(found: CauseTable) -> dict[tuple[str, str], int]:
    return {(each.cause, each.task): each.dead for each in found.causes}


def test_each_dead_letter_counts_once_also_after_it_was_redriven(
    driver: Driver, plain_client: redis.Redis, name: str
) -> None:
    with Queue(plain_client, name) as queue:
        assert count(driver, name)  # there are none
        kill(queue, 3, "odd", task="send")
        kill(queue, 2, "odd")
        for _ in range(3):
            assert count(driver, name)
        assert dead(table(driver, name)) == {("odd", "send"): 3, ("odd", ""): 2}
        queue.redrive(2)
        queue.drop_dead_letters(*(letter.entry for letter in queue.dead_letters(2)))
        kill(queue, 1, "late")
        assert count(driver, name)
        found = table(driver, name)
        assert dead(found)[("late", "")] == 1
        assert sum(dead(found).values()) == 8  # two of them died twice
        now, _ = plain_client.time()
        assert found.causes[0].cause == "late"
        assert sum(each.within(float(now), 5) for each in found.causes) == 8


def test_the_newest_count_first_and_the_old_ones_in_the_end(
    driver: Driver,
    plain_client: redis.Redis,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(causes, "MAX_COUNTED", 10)
    with Queue(plain_client, name) as queue:
        kill(queue, 25, "old")
        kill(queue, 8, "new")
        assert not count(driver, name)
        found = table(driver, name)
        assert (dead(found), found.complete) == ({("new", ""): 8, ("old", ""): 2}, False)
        kill(queue, 4, "newest")
        calls = 1
        while not count(driver, name):
            calls += 1
        assert calls == 3
        found = table(driver, name)
        assert found.complete
        assert dead(found) == {("newest", ""): 4, ("new", ""): 8, ("old", ""): 25}


def test_clients_that_count_at_the_same_time_count_once(
    driver: Driver, plain_client: redis.Redis, name: str
) -> None:
    with Queue(plain_client, name) as queue:
        kill(queue, 3, "odd")
        first, second = count_dead("list", name, "first"), count_dead("list", name, "second")
        steps: Any = next(first)
        for _ in range(3):  # the first client has read, and has not written yet
            reply = driver.run(answered(steps))
            steps = first.send(reply)
        assert driver.run(second)
        with suppress(StopIteration):
            while True:
                steps = first.send(driver.run(answered(steps)))
        assert dead(table(driver, name)) == {("odd", ""): 3}


def answered(request: Any) -> Operation[Any]:
    """Return the reply to one request, as an operation."""
    return (yield request)


def test_dead_letters_of_other_kinds_are_counted(
    driver: Driver, plain_client: redis.Redis, name: str
) -> None:
    with DelayQueue(plain_client, name) as queue:
        queue.push("a", {"task": "remind"}, delay=0)
        queue.reject(*queue.take(1), reason="no")
    assert count(driver, name, "delay")
    assert dead(table(driver, name, "delay")) == {("no", "remind"): 1}


def test_many_causes_are_a_bounded_record_with_true_sums(driver: Driver, name: str) -> None:
    key = history_key("list", name)
    for turn in range(3):
        seen = Causes()
        for number in range(150):
            seen.of(f"cause {turn} {number} {'x' * 900}", f"task {'y' * 900}").see(
                NOON + turn, "z" * 900, retried=2
            )
        assert driver.run(add(key, f"token {turn}", seen))
    found = table(driver, name).causes
    assert len(found) == MAX_CAUSES
    assert sum(each.retried for each in found) == 900
    assert found[-1].cause == OTHERS
    assert found[0].cause.startswith("cause 2")


def test_the_curve_of_a_cause_has_an_hour() -> None:
    cause = Cause("odd")
    for minute in range(200):
        cause.see(NOON + MINUTE * minute, dead=1)
    now = NOON + MINUTE * 199
    assert (cause.dead, len(cause.minutes)) == (200, causes.MINUTES)
    assert (cause.within(now, 5), cause.within(now, 60), cause.within(now + 300, 5)) == (5, 60, 0)
    assert (cause.first, cause.last) == (NOON, now)


def test_records_that_cannot_be_read_are_left_out(
    driver: Driver, plain_client: redis.Redis, name: str
) -> None:
    for text in (b"nonsense", b"{}", b"[1]", b'[["a","",1]]', b'[["a","","x",0,0,0,"",[]]]'):
        plain_client.hset(history_key("list", name), "causes", text)
        assert table(driver, name).causes == []
