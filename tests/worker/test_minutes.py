"""What workers keep of each minute: the counts of their queues, and how long handlers took."""

from typing import Any

import pytest
import redis

import ackq
from ackq.core.io.driver import Driver
from ackq.core.io.routes import route_of
from ackq.ops.attention.watch import Attention
from ackq.ops.chronicle import causes
from ackq.ops.chronicle.minutes import MINUTE, Minute, read
from ackq.ops.chronicle.store import history_key
from ackq.ops.overview import Overview
from ackq.sharded import ShardedQueue
from ackq.worker import Again, Backoff, Reject, minutes
from tests.waiting import wait_until

from .conftest import Rig


def minutes_of(client: redis.Redis, name: str, kind: str = "list") -> list[Minute]:
    driver = Driver(route_of(client, name.encode()))
    seconds, _ = client.time()
    try:
        return driver.run(read(history_key(kind, name), float(seconds), 3600.0))
    finally:
        driver.route.close()


def fail(message: object) -> None:
    match getattr(message, "id", ""), getattr(message, "receive_count", 0):
        case "m1", 1:
            raise Again(0)
        case "m2", _:
            raise Reject("no")


def test_a_worker_keeps_what_its_handlers_did_by_task(plain_client: redis.Redis, rig: Rig) -> None:
    queue = rig.queue_of()
    rig.handler.behave = fail
    queue.counters(60.0)  # counting begins
    queue.push_many([{"id": f"m{number}", "task": "send"} for number in range(4)])
    queue.push_many([{"id": "odd", "task": 7}, {"id": "other", "task": "draw"}])
    work = rig.work(queue, start=False)
    work.drain()
    rows = minutes_of(plain_client, queue.name)
    counts = {name: sum(row.counts.get(name, 0) for row in rows) for name in ("acked", "nacked")}
    assert counts == {"acked": 5, "nacked": 1}
    assert sum(row.dead.get("rejected", 0) for row in rows) == 1
    assert sum(sum(row.work.durations.counts) for row in rows) == 7
    tasks = [row.work.tasks for row in rows if row.work.tasks]
    sums = {
        name: [
            sum(getattr(row[name], each) for row in tasks if name in row)
            for each in ("acked", "failed", "rejected")
        ]
        for name in ("send", "draw")
    }
    assert sums == {"send": [3, 1, 1], "draw": [1, 0, 0]}
    assert rows[-1].states == (0, 0, 0, 1)


def test_a_fast_worker_notes_a_sample_that_stands_for_all(
    plain_client: redis.Redis, rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(minutes, "EXACT", 5)
    monkeypatch.setattr(minutes, "COUNT_INTERVAL", 60.0)
    noted: list[str] = []
    finished = minutes.Minutes.finished

    def note(self: minutes.Minutes, *about: Any) -> None:
        noted.append(about[2])
        finished(self, *about)

    monkeypatch.setattr(minutes.Minutes, "finished", note)
    queue = rig.queue_of()
    rig.handler.behave = fail
    queue.push_many([{"id": f"m{number}", "task": "send"} for number in range(500)])
    rig.work(queue, start=False, concurrency=1).drain()
    rows = minutes_of(plain_client, queue.name)
    total = sum(sum(row.work.durations.counts) for row in rows)
    assert (noted.count("nack"), noted.count("reject")) == (1, 1)  # failures are all noted
    assert 20 < len(noted) < 60
    assert abs(total - 501) <= 50  # the last share may be incomplete
    (sums,) = [row.work.tasks["send"] for row in rows if row.work.tasks]
    assert (sums.failed, sums.rejected) == (1, 1)
    assert sums.acked == total - 2


def test_a_worker_records_every_minute_and_can_leave_it(
    plain_client: redis.Redis, rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(minutes, "INTERVAL", 0.05)
    kept, left = rig.queue_of("kept"), rig.queue_of("left")
    kept.counters(60.0)
    rig.work(kept)
    rig.work(left, history=False)
    kept.push({"id": "a"})
    left.push({"id": "b"})
    rig.handler.wait_for(2)

    def acked() -> int:
        return sum(row.counts.get("acked", 0) for row in minutes_of(plain_client, kept.name))

    wait_until(lambda: acked() == 1, "the worker to record the ack")
    assert plain_client.exists(history_key("list", left.name)) == 0
    at = plain_client.time()[0]
    assert len(minutes_of(plain_client, kept.name)) <= 2 + at % MINUTE


def test_soon_after_the_last_ack_a_single_look_sees_that_all_deliveries_fail(
    plain_client: redis.Redis, rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(minutes, "COUNT_INTERVAL", 0.02)
    monkeypatch.setattr(minutes, "STOPPED", 0.05)
    queue = rig.queue_of()
    rig.handler.behave = lambda message: None if message.id == "good" else [][1]
    queue.counters(60.0)
    rig.work(queue, backoff=Backoff(base=0.001, limit=0.001))
    queue.push({"id": "good"})
    wait_until(lambda: [*minutes_of(plain_client, queue.name)] != [], "the record after the ack")
    queue.push({"id": "bad"})
    wait_until(lambda: (queue.counters().nacked or 0) >= 20, "the failures")
    with (
        Attention(plain_client, once=True) as attention,
        Overview(plain_client, [queue.name], window=60.0) as overview,
    ):
        assert "all_fail" in {each.key.kind for each in attention.look(overview.read())}


def test_what_is_repeated_is_counted_by_line_and_task(plain_client: redis.Redis, rig: Rig) -> None:
    def fail_at_first(message: ackq.Message) -> None:
        if message.receive_count < 2:
            raise KeyError("total")

    queue = rig.queue_of()
    rig.handler.behave = fail_at_first
    queue.push_many([{"id": f"m{number}", "task": "bill"} for number in range(4)])
    rig.work(queue, start=False, backoff=Backoff(base=0.001)).drain()
    driver = Driver(route_of(plain_client, b""))
    (cause,) = driver.run(causes.read(history_key("list", queue.name))).causes
    driver.route.close()
    assert (cause.task, cause.text, cause.dead, cause.retried) == ("bill", "'total'", 0, 4)
    assert cause.cause.startswith("KeyError at ")
    assert "test_minutes.py" in cause.cause


def test_a_message_that_becomes_a_dead_letter_is_no_repeated_one(
    plain_client: redis.Redis, rig: Rig
) -> None:
    def fail(message: ackq.Message) -> None:
        raise KeyError("total")

    queue = rig.queue_of(max_receives=1)
    rig.handler.behave = fail
    queue.push({"id": "a"})
    rig.work(queue, start=False).drain()
    assert queue.stats().dead == 1
    assert plain_client.hget(history_key("list", queue.name), "causes") is None


def test_the_work_on_all_shards_is_that_of_the_queue(
    plain_client: redis.Redis, rig: Rig, token: str
) -> None:
    with ShardedQueue(plain_client, token, 2) as queue:
        queue.counters(60.0)
        queue.push_many([{"id": str(number)} for number in range(20)])
        work = rig.work(queue, start=False)
        work.drain()
        rows = minutes_of(plain_client, token, "sharded")
        assert sum(row.counts["acked"] for row in rows if row.counts) == 20
        assert sum(sum(row.work.durations.counts) for row in rows) == 20
