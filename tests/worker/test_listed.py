"""Workers in the lists of workers: what they show of themselves, and the orders that they obey."""

import os
import threading
from collections.abc import Callable
from typing import Any

import pytest
import redis
import redis.asyncio

import ackq
from ackq.embedded import Server
from ackq.errors import ConfigurationError, KeyTypeError
from ackq.ops import workers_async
from ackq.ops.worker_info import WorkerInfo
from ackq.ops.workers import send_order, workers
from ackq.queue.keys import QueueKeys
from ackq.queue.registry import Order
from ackq.worker import RateLimit, Worker
from ackq.worker.presence import encode_record, heartbeat
from tests.conftest import MakeQueue
from tests.facade import Portal
from tests.servers import Target, private_server
from tests.waiting import wait_until

from .conftest import QueueOf, Rig, until

List = Callable[..., list[WorkerInfo]]
#: Many heartbeats in the time of a test; few enough for a busy machine.
OFTEN = 0.2


@pytest.fixture
def listed(plain_client: redis.Redis, token: str) -> List:
    """``listed("suffix")``: the workers of the test's queue with that suffix."""
    return lambda suffix="": workers(plain_client, [token + suffix])


@pytest.fixture
def order(plain_client: redis.Redis, listed: List) -> Callable[[Order], None]:
    """``order("quiet")``: leave this order for every worker of the test's queue."""

    def leave(order: Order) -> None:
        assert send_order(plain_client, order, wait_until(listed, "it to be listed"))

    return leave


def alone(listed: List, condition: Callable[[WorkerInfo], bool], description: str) -> WorkerInfo:
    """Wait until the only worker fulfils a condition, and return it."""
    return wait_until(
        lambda: next((each for each in listed() if condition(each)), None), description
    )  # type: ignore[return-value]


def last_seen(listed: List) -> float:
    """Return the time of a heartbeat. A worker that a busy machine keeps waiting may be absent."""
    return alone(listed, lambda each: True, "it to be listed").seen_at


def test_a_worker_shows_what_it_is_and_works_on(listed: List, rig: Rig) -> None:
    queue, release = rig.queue_of(), threading.Event()
    rig.handler.behave = lambda message: until(release)
    long = "x" * 200
    queue.push_many([{"id": "a\x1b[31m"}, {"id": long}])
    rig.work(queue, concurrency=3, name="mailer", heartbeat=OFTEN)
    found = alone(listed, lambda each: each.busy == 2, "two running handlers")
    assert (found.name, found.queues, found.concurrency) == ("mailer", (queue.name,), 3)
    assert (found.state, found.late, found.order) == ("working", False, "")
    assert (found.pid, found.version) == (os.getpid(), ackq.__version__)
    assert {each.message_id for each in found.running} == {"a\x1b[31m", long[:64]}
    assert {each.queue for each in found.running} == {queue.name}
    for each in found.running:
        assert found.started_at <= each.since <= found.seen_at
    release.set()
    alone(listed, lambda each: each.busy == 0 and not each.running, "no running handler")


def test_a_worker_that_ends_leaves_the_list_at_once(
    listed: List, plain_client: redis.Redis, token: str, rig: Rig
) -> None:
    unlisted = rig.queue_of("-b")
    unlisted.push({"id": "a"})
    rig.work(unlisted, heartbeat=None)
    rig.handler.wait_for(1)
    running = rig.work(rig.queue_of(), heartbeat=600)
    wait_until(listed, "it to be listed")
    assert listed("-b") == []
    running.stop()
    running.join()
    assert not plain_client.exists(*QueueKeys.of(token).workers)


