"""``ackq top`` finds the right queues and shows true figures."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import termios
from collections.abc import Iterator

import pytest
import redis

from ackq import Queue
from ackq.cli.activity import activity, rows
from ackq.cli.connection import span
from ackq.cli.top import _count, _rate
from ackq.ops.acl import rules
from ackq.ops.discovery import QueueCounts, queue_of, rate
from ackq.ops.monitor import Monitor
from ackq.queue.messages import QueueCounters, QueueStats
from tests.cli.conftest import Run
from tests.ops.acl.conftest import has_selectors
from tests.waiting import wait_until


@pytest.fixture
def busy(plain_client: redis.Redis, name: str) -> Iterator[Queue]:
    """A queue with two ready, one in flight, one delayed, one dead."""
    with Queue(plain_client, name, visibility_timeout=600) as queue:
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
    assert shown == f"{busy.name}\t2\t1\t1\t1\t-\t-\t-\t-\t-\t"


def test_a_bare_list_is_only_counted_when_it_is_named_and_gets_no_time(
    ackq: Run, name: str, plain_client: redis.Redis
) -> None:
    plain_client.lpush(name, "a", "b")
    assert name not in ackq("top").output
    row = json.loads(ackq("top", name, "--json").output)
    assert (row["ready"], row["lease_ends_in"], row["next_event_in"]) == (2, None, None)


def test_what_only_looks_like_a_queue_is_passed_over(
    ackq: Run, name: str, plain_client: redis.Redis
) -> None:
    plain_client.set(f"{name}BACKUP", "text")
    plain_client.zadd(f"{name}*BACKUP", {"x": 1})
    assert name not in ackq("top").output
    assert "BACKUP" in ackq("top", name, code=3).stderr


def test_a_look_searches_a_bounded_number_of_keys_and_the_next_goes_on(
    plain_client: redis.Redis, busy: Queue, name: str
) -> None:
    pipe = plain_client.pipeline()
    for number in range(5000):
        pipe.set(f"{name}:{number}", "")
    pipe.execute()

    def scans() -> int:
        return int(plain_client.info("commandstats").get("cmdstat_scan", {}).get("calls", 0))

    before = scans()
    with Monitor(plain_client, steps=10) as monitor:
        assert name in monitor.sample().queues
    assert 5 <= scans() - before <= 10
    before, looks = scans(), 0
    with Monitor(plain_client, steps=1) as monitor:
        while name not in monitor.sample().queues:
            looks += 1
            assert looks < 20
    assert scans() - before == looks + 1


def test_an_expired_lease_is_shown_as_past(plain_client: redis.Redis, name: str) -> None:
    with Queue(plain_client, name) as queue, Monitor(plain_client, [name]) as monitor:
        queue.push({"id": "a"})
        queue.pop(visibility_timeout=0.01)

        def ended() -> QueueStats | None:
            stats = monitor.sample().queues[name].stats
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


def test_numbers_are_short() -> None:
    assert [span(each) for each in (0.4, 99, 121, 7320)] == ["0 s", "99 s", "2 min", "2 h"]
    assert [_count(each) for each in (0, 999_999, 12_345_678)] == ["0", "999,999", "12.35M"]
    rates = [_rate(each) for each in (None, 0, 0.25, 12.5, 9999, 12_345)]
    assert rates == ["-", "0", "0.2", "12", "9,999", "12.3k"]


# --- rates and ages -----------------------------------------------------------------


def test_rates_are_what_happened_between_two_looks(plain_client: redis.Redis, name: str) -> None:
    with (
        Queue(plain_client, name, visibility_timeout=30) as queue,
        Monitor(plain_client, [name], window=60) as monitor,
    ):
        queue.push_many([{"n": number} for number in range(10)])
        queue.pop(visibility_timeout=0.001)
        first = monitor.sample().queues[name]
        queue.push_many([{"n": number} for number in range(5)])
        wait_until(lambda: queue.stats().expired, "the lease to end")
        done = queue.pop_many(4)
        queue.ack(*done[:2])
        queue.reject(done[2])
        second = monitor.sample().queues[name]
    assert first.counters is not None
    assert second.counters is not None
    seconds = second.counters.at - first.counters.at
    found = activity(second, first)
    assert found.pushed_per_second == pytest.approx(5 / seconds)
    assert found.taken_per_second == pytest.approx(4 / seconds)
    assert found.acked_per_second == pytest.approx(2 / seconds)
    assert found.returned_per_second == pytest.approx(1 / seconds)
    assert found.oldest_lease_age == pytest.approx(0, abs=5)
    assert found.dead == 1
    assert activity(second, None).taken_per_second is None


def test_counts_that_began_anew_are_not_compared() -> None:
    now, before = looked(since=2.0, taken=5), looked(since=1.0, taken=100)
    assert activity(now, before).taken_per_second is None
    assert activity(now, looked(since=2.0, taken=1, at=9.0)).taken_per_second == 4


def test_nothing_is_said_of_pushes_where_messages_were_dropped() -> None:
    found = activity(looked(ready=1), looked(ready=5, at=9.0))
    assert (found.pushed_per_second, found.acked_per_second) == (None, 0)


@pytest.mark.parametrize(
    ("left", "timeouts", "age", "overdue"),
    [
        (20.0, {30: 1}, 10.0, None),
        (30.05, {30: 1}, 0.0, None),  # jitter
        (20.0, {30: 1, 60: 1}, None, None),
        (20.0, {}, None, None),
        (20.0, {0: 1}, None, None),
        (600.0, {30: 1}, None, None),  # a lease from before
        (-5.0, {30: 1}, None, 5.0),
        (None, {30: 1}, None, None),
    ],
)
def test_a_lease_is_as_old_as_the_only_timeout_says(
    left: float | None, timeouts: dict[int, int], age: float | None, overdue: float | None
) -> None:
    found = activity(looked(left=left, timeouts=timeouts), None)
    assert (found.oldest_lease_age, found.overdue) == (age, overdue)


def looked(
    *, ready: int = 0, left: float | None = None, at: float = 10.0, since: float = 2.0,
    taken: int = 0, timeouts: dict[int, int] | None = None,
) -> QueueCounts:  # fmt: skip
    return QueueCounts(
        QueueStats(ready, 0, 0, 0, 0, 0, False, None, left),
        QueueCounters(at, since, ready, taken, 0, 0, timeouts=timeouts or {}),
    )


def test_the_shards_of_a_queue_are_one_row() -> None:
    names = ["{jobs:0}", "{jobs:1}", "{other:0}", "jobs"]
    found = rows({name: activity(looked(ready=2), looked(ready=1, at=9.0)) for name in names})
    assert list(found) == ["jobs", "jobs (2 shards)", "{other:0}"]
    assert found["jobs (2 shards)"].ready == 4
    assert found["jobs (2 shards)"].pushed_per_second == 2
    assert found["jobs (2 shards)"].oldest_lease_age is None


@pytest.mark.parametrize("role", ["monitor", "watcher"])
def test_a_queue_is_watched_with_the_rights_of_its_role(
    plain_client: redis.Redis, busy: Queue, role: str
) -> None:
    user = f"{busy.name}-{role}"
    selectors = has_selectors(plain_client)
    words = [*rules(busy.name, role, selectors=selectors), ">secret"]
    plain_client.execute_command("ACL", "SETUSER", user, *words)
    try:
        settings = plain_client.connection_pool.connection_kwargs
        place = {key: settings[key] for key in ("host", "port", "path") if key in settings}
        with (
            redis.Redis(**place, username=user, password="secret") as client,
            Monitor(client, [busy.name], window=60) as monitor,
        ):
            watched = monitor.sample().queues[busy.name]
    finally:
        plain_client.acl_deluser(user)
    assert watched.stats.ready == 2
    assert (watched.counters is not None) == (role == "watcher")
    assert plain_client.exists(f"{busy.name}COUNTERS") == (role == "watcher")


@pytest.mark.parametrize("role", ["monitor", "watcher"])
def test_a_user_who_may_not_search_is_asked_to_name_queues(
    ackq: Run, plain_client: redis.Redis, url: str, busy: Queue, role: str
) -> None:
    user = f"{busy.name}-{role}"
    selectors = has_selectors(plain_client)
    words = [*rules(busy.name, role, selectors=selectors), ">secret"]
    plain_client.execute_command("ACL", "SETUSER", user, *words)
    try:
        as_user = url.replace("://", f"://{user}:secret@")
        assert "name the queues" in ackq("top", "--url", as_user, code=3).stderr
        assert ackq("top", busy.name, "--url", as_user).output.startswith(busy.name)
    finally:
        plain_client.acl_deluser(user)


def test_two_looks_apart_give_rates_and_one_leaves_nothing(
    ackq: Run, busy: Queue, plain_client: redis.Redis
) -> None:
    ackq("top", busy.name, "--once")
    assert not plain_client.exists(f"{busy.name}COUNTERS")
    row = json.loads(ackq("top", busy.name, "--json", "--every", "0.1").output)
    assert row["acked_per_second"] == 0
    assert 0 < plain_client.pttl(f"{busy.name}COUNTERS") < 10_000


def test_a_pipe_gets_whole_numbers(ackq: Run, url: str, name: str) -> None:
    with Queue.from_url(url, name) as queue:
        queue.push_many([{"id": number} for number in range(1234)])
        queue.pop()
    assert ackq("top", name, "--once").output.split("\t")[:4] == [name, "1233", "1", "0"]


@pytest.mark.parametrize("key", [b"q", b"Q", None], ids=str)
@pytest.mark.parametrize("terminal", ["xterm-256color", "dumb"])
def test_in_a_terminal_it_goes_on_until_q_or_ctrl_c(
    busy: Queue, url: str, terminal: str, key: bytes | None
) -> None:
    parent, child = pty.openpty()
    before = termios.tcgetattr(child)
    code = "from ackq.cli import main; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", code, "top", "--every", "0.1", "--url", url],
        stdin=child, stdout=child, stderr=child,
        env={**os.environ, "COLUMNS": "120", "LINES": "40", "TERM": terminal},
    )  # fmt: skip
    shown = b""

    def seen(*words: bytes) -> bool:
        nonlocal shown
        shown += os.read(parent, 65536)
        return all(word in shown for word in words)

    try:
        wait_until(lambda: seen(busy.name.encode(), b"commands/s"), "two looks", 20)
        if key is None:
            process.send_signal(signal.SIGINT)
        else:
            os.write(parent, b"x" + key)
        assert process.wait(10) == 0
        assert (b"\x1b" in shown) == (terminal != "dumb")
        assert termios.tcgetattr(child) == before
    finally:
        process.kill()
        process.wait()
        os.close(child)
        os.close(parent)
