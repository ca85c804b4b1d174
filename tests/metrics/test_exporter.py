"""The exporter answers scrapers and scalers truly, or with an error that stops them."""

import contextlib
import gzip
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import quote

import pytest
import redis
from redis.cluster import RedisCluster

from ackq import Queue
from ackq.core.io import http as http_module
from ackq.core.io.http import Answer, HttpServer
from ackq.delay import DelayQueue
from ackq.embedded import Server
from ackq.errors import ConfigurationError
from ackq.metrics import collector as collector_module
from ackq.metrics import exporter as exporter_module
from ackq.metrics.exporter import Exporter
from ackq.topic import Topic
from tests import forked
from tests.cli.conftest import ackq  # noqa: F401 - a fixture
from tests.kinds.stock import all_stocks
from tests.metrics.test_collector import parsed, value
from tests.servers import Client, Target
from tests.servers.private import private_server
from tests.waiting import wait_until

#: ``get(path, **headers)``: the status, the headers and the body.
Get = Callable[..., tuple[int, http.client.HTTPMessage, bytes]]


@pytest.fixture
def client(target: Target) -> Iterator[Client]:
    with contextlib.closing(target.make_client()) as made:
        yield made


def get(address: tuple[str, int], path: str, method: str = "GET", **headers: str) -> Any:
    return get_within(20, address, path, method, headers)


def get_within(
    seconds: float,
    address: tuple[str, int],
    path: str,
    method: str = "GET",
    headers: Mapping[str, str] = MappingProxyType({}),
) -> Any:
    with contextlib.closing(http.client.HTTPConnection(*address, timeout=seconds)) as connection:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read()


def backlog(exporter: Exporter, name: str, query: str = "") -> int:
    """Return the number that KEDA's metrics-api reads with valueLocation: backlog."""
    status, _, body = get(exporter.address, f"/v1/queues/{quote(name, safe='')}{query}")
    assert status == 200, body
    found: int = json.loads(body)["backlog"]
    return found


def test_metrics_and_json_tell_the_same_of_every_kind(client: Client, token: str) -> None:
    with all_stocks(client, token) as stocks, Exporter(client) as exporter:
        status, headers, body = get(exporter.address, "/metrics")
        assert (status, headers["Content-Type"]) == (
            200,
            "text/plain; version=0.0.4; charset=utf-8",
        )
        samples = parsed(body.decode())
        for stock in stocks.values():
            labels = {"queue": stock.name, "kind": stock.kind}
            assert value(samples, "ackq_backlog", **labels) == stock.backlog
            assert backlog(exporter, stock.name) == stock.backlog


def test_a_scaler_at_zero_is_woken_by_whatever_needs_a_worker(
    client: Client, name: str, target: Target
) -> None:
    """Without a worker nobody pops, so only the number can tell that there is work."""
    with Queue(client, name) as queue, Exporter(client) as exporter:
        assert backlog(exporter, name) == 0

        queue.push({"id": "expired"})
        queue.pop(visibility_timeout=0.01)  # by a worker that was killed
        assert target.control.llen(name) == 0
        wait_until(lambda: queue.stats().expired, "the lease to end")
        assert backlog(exporter, name) == 1
        queue.ack(*queue.pop_many(1))
        assert backlog(exporter, name) == 0

        queue.push({"id": "due"}, delay=0.3)
        assert backlog(exporter, name) == 0
        wait_until(lambda: backlog(exporter, name) == 1, "the message to be due")
        assert target.control.llen(name) == 0
        queue.ack(*queue.pop_many(1))
        assert backlog(exporter, name) == 0

        queue.push({"id": "handed over"})
        target.control.blmove(name, f"{name}HANDOFF", 1, "RIGHT", "LEFT")  # to one that died then
        assert target.control.llen(name) == 0
        assert backlog(exporter, name) == 1
        (message,) = queue.pop_many(1)
        assert message.id == "handed over"
        assert backlog(exporter, name) == 1  # it is being worked on
        queue.ack(message)
        assert backlog(exporter, name) == 0


def test_the_age_of_the_oldest_ready_message_is_in_both(
    plain_client: redis.Redis, name: str
) -> None:
    with (
        Queue(plain_client, name) as queue,
        Exporter(plain_client, [name], time_field="made") as exporter,
    ):
        labels = {"queue": name, "kind": "list"}
        for body, age in (
            (None, 0),
            (b'{"made":%d}' % (time.time() - 60), 60),
            (b'{"made":"yesterday"}', None),
        ):
            queue.purge()
            if body:
                queue.push(body)
            samples = parsed(get(exporter.address, "/metrics")[2].decode())
            found = samples.get(("ackq_oldest_ready_seconds", frozenset(labels.items())))
            assert found == (None if age is None else pytest.approx(age, abs=20))
            fields = json.loads(get(exporter.address, f"/v1/queues/{name}")[2])
            expected = None if age is None else pytest.approx(age, abs=20)
            assert fields.get("oldest_ready_seconds") == expected