@pytest.mark.parametrize("limited", [False, True], ids=["waiting in its take", "with a rate limit"])
def test_a_quiet_worker_finishes_its_messages_and_takes_no_more(
    listed: List, order: Callable[[Order], None], limited: bool, rig: Rig
) -> None:
    queue, release = rig.queue_of(visibility_timeout=0.5), threading.Event()
    rig.handler.behave = lambda message: until(release)
    queue.push({"id": "first"})
    limits = RateLimit(1000, burst=1000) if limited else None
    rig.work(queue, concurrency=2, prefetch=0, heartbeat=OFTEN, rate_limit=limits)
    rig.handler.wait_for(1)
    order("quiet")
    assert alone(listed, lambda each: each.state == "quieting", "it to obey").order == ""
    queue.push_many([{"id": f"later{n}"} for n in range(20)])
    release.set()
    quiet = alone(listed, lambda each: each.state == "quiet", "its last handler to end")
    assert quiet.busy == 0
    assert (queue.stats().in_flight, queue.stats().ready) == (0, 20)
    seen_at = quiet.seen_at
    alone(listed, lambda each: each.seen_at > seen_at + 3 * OFTEN, "more heartbeats")
    assert rig.handler.seen == ["first"], "taken once, although it straddled its lease"
    assert rig.handler.counts == {"first": 1}
    assert queue.stats().ready == 20
    order("resume")
    rig.handler.wait_for(21)
    alone(listed, lambda each: each.state == "working", "its new state")


def test_a_worker_stops_by_order_when_its_handlers_have_ended(
    listed: List, order: Callable[[Order], None], rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "ackq.worker")
    queue, release = rig.queue_of(visibility_timeout=0.5), threading.Event()
    rig.handler.behave = lambda message: until(release)
    queue.push({"id": "first"})
    running = rig.work(queue, heartbeat=OFTEN)
    rig.handler.wait_for(1)
    order("stop")
    alone(listed, lambda each: each.state == "stopping", "it to obey")
    order("stop")  # again: this must not end the grace
    at = last_seen(listed)
    alone(listed, lambda each: each.seen_at > at + 3 * OFTEN, "more heartbeats")
    assert running.running
    assert caplog.text.count("stop ordered through Redis") == 1
    queue.push({"id": "second"})
    release.set()
    running.join()
    assert running.worker.stopped_by_order
    assert rig.handler.seen == ["first"]
    assert queue.stats().ready == 1
    assert listed() == []


def test_a_worker_of_several_servers_is_in_the_list_of_each(
    make_queue: MakeQueue, listed: List, target: Target, portal: Portal, rig: Rig
) -> None:
    here, there = rig.queue_of("-here"), make_queue()
    rig.work([here, there], heartbeat=OFTEN)
    node = any_node(target)
    wait_until(lambda: listed("-here"), "its entry here")
    (found,) = wait_until(lambda: workers(node, [there.name]), "its entry there")
    assert found.queues == (here.name, there.name)
    assert found.id == wait_until(lambda: listed("-here"), "its entry here")[0].id
    # Searched for on all nodes, not named.
    assert found.id in {each.id for each in workers(node)}
    send_order(node, "quiet", [found])
    wait_until(lambda: "quiet" in [each.state for each in listed("-here")], "the order from there")

    async def ask() -> tuple[list[WorkerInfo], list[WorkerInfo], list[str]]:
        settings = node.connection_pool.connection_kwargs
        place: dict[str, Any] = {
            key: settings[key] for key in ("host", "port", "path") if key in settings
        }
        if "path" in place:
            place = {"unix_socket_path": place["path"]}
        async with redis.asyncio.Redis(**place) as client:
            named = await workers_async.workers(client, [there.name])
            searched = await workers_async.workers(client)
            return named, searched, await workers_async.send_order(client, "resume", named)

    named, searched, told = portal.call(ask)
    assert [each.id for each in named] == told == [found.id]
    assert found.id in {each.id for each in searched}
    wait_until(lambda: "working" in [each.state for each in listed("-here")], "that from asyncio")


def any_node(target: Target) -> redis.Redis:
    """Return a client of the server, or of a node of the cluster."""
    control = target.control
    if isinstance(control, redis.Redis):
        return control
    node = control.get_redis_connection(control.get_primaries()[-1])
    assert isinstance(node, redis.Redis)
    return node


