"""A worker on every server: cluster, Sentinel, TLS and all."""

from ackq.worker import RateLimit, Schedule
from tests.conftest import MakeQueue
from tests.waiting import wait_until
from tests.worker.conftest import Rig

from .conftest import settled


def test_a_worker_works(make_queue: MakeQueue, rig: Rig) -> None:
    queue = make_queue()
    queue.push_many([{"id": f"m{n}"} for n in range(50)])
    rig.work(queue, rate_limit=RateLimit(100_000), schedules=[Schedule("s", {}, every=0.1)])
    wait_until(lambda: {f"m{n}" for n in range(50)} <= set(rig.handler.seen), "all")
    wait_until(lambda: any(each.startswith("s@") for each in rig.handler.seen), "a tick")
    wait_until(lambda: settled(queue), "every ack")
