"""Several queues, pauses and rates."""

import asyncio
import threading
import time
from collections import Counter
from typing import Any

import pytest
import redis

from ackq import Message
from ackq.worker import RateLimit, feeder
from tests.waiting import wait_until
from tests.worker.conftest import Rig

from .conftest import push, settled, until


def test_the_first_queue_that_has_messages_goes_first(rig: Rig) -> None:
    urgent, usual = rig.queue_of("-urgent"), rig.queue_of("-usual")
    push(usual, 300, "usual")
    push(urgent, 300, "urgent")
    rig.work([urgent, usual], concurrency=1, start=False).drain()
    assert all(each.startswith("urgent") for each in rig.handler.seen[:300])
    assert len(rig.handler.seen) == 600


def test_an_urgent_message_overtakes_those_that_wait_in_the_worker(rig: Rig) -> None:
    urgent, usual = rig.queue_of("-urgent"), rig.queue_of("-usual")
    push(usual, 400, "usual")
    rig.handler.behave = lambda message: asyncio.sleep(0.01)
    rig.work([urgent, usual], concurrency=1)
    rig.handler.wait_for(20)
    urgent.push({"id": "now"})
    wait_until(lambda: "now" in rig.handler.seen, "the urgent one")
    assert rig.handler.seen.index("now") < 200


def test_what_waits_in_the_worker_is_in_the_order_of_the_queues(rig: Rig) -> None:
    urgent, usual = rig.queue_of("-urgent"), rig.queue_of("-usual")
    buffer = rig.work([urgent, usual], start=False).worker._state.feed.buffer
    for queue in (usual, urgent):
        push(queue, 2)
        buffer.extend(queue.pop_many(2))
    assert [buffer.popleft().queue for _ in range(4)] == [urgent.name] * 2 + [usual.name] * 2


def test_a_message_of_any_queue_wakes_an_idle_worker_at_once(
    monkeypatch: pytest.MonkeyPatch, rig: Rig
) -> None:
    monkeypatch.setattr(feeder, "IDLE", 3600)  # nothing is found by looking again
    queues = [rig.queue_of(f"-{number}") for number in range(3)]
    rig.work(queues)
    for queue in reversed(queues):
        queue.push({"id": f"first of {queue.name}"})
    rig.handler.wait_for(3)
    for number, queue in enumerate(queues):
        queue.push({"id": f"next of {queue.name}"})
        rig.handler.wait_for(4 + number)
    wait_until(lambda: all(settled(queue) for queue in queues), "every ack")
    monkeypatch.undo()


def test_weights_share_the_work_while_all_have_some(rig: Rig) -> None:
    heavy, light = rig.queue_of("-heavy"), rig.queue_of("-light")
    push(heavy, 600, "heavy")
    push(light, 600, "light")
    rig.work({heavy: 3, light: 1}, concurrency=1, prefetch=4, start=False).drain()
    seen = Counter(each[:5] for each in rig.handler.seen[:400])
    assert 280 <= seen["heavy"] <= 320
    assert len(rig.handler.seen) == 1200


def test_pause_and_resume_are_observed(rig: Rig) -> None:
    queue = rig.queue(3000)
    rig.handler.behave = lambda message: asyncio.sleep(0.002)
    rig.work(queue, concurrency=2)
    rig.handler.wait_for(100)
    queue.pause()

    def stands_still() -> bool:
        before = len(rig.handler.seen)
        time.sleep(0.3)  # long enough for hundreds
        return len(rig.handler.seen) == before

    wait_until(stands_still, "the pause to be observed")
    seen = len(rig.handler.seen)
    assert seen < 3000
    queue.resume()
    rig.handler.wait_for(seen + 1)


def test_a_pause_takes_back_what_waits_behind_slow_handlers(rig: Rig) -> None:
    queue = rig.queue(300)
    go_on = threading.Event()

    def behave(message: Message) -> Any:
        return until(go_on) if len(rig.handler.seen) > 100 else None

    rig.handler.behave = behave
    rig.work(queue, concurrency=2)
    wait_until(lambda: len(rig.handler.running) == 2, "both slots to hang")
    queue.pause()
    wait_until(lambda: queue.stats().in_flight == 2, "the rest to be given back")
    go_on.set()
    wait_until(lambda: queue.stats().in_flight == 0, "those two")
    assert queue.stats().ready > 100
    queue.resume()
    wait_until(lambda: settled(queue), "all")


def test_a_queue_that_was_idle_does_not_catch_up(rig: Rig) -> None:
    busy, idle = rig.queue_of("-busy"), rig.queue_of("-idle")
    push(busy, 600, "busy")
    rig.handler.behave = lambda message: asyncio.sleep(0.001)
    rig.work({busy: 1, idle: 1}, concurrency=1, prefetch=4)
    rig.handler.wait_for(200)
    push(idle, 200, "idle")
    wait_until(lambda: settled(idle), "both to have had turns", 20)
    first = next(n for n, each in enumerate(rig.handler.seen) if each.startswith("idle"))
    share = Counter(each[:4] for each in rig.handler.seen[first : first + 100])
    assert 30 <= share["idle"] <= 70


def test_all_workers_share_the_rate(rig: Rig) -> None:
    queue = rig.queue(40)
    limit = RateLimit(40, burst=4)
    started = time.monotonic()
    rig.work(queue, rate_limit=limit)
    rig.work(queue, rate_limit={queue.name: limit})
    wait_until(lambda: settled(queue), "all")
    seconds = time.monotonic() - started
    assert 0.85 <= seconds < 10  # 36 / 40 s, less the µs that the burst may be ahead
    assert len(rig.handler.seen) == 40


def waiters(client: Any) -> int:
    return int(client.info("clients")["blocked_clients"])


def test_a_rate_holds_for_messages_that_an_idle_worker_waits_for(
    plain_client: redis.Redis, rig: Rig
) -> None:
    queue = rig.queue_of()
    rig.work(queue, rate_limit=RateLimit(4, burst=1))
    rig.work(queue, rate_limit=RateLimit(4, burst=1))
    wait_until(lambda: waiters(plain_client) == 2, "both to be idle")
    started = time.monotonic()
    for number in range(5):
        queue.push({"id": f"m{number}"})
    wait_until(lambda: settled(queue), "all")
    assert time.monotonic() - started >= 0.95  # four intervals
    assert sorted(rig.handler.seen) == [f"m{number}" for number in range(5)]
    assert set(rig.handler.counts.values()) == {1}


def test_an_idle_worker_holds_no_share_of_the_rate(plain_client: redis.Redis, rig: Rig) -> None:
    queue = rig.queue_of()
    queue.push({"id": "one"})
    rig.work(queue, rate_limit=RateLimit(10, per=3600, burst=10), concurrency=8)
    rig.handler.wait_for(1)
    key = f"{queue.name}RATELIMIT"
    # One permit is used, for 360 s; eight were asked for at first.
    wait_until(lambda: plain_client.pttl(key) < 370_000, "the others to be given back")
