"""An argument of the wrong kind raises a typed error that names the expected kind."""

import asyncio
import traceback
from collections.abc import Callable
from typing import Any
from unittest import mock

import pytest
import redis
import redis.asyncio
import redis.asyncio.retry
from redis.backoff import NoBackoff
from redis.exceptions import MovedError
from redis.retry import Retry

import ackq
import ackq.dropin.asyncio
from ackq.core.io import routes, routes_async
from ackq.delay import AsyncDelayQueue, DelayQueue, PartitionedDelayQueue
from ackq.queue.claims_client import Claims
from ackq.queue.staging_client import Staging
from ackq.rsmq import RSMQ, AsyncRSMQ
from ackq.sharded import AsyncShardedQueue, ShardedQueue
from ackq.topic import AsyncTopic, Topic
from ackq.worker import AsyncWorker, RateLimit, Worker

BLOCKING: dict[Any, tuple[Any, ...]] = {
    ackq.Queue: ("jobs",),
    RSMQ: (),
    Topic: ("t",),
    DelayQueue: ("d",),
    PartitionedDelayQueue: ("d", 2),
    ShardedQueue: ("s", 2),
    Claims: ("jobs", "g"),
    Staging: ("jobs", "w"),
    ackq.dropin.Redis: (),
}
AWAITED: dict[Any, tuple[Any, ...]] = {
    ackq.AsyncQueue: ("jobs",),
    AsyncRSMQ: (),
    AsyncTopic: ("t",),
    AsyncDelayQueue: ("d",),
    AsyncShardedQueue: ("s", 2),
    ackq.dropin.asyncio.Redis: (),
}


@pytest.mark.parametrize("kind", [*BLOCKING, *AWAITED])
@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda _: "redis://:secret@host", "from_url"),
        (
            lambda blocking: _client(not blocking),
            r"pass a redis\.(asyncio\.)?Redis, or use the class with(out)? Async in its name",
        ),
        (lambda _: None, "must be a redis.*, not NoneType"),
        (lambda _: mock.Mock(), "must be a redis.*, not a mock"),
        (lambda blocking: _client(blocking).pipeline(), "pipeline.*Pass the client itself"),
        (lambda blocking: _cluster_pipeline(blocking), "pipeline.*Pass the client itself"),
    ],
    ids=["url", "twin", "none", "mock", "pipeline", "cluster pipeline"],
)
def test_a_client_of_the_wrong_kind(kind: Any, make: Any, text: str) -> None:
    blocking = kind in BLOCKING
    with pytest.raises(ackq.ConfigurationError, match=text) as caught:
        kind(make(blocking), *(BLOCKING | AWAITED)[kind])
    assert "secret" not in str(caught.value)


def _client(blocking: bool) -> Any:
    return redis.Redis() if blocking else redis.asyncio.Redis()


def _cluster_pipeline(blocking: bool) -> Any:
    """Return the pipeline of a cluster, without a cluster to connect to."""
    kind: Any = redis.cluster.ClusterPipeline if blocking else redis.asyncio.cluster.ClusterPipeline
    return kind.__new__(kind)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"rate_limit": 5}, "RateLimit"),
        ({"rate_limit": {"jobs": 5}}, "RateLimit"),
        ({"rate_limit": {"job": RateLimit(5)}}, "job"),
    ],
)
def test_a_rate_limit_that_is_none(settings: dict[str, Any], text: str) -> None:
    for kind, queue in _workers():
        with pytest.raises(ackq.ConfigurationError, match=text):
            kind(queue, print, **settings)


def test_what_a_worker_takes_from() -> None:
    (worker, queue), (twin, other) = _workers()
    for kind, wrong in [
        (worker, "jobs"),
        (worker, ["jobs"]),
        (worker, other),
        (worker, None),
        (worker, []),
        (twin, "jobs"),
        (twin, queue),
        (twin, {queue: 1}),
    ]:
        with pytest.raises(ackq.ConfigurationError, match=r"queues is|class (Async)?Queue"):
            kind(wrong, print)


def _workers() -> list[tuple[Any, Any]]:
    return [
        (Worker, ackq.Queue(_client(True), "jobs")),
        (AsyncWorker, ackq.AsyncQueue(_client(False), "jobs")),
    ]


def test_arguments_of_operations(plain_client: redis.Redis, token: str) -> None:
    with (
        ackq.Queue(plain_client, token) as queue,
        ShardedQueue(plain_client, token, 2) as sharded,
        Topic(plain_client, f"{token}-t") as topic,
    ):
        for many in (queue, sharded):
            with pytest.raises(ackq.ConfigurationError, match="dedup"):
                many.push({"id": "a"}, dedup=5)  # type: ignore[arg-type]
            with pytest.raises(ackq.ConfigurationError, match="at is"):
                many.push({"id": "a"}, at="soon")  # type: ignore[arg-type]
            many.push({"id": "a"})
            message = many.pop()
            assert message is not None
            with pytest.raises(ackq.ConfigurationError, match="by its name"):
                many.reject(message, "no such order")  # type: ignore[arg-type]
            for method in ("ack", "nack", "release", "reject", "extend"):
                for nothing in (None, [message, None]):
                    with pytest.raises(
                        ackq.ConfigurationError,
                        match=rf"^{method} takes .* not None: pop returns None if there is [^:]*$",
                    ):
                        getattr(many, method)(nothing)
            with pytest.raises(ackq.ConfigurationError, match=r"^ack takes .* not None"):
                many.pop(ack=None)  # type: ignore[arg-type]
            for one in ({"id": "a"}, None, 5):
                with pytest.raises(ackq.InvalidMessage, match="push_many takes several"):
                    many.push_many(one)  # type: ignore[arg-type]
            assert many.ack(message) == 1
        with pytest.raises(ackq.ConfigurationError, match="dedup"):
            topic.publish({"id": "a"}, dedup=5)  # type: ignore[arg-type]


