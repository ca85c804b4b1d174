"""Every surface shows the same troubles: page, API, commands, posts, metrics and doctor."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import redis
from click.testing import CliRunner
from starlette.testclient import TestClient

from ackq import Groups, Queue
from ackq.cli import main
from ackq.core.io.driver import Driver
from ackq.core.io.routes import SingleRoute
from ackq.metrics import Collector
from ackq.ops import operation_log
from ackq.ops.attention.model import KINDS
from ackq.ops.attention.watch import Attention
from ackq.ops.chronicle import store
from ackq.ops.chronicle.minutes import Minute, encoded
from ackq.ops.chronicle.recorder import Recorder
from ackq.ops.operation_log import OperationLog
from ackq.ops.overview import Overview
from ackq.ops.webhook import Posts
from ackq.queue.claims_client import Claims
from ackq.web.application import application
from tests.listed import list_worker
from tests.servers import private_server
from tests.waiting import wait_until

LIMITS = "not_taken=0.4 busy=0.5 paused=0.3 schedule=0.3 unreadable=0.001 calm=0"
#: What is staged: the queue and its trouble. Those of the server follow.
STAGED = {
    ("fails", "all_fail"),
    ("crashing", "crashes"),
    ("unserved", "no_worker"),
    ("stuck", "not_taken"),
    ("claimed", "pipeline"),
    ("old", "oldest"),
    ("dies", "dead"),
    ("stops", "stopped"),
    ("ticks", "schedule"),
    ("paused", "paused"),
    ("cut", "interrupted"),
    ("grows", "grows"),
}


class Surfaces:
    """All that show troubles, over one server."""

    def __init__(self, client: redis.Redis, url: str, stack: ExitStack) -> None:
        self.url = url
        app = TestClient(application(client), base_url="http://localhost")
        self.http = stack.enter_context(app)
        self.collector = stack.enter_context(Collector(client))
        self.attention = stack.enter_context(Attention(client))
        self.overview = stack.enter_context(Overview(client, window=60.0))
        self.posts: set[tuple[str, str]] = set()
        self.posting = Posts()

    def command(self, *args: str) -> list[Any]:
        result = CliRunner().invoke(main, [*args, "--json"], catch_exceptions=False)
        return [json.loads(line) for line in result.stdout.splitlines()]

    def seen(self) -> Iterator[tuple[str, set[tuple[str, str]]]]:
        for alert in self.posting.of(self.attention.look(self.overview.read()), time.time()):
            change = self.posts.add if alert.firing else self.posts.discard
            change((alert.trouble.key.queue, alert.trouble.key.kind))
        yield "posts", self.posts
        found = self.http.get("/api/v1/attention").json()["troubles"]
        yield "api", {(each["queue"], each["kind"]) for each in found}
        page = self.http.get("/").text
        values = re.findall(r'data-value="evidence\.(\w+)\.\w*\.(\w*)"', page)
        yield "page", {(queue, kind) for kind, queue in values}
        (family,) = (each for each in self.collector.collect() if each.name == "ackq_trouble")
        yield "metric", {(one.labels["queue"], one.labels["kind"]) for one in family.samples}
        listed = self.command("attention", "--watch", "0.1")
        yield "attention", {(each["queue"], each["kind"]) for each in listed}

    def of_queues(self) -> Iterator[tuple[str, set[tuple[str, str]]]]:
        """Yield what surfaces show that have no place for a server's troubles."""
        answers = self.http.get("/api/v1/queues").json()["queues"]
        yield "queues", {(one["name"], kind) for one in answers for kind in one["troubles"]}
        rows = self.command("top", "--once", "--every", "0.1")
        yield "top", {(one["queue"], kind) for one in rows for kind in one["troubles"]}


