"""The order in which other consumers get released messages."""

import threading

import pytest

from ackq.worker import upkeep
from tests.waiting import wait_until
from tests.worker.conftest import Rig

from .conftest import until


def test_what_a_stopped_worker_had_not_begun_comes_back_in_its_order(
    monkeypatch: pytest.MonkeyPatch, rig: Rig
) -> None:
    monkeypatch.setattr(upkeep, "STALE", 3600)  # it is the stop that gives back, not the wait
    queue = rig.queue_of()
    ids = [f"o{number}" for number in reversed(range(300))]  # not as their keys are sorted
    queue.push_many({"id": message_id} for message_id in ids)
    go_on = threading.Event()
    rig.handler.behave = lambda message: until(go_on) if len(rig.handler.seen) > 100 else None
    made = rig.work(queue, concurrency=1)
    rig.handler.wait_for(101)
    wait_until(lambda: queue.stats().in_flight > 20, "messages that wait in the worker")
    made.stop()
    wait_until(lambda: queue.stats().ready == 300 - 101, "what had not begun")
    go_on.set()
    made.join()
    back = [message.id for _ in range(3) for message in queue.pop_many(200)]
    assert rig.handler.seen + back == ids