def test_a_pop_that_is_not_awaited_is_no_message(url: str, name: str) -> None:
    async def use() -> None:
        async with ackq.AsyncQueue.from_url(url, name) as queue:
            forgotten: Any = queue.pop()
            with pytest.raises(ackq.ConfigurationError, match="not a coroutine: await pop first"):
                await queue.ack(forgotten)
            forgotten.close()

    asyncio.run(use())


def test_several_messages_of_other_queues(plain_client: redis.Redis, token: str) -> None:
    with DelayQueue(plain_client, token) as delay, RSMQ(plain_client, ns=token) as rsmq:
        for wrong in ({"key": "body"}, None):
            with pytest.raises(ackq.InvalidMessage, match="push_many takes several"):
                delay.push_many(wrong)  # type: ignore[arg-type]
        with pytest.raises(ackq.InvalidMessage, match="push_many takes a list of DelayEntry"):
            delay.push_many([("key", "body")])  # type: ignore[list-item]
        with pytest.raises(ackq.InvalidMessage, match="send_messages takes several"):
            rsmq.send_messages("q", "text")


@pytest.mark.parametrize("kind", [kind for kind, rest in BLOCKING.items() if rest])
def test_a_name_that_is_no_text_and_swapped_arguments_name_the_order(kind: Any) -> None:
    client, (_, *rest) = redis.Redis(password="secret"), BLOCKING[kind]
    for name, text in ((b"jobs", "text, not bytes: pass 'jobs'$"), (None, "text, not None$")):
        with pytest.raises(ackq.QueueNameError, match=text):
            kind(client, name, *rest)
    with pytest.raises(ackq.QueueNameError, match=r"as in Queue\(client, 'jobs'\)") as caught:
        kind("jobs", client, *rest)
    assert "secret" not in str(caught.value)


def test_a_url_that_is_no_text() -> None:
    with pytest.raises(ackq.ConfigurationError, match="a Redis URL is text, not bytes"):
        ackq.Queue.from_url(b"redis://:secret@host", "jobs")  # type: ignore[arg-type]


def test_a_queue_in_a_second_event_loop_says_how_to_use_it(url: str, name: str) -> None:
    queue = ackq.AsyncQueue.from_url(url, name)

    async def use(close: bool) -> None:
        await queue.stats()
        if close:
            await queue.aclose()

    asyncio.run(use(close=True))
    asyncio.run(use(close=True))  # a closed queue has no connections
    with asyncio.Runner() as first:
        first.run(use(close=False))
        with pytest.raises(ackq.ConfigurationError, match=r"another event loop.*async with"):
            asyncio.run(use(close=False))
        first.run(queue.aclose())


def test_a_body_that_is_not_json_is_an_error_with_its_message() -> None:
    message = ackq.Message("q", b"a", b"secret", 1, 1)
    with pytest.raises(ValueError, match="the body of message 'a' is not JSON") as caught:
        message.json()
    assert "secret" not in str(caught.value)


def test_a_confirmation_that_outlasts_the_connection_is_refused_before_anything_is_sent(
    free_port: int,
) -> None:
    client = redis.Redis(port=free_port, socket_timeout=1.0)
    late = ackq.Confirm(1, timeout=1.0)
    queue, message = ackq.Queue(client, "q"), ackq.Message("q", b"a", b"{}", 1, 1)
    calls: list[Any] = [
        lambda: queue.push({}, confirm=late),
        lambda: queue.push_many([{}], confirm=late),
        lambda: queue.ack(message, confirm=late),
        lambda: Topic(client, "t").publish({}, confirm=late),
        lambda: Topic(client, "t").publish_many([{}], confirm=late),
        lambda: DelayQueue(client, "d").push("k", b"x", confirm=late),
    ]
    for call in calls:
        with pytest.raises(ackq.ConfigurationError, match=r"confirm\.timeout"):
            call()


@pytest.mark.usefixtures("impatient")
def test_a_refused_connection_is_one_error_and_no_chain(
    free_port: int, flavoured: Callable[..., Any]
) -> None:
    url = f"redis://127.0.0.1:{free_port}/0"
    queue = flavoured(ackq.Queue.from_url, ackq.AsyncQueue.from_url, url, "jobs")
    with pytest.raises(redis.ConnectionError) as caught:
        queue.stats()
    shown = "".join(traceback.format_exception(caught.value))
    assert shown.count("Traceback") == 1
    assert "IndexError" not in shown
    assert "ackq serve" in str(caught.value)
    assert "from_url(None" in str(caught.value)
    assert "site-packages/redis" not in shown
    queue.close()


def test_a_redirection_from_a_unix_socket_leads_to_a_port(free_port: int) -> None:
    moved = MovedError(f"5 127.0.0.1:{free_port}")
    route = routes.route_of(
        redis.Redis(unix_socket_path="/nowhere", retry=Retry(NoBackoff(), 0)), b"key"
    )
    route.note(moved)
    with pytest.raises(redis.ConnectionError, match=f"127.0.0.1:{free_port}"):
        route.connections(moved).acquire()

    async def awaited() -> None:
        once = redis.asyncio.retry.Retry(NoBackoff(), 0)
        client = redis.asyncio.Redis(unix_socket_path="/nowhere", retry=once)
        route = routes_async.route_of(client, b"key")
        route.note(moved)
        await (await route.connections(moved)).acquire()

    with pytest.raises(redis.ConnectionError, match=f"127.0.0.1:{free_port}"):
        asyncio.run(awaited())
