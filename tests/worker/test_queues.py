"""Several queues, pauses and rates."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from typing import Any

import pytest
import redis

from ackq import Message
from ackq.worker import RateLimit, taking
from tests.waiting import wait_until
from tests.worker.conftest import QueueOf, Recorder, StartWorker

from .conftest import settled, until
from .test_handling import push


def test_the_first_queue_that_has_messages_goes_first(
    queue_of: QueueOf, work: StartWorker, handler: Recorder
) -> None:
    urgent, usual = queue_of("-urgent"), queue_of("-usual")
    push(usual, 300, "usual")
    push(urgent, 300, "urgent")
    work([urgent, usual], handler, concurrency=1, start=False).drain()
    assert all(each.startswith("urgent") for each in handler.seen[:300])
    assert len(handler.seen) == 600


def test_an_urgent_message_overtakes_those_that_wait_in_the_worker(
    queue_of: QueueOf, work: StartWorker, handler: Recorder
) -> None:
    urgent, usual = queue_of("-urgent"), queue_of("-usual")
    push(usual, 400, "usual")
    handler.behave = lambda message: asyncio.sleep(0.01)
    work([urgent, usual], handler, concurrency=1)
    handler.wait_for(20)
    urgent.push({"id": "now"})
    wait_until(lambda: "now" in handler.seen, "the urgent one")
    assert handler.seen.index("now") < 200


def test_what_waits_in_the_worker_is_in_the_order_of_the_queues(
    queue_of: QueueOf, work: StartWorker, handler: Recorder
) -> None:
    urgent, usual = queue_of("-urgent"), queue_of("-usual")
    buffer = work([urgent, usual], handler, start=False).worker._state.feed.buffer
    for queue in (usual, urgent):
        push(queue, 2)
        buffer.extend(queue.pop_many(2))
    assert [buffer.popleft().queue for _ in range(4)] == [urgent.name] * 2 + [usual.name] * 2


def test_a_message_of_any_queue_wakes_an_idle_worker_at_once(
    queue_of: QueueOf, work: StartWorker, handler: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(taking, "IDLE", 3600)  # nothing is found by looking again
    queues = [queue_of(f"-{number}") for number in range(3)]
    work(queues, handler)
    for queue in reversed(queues):
        queue.push({"id": f"first of {queue.name}"})
    handler.wait_for(3)
    for number, queue in enumerate(queues):
        queue.push({"id": f"next of {queue.name}"})
        handler.wait_for(4 + number)
    wait_until(lambda: all(settled(queue) for queue in queues), "every ack")
    monkeypatch.undo()


def test_weights_share_the_work_while_all_have_some(
    queue_of: QueueOf, work: StartWorker, handler: Recorder
) -> None:
    heavy, light = queue_of("-heavy"), queue_of("-light")
    push(heavy, 600, "heavy")
    push(light, 600, "light")
    work({heavy: 3, light: 1}, handler, concurrency=1, prefetch=4, start=False).drain()
    seen = Counter(each[:5] for each in handler.seen[:400])
    assert 280 <= seen["heavy"] <= 320
    assert len(handler.seen) == 1200


def test_pause_and_resume_are_observed(
    queue_of: QueueOf, work: StartWorker, handler: Recorder
) -> None:
    queue = queue_of()
    push(queue, 3000)
    handler.behave = lambda message: asyncio.sleep(0.002)
    work(queue, handler, concurrency=2)
    handler.wait_for(100)
    queue.pause()

    def stands_still() -> bool:
        before = len(handler.seen)
        time.sleep(0.3)  # long enough for hundreds
        return len(handler.seen) == before

    wait_until(stands_still, "the pause to be observed")
    seen = len(handler.seen)
    assert seen < 3000
    queue.resume()
    handler.wait_for(seen + 1)


def test_a_pause_takes_back_what_waits_behind_slow_handlers(
    queue_of: QueueOf, work: StartWorker, handler: Recorder
) -> None:
    queue = queue_of()
    push(queue, 300)
    go_on = threading.Event()

    def behave(message: Message) -> Any:
        return until(go_on) if len(handler.seen) > 100 else None

    handler.behave = behave
    work(queue, handler, concurrency=2)
    wait_until(lambda: len(handler.running) == 2, "both slots to hang")
    queue.pause()
    wait_until(lambda: queue.stats().in_flight == 2, "the rest to be given back")
    go_on.set()
    wait_until(lambda: queue.stats().in_flight == 0, "those two")
    assert queue.stats().ready > 100
    queue.resume()
    wait_until(lambda: settled(queue), "all")


def test_a_queue_that_was_idle_does_not_catch_up(
    queue_of: QueueOf, work: StartWorker, handler: Recorder
) -> None:
    busy, idle = queue_of("-busy"), queue_of("-idle")
    push(busy, 600, "busy")
    handler.behave = lambda message: asyncio.sleep(0.001)
    work({busy: 1, idle: 1}, handler, concurrency=1, prefetch=4)
    handler.wait_for(200)
    push(idle, 200, "idle")
    wait_until(lambda: settled(idle), "both to have had turns", 20)
    first = next(n for n, each in enumerate(handler.seen) if each.startswith("idle"))
    share = Counter(each[:4] for each in handler.seen[first : first + 100])
    assert 30 <= share["idle"] <= 70


def test_all_workers_share_the_rate(
    queue_of: QueueOf, work: StartWorker, handler: Recorder
) -> None:
    queue = queue_of()
    push(queue, 40)
    limit = RateLimit(40, burst=4)
    started = time.monotonic()
    work(queue, handler, rate_limit=limit)
    work(queue, handler, rate_limit={queue.name: limit})
    wait_until(lambda: settled(queue), "all")
    seconds = time.monotonic() - started
    assert 0.85 <= seconds < 10  # 36 / 40 s, less the µs that the burst may be ahead
    assert len(handler.seen) == 40


def waiters(client: Any) -> int:
    return int(client.info("clients")["blocked_clients"])


def test_a_rate_holds_for_messages_that_an_idle_worker_waits_for(
    queue_of: QueueOf, work: StartWorker, handler: Recorder, plain_client: redis.Redis
) -> None:
    queue = queue_of()
    work(queue, handler, rate_limit=RateLimit(4, burst=1))
    work(queue, handler, rate_limit=RateLimit(4, burst=1))
    wait_until(lambda: waiters(plain_client) == 2, "both to be idle")
    started = time.monotonic()
    for number in range(5):
        queue.push({"id": f"m{number}"})
    wait_until(lambda: settled(queue), "all")
    assert time.monotonic() - started >= 0.95  # four intervals
    assert sorted(handler.seen) == [f"m{number}" for number in range(5)]
    assert set(handler.counts.values()) == {1}


def test_an_idle_worker_holds_no_share_of_the_rate(
    queue_of: QueueOf, work: StartWorker, handler: Recorder, plain_client: redis.Redis
) -> None:
    queue = queue_of()
    queue.push({"id": "one"})
    work(queue, handler, rate_limit=RateLimit(10, per=3600, burst=10), concurrency=8)
    handler.wait_for(1)
    key = f"{queue.name}RATELIMIT"
    # One permit is used, for 360 s; eight were asked for at first.
    wait_until(lambda: plain_client.pttl(key) < 370_000, "the others to be given back")