def test_a_topic_wakes_the_consumer_that_is_behind(client: Client, name: str) -> None:
    with Topic(client, name) as topic, Exporter(client) as exporter:
        topic.subscribe("billing", "end")
        topic.subscribe("audit", "end")
        topic.publish_many([b"1", b"2"])
        topic.commit(topic.consume("audit", 10))
        assert backlog(exporter, name) == 2
        assert backlog(exporter, name, "?consumer=billing") == 2
        assert backlog(exporter, name, "?consumer=audit") == 0
        topic.publish(b'{"specversion":"1.0","time":"2018-04-05T17:31:00Z"}')
        topic.seek("audit", 3)
        samples = parsed(get(exporter.address, "/metrics")[2].decode())
        assert value(samples, "ackq_topic_lag_seconds", queue=name, consumer="audit") > 2e8
        # The next message of this one has no time.
        unknown = frozenset({"queue": name, "consumer": "billing"}.items())
        assert ("ackq_topic_lag_seconds", unknown) not in samples
        status, _, body = get(exporter.address, f"/v1/queues/{quote(name)}?consumer=nobody")
        assert (status, json.loads(body)) == (404, {"error": "not subscribed: nobody"})


def test_a_scaler_can_ask_for_what_will_be_due_soon(client: Client, token: str) -> None:
    jobs, delayed = f"{{{token}}}", f"{{{token}}}delay"
    with (
        Queue(client, jobs) as queue,
        DelayQueue(client, delayed, visibility_timeout=60) as delay,
        Exporter(client) as exporter,
    ):
        queue.push({"id": "ready"})
        delay.push("in flight", b"")
        assert delay.take()
        for seconds in (40, 4000):
            queue.push({"id": str(seconds)}, delay=seconds)
            delay.push(str(seconds), b"", delay=seconds)
        for name in (jobs, delayed):
            for query, number in (
                ("", 1),
                ("?due_within=10", 1),
                ("?due_within=100", 2),
                ("?due_within=5e3", 3),
            ):
                assert backlog(exporter, name, query) == number, (name, query)
            for bad in ("", "soon", "-1", "nan", "inf", "1e9"):
                path = f"/v1/queues/{quote(name, safe='')}?due_within={bad}"
                assert get(exporter.address, path)[0] == (200 if bad == "" else 400), bad
        body = get(exporter.address, f"/v1/queues/{quote(jobs)}?due_within=100")[2]
        assert json.loads(body)["due_soon"] == 1


@pytest.mark.usefixtures("impatient")
def test_a_figure_that_may_be_wrong_is_an_error(
    plain_client: redis.Redis, name: str, free_port: int
) -> None:
    plain_client.set(f"{name}BACKUP", "text")
    plain_client.set(f"{name}both:nextIndex", "1")
    plain_client.lpush(f"{name}both", "{}")
    with Exporter(plain_client) as exporter:
        for path, expected in {
            name: 409,
            f"{name}both": 409,
            f"{name}both?kind=list": 200,
            f"{name}both?kind=delay": 404,
            "a%0ab": 400,
            "x*": 400,
            "jobsDEAD": 400,
            "%ff%fe": 400,
            "": 400,
        }.items():
            status, _, body = get(exporter.address, f"/v1/queues/{path}")
            assert status == expected, (path, body)
            assert ("backlog" in json.loads(body)) == (status == 200)
    with (
        contextlib.closing(redis.Redis(port=free_port)) as away,
        Exporter(away) as exporter,
    ):
        assert get(exporter.address, f"/v1/queues/{name}")[0] == 503
        assert get(exporter.address, "/healthz")[0] == 200
        samples = parsed(get(exporter.address, "/metrics")[2].decode())
        assert value(samples, "ackq_up", server=f"localhost:{free_port}/0") == 0


def test_a_named_queue_hides_the_others(plain_client: redis.Redis, name: str) -> None:
    for each in (name, f"{name}-secret"):
        plain_client.zadd(f"{each}BACKUP", {"key": 1e15})
    with Exporter(plain_client, [name]) as exporter:
        assert b"secret" not in get(exporter.address, "/metrics")[2]
        status, _, body = get(exporter.address, f"/v1/queues/{name}-secret")
        assert (status, b"backlog" in body) == (404, False)
        assert backlog(exporter, name) == 1


