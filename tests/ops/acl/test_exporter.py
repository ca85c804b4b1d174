"""The exporter of a named queue needs no more than a role that reads."""

import re
from pathlib import Path
from typing import Any

import pytest
import redis
from redis.exceptions import NoPermissionError

from ackq import Groups, Queue
from ackq.metrics import Collector
from ackq.metrics.exporter import Exporter
from ackq.ops.chronicle.store import history_key
from ackq.ops.overview import Overview
from ackq.queue.claims_client import Claims
from tests.metrics.test_collector import parsed, scrape, value
from tests.metrics.test_exporter import backlog, get
from tests.ops.acl.conftest import AsRole, denied, has_selectors
from tests.waiting import wait_until

PAGE = Path(__file__).parents[3] / "docs" / "metrics.md"


@pytest.mark.parametrize("role", ["monitor", "watcher"])
def test_the_exporter_runs_as_a_role_that_reads(
    as_role: AsRole, admin: redis.Redis, stocked: Queue, name: str, role: str
) -> None:
    before = {key: admin.dump(key) for key in admin.scan_iter(f"{name}*")}
    with Exporter(as_role(role, name), [name]) as exporter:
        samples = parsed(get(exporter.address, "/metrics")[2].decode())
        assert backlog(exporter, name) == 6
    labels = {"queue": name, "kind": "list"}
    assert value(samples, "ackq_messages", state="ready", **labels) == 5
    assert value(samples, "ackq_messages", state="dead", **labels) == 2
    assert value(samples, "ackq_workers", **labels) == 0
    # A role that only counts reads no message, and so no time.
    assert not [metric for metric, _ in samples if metric == "ackq_oldest_ready_seconds"]
    counted = ("ackq_taken_total", frozenset(labels.items())) in samples
    assert counted == (role == "watcher")
    after = {key: admin.dump(key) for key in admin.scan_iter(f"{name}*")}
    after.pop(f"{name}COUNTERS".encode(), None)
    # It also keeps what happened in this minute.
    assert (after.pop(history_key("list", name), None) is not None) == (role == "watcher")
    assert after == before


@pytest.mark.parametrize("role", ["monitor", "watcher", "viewer", "operator"])
def test_a_queue_with_groups_is_read_by_each_role_and_a_denial_is_not_repeated(
    as_role: AsRole, admin: redis.Redis, name: str, role: str
) -> None:
    with (
        Queue(admin, name, groups=Groups("of")) as queue,
        Overview(as_role(role, name, grouped=True), [name], window=None) as overview,
    ):
        queue.push_many([{"id": "a"}, {"id": "b"}], group="x")
        assert [len(queue.pop_many(1)) for _ in range(2)] == [1, 0]
        for _ in range(2):
            (reading,) = overview.read().queues
            assert reading.states["ready"] == 1
            assert reading.groups is not None
            assert (reading.groups.moved_aside, reading.groups.in_flight) == (1, 1)
            admin.acl_log_reset()
        overview.read()
        assert not [key for key in denied(admin, f"{name}-{role}") if key.endswith("HELD")]
        queue.purge()


def test_a_user_that_may_not_read_messages_is_denied_once(
    as_role: AsRole, admin: redis.Redis, stocked: Queue, name: str
) -> None:
    with Exporter(as_role("watcher", name), [name]) as exporter:
        admin.acl_log_reset()
        for _ in range(3):
            get(exporter.address, "/metrics")
        log: Any = admin.acl_log()  # the first reading was before
        assert not [each for each in log if "lua" in str(each["context"])]


@pytest.mark.parametrize(
    ("role", "together"), [("viewer", True), ("operator", True), ("watcher", False)]
)
def test_roles_that_see_all_figures_read_several_queues_in_one_call(
    as_role: AsRole, stocked: Queue, name: str, role: str, together: bool
) -> None:
    with Overview(as_role(role, name), [name], window=60) as overview:
        found = []
        for _ in range(2):
            (reading,) = overview.read().queues
            found.append(reading.states)
        (node,) = overview._nodes
        assert node.alone == (set() if together else {name})
    assert found == [{"ready": 5, "in_flight": 1, "delayed": 1, "dead": 2}] * 2


@pytest.mark.parametrize("role", ["monitor", "watcher"])
def test_with_the_selectors_of_the_documentation_ages_are_known(
    as_role: AsRole, admin: redis.Redis, name: str, role: str
) -> None:
    if not has_selectors(admin):
        pytest.skip("selectors need Redis 7")
    admin.acl_log_reset()
    shown = re.findall(r"`(\(~jobs[^`]*\))`", PAGE.read_text())
    selectors = [each.replace("~jobs", f"~{name}") for each in shown]
    assert len(selectors) == 2
    client = as_role(role, name)
    admin.execute_command("ACL", "SETUSER", f"{name}-{role}", *selectors)
    with Queue(admin, name) as queue, Exporter(client, [name]) as exporter:
        for prepare in (
            lambda: queue.push({"id": "a", "specversion": "1.0", "time": "2026-05-04T08:30:00Z"}),
            lambda: queue.nack(*queue.pop_many(1), delay=0),  # due
            lambda: queue.pop(visibility_timeout=0.001),  # its lease ends
        ):
            prepare()
            wait_until(lambda: queue.stats().ready == 1, "the message to be ready")
            samples = parsed(get(exporter.address, "/metrics")[2].decode())
            assert value(samples, "ackq_oldest_ready_seconds", queue=name, kind="list") >= 0
        with Claims(admin, name, "group") as group:  # an ended claim: its messages come first
            group.begin()
            queue.push({"id": "b", "specversion": "1.0", "time": "2026-05-04T08:30:00Z"})
            group.claim(0, messages=2)
            admin.zadd(f"{name}HELD", {f"{name}CLAIM:group:1": 1})
            get(exporter.address, "/metrics")
            log: Any = admin.acl_log()
            assert not [each for each in log if "lua" in str(each["context"])]


def test_a_collection_that_is_denied_reports_a_server_that_cannot_be_read(
    as_role: AsRole, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    with Collector(as_role("watcher", name)) as collector:
        samples = scrape(collector)
    assert {number for (metric, _), number in samples.items() if metric == "ackq_up"} == {0}
    assert "scan" in caplog.text


def test_without_names_the_user_must_be_able_to_search(as_role: AsRole, name: str) -> None:
    with pytest.raises(NoPermissionError, match="scan"):
        Exporter(as_role("watcher", name))
