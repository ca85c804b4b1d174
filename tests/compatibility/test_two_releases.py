"""The previous release and this one work on one queue, as during a deployment."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from ackq import Queue
from tests.faults.checker import check
from tests.faults.roles import LEASE, Consumer, Log, consume, produce, read_log
from tests.waiting import wait_until

from .conftest import Release
from .handover import leave, take_over

#: Messages that each release must have taken from the other, and redeliveries between them.
ENOUGH = 20


@pytest.fixture
def url(plain_client: redis.Redis) -> str:
    return "redis://{host}:{port}".format(**plain_client.connection_pool.connection_kwargs)


@pytest.mark.parametrize("upgrade", [True, False], ids=["upgrade", "rollback"])
def test_a_release_finishes_what_the_other_left(
    previous: Release, current: Release, upgrade: bool, url: str, name: str
) -> None:
    first, second = (previous, current) if upgrade else (current, previous)
    first.call(leave, url, name)
    assert second.call(take_over, url, name) == {
        "findings": [],
        "dead": [['{"id":"rejected"}', "too large"]],
        "pushed twice": "unique",
        "deliveries": {
            '{"id":"expired"}': 2,
            '{"id":"extended"}': 2,
            '{"id":"nacked"}': 2,
            '{"id":"released"}': 1,
            '{"id":"rejected"}': 1,
            '{"id":"delayed"}': 1,
            '{"id":"unique"}': 1,
            "not json": 1,
            '{"id":"staged"}': 1,
        },
        "committed": 1,
        "epoch": 2,
        "claims": [[1, 2]],
        "claimed": ['{"id":"claimed-1"}', '{"id":"claimed-2"}'],
        "acked": 2,
        "delay": {"leased": 2, "later": 1},
        "read": [2, 3],
        "mail": {"one": 2, "two": 1},
    }


def test_both_work_on_one_queue_at_the_same_time(
    previous: Release, current: Release, url: str, name: str, tmp_path: Path
) -> None:
    log, enough, done = (tmp_path / each for each in ("events", "enough", "done"))
    with contextlib.ExitStack() as stack:
        processes = [
            (release, stack.enter_context(ended(release.start(role, url, name, log, *rest))))
            for release in (previous, current)
            for role, rest in (
                (produce, (release.name, enough)),
                (consume, (release.name, done, 3)),
            )
        ]
        wait_until(lambda: mixed(log), "messages to pass between the releases", timeout=40)
        enough.touch()
        for release, process in processes[::2]:
            release.result(process)
        done.touch()
        for release, process in processes[1::2]:
            release.result(process)
    with Queue.from_url(url, name, visibility_timeout=LEASE) as queue:
        drain(queue, log)
        assert queue.audit().findings == ()
    verdict = check(read_log(log), LEASE)
    assert verdict.problems == []
    assert verdict.refused > 0, "no settle came too late: fencing was not tried"


@contextlib.contextmanager
def ended(process: subprocess.Popen[str]) -> Iterator[subprocess.Popen[str]]:
    """End the process, however the test ends."""
    with process:
        try:
            yield process
        finally:
            process.kill()


def mixed(log: Path) -> bool:
    """Whether each release has taken enough of the other's messages, and its redeliveries."""
    taken = [each for each in read_log(log) if each["kind"] == "deliver"]
    by = {each["token"]: each["token"].partition(".")[0] for each in taken}
    pushed = [(each["id"].partition("-")[0], by[each["token"]]) for each in taken]
    last: dict[str, str] = {}
    handed = []
    for each in taken:
        handed.append((last.get(each["id"]), by[each["token"]]))
        last[each["id"]] = by[each["token"]]
    pairs = [("previous", "current"), ("current", "previous")]
    late = any(each.get("state") == "refused" for each in read_log(log))
    return late and all(pushed.count(each) >= ENOUGH and each in handed for each in pairs)


def drain(queue: Queue, log: Path) -> None:
    """Take and ack all that is left, as one more consumer."""
    consumer = Consumer(queue, Log(log), "last")

    def empty() -> bool:
        consumer.finish()
        stats = queue.stats()
        return stats.ready == stats.in_flight == stats.delayed == 0

    wait_until(empty, "every message to be settled", timeout=30)
