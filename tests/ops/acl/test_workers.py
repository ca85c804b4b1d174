"""A worker does all that it can do with the rights of its role."""

import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import redis

from ackq import Message, Queue
from ackq.worker import Backoff, Health, RateLimit, Reject, Release, Schedule, Worker, presence
from tests.ops.acl.conftest import AsRole, denied
from tests.process.commands import working
from tests.waiting import wait_until


class Handler:
    """Treats a message as its id says; "fail" and "release" only at the first delivery."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def __call__(self, message: Message) -> None:
        again = message.id in self.seen
        self.seen.append(message.id)
        if message.id == "fail" and not again:
            raise ValueError
        if message.id == "release" and not again:
            raise Release
        if message.id == "reject":
            raise Reject("as the test wants")
        if message.id == "slow":
            time.sleep(1)  # its lease is renewed


@contextmanager
def running(worker: Worker) -> Iterator[None]:
    """Run it in a thread; it is over when the block is."""
    errors = []

    def run() -> None:
        try:
            worker.run()
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        worker.stop()
        thread.join(20)
    assert not thread.is_alive()
    assert not errors


def push_all(queue: Queue) -> None:
    queue.push_many([{"id": each} for each in ("do", "fail", "release", "reject", "slow")])


def is_tick(message_id: str) -> bool:
    return message_id.startswith("beat@")


def settled(queue: Queue) -> bool:
    """Whether the rejected message is all that there is."""
    now = queue.stats()
    return (now.ready, now.in_flight, now.delayed, now.dead) == (0, 0, 0, 1)


def test_a_worker_that_may_not_be_listed_works_and_logs_it_once(
    as_role: AsRole,
    admin: redis.Redis,
    name: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with (
        Queue(admin, name) as queue,
        Queue(as_role("consumer", name), name, visibility_timeout=0.5) as own,
    ):
        push_all(queue)
        # With a pause after a refusal, its heartbeats would be logged once in any case.
        monkeypatch.setattr(presence, "REFUSED_PAUSE", 0.05)
        settings: Any = {"backoff": Backoff(base=0.05), "heartbeat": 0.05, "history": False}
        worker = Worker(own, Handler(), **settings)
        with running(worker):
            wait_until(lambda: settled(queue), "everything")
    # It is not listed among the workers, and says so once. Nor does it push for stored schedules.
    refused = {*denied(admin, f"{name}-consumer")}
    assert refused == {f"{name}WORKERS:SEEN", f"{name}WORKERS:SCHEDULES"}
    logged = [record.message for record in caplog.records if "registration" in record.message]
    assert len(logged) == 1
    assert "NoPermission" in logged[0] or "permissions" in logged[0]


def test_a_worker_may_limit_its_rate_keep_time_and_report_its_health(
    as_role: AsRole, admin: redis.Redis, name: str, tmp_path: Path
) -> None:
    handler = Handler()
    with (
        Queue(admin, name) as queue,
        Queue(as_role("worker", name), name, visibility_timeout=0.5) as own,
    ):
        push_all(queue)
        # Its look at what is ready is due when nothing was taken for an interval.
        health = Health(file=tmp_path / "healthy", interval=0.05)
        worker = Worker(
            own,
            handler,
            backoff=Backoff(base=0.05),
            rate_limit=RateLimit(50, per=1),
            schedules=[Schedule("beat", {"task": "beat"}, every=0.5)],
            health=health,
        )
        with running(worker):
            wait_until(lambda: len([*filter(is_tick, handler.seen)]) >= 2, "two ticks")
            wait_until(lambda: settled(queue), "everything")
            assert (tmp_path / "healthy").exists()
    assert denied(admin, f"{name}-worker") == []


def test_a_worker_may_record_how_old_the_oldest_message_is(
    as_role: AsRole, admin: redis.Redis, name: str
) -> None:
    """Once a minute, for the history, and without a word if it may not."""
    with Queue(as_role("worker", name), name) as own:
        own.push({"id": "ready"})
        own.oldest_ready()
    assert denied(admin, f"{name}-worker") == []


@pytest.mark.timeout(200)
def test_ackq_work_runs_as_its_role(
    as_role: AsRole, admin: redis.Redis, name: str, tmp_path: Path
) -> None:
    settings = as_role("worker", name).connection_pool.connection_kwargs
    user = f"{settings['username']}:{settings['password']}"
    if "path" in settings:
        url = f"unix://{user}@{settings['path']}"
    else:
        url = f"redis://{user}@{settings['host']}:{settings['port']}"
    options = (
        "-q",
        name,
        "--processes",
        "2",
        "--rate",
        "1000/1",
        "--stalled-after",
        "5",
        "--health-file",
        str(tmp_path / "healthy"),
        "--schedules",
        "tests.process.jobs:SCHEDULES",
    )
    with working(tmp_path, url, "tests.process.jobs:quick", *options) as command:
        wait_until(lambda: len(command.events("end")) >= 3, "three ticks", 120)
        command.process.terminate()
        assert command.wait() == 0
        # On a busy machine a process may start too late for the first look at its health, and be
        # too late for a tick.
        late = re.compile("health: |missed$")
        warnings = [line for line in command.log().splitlines() if "WARNING" in line]
        assert [line for line in warnings if not late.search(line)] == []
        assert denied(admin, settings["username"]) == []
        assert settings["password"] not in command.log()
