"""Watching: which queues are found, and that nothing is made up."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest
import redis

from ackq import Queue
from ackq.cli.top import _span
from ackq.message import QueueStats
from ackq.protocol.discovery import queue_of, rate
from ackq.sync.monitor import Monitor
from tests.cli.conftest import Run
from tests.waiting import wait_until


@pytest.fixture
def busy(embedded_client: redis.Redis, name: str) -> Iterator[Queue]:
    """A queue with two ready, one in flight, one delayed, one dead."""
    with Queue(embedded_client, name, visibility_timeout=600) as queue:
        queue.push_many([{"id": each} for each in "abcd"])
        queue.push({"id": "later"}, delay=600)
        queue.reject(*queue.pop_many(1))
        queue.pop()
        yield queue


def test_a_queue_is_found_by_its_side_keys(ackq: Run, busy: Queue) -> None:
    rows = [json.loads(line) for line in ackq("top", "--json").output.splitlines()]
    (row,) = [each for each in rows if each["queue"] == busy.name]
    assert (row["ready"], row["in_flight"], row["delayed"], row["dead"]) == (2, 1, 1, 1)
    assert 590 < row["lease_ends_in"] <= 601
    shown = next(
        line for line in ackq("top").output.splitlines() if line.startswith(f"{busy.name}\t")
    )
    assert shown.startswith(f"{busy.name}\t2\t1\t1\t1\t-\tin 10 min")


def test_a_bare_list_is_only_counted_when_it_is_named_and_gets_no_time(
    ackq: Run, name: str, embedded_client: redis.Redis
) -> None:
    embedded_client.lpush(name, "a", "b")
    assert name not in ackq("top").output
    row = json.loads(ackq("top", name, "--json").output)
    assert (row["ready"], row["lease_ends_in"], row["next_event_in"]) == (2, None, None)


def test_what_only_looks_like_a_queue_is_passed_over(
    ackq: Run, name: str, embedded_client: redis.Redis
) -> None:
    embedded_client.set(f"{name}BACKUP", "text")
    embedded_client.zadd(f"{name}*BACKUP", {"x": 1})
    assert name not in ackq("top").output
    assert "BACKUP" in ackq("top", name, code=3).stderr


def test_a_look_searches_a_bounded_number_of_keys_and_the_next_goes_on(
    embedded_client: redis.Redis, busy: Queue, name: str
) -> None:
    pipe = embedded_client.pipeline()
    for number in range(5000):
        pipe.set(f"{name}:{number}", "")
    pipe.execute()

    def scans() -> int:
        return int(embedded_client.info("commandstats").get("cmdstat_scan", {}).get("calls", 0))

    before = scans()
    with Monitor(embedded_client, steps=10) as monitor:
        assert name in monitor.look().queues
    assert 5 <= scans() - before <= 10
    before, looks = scans(), 0
    with Monitor(embedded_client, steps=1) as monitor:
        while name not in monitor.look().queues:
            looks += 1
            assert looks < 20
    assert scans() - before == looks + 1


def test_an_expired_lease_is_told_as_past(embedded_client: redis.Redis, name: str) -> None:
    with Queue(embedded_client, name) as queue, Monitor(embedded_client, [name]) as monitor:
        queue.push({"id": "a"})
        queue.pop(visibility_timeout=0.01)

        def ended() -> QueueStats | None:
            stats = monitor.look().queues[name]
            return stats if stats.lease_ends_in is not None and stats.lease_ends_in < 0 else None

        stats = wait_until(ended, "the lease to end")
    assert stats is not None
    assert (stats.ready, stats.expired, stats.in_flight) == (1, 1, 0)


@pytest.mark.parametrize(
    ("key", "queue"),
    [(b"jobsBACKUP", "jobs"), (b"{a}bDEAD", "{a}b"), (b"jobs", None), (b"BACKUP", None),
     (b"\xffDEAD", None), (b"a*DEAD", None), (b"jobsBACKUPDEAD", None)],
)  # fmt: skip
def test_a_side_key_names_its_queue(key: bytes, queue: str | None) -> None:
    assert queue_of(key) == queue


def test_a_rate_is_known_only_between_two_counts() -> None:
    assert rate(30, 10, 2) == 10
    assert rate(30, None, 2) is None
    assert rate(30, 10, 0) is None


def test_spans_are_short() -> None:
    assert [_span(each) for each in (0.4, 59, 61, 7320)] == ["0 s", "59 s", "1 min", "2 h 2 min"]


def test_in_a_terminal_it_goes_on_until_ctrl_c(busy: Queue, url: str) -> None:
    parent, child = pty.openpty()
    code = "from ackq.cli import main; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", code, "top", "--every", "0.1", "--url", url],
        stdout=child, stderr=child, env={**os.environ, "COLUMNS": "120", "LINES": "40"},
    )  # fmt: skip
    os.close(child)
    shown = b""

    def seen(*words: bytes) -> bool:
        nonlocal shown
        shown += os.read(parent, 65536)
        return all(word in shown for word in words)

    try:
        wait_until(lambda: seen(busy.name.encode(), b"commands/s"), "two looks", 20)
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 0
    finally:
        process.kill()
        process.wait()
        os.close(parent)
