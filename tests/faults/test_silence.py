"""A connection that falls silent: no call waits for ever, whatever limits the client has.

The clients here have no limits of their own, as is the default of redis-py before version 8.
"""

import contextlib
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
import redis.asyncio
import redis.asyncio.connection
import redis.asyncio.sentinel
import redis.connection
import redis.sentinel

import ackq
import ackq.dropin
from ackq import Queue
from ackq.core.io import settings
from ackq.worker import AsyncWorker, Worker
from tests.facade import AsSync, Portal
from tests.waiting import wait_until

from .proxy import Proxy, listener
from .test_server_states import in_background

SILENT = redis.ConnectionError, redis.TimeoutError
_sentinels: Any = {"sync": redis.sentinel.Sentinel, "async": redis.asyncio.sentinel.Sentinel}


@pytest.fixture(autouse=True)
def short_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is 5 seconds for users takes one here. A busy machine needs less for a reply."""
    monkeypatch.setattr(settings, "READ_TIMEOUT", 1.0)


def unbounded(flavour: str, portal: Portal, path: str = "", **where: Any) -> Any:
    """Return a client that waits for ever, and connects once."""
    module: Any = redis if flavour == "sync" else redis.asyncio
    kinds = module.connection
    settings = {"socket_timeout": None, "socket_connect_timeout": None, **where}
    kind = kinds.Connection
    if path:
        kind, settings["path"] = kinds.UnixDomainSocketConnection, path
    pool = module.ConnectionPool(connection_class=kind, **settings)
    if flavour == "sync":
        return redis.Redis(connection_pool=pool)
    return portal.call(lambda: redis.asyncio.Redis(connection_pool=pool))


def queue_of(client: Any, flavour: str, portal: Portal) -> Any:
    # A message whose delivery was lost comes back soon.
    limits: dict[str, Any] = {"visibility_timeout": 5.0}
    if flavour == "sync":
        return ackq.Queue(client, "jobs", **limits)
    return AsSync(portal, portal.call(ackq.AsyncQueue, client, "jobs", **limits))


@pytest.fixture
def queue(proxy: Proxy, flavour: str, portal: Portal, client: redis.Redis) -> Iterator[Any]:
    """A queue behind the proxy; ``client`` empties it after the test."""
    queue = queue_of(unbounded(flavour, portal, host="127.0.0.1", port=proxy.port), flavour, portal)
    with contextlib.closing(queue):
        yield queue


def outcome(operation: Callable[[], Any]) -> Callable[[], Any]:
    """Start ``operation`` in a thread; return a function that waits for its result or error."""
    thread, results = in_background(operation)

    def result() -> Any:
        thread.join(30)
        assert results, "it hangs"
        return results[0]

    return result


def test_a_wait_for_messages_ends(proxy: Proxy, queue: Any) -> None:
    result = outcome(lambda: queue.pop(timeout=float("inf")))
    wait_until(lambda: b"BLMOVE" in proxy.seen, "the wait to begin")
    proxy.silent = True
    assert isinstance(result(), SILENT)
    proxy.silent = False
    assert queue.push({"id": "a"}) == "a"
    assert queue.pop(timeout=5).id == "a"


def test_a_push_and_a_read_end(proxy: Proxy, queue: Queue) -> None:
    queue.push({"id": "before"})  # the first push asks for the end that is popped
    proxy.silent = True
    pushed = outcome(lambda: queue.push({"id": "a"}))()
    assert isinstance(pushed, ackq.UnknownOutcome)
    assert isinstance(pushed.__cause__, redis.TimeoutError)
    assert isinstance(outcome(queue.stats)(), SILENT)


def test_connecting_ends(proxy: Proxy, queue: Queue) -> None:
    proxy.silent = True
    assert isinstance(outcome(queue.stats)(), SILENT)


def test_a_connection_that_died_while_idle_is_noticed_before_a_push(
    proxy: Proxy, queue: Any
) -> None:
    queue.stats()
    for connection in queue._driver.route._home._idle:
        assert connection.health_check_interval == settings.HEALTH_CHECK_INTERVAL
        connection.next_health_check = 0  # as if it had been idle for that long
    proxy.mute()
    assert queue.push({"id": "a"}) == "a"
    assert b"PING" in proxy.seen
    assert proxy.count(b"LPUSH") == 1


def test_a_worker_goes_on_when_the_server_is_heard_again(
    proxy: Proxy, flavour: str, portal: Portal, queue: Any, client: redis.Redis
) -> None:
    handled: list[str] = []
    worker: Any
    if flavour == "sync":
        worker = Worker(queue, lambda message: handled.append(message.id), concurrency=2)
    else:
        worker = portal.call(
            AsyncWorker, queue._wrapped, lambda message: handled.append(message.id), concurrency=2
        )
    run = worker.run if flavour == "sync" else lambda: portal.call(worker.run)
    ended = outcome(run)
    try:
        client.lpush("jobs", b'{"id":"a"}')
        wait_until(lambda: handled == ["a"], "the first message to be handled")
        proxy.mute()
        client.lpush("jobs", b'{"id":"b"}')
        wait_until(lambda: handled == ["a", "b"], "the second message to be handled", 40)
    finally:
        worker.stop()
    assert ended() is None
    with contextlib.closing(ackq.Queue(client, "jobs")) as direct:
        stats = direct.stats()
    assert (stats.ready, stats.in_flight) == (0, 0)


def test_a_worker_stops_while_the_server_is_silent(
    proxy: Proxy, flavour: str, portal: Portal, queue: Any
) -> None:
    worker: Any
    if flavour == "sync":
        worker = Worker(queue, print, concurrency=2)
    else:
        worker = portal.call(AsyncWorker, queue._wrapped, print, concurrency=2)
    ended = outcome(worker.run if flavour == "sync" else lambda: portal.call(worker.run))
    wait_until(lambda: b"BLMOVE" in proxy.seen, "the worker to wait")
    proxy.silent = True
    worker.stop()
    assert ended() is None


def test_the_drop_in_ends(proxy: Proxy, portal: Portal, client: redis.Redis) -> None:
    with unbounded("sync", portal, host="127.0.0.1", port=proxy.port) as plain:
        wrapped = ackq.dropin.Redis(plain, hold=0)
        result = outcome(lambda: wrapped.brpop("jobs"))
        wait_until(lambda: b"BLMOVE" in proxy.seen, "the wait to begin")
        proxy.silent = True
        assert isinstance(result(), SILENT)
        assert isinstance(outcome(lambda: wrapped.rpop("jobs"))(), SILENT)
        wrapped.close()


def test_a_silent_unix_socket_ends(tmp_path: Path, flavour: str, portal: Portal) -> None:
    path = str(tmp_path / "s")
    with socket.socket(socket.AF_UNIX) as held:
        held.bind(path)
        held.listen()
        queue = queue_of(unbounded(flavour, portal, path=path), flavour, portal)
        with contextlib.closing(queue):
            assert isinstance(outcome(queue.stats)(), SILENT)


def test_a_silent_sentinel_ends(flavour: str, portal: Portal) -> None:
    with listener() as port:
        limits = {"socket_timeout": None, "socket_connect_timeout": None, "retry": None}

        def make() -> Any:
            manager = _sentinels[flavour]([("127.0.0.1", port)], **limits)
            return manager.master_for("ackq")

        client = make() if flavour == "sync" else portal.call(make)
        queue = queue_of(client, flavour, portal)
        with contextlib.closing(queue):
            assert isinstance(outcome(queue.stats)(), SILENT)
