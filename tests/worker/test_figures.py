"""The worker's port shows what its handlers did, complete even if there are several processes."""

import asyncio
import sys
import threading
import time
from pathlib import Path

import pytest

from ackq import Queue
from ackq.ops.chronicle.durations import BUCKETS
from ackq.worker import Health, Reject
from ackq.worker.figures import Figures
from tests.metrics.test_collector import Samples, parsed, value
from tests.metrics.test_exporter import get
from tests.waiting import wait_until
from tests.worker.conftest import Rig, settled


def scraped(address: tuple[str, int] | None) -> Samples:
    assert address is not None
    status, _, body = get(address, "/metrics")
    assert status == 200, body
    return parsed(body.decode())


def test_handlers_are_counted_by_outcome_and_by_duration(rig: Rig) -> None:
    queue = rig.queue_of(visibility_timeout=30)

    def behave(message: object) -> object:
        id = message.id  # type: ignore[attr-defined]
        if id == "fail":
            raise ValueError
        if id == "reject":
            raise Reject("no")
        return asyncio.sleep(0.3 if id == "slow" else 0)

    rig.handler.behave = behave
    queue.push_many([{"id": each} for each in ("a", "b", "fail", "reject", "slow")])
    health = Health(port=0, interval=0.05)
    rig.work(queue, concurrency=2, health=health, max_receives=1)
    wait_until(lambda: queue.stats().dead == 2 and settled_but_dead(queue), "all")
    samples = scraped(health.address)
    counts = {
        dict(labels)["outcome"]: number
        for (name, labels), number in samples.items()
        if name == "ackq_handled_total"
    }
    assert counts == {"ack": 3, "nack": 1, "reject": 1}
    # The older format has no place for the times at which counting began.
    assert not [name for name, _ in samples if name.endswith("_created")]
    assert value(samples, "ackq_handler_seconds_count", queue=queue.name) == 5
    assert value(samples, "ackq_handler_seconds_sum", queue=queue.name) >= 0.3
    slow = value(samples, "ackq_handler_seconds_bucket", queue=queue.name, le="0.25")
    assert slow <= 4
    assert value(samples, "ackq_handler_seconds_bucket", queue=queue.name, le="+Inf") == 5
    assert value(samples, "ackq_worker_concurrency") == 2
    wait_until(lambda: value(scraped(health.address), "ackq_worker_busy") == 0, "no busy handler")
    # No message had a time.
    assert not [name for name, _ in samples if name.startswith("ackq_time_in_queue")]


def test_times_in_the_queue_are_counted_if_they_are_known(rig: Rig) -> None:
    queue = rig.queue_of(visibility_timeout=30, time_field="made")
    ago = time.time() - 100
    queue.push_many([{"id": "new"}, {"id": "old", "made": ago}, {"id": "odd", "made": "?"}])
    queue.push(b'{"id":"bare"}')
    health = Health(port=0, interval=0.05)
    rig.work(queue, health=health)
    wait_until(lambda: settled(queue), "all")
    samples = scraped(health.address)
    assert value(samples, "ackq_handler_seconds_count", queue=queue.name) == 4
    assert value(samples, "ackq_time_in_queue_seconds_count", queue=queue.name) == 2
    assert 100 <= value(samples, "ackq_time_in_queue_seconds_sum", queue=queue.name) < 200
    for limit, count in (("60.0", 1), ("300.0", 2), ("+Inf", 2)):
        found = value(samples, "ackq_time_in_queue_seconds_bucket", queue=queue.name, le=limit)
        assert found == count, limit


def settled_but_dead(queue: Queue) -> bool:
    stats = queue.stats()
    return not (stats.ready or stats.in_flight or stats.delayed)


def test_a_worker_without_a_port_counts_nothing(tmp_path: Path, rig: Rig) -> None:
    made = rig.work(rig.queue_of(), print, start=False, health=Health(file=tmp_path / "healthy"))
    assert made.worker._state.handling.figures is None
    assert rig.work(rig.queue_of("b"), print, start=False).worker._state.handling.figures is None


def test_a_duration_belongs_to_the_first_bucket_that_is_long_enough() -> None:
    figures = Figures()
    for seconds in (0.0, BUCKETS[0], BUCKETS[0] + 0.001, 1e6):
        figures.add("jobs", "ack", seconds, None)
    buckets = figures.snapshot().queues["jobs"].buckets
    assert (buckets[0], buckets[1], buckets[-1], sum(buckets)) == (2, 1, 1, 4)


def test_no_end_of_a_handler_is_lost_between_threads() -> None:
    figures = Figures()

    def record() -> None:
        for _ in range(2000):
            figures.add("jobs", "ack", 0.1, None)

    threads = [threading.Thread(target=record) for _ in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        figures.count()
    assert figures.snapshot().queues["jobs"].outcomes == {"ack": 8000}


def test_without_the_extra_the_port_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [each for each in sys.modules if each.startswith("ackq.metrics")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "prometheus_client.core", None)
    with Health(port=0) as health:
        assert health.address is not None
        status, _, body = get(health.address, "/metrics")
        assert status == 404
        assert b"pip install 'ackq[metrics]'" in body
        assert get(health.address, "/healthz")[0] == 200