def test_the_format_is_the_one_that_is_asked_for(plain_client: redis.Redis, name: str) -> None:
    pipe = plain_client.pipeline()
    for number in range(50):
        pipe.zadd(f"{name}{number}BACKUP", {"key": 1e15})
    pipe.execute()
    with Exporter(plain_client) as exporter:
        address = exporter.address
        _, headers, body = get(
            address,
            "/metrics",
            Accept="application/openmetrics-text;version=1.0.0",
            **{"Accept-Encoding": "gzip"},
        )
        assert headers["Content-Encoding"] == "gzip"
        text = gzip.decompress(body).decode()
        assert text.endswith("# EOF\n")
        assert "ackq_taken_created" in text
        for accepted in ("identity", "gzip;q=0"):
            _, headers, body = get(address, "/metrics", **{"Accept-Encoding": accepted})
            assert headers["Content-Encoding"] is None
            assert b"_created" not in body
            assert b"ackq_taken_total" in body


def test_it_only_answers_get_and_tells_no_version(plain_client: redis.Redis) -> None:
    with Exporter(plain_client) as exporter:
        for method in ("POST", "DELETE", "PUT", "OPTIONS"):
            assert get(exporter.address, "/metrics", method)[0] == 501
        status, headers, _ = get(exporter.address, "/secret")
        assert (status, headers["Server"]) == (404, "ackq")


def test_a_browser_that_was_sent_here_by_another_site_reads_nothing(
    plain_client: redis.Redis, name: str
) -> None:
    paths = ("/metrics", "/healthz", f"/v1/queues/{name}", "/")
    with Exporter(plain_client, [name]) as exporter:
        for path in paths:
            for host in (
                "rebound.example",
                "rebound.example:9465",
                "",
                "127.0.0.1@evil.example",
                "127.0.0.1.evil.example",
                "[::1].evil.example",
                "[::1]evil.example:9465",
                "[localhost]",
            ):
                status, _, body = get(exporter.address, path, Host=host)
                assert (status, name.encode() in body) == (421, False)
            for host in ("127.0.0.1:9465", "localhost", "[::1]:9465", "LOCALHOST."):
                assert get(exporter.address, path, Host=host)[0] == 200
        with socket.create_connection(exporter.address, timeout=20) as plain:
            plain.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")  # a probe
            assert plain.recv(100).startswith(b"HTTP/1.0 200")
    with Exporter(plain_client, [name], hosts=["metrics.example"]) as exporter:
        assert get(exporter.address, "/metrics", Host="metrics.example:1")[0] == 200
        assert get(exporter.address, "/metrics", Host="rebound.example")[0] == 421
    # Scrapers elsewhere use names that the exporter does not know.
    with Exporter(plain_client, [name], listen=("0.0.0.0", 0)) as exporter:
        address = ("127.0.0.1", exporter.address[1])
        assert get(address, "/metrics", Host="exporter.monitoring.svc")[0] == 200
    with Exporter(plain_client, listen=("0.0.0.0", 0), hosts=["metrics.example"]) as exporter:
        address = ("127.0.0.1", exporter.address[1])
        assert get(address, "/metrics", Host="rebound.example")[0] == 421


def test_idle_connections_make_room_and_busy_ones_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_module, "MAX_CONNECTIONS", 2)
    go_on = threading.Event()

    def answer(path: str, headers: Any) -> Answer:
        go_on.wait()
        return Answer.of_json(200, path)

    with contextlib.ExitStack() as stack:
        server = HttpServer(("127.0.0.1", 0), answer, 60.0, "test")
        server.start()
        stack.callback(server.stop)
        stack.callback(go_on.set)
        idle, *busy = [http.client.HTTPConnection(*server.address) for _ in range(3)]
        for each in (idle, *busy):
            stack.callback(each.close)
            each.connect()
        for each in busy:
            each.request("GET", "/")
        assert idle.sock.recv(1) == b""
        wait_until(lambda: len(server.answering) == 2, "both to be answered")
        with pytest.raises((http.client.RemoteDisconnected, ConnectionError)):
            get(server.address, "/healthz")
        go_on.set()
        assert [each.getresponse().status for each in busy] == [200, 200]


def test_connections_wait_until_they_are_accepted() -> None:
    server = HttpServer(("127.0.0.1", 0), lambda *_: Answer.of_json(200, {}), 60.0, "test")
    with contextlib.ExitStack() as stack:
        stack.callback(server.server_close)
        for _ in range(100):  # nothing is accepted yet
            stack.enter_context(socket.create_connection(server.address, timeout=5))


