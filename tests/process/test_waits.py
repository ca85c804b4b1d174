"""How long the loops of a supervisor wait in each round: none keeps a processor busy."""

import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import redis

from ackq.config import QueueConfig
from ackq.process import abandoned_messages
from ackq.process.children import Child, Processes
from ackq.process.plan import Plan
from ackq.process.quarantine import Quarantine
from ackq.process.service import Service

PLAN = Plan("tests.process.jobs:quick", ("jobs",), url="redis://127.0.0.1:1", processes=0)


class Enough(BaseException):
    """Ends a loop."""


def look() -> None:
    PLAN._look_at("jobs")


def settle() -> None:
    def fail(queue: Any) -> None:
        raise redis.ConnectionError

    abandoned_messages._repeat(PLAN.url, "jobs", QueueConfig(), fail)


def renew() -> None:
    quarantine: Any = Quarantine(lambda: None, lambda held: None)
    quarantine._renew_due = lambda queues: True
    quarantine._renew_all()


class Waiting(list[int]):
    """Suspects whose leases are being renewed."""

    due = False


def supervise(suspects: Waiting | None = None) -> None:
    processes: Any = Processes(PLAN)
    if suspects:
        processes._quarantine = suspects
    processes._is_over = lambda children: False
    processes.run()


@pytest.mark.parametrize(
    ("loop", "seconds"),
    [
        (look, 0.5),
        (settle, 0.5),
        (renew, 0.05),
        (supervise, 0.1),
        (lambda: supervise(Waiting([1])), 0.02),
    ],
)
def test_a_loop_waits_in_each_round(
    loop: Callable[[], None], seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 3:
            raise Enough

    monkeypatch.setattr(time, "sleep", sleep)
    with pytest.raises(Enough):
        loop()
    assert waits == [seconds] * 3


def test_what_is_gone_by_now_does_not_end_a_supervisor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    child: Any = Child(0, PLAN, tmp_path)
    with subprocess.Popen(["true"]) as ended:
        pass
    child._started = SimpleNamespace(process=ended)
    monkeypatch.setattr(child.held, "overdue", lambda pid: {0})
    child.kill_if_stuck()
    assert child.killed
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "gone"))
    with Service() as service:
        service.show(ready=True, healthy=True, stopping=False)
        assert not service._ready


def test_a_process_that_the_system_refuses_ends_no_supervisor(tmp_path: Path) -> None:
    def refuse(plan: Plan) -> None:
        raise BlockingIOError("too many processes")

    child, spares = Child(0, PLAN, tmp_path), SimpleNamespace(start=refuse)
    child.start(spares)  # type: ignore[arg-type]
    assert (child.pid, child.due > time.monotonic()) == (None, True)
    spares.start = lambda plan: 1 // 0
    with pytest.raises(ZeroDivisionError):
        child.start(spares)  # type: ignore[arg-type]