@pytest.mark.timeout(120)
def test_a_worker_is_listed_again_when_the_server_is_back(
    tmp_path_factory: pytest.TempPathFactory, caplog: pytest.LogCaptureFixture
) -> None:
    with private_server(tmp_path_factory.mktemp("server")) as server:
        assert isinstance(server, Server)
        client = redis.Redis.from_url(server.url)
        with ackq.Queue.from_url(server.url, "jobs") as queue:
            worker = Worker(queue, lambda message: None, heartbeat=OFTEN)
            running = threading.Thread(target=worker.run)
            running.start()
            try:
                (before,) = wait_until(lambda: workers(client, ["jobs"]), "it to be listed")
                client.flushall()  # as a server that lost its data
                (after,) = wait_until(lambda: workers(client, ["jobs"]), "the next heartbeat")
                assert after.id == before.id
                # Heartbeats fail while the server refuses them; the worker logs it once.
                client.config_set("min-replicas-to-write", 1)
                failure = "registration of this worker failed"
                wait_until(lambda: failure in caplog.text, "the first failure")
                client.config_set("min-replicas-to-write", 0)
                at = float(client.time()[0])
                wait_until(
                    lambda: [each for each in workers(client, ["jobs"]) if each.seen_at > at + 1],
                    "it to go on",
                )
            finally:
                worker.stop()
                running.join(20)
        assert caplog.text.count(failure) == 1
        assert workers(client, ["jobs"]) == []
        client.close()


def test_a_thousand_workers_are_listed_in_bounded_steps(
    queue_of: QueueOf, plain_client: redis.Redis, token: str, listed: List
) -> None:
    queue = queue_of()
    running = [("x" * 64, 1.5)] * 50
    record = encode_record({"name": "n", "interval": 5.0, "lifetime": 30.0}, running)
    text = (record,)
    for number in range(1000):
        queue.execute(heartbeat, f"host:{number}:a", *text, 30.0, b"")
    before = int(plain_client.info("commandstats")["cmdstat_evalsha"]["calls"])
    found = listed()
    calls = int(plain_client.info("commandstats")["cmdstat_evalsha"]["calls"]) - before
    assert len(found) == 1000
    assert all(len(each.running) == 50 for each in found)
    assert 8 <= calls <= 40, "about 100 workers a call"


def test_a_record_holds_as_many_messages_as_fit() -> None:
    messages = [("\u20ac" * 64, 1.0)] * 50
    record = encode_record({"name": "n"}, messages)
    assert 3000 < len(record) <= 8192


def test_records_of_other_programs_do_no_harm(
    queue_of: QueueOf, plain_client: redis.Redis, token: str, listed: List
) -> None:
    queue = queue_of()
    hostile = [
        b"not JSON",
        b"[1]",
        b'{"name": 5, "pid": "x", "queues": [1], "running": [[1], 2],'
        b' "state": "\\u001b[2J", "busy": null, "interval": "x"}',
        b"{}",
    ]
    for number, record in enumerate(hostile):
        queue.execute(heartbeat, f"w{number}", record, 60.0, b"")
    plain_client.hset(QueueKeys.of(token).workers[1].decode(), "w0", b"x" * 9000)
    found = listed()
    assert [each.name for each in found] == ["w0", "w1", "w2", "w3"]
    assert {each.state for each in found} == {"unknown"}
    assert all(each.running == () and each.queues == (token,) for each in found)


def test_a_key_of_another_type_under_the_name_of_a_list_hides_no_other_worker(
    queue_of: QueueOf, plain_client: redis.Redis, token: str, portal: Portal
) -> None:
    queue_of("-b").execute(heartbeat, "w", b"{}", 60.0, b"")
    plain_client.set(QueueKeys.of(f"{token}-a").workers[0], "not a list of workers")
    place = plain_client.connection_pool.connection_kwargs

    async def ask(*queues: str) -> list[WorkerInfo]:
        async with redis.asyncio.Redis(host=place["host"], port=place["port"]) as client:
            return await workers_async.workers(client, queues)

    for found in (workers(plain_client), portal.call(ask)):
        assert [each.id for each in found if each.found_in == (f"{token}-b",)] == ["w"]
    with pytest.raises(KeyTypeError):
        workers(plain_client, [f"{token}-a"])
    with pytest.raises(KeyTypeError):
        portal.call(ask, f"{token}-a")


def test_a_name_of_a_queue_cannot_end_like_a_list_of_workers() -> None:
    for suffix in ("SEEN", "DOING", "ORDERS"):
        with pytest.raises(ConfigurationError, match="collide"):
            QueueKeys.of(f"jobsWORKERS:{suffix}")
    assert QueueKeys.of("MY_WORKERS")