def stage(client: redis.Redis, stack: ExitStack) -> None:
    def opened(name: str, **settings: Any) -> Queue:
        return stack.enter_context(Queue(client, name, **settings))

    fails, dies = opened("fails"), opened("dies")
    for queue in (fails, dies, *map(opened, ("unserved", "stuck", "claimed", "old", "paused"))):
        queue.push_many([{"id": "1"}, {"id": "2"}])
        queue.nack(*queue.pop_many(1), delay=0)
    stops = opened("stops", groups=Groups("customer", on_dead="stop"))
    stops.push({"id": "1", "customer": "c"})
    with Overview(client, window=60.0) as overview, Recorder(client) as recorder:
        recorder.note(overview.read())  # what is recorded before it begins
    for _ in range(10):
        fails.nack(*fails.pop_many(2), delay=0)
    dies.reject(*dies.pop_many(1), reason="no good")
    stops.reject(*stops.pop_many(1), reason="no good")
    created = {"id": "1", "specversion": "1.0", "time": "2020-01-01T00:00:00Z"}
    stack.enter_context(Queue(client, "old")).purge()
    opened("old").push(created)
    opened("paused").pause()
    opened("ticks").schedules.put("nightly", {"n": 1}, every=1)
    claims = stack.enter_context(Claims(client, "claimed", "query"))
    claims.begin()
    claims.claim(1, messages=1)
    cut = opened("cut")
    cut.push({"id": "1"})
    log = stack.enter_context(OperationLog(client))
    log.begin("somebody", "Redrive 3 dead letters", "list", "cut", "redrive")
    for queue, workers in ((opened("stuck"), 1), (opened("crashing"), 3), (opened("grows"), 1)):
        age = {"interval": 20.0, "age": 500.0} if workers == 1 else {"interval": 0.01, "age": 1.0}
        for number in range(workers):
            list_worker(queue, f"w{number}", [("killer", 0.5)], lifetime=60.0, **age)
    crashing = opened("crashing")
    crashing.push({"id": "killer"})
    ended = ChildProcessError("ended its process, exit code 9")
    crashing.nack(*crashing.pop_many(1), delay=600, error=ended)
    for queue in (cut, opened("grows")):
        queue.push_many([{"id": f"more {number}"} for number in range(120)])
        queue.pop()
    now = int(time.time())
    rows = [
        Minute(now - 960 + 60 * n, 60, 10 * n, (10 * n, 0, 0, 0), counts={"taken": 1})
        for n in range(12)
    ]
    hours = {b"h%d" % (row.at // 3600): b"" for row in rows}
    for row in rows:
        hours[b"h%d" % (row.at // 3600)] += encoded(row) + b"\n"
    Driver(SingleRoute(client)).run(
        store.update(store.history_key("list", "grows"), "token", [], lambda _: hours)
    )
    client.config_set("maxmemory", int(client.info()["used_memory"] * 0.7))


def test_every_surface_shows_every_trouble(
    tmp_path: Path, eager: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operation_log, "FIRST_DUE", 0)
    monkeypatch.setattr("ackq.ops.attention.watch.DETAILS_EVERY", 0)
    monkeypatch.setenv("ACKQ_LIMITS", LIMITS)
    with (
        private_server(tmp_path) as server,
        redis.Redis.from_url(server.url) as client,
        ExitStack() as stack,
    ):
        monkeypatch.setenv("ACKQ_REDIS_URL", server.url)
        stage(client, stack)
        surfaces = Surfaces(client, server.url, stack)

        def all_show(shown: Iterator[tuple[str, set[tuple[str, str]]]], staged: Any) -> bool:
            left = {name: staged - each for name, each in shown if staged - each}
            print(left)  # for a failure
            return not left

        expected = STAGED | {("", "full")}
        wait_until(lambda: all_show(surfaces.seen(), expected), "all troubles on all surfaces")
        wait_until(lambda: all_show(surfaces.of_queues(), STAGED), "those of queues on others")
        (finding,) = (
            each for each in surfaces.command("doctor")[0]["findings"] if each["check"] == "memory"
        )
        assert finding["verdict"] == "problem"
        (crash,) = (each for each in surfaces.command("attention") if each["kind"] == "crashes")
        killer = "message 'killer' was in 3 of them and ended its process, exit code 9"
        assert crash["evidence"].endswith(killer)
        shown = dict(surfaces.seen())
        assert all(each == shown["api"] for each in shown.values()), shown
        assert {kind for _, kind in shown["api"]} >= {kind for _, kind in expected}
        server.kill()
        down = ("", "unreadable")
        wait_until(lambda: all_show(surfaces.seen(), {down}), "the outage on all surfaces")
        assert CliRunner().invoke(main, ["attention"]).exit_code == 1
    assert {kind for _, kind in expected} | {"unreadable"} <= KINDS.keys()
