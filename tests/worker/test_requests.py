"""What a worker sends besides the requests of its queue: its entry, schedules and permits.

The requests and replies are in `requests.txt`, as `tests.traces` explains.
"""

from pathlib import Path

from ackq.config import QueueConfig, RateLimit
from ackq.queue import schedules
from ackq.queue.keys import QueueKeys
from ackq.queue.registry import entries, leave_order
from ackq.queue.spec import QueueSpec
from ackq.worker.feeder import permit
from ackq.worker.presence import heartbeat, leave
from ackq.worker.schedule import tick
from tests.outside import FIXED
from tests.traces import Traces, compare

FILE = Path(__file__).with_name("requests.txt")


def spec() -> QueueSpec:
    return QueueSpec("q", QueueKeys.of("q"), QueueConfig(), outside=FIXED)


def workers() -> Traces:
    yield "heartbeat", heartbeat(spec(), "w", b"{}", 30.0, b"quiet")
    yield "leave", leave(spec(), "w")
    yield "list the workers", entries(spec())
    yield "leave an order", leave_order(spec(), "quiet", [b"w"])
    yield "permit", permit(spec(), RateLimit(100, per=2.0), 5, 1)


def ticks() -> Traces:
    put = schedules.put(spec(), "s", {}, 60.0, None, "UTC", "none", None)
    yield "put a schedule", put
    yield "read the schedules", schedules.read(spec())
    yield "tick", tick(spec(), "s", 3, 2, 1, b'{"id":"k"}', "", "done")


PARTS = (workers, ticks)


def test_the_requests_of_a_worker() -> None:
    compare(FILE, PARTS)
