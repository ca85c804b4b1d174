"""Alerts to a webhook: when they begin and end, and what is sent of them."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from base64 import b64encode
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import redis

from ackq import Queue
from ackq.errors import ConfigurationError
from ackq.ops import webhook
from ackq.ops.attention.model import Key, Limits, Trouble
from ackq.ops.attention.watch import Attention
from ackq.ops.overview import Overview
from ackq.ops.webhook import REPEAT, Alert, Posts, Webhook
from tests import forked
from tests.servers import private_server
from tests.waiting import wait_until

NOON = 1_800_000_000.0


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
    trouble = seen("dead", number)
    return [Alert(trouble, True, trouble.text)]


def seen(kind: str, value: float = 1.0) -> Trouble:
    return Trouble(Key(kind, "list", "jobs"), NOON, value, f"{value:g} of {kind}")


def test_what_begins_grows_lasts_and_ends_is_posted() -> None:
    posts = Posts()

    def posted(seconds: float, *troubles: Trouble) -> list[str]:
        return [each.text for each in posts.of(troubles, NOON + seconds)]

    assert posted(0, seen("dead", 3)) == ["jobs: 3 of dead"]
    assert posted(9, seen("dead", 29), seen("oldest")) == ["jobs: 1 of oldest"]
    grown = ["jobs: 30 of dead (it was 3 when this was last posted)"]
    assert posted(9, seen("dead", 30), seen("oldest")) == grown
    assert posted(REPEAT, seen("dead", 31), seen("oldest")) == []
    assert posted(REPEAT + 9, seen("dead", 31)) == ["jobs: 31 of dead", "ended: jobs: 1 of oldest"]
    assert posted(0) == ["ended: jobs: 31 of dead"]


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
        assert [each["text"] for each in receiver.got] == ["jobs: 2 of dead"]
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
    ("answer", "problem"),
    [
        (b"SSH-2.0-OpenSSH_9.2p1\r\n", "BadStatusLine"),
        (b"\x15\x03\x03\x00\x02\x02\x28", "BadStatusLine"),
        (b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 101 + b"\r\n", "HTTPException"),
        (b"", "RemoteDisconnected"),
        (None, "no answer within 0.3 s"),  # a byte now and then
    ],
)
def test_no_answer_holds_up_or_ends_the_webhook(
    answer: bytes | None, problem: str, caplog: pytest.LogCaptureFixture, monkeypatch: Any
) -> None:
    monkeypatch.setattr(webhook, "TIMEOUT", 0.3)
    ended, requests = threading.Event(), []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                requests.append(connection.recv(65_536))
                connection.sendall(answer if answer is not None else b"H")
                while answer is None and not ended.wait(0.05):
                    connection.sendall(b"T")

        thread = threading.Thread(target=serve)
        thread.start()
        url = f"http://me:s3cret%40@127.0.0.1:{server.getsockname()[1]}/s3cret"
        hook, clock = Webhook(url, lambda: 0.0), time.monotonic()
        hook.add(report(1))
        hook.send()
        assert time.monotonic() - clock < 5
        ended.set()
        thread.join()
    assert hook.wait() == 1.0
    assert [each.message.rpartition(": ")[2] for each in caplog.records] == [problem]
    assert b"Authorization: Basic " + b64encode(b"me:s3cret@") in requests[0]
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
    limits = ("unreadable=0.2", "not_taken=0.3", "calm=0.3")
    options = ["jobs", "--every", "0.1", *(f"--limit={each}" for each in limits)]
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

            def posted() -> list[tuple[str, str]]:
                found = [each for one in receiver.got for each in one["alerts"]]
                return [(each["alert"], each["status"]) for each in found]

            queue.push_many([{"id": "a"}, {"id": "b"}])
            wait_until(lambda: ("no_worker", "firing") in posted(), "the alert of no worker")
            queue.reject(*queue.pop_many(1))
            wait_until(lambda: ("dead", "firing") in posted(), "the alert of a dead letter")
            server.kill()
            wait_until(lambda: ("unreadable", "firing") in posted(), "the alert of the outage")
            server.start()
            wait_until(lambda: ("unreadable", "resolved") in posted(), "the end of the outage")
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=30)
        assert process.returncode == 0
        assert "status 503" in errors
        assert "s3cret" not in errors


def test_a_real_reading_has_what_troubles_need(plain_client: redis.Redis, name: str) -> None:
    with (
        Queue(plain_client, name) as queue,
        Attention(plain_client, Limits(calm=0)) as attention,
        Overview(plain_client, [name], window=60.0) as overview,
    ):

        def seen() -> set[str]:
            return {each.key.kind for each in attention.look(overview.read())}

        queue.push({"id": "a", "specversion": "1.0", "time": "2020-01-01T00:00:00Z"})
        assert seen() == {"oldest"}
        queue.reject(*queue.pop_many(1))
        assert seen() == {"dead"}
