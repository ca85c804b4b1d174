"""What threads or tasks share is touched only under its lock.

A removed lock changes no result of a test: two threads are hardly ever at the same line. So each
call here finds the lock taken, and must get no further.
"""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import redis
import redis.asyncio

from ackq import Message
from ackq.config import QueueConfig
from ackq.dropin.renewal import LeaseRenewal
from ackq.membership.client import ConsumerGroup
from ackq.membership.client_async import AsyncConsumerGroup
from ackq.metrics.families import Families
from ackq.ops.operation_log import OperationLog
from ackq.ops.reads import SharedRead
from ackq.ops.webhook import Webhook
from ackq.process.figures import Reported
from ackq.process.held_messages import RUNNING, Held, HeldMessages, Limits
from ackq.process.quarantine import Kept, Quarantine
from ackq.queue.renewal import Renewer, _Held
from ackq.web.idle import IdleTimer
from ackq.web.jobs import Jobs
from ackq.web.watcher import Watcher
from ackq.worker.batch import Batch, Collector
from ackq.worker.feed import Runs
from ackq.worker.figures import Figures
from ackq.worker.outages import Outage, Outages
from ackq.worker.policy import Settlement
from ackq.worker.state import Quota
from ackq.worker.threads import ThreadBell
from tests.locks import Lock, assert_waits


def keep_alive(group: Any) -> Any:
    return group._keep_alive(group.session)


def run_once(renewal: LeaseRenewal) -> None:
    renewal._tick = 0
    renewal.all_in_flight = list  # type: ignore[method-assign]
    renewal._run()


def snapshot(figures: Figures) -> None:
    figures.count = lambda: None  # type: ignore[method-assign]
    figures.snapshot()


def succeed(outages: Outages) -> None:
    outages.current[""] = Outage(1.0)
    outages.succeeded("taking", 2.0)


MESSAGE = Message("jobs", b"a", b"{}", 1, 1)


KEPT = Kept(
    Held(MESSAGE, QueueConfig(), RUNNING, False, Settlement("nack"), number=0, limit=None), 1
)


def holding() -> HeldMessages:
    """Return what holds one message, which runs."""
    with tempfile.NamedTemporaryFile() as file:
        configs = {"jobs": QueueConfig()}
        made = HeldMessages(Path(file.name), configs, (), 1, 1, Limits(1.0))
    made.taken("jobs", [MESSAGE])
    made.before(MESSAGE)
    return made


def remove(renewer: Renewer) -> None:
    held = _Held(MESSAGE, 1.0)
    held.lock = Lock()  # type: ignore[assignment]
    renewer._remove(held)


CALLS: dict[Callable[[], Any], tuple[Callable[[Any], Any], ...]] = {
    lambda: Watcher(redis.Redis(port=1)): (Watcher.sample, Watcher.refresh, Watcher.close),
    lambda: SharedRead(int): (lambda made: made.get(1.0),),
    lambda: Families(()): (lambda made: made.text(False),),
    lambda: Reported([]): (Reported.snapshot, lambda made: made.end(Path("none"))),
    lambda: IdleTimer(60.0, print): (IdleTimer.touch, IdleTimer.cancel, IdleTimer._fire),
    lambda: Jobs(OperationLog(redis.Redis(port=1))): (
        lambda made: made.start(
            "who", "what", "done", "list", "jobs", 1, 1, lambda n: iter(()), chosen=True
        ),
        Jobs.all,
        lambda made: made.find("id"),
    ),
    Figures: (Figures.count, snapshot),
    Runs: (
        lambda made: made.begin([MESSAGE]),
        lambda made: made.next(MESSAGE),
        lambda made: made.end(MESSAGE),
        Runs.copy,
    ),
    lambda: Collector("jobs", Batch(), ThreadBell(), print): (
        lambda made: made.add([], bool, 1.0),
        lambda made: made.left(1.0),
        lambda made: made.close(1.0),
        Collector.waiting,
    ),
    lambda: Quota(1): (Quota.draw,),
    lambda: Outages("jobs", "server"): (
        lambda made: made.failed("taking", OSError(), 1.0),
        succeed,
    ),
    lambda: Quarantine(lambda: None, lambda held: None): (
        lambda made: made.take([]),
        lambda made: made.send(bool),
        lambda made: made.process_crashed(9, [], on_purpose=False),
        Quarantine.end,
        lambda made: made._renew_due({}),
        lambda made: made._renew([KEPT], 1.0, {}),
    ),
    holding: (
        lambda made: made.taken("jobs", [MESSAGE]),
        lambda made: made.hand_over(MESSAGE),
        lambda made: made.after(MESSAGE, "ack", 1.0),
    ),
    lambda: LeaseRenewal(30.0): (
        lambda made: made.watch(None),
        LeaseRenewal.all_in_flight,
        run_once,
    ),
    lambda: Renewer(lambda message, timeout: None): (remove,),
    lambda: ConsumerGroup(redis.Redis(port=1), "g", 2): (
        ConsumerGroup.heartbeat,
        ConsumerGroup.leave,
        keep_alive,
    ),
    lambda: AsyncConsumerGroup(redis.asyncio.Redis(port=1), "g", 2): (
        AsyncConsumerGroup.heartbeat,
        AsyncConsumerGroup.leave,
        keep_alive,
    ),
}


@pytest.mark.parametrize(("make", "call"), [(make, call) for make in CALLS for call in CALLS[make]])
def test_a_call_waits_for_the_lock(make: Callable[[], Any], call: Callable[[Any], Any]) -> None:
    assert_waits(make(), call)


def post(webhook: Webhook) -> None:
    webhook.add([])
    webhook.send()


def test_each_step_waits_for_the_lock() -> None:
    assert_waits(Watcher(redis.Redis(port=1)), Watcher.sample, uses=3)
    assert_waits(Webhook("http://127.0.0.1:1", lambda: 1.0), post, uses=2)
