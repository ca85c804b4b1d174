"""What a worker tells: hooks and logs."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
import redis

import ackq
from ackq.worker import Hooks
from ackq.worker.logs import reason_of
from tests.waiting import wait_until

from .conftest import settled
from .test_handling import push


class Notes(Hooks):
    def __init__(self) -> None:
        self.notes: list[tuple[Any, ...]] = []

    def before(self, message: ackq.Message) -> None:
        self.notes.append(("before", message.id))

    def after(self, message: ackq.Message, outcome: str, seconds: float) -> None:
        assert 0 <= seconds < 10
        self.notes.append(("after", message.id, outcome))

    def error(self, message: ackq.Message, error: BaseException) -> None:
        self.notes.append(("error", message.id, str(error)))


class Broken(Hooks):
    def before(self, message: ackq.Message) -> None:
        raise SystemExit("a broken hook")

    after = before  # type: ignore[assignment]


def test_hooks_are_told_and_may_break(queue_of: Any, work: Any, handler: Any) -> None:
    queue = queue_of(max_receives=1)
    push(queue, 2)

    def fail(message: ackq.Message) -> None:
        if message.id == "m1":
            raise ValueError("why")

    handler.behave = fail
    notes = Notes()
    work(queue, handler, hooks=[Broken(), notes], concurrency=1)
    wait_until(lambda: settled(queue), "both")
    assert notes.notes == [
        ("before", "m0"), ("after", "m0", "ack"),
        ("before", "m1"), ("error", "m1", "why"), ("after", "m1", "nack"),
    ]  # fmt: skip


def test_logs_name_the_message_and_hold_nothing_of_it(
    queue_of: Any, work: Any, caplog: pytest.LogCaptureFixture
) -> None:
    queue = queue_of(max_receives=1)
    queue.push({"id": "m0", "password": "hunter2"})

    def fail(message: ackq.Message) -> None:
        raise ValueError(f"cannot read {message.body!r}")

    with caplog.at_level(logging.DEBUG, "ackq.worker"):
        work(queue, fail)
        wait_until(lambda: settled(queue), "the failure")
    (record,) = [each for each in caplog.records if each.message.startswith("failed")]
    assert record.message_id == "m0"  # type: ignore[attr-defined]
    assert record.size > 20  # type: ignore[attr-defined]
    assert Path(__file__).name in record.at  # type: ignore[attr-defined]
    assert "hunter2" not in caplog.text


def test_what_a_server_says_is_logged_without_its_password() -> None:
    error = redis.ConnectionError("cannot reach redis://me:c4n4ry@somewhere:6379/0")
    assert reason_of(error) == "ConnectionError: cannot reach redis://***@somewhere:6379/0"
