"""Alerts to a webhook: when they begin and end, and what is sent of them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import redis

from ackq import Queue
from ackq.errors import ConfigurationError
from ackq.ops import webhook
from ackq.ops.alerts import REPEAT, WINDOW, Alert, Alerts, Key, Rules
from ackq.ops.overview import Overview, Server, Snapshot
from ackq.ops.readings import Reading, Totals
from ackq.ops.webhook import Webhook
from tests import forked
from tests.servers import private_server
from tests.waiting import wait_until

UP = Server("redis:6379", True)
NOON = 1_800_000_000.0


def reading(name: str = "jobs", dead: int = 0, taken: int = 0, **figures: Any) -> Reading:
    totals = Totals(NOON, {"taken": taken}, {"rejected": dead})
    return Reading("list", name, **{"backlog": 0, "totals": totals, "workers": 1, **figures})


def snapshot(*queues: Reading, up: bool = True) -> Snapshot:
    return Snapshot((replace(UP, up=up),), queues, True, 0)


def told(alerts: Alerts, seconds: float, *queues: Reading, up: bool = True) -> list[str]:
    found = alerts.look(snapshot(*queues, up=up), NOON + seconds)
    return [f"{each.key.alert} {'begins' if each.firing else 'ends'}" for each in found]


def test_new_dead_letters_begin_an_alert_that_ends_when_there_are_no_more() -> None:
    alerts = Alerts(Rules(dead=3))
    assert told(alerts, 0, reading(dead=500)) == []  # they are old
    assert told(alerts, 30, reading(dead=502)) == []
    assert told(alerts, 60, reading(dead=503)) == ["dead begins"]
    assert told(alerts, 90, reading(dead=600)) == []
    assert told(alerts, 90 + WINDOW - 1, reading(dead=600)) == []
    assert told(alerts, 90 + WINDOW, reading(dead=600)) == ["dead ends"]
    restarted = replace(reading(), totals=Totals(NOON + 5000, {}, {"rejected": 4}))
    assert told(alerts, 5010, restarted) == ["dead begins"]


def test_without_totals_the_dead_letters_themselves_count() -> None:
    alerts = Alerts(Rules())
    for seconds, dead, expected in ((0, 5, []), (1, 6, ["dead begins"]), (2, 0, []), (3, 1, [])):
        queue = reading(totals=None, states={"dead": dead})
        assert told(alerts, seconds, queue) == expected


def test_the_age_of_the_oldest_message() -> None:
    alerts = Alerts(Rules(oldest=60))
    assert told(alerts, 0, reading(oldest_ready=59.0)) == []
    assert told(alerts, 1, reading(oldest_ready=60.0)) == ["oldest begins"]
    assert told(alerts, 1 + REPEAT, reading(oldest_ready=99.0)) == ["oldest begins"]
    assert told(alerts, 2 + REPEAT, reading(oldest_ready=99.0, paused=True)) == ["oldest ends"]
    assert told(alerts, 3 + REPEAT, reading(oldest_ready=None)) == []


def test_a_queue_without_a_worker_from_which_nobody_takes() -> None:
    alerts = Alerts(Rules(no_worker=60))
    starved: dict[str, Any] = {"backlog": 7, "workers": 0}
    assert told(alerts, 0, reading(**starved)) == []
    assert told(alerts, 59, reading(**starved)) == []
    assert told(alerts, 60, reading(**starved)) == ["no_worker begins"]
    assert told(alerts, 90, reading(**starved, taken=1)) == ["no_worker ends"]
    assert told(alerts, 149, reading(**starved, taken=1)) == []
    others: list[dict[str, Any]] = [
        {"backlog": 7, "workers": 1},
        {"backlog": 0, "workers": 0},
        {"backlog": 7},
    ]
    for quiet in others:
        assert told(alerts, 1000, reading(**quiet)) == []
    assert told(alerts, 2000, reading(backlog=7, workers=None)) == []


def test_while_a_server_is_away_other_alerts_neither_begin_nor_end() -> None:
    alerts = Alerts(Rules(unreadable=60))
    assert told(alerts, 0, reading(oldest_ready=700.0)) == ["oldest begins"]
    assert told(alerts, 30, up=False) == []
    assert told(alerts, 90, up=False) == ["unreadable begins"]
    assert told(alerts, 120, reading(oldest_ready=700.0)) == ["unreadable ends"]
    assert told(alerts, 150) == ["oldest ends"]  # the queue is gone


def test_rules_that_are_off_alert_of_nothing() -> None:
    alerts = Alerts(Rules(None, None, None, None))
    for seconds in (0, 1e6):
        queue = reading(dead=int(seconds), backlog=1, workers=0, oldest_ready=1e6)
        assert told(alerts, seconds, queue) == []
        assert told(alerts, seconds, up=False) == []


class Receiver:
    """A webhook that answers with these statuses, then 200."""

    def __init__(self, *statuses: int) -> None:
        self.statuses = list(statuses)
        self.got: list[Any] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                status = receiver.statuses.pop(0) if receiver.statuses else 200
                if status == 200:
                    receiver.got.append(body)
                self.send_response(status)
                self.send_header("location", "/elsewhere")
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *args: Any) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook/s3cret"
        self._thread = threading.Thread(target=self.server.serve_forever, args=(0.02,))

    def __enter__(self) -> Receiver:
        self._thread.start()
        return self

    def __exit__(self, *args: object) -> None:
        self.server.shutdown()
        self._thread.join()
        self.server.server_close()


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def report(number: int) -> list[Alert]:
    return [Alert(Key("dead", "list", "jobs"), True, number, NOON, f"{number} new dead letters")]


def test_a_report_is_sent_until_it_is_taken_and_in_order(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = Clock()
    with Receiver(500, 429, 302) as receiver:
        hook = Webhook(receiver.url, clock)
        assert hook.wait() is None
        for number in (1, 2):
            hook.add(report(number))
        waits = []
        for _ in range(2):
            hook.send()
            assert receiver.got == []
            waits.append(hook.wait())
            hook.send()  # not before it is time
            clock.now += waits[-1] or 0
        assert waits == [1.0, 2.0]
        hook.send()  # the redirection is not followed, and ends the first report
        assert [each["text"] for each in receiver.got] == ["2 new dead letters"]
        assert hook.wait() is None
    (alert,) = receiver.got[0]["alerts"]
    assert (alert["status"], alert["queue"], alert["value"]) == ("firing", "jobs", 2)
    assert alert["since"] == "2027-01-15T08:00:00+00:00"
    logged = [each.message.rpartition(": ")[2] for each in caplog.records]
    assert logged == ["status 500", "status 302", "the webhook works again"]
    assert "s3cret" not in caplog.text


def test_what_nobody_takes_is_given_up_in_the_end(
    free_port: int, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhook, "MAX_WAITING", 3)
    clock = Clock()
    hook = Webhook(f"http://127.0.0.1:{free_port}/s3cret", clock)
    for number in range(5):
        hook.add(report(number))
    attempts = 0
    while (wait := hook.wait()) is not None:
        clock.now += wait
        hook.send()
        attempts += 1
    assert 300 < attempts < 500  # once a minute for six hours
    assert sum("given up" in each.message for each in caplog.records) == 5
    assert "ConnectionRefusedError" in caplog.text
    assert "s3cret" not in caplog.text


@pytest.mark.parametrize(
    "url", ["", "hook", "ftp://a/b", "file:///etc/passwd", "http://", "http://a b/"]
)
def test_what_is_no_webhook_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError, match="a webhook is a URL"):
        Webhook(url, Clock())


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver(503) as receiver:
        yield receiver


def test_the_command_posts_what_happens(tmp_path: Path, receiver: Receiver) -> None:
    program = [sys.executable, "-P", "-c", "from ackq.cli import main; main()", "notify"]
    options = ["jobs", "--every", "0.1", "--unreadable", "0.2", "--no-worker", "0.3"]
    with private_server(tmp_path) as server, redis.Redis.from_url(server.url) as client:
        environment = {**os.environ, "ACKQ_WEBHOOK": receiver.url, "ACKQ_REDIS_URL": server.url}
        with (
            Queue(client, "jobs") as queue,
            forked.Popen(
                [*program, *options],
                env=environment,
                text=True,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            ) as process,
        ):
            assert process.stdout is not None
            assert process.stdout.readline().startswith("watching")

            def seen() -> list[tuple[str, str]]:
                found = [each for one in receiver.got for each in one["alerts"]]
                return [(each["alert"], each["status"]) for each in found]

            queue.push_many([{"id": "a"}, {"id": "b"}])
            wait_until(lambda: ("no_worker", "firing") in seen(), "the alert of no worker")
            queue.reject(*queue.pop_many(1))
            wait_until(lambda: ("dead", "firing") in seen(), "the alert of a dead letter")
            server.kill()
            wait_until(lambda: ("unreadable", "firing") in seen(), "the alert of the outage")
            server.start()
            wait_until(lambda: ("unreadable", "resolved") in seen(), "the end of the outage")
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=30)
        assert process.returncode == 0
        assert "status 503" in errors
        assert "s3cret" not in errors


def test_a_real_reading_has_what_alerts_need(plain_client: redis.Redis, name: str) -> None:
    alerts = Alerts(Rules())
    with (
        Queue(plain_client, name) as queue,
        Overview(plain_client, [name], window=60.0) as overview,
    ):
        queue.push({"id": "a", "specversion": "1.0", "time": "2020-01-01T00:00:00Z"})
        (alert,) = alerts.look(overview.read(), NOON)
        assert alert.key == Key("oldest", "list", name)
        queue.reject(*queue.pop_many(1))
        found = alerts.look(overview.read(), NOON + 1)
        assert {(each.key.alert, each.firing) for each in found} == {
            ("dead", True),
            ("oldest", False),
        }
