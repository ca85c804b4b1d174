"""A health check that is red when work is stuck, and only then."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from ackq.errors import ConfigurationError
from ackq.worker import Health
from tests.waiting import wait_until

from .conftest import settled, until
from .test_handling import push


def ask(health: Health) -> tuple[int, dict[str, Any]]:
    assert health.address is not None
    host, port = health.address
    try:
        with urllib.request.urlopen(f"http://{host}:{port}/", timeout=5) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())


def test_it_is_red_only_while_ready_messages_are_not_taken(
    queue_of: Any, work: Any, handler: Any, tmp_path: Path
) -> None:
    queue = queue_of()
    go_on = threading.Event()
    handler.behave = lambda message: until(go_on)
    file = tmp_path / "healthy"
    health = Health(file=file, port=0, stalled_after=0.5, interval=0.05)
    made = work(queue, handler, concurrency=1, health=health)
    wait_until(file.exists, "the file of an idle worker")
    assert ask(health) == (200, {"healthy": True, "reason": ""})
    idle = wait_until(lambda: health._next, "a look") + 0.7
    wait_until(lambda: health._next > idle, "a long idleness")
    assert file.exists()

    push(queue, 5)  # one runs, four are ready
    handler.wait_for(1)
    wait_until(lambda: not file.exists(), "red")
    status, answer = ask(health)
    assert status == 503
    assert "4 in" in answer["reason"]

    queue.pause()
    wait_until(file.exists, "green while paused")
    queue.resume()
    wait_until(lambda: not file.exists(), "red again")
    go_on.set()
    wait_until(file.exists, "green again")
    assert ask(health)[0] == 200
    wait_until(lambda: settled(queue), "all")
    made.stop()
    made.join()
    assert not file.exists()
    assert health.address is None


def test_it_stays_green_while_messages_are_taken_however_many_wait(
    queue_of: Any, work: Any, handler: Any, caplog: pytest.LogCaptureFixture
) -> None:
    queue = queue_of()
    push(queue, 60)
    handler.behave = lambda message: asyncio.sleep(0.03)
    health = Health(port=0, stalled_after=0.5, interval=0.02)
    work(queue, handler, concurrency=1, prefetch=1, health=health)
    wait_until(lambda: settled(queue), "all", 20)
    assert "health:" not in caplog.text


def test_a_loop_that_hangs_is_red() -> None:
    health = Health(port=0, stalled_after=0.001, interval=0.001)
    assert wait_until(lambda: health.reason, "red").startswith("the worker's loop")
    health.show("")
    health._seen += 10
    assert not health.reason


def test_only_a_change_of_state_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    health = Health(port=0)
    for reason in ("", "none taken for 60 s", "none taken for 61 s", "", ""):
        health.show(reason)
    assert [record.message for record in caplog.records] == [
        "health: none taken for 60 s", "health: green again",
    ]  # fmt: skip
    assert health.reason == ""


def test_a_file_that_cannot_be_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"no file can be made in .*absent"):
        Health(file=tmp_path / "absent" / "healthy")


def test_a_port_that_is_in_use_is_refused_before_anything_is_taken(
    queue_of: Any, work: Any, handler: Any
) -> None:
    queue = queue_of()
    push(queue, 3)
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        made = work(queue, handler, start=False, health=Health(port=port))
        with pytest.raises(ConfigurationError, match=f"127.0.0.1:{port}: Address already in use"):
            made.drain()
    assert handler.seen == []
    assert queue.stats().ready == 3


def test_a_check_that_shows_nowhere_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="file or a port"):
        Health()