@pytest.fixture
def frozen(tmp_path: Path) -> Iterator[Server]:
    """A server that does not answer until it gets SIGCONT."""
    with private_server(tmp_path) as server:
        yield server
        os.kill(server.pid, signal.SIGCONT)


def test_a_frozen_server_is_reported_in_time(
    frozen: Server, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (collector_module, exporter_module):
        monkeypatch.setattr(module, "MAX_TIME", 0.2)
    with redis.Redis.from_url(frozen.url) as client, Exporter(client) as exporter:
        assert backlog(exporter, name) == 0
        up = "ackq_up", frozenset({("server", f"127.0.0.1:{frozen.port}/0")})
        assert parsed(get(exporter.address, "/metrics")[2].decode())[up] == 1
        os.kill(frozen.pid, signal.SIGSTOP)
        # Sooner than the client's own limit of 5 seconds for a reply.
        samples = parsed(get_within(4, exporter.address, "/metrics")[2].decode())
        assert samples[up] == 0
        assert not [sample for sample in samples if sample[0] == "ackq_backlog"]
        assert get_within(4, exporter.address, f"/v1/queues/{name}")[0] == 503
        os.kill(frozen.pid, signal.SIGCONT)
        monkeypatch.setattr(exporter_module, "MAX_TIME", 20)
        monkeypatch.setattr(collector_module, "MAX_TIME", 20)
        assert parsed(get(exporter.address, "/metrics")[2].decode())[up] == 1
        assert backlog(exporter, name) == 0


def test_scrapes_at_the_same_time_share_a_read(
    frozen: Server, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collector_module, "MAX_TIME", 20)
    with (
        redis.Redis.from_url(frozen.url) as client,
        Exporter(client, [name]) as exporter,
        ThreadPoolExecutor(40) as pool,
    ):
        client.config_resetstat()
        os.kill(frozen.pid, signal.SIGSTOP)
        answers = [pool.submit(get, exporter.address, "/metrics") for _ in range(40)]
        wait_until(lambda: len(exporter._server.answering) == 40, "all to be asked for")
        os.kill(frozen.pid, signal.SIGCONT)
        for answer in answers:
            assert b"ackq_up{" in answer.result()[2]
        # Each read asks for the time, and so does its script.
        assert client.info("commandstats")["cmdstat_time"]["calls"] <= 2


def test_a_port_in_use_is_reported(plain_client: redis.Redis) -> None:
    with (
        Exporter(plain_client) as first,
        pytest.raises(ConfigurationError, match=r"exporter: cannot listen on 127\.0\.0\.1:"),
    ):
        Exporter(plain_client, listen=first.address)


def test_the_command_serves_until_it_is_stopped(url: str, name: str) -> None:
    code = "from ackq.cli import main; main()"
    command = [sys.executable, "-c", code, "exporter", "--listen", "127.0.0.1:0"]
    environment = {**os.environ, "ACKQ_REDIS_URL": url, "PYTHONUNBUFFERED": "1"}
    with forked.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line.startswith("metrics at http://127.0.0.1:"), line
            port = int(line.split(":")[2].split("/")[0])
            samples = parsed(get(("127.0.0.1", port), "/metrics")[2].decode())
            assert value(samples, "ackq_search_complete") == 1
            process.send_signal(signal.SIGTERM)
            assert process.wait(20) == 0
        finally:
            process.kill()


@pytest.mark.parametrize("listen", ["9465", "localhost", "127.0.0.1:99999", "::1:9465", "a b:1"])
def test_an_address_that_is_none_is_refused(ackq: Any, listen: str) -> None:  # noqa: F811
    assert "write HOST:PORT" in ackq("exporter", "--listen", listen, code=2).output


def test_a_cluster_client_serves_the_queues_of_all_nodes(
    request: pytest.FixtureRequest, token: str
) -> None:
    survey, fleet = request.getfixturevalue("survey"), request.getfixturevalue("fleet")
    if "cluster" not in survey.offers:
        pytest.skip("the run has no cluster")
    with contextlib.closing(fleet.get("cluster").make_client()) as client:
        assert isinstance(client, RedisCluster)
        names = {f"{{{token}:{number}}}x" for number in range(8)}
        for each in names:
            client.zadd(f"{each}BACKUP", {"key": 1e15})
        with Exporter(client) as exporter:
            samples = parsed(get(exporter.address, "/metrics")[2].decode())
            assert {
                dict(labels)["queue"] for name, labels in samples if name == "ackq_backlog"
            } == names
            assert sum(number for (name, _), number in samples.items() if name == "ackq_up") == 3
            assert all(backlog(exporter, name) == 1 for name in names)
