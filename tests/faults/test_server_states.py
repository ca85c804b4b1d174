"""A server that refuses: full, read-only, alone, loading, busy, or with the wrong keys."""

import itertools
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from redis.exceptions import OutOfMemoryError, ReadOnlyError, ResponseError

import ackq
from ackq.delay import AsyncDelayQueue, DelayQueue
from ackq.embedded import Server
from tests.servers import private_server
from tests.servers.binaries import bundled_valkey
from tests.waiting import wait_until

from .proxy import Kind, Proxy

MakeQueue = Callable[..., ackq.Queue]


def calls(client: redis.Redis, *commands: str) -> int:
    """Return how often the server was asked for these commands, refusals included."""
    found: Any = client.info("commandstats")
    rows = [found.get(f"cmdstat_{command}", {}) for command in commands]
    return sum(int(row.get("calls", 0)) + int(row.get("rejected_calls", 0)) for row in rows)


def in_background(operation: Callable[[], Any]) -> tuple[threading.Thread, list[Any]]:
    """Run ``operation`` in a thread; its result, or its error, is put into the list."""
    results: list[Any] = []

    def run() -> None:
        try:
            results.append(operation())
        except Exception as error:
            results.append(error)

    thread = threading.Thread(target=run, daemon=True)  # it may hang
    thread.start()
    return thread, results


# --- full ---------------------------------------------------------------------------


@pytest.fixture
def full(client: redis.Redis) -> Iterator[Callable[[], None]]:
    """``full()``: from then on the server refuses whatever may need memory."""

    def fill() -> None:
        client.config_set("maxmemory", "1mb")
        with pytest.raises(OutOfMemoryError):
            client.set("more", "x")

    client.set("ballast", b"x" * 3_000_000)
    yield fill
    client.config_set("maxmemory", "0")


def test_a_server_that_fills_up_during_a_push_of_many_leaves_an_account_of_it(
    server: Server, client: redis.Redis, flavoured: Callable[..., Any]
) -> None:
    queue = flavoured(
        ackq.Queue.from_url, ackq.AsyncQueue.from_url, server.url, "jobs", max_body_bytes=4_000_000
    )
    queue.stats()
    client.config_set("maxmemory", client.info("memory")["used_memory"] + 8_000_000)
    try:
        with pytest.raises(ackq.PartlyStored) as caught:
            queue.push_many([b"x" * 3_000_000] * 5)
    finally:
        client.config_set("maxmemory", "0")
        queue.close()
    assert isinstance(caught.value.__cause__, OutOfMemoryError)
    stored = client.llen("jobs")
    assert 1 <= stored < 5
    assert caught.value.stored_positions == tuple(range(stored))
    assert caught.value.not_stored_positions == tuple(range(stored, 5))


def test_a_full_server_can_be_worked_off(
    queue: ackq.Queue, client: redis.Redis, full: Callable[[], None]
) -> None:
    queue.push_many([{"id": str(number)} for number in range(20)])
    held = queue.pop_many(5)
    full()
    for push in ({}, {"delay": 10}, {"dedup": "marker"}):
        with pytest.raises(OutOfMemoryError):
            queue.push({"id": "more"}, **push)
    assert queue.extend(*held) == 5
    assert queue.nack(held[0], delay=0) == 1
    assert queue.release(held[1]) == 1
    assert queue.reject(held[2]) == 1
    assert queue.ack(held[3]) == 1
    assert queue.ack(held[4]) == 1
    taken = queue.pop_many(10)
    assert len(taken) == 10
    assert len(queue.pop_many(5, ack=taken)) == 5
    assert queue.drain() == 5
    taken = queue.pop_many(50)
    assert queue.ack(*taken) == 7
    with pytest.raises(OutOfMemoryError):
        queue.redrive()
    assert queue.stats().dead == 1
    assert queue.audit().findings == ()
    assert client.keys("jobs*") == [b"jobsDEAD"]


def test_waiting_on_a_full_server_neither_spins_nor_loses(
    queue: ackq.Queue,
    server: Server,
    client: redis.Redis,
    queue_at: MakeQueue,
    full: Callable[[], None],
) -> None:
    queue.stats()
    full()
    before = calls(client, "blmove", "evalsha", "eval")
    assert queue.pop(timeout=0.6) is None
    assert calls(client, "blmove", "evalsha", "eval") - before <= 5
    before = calls(client, "blmove")
    thread, results = in_background(lambda: queue.pop(timeout=10))
    wait_until(lambda: calls(client, "blmove") > before, "it to be refused")
    client.config_set("maxmemory", "0")
    queue_at(server.url).push({"id": "a"})
    thread.join(5)
    assert [message.id for message in results] == ["a"]


# --- read-only, alone ---------------------------------------------------------------


@pytest.fixture
def replica(server: Server, client: redis.Redis, tmp_path: Path) -> Iterator[Server]:
    with private_server(tmp_path / "replica", replicaof=f"127.0.0.1 {server.port}") as replica:
        wait_until(lambda: replicas(client) == 1, "the replica to be in step")
        yield replica


def replicas(client: redis.Redis) -> int:
    info: Any = client.info("replication")
    return sum(
        info[f"slave{number}"]["state"] == "online" for number in range(info["connected_slaves"])
    )


def test_a_replica_refuses_and_nothing_changes(
    server: Server, replica: Server, queue_at: MakeQueue
) -> None:
    queue_at(server.url).push({"id": "a"})
    reader = queue_at(replica.url)
    wait_until(lambda: reader.stats().ready == 1, "the replica to have the message")
    with pytest.raises(ReadOnlyError):
        reader.pop()
    with pytest.raises(ReadOnlyError):
        reader.push({"id": "b"})
    assert queue_at(server.url).stats().ready == 1


def test_work_goes_on_when_the_replica_becomes_the_primary(
    server: Server, replica: Server, queue_at: MakeQueue
) -> None:
    queue_at(server.url).push({"id": "a"})
    queue = queue_at(replica.url)
    wait_until(lambda: queue.stats().ready == 1, "the replica to have the message")
    with redis.Redis.from_url(replica.url) as control:
        before = calls(control, "evalsha", "eval")
        thread, results = in_background(queue.pop)
        wait_until(lambda: calls(control, "evalsha", "eval") > before, "the pop to be refused")
        control.replicaof("NO", "ONE")
        thread.join(10)
    assert [message.id for message in results] == ["a"]


def test_without_enough_replicas_nothing_is_taken(queue: ackq.Queue, client: redis.Redis) -> None:
    queue.push_many([{"id": "a"}, {"id": "b"}])
    [message] = queue.pop_many(1)
    client.config_set("min-replicas-to-write", 1)
    try:
        before = contents(client)
        for operation in (
            queue.pop,
            lambda: queue.pop(ack=message),
            lambda: queue.ack(message),
            lambda: queue.nack(message),
            lambda: queue.extend(message),
            lambda: queue.reject(message),
            lambda: queue.push({"id": "c"}),
            lambda: queue.push({"id": "c"}, delay=1),
            lambda: queue.push({"id": "c"}, dedup="c"),
        ):
            with pytest.raises(ResponseError, match="NOREPLICAS"):
                operation()
        assert contents(client) == before
    finally:
        client.config_set("min-replicas-to-write", 0)
    assert queue.ack(message) == 1


def test_a_confirmation_shows_how_many_replicas_have_it(
    queue: ackq.Queue, client: redis.Redis
) -> None:
    confirm = ackq.Confirm(replicas=2, timeout=0.05)
    for push in ({}, {"delay": 10}, {"dedup": "a"}):
        with pytest.raises(ackq.NotConfirmed) as caught:
            queue.push({"id": "a"}, confirm=confirm, **push)
        assert (caught.value.confirmed, caught.value.required) == (0, 2)
    stats = queue.stats()
    assert (stats.ready, stats.delayed) == (2, 1)  # stored all the same


def test_a_live_replica_confirms(queue: ackq.Queue, replica: Server) -> None:
    queue.push({"id": "a"}, confirm=1)
    message = queue.pop()
    assert message is not None
    assert queue.ack(message, confirm=1) == 1


def test_a_repeated_push_is_confirmed_only_when_a_replica_has_the_first(
    tmp_path: Path, queue_at: MakeQueue
) -> None:
    binary = bundled_valkey()  # older servers also wait for what other connections wrote
    confirm = ackq.Confirm(replicas=1, timeout=0.05)
    with (
        private_server(tmp_path / "primary", binary) as primary,
        private_server(
            tmp_path / "replica", binary, replicaof=f"127.0.0.1 {primary.port}"
        ) as replica,
        redis.Redis.from_url(primary.url) as client,
    ):
        wait_until(lambda: replicas(client) == 1, "the replica to be in step")
        os.kill(replica.pid, signal.SIGSTOP)
        try:
            for _ in range(2):
                with pytest.raises(ackq.NotConfirmed):
                    # A connection of its own: it has written nothing that WAIT could wait for.
                    queue_at(primary.url).push({"id": "a"}, dedup="a", confirm=confirm)
        finally:
            os.kill(replica.pid, signal.SIGCONT)
        queue = queue_at(primary.url)
        assert (
            queue.push({"id": "a"}, dedup="a", confirm=ackq.Confirm(replicas=1, timeout=4)) == "a"
        )
        assert queue.stats().ready == 1


def test_fsync_is_refused_before_anything_is_sent_to_a_server_that_cannot_tell(
    server: Server, client: redis.Redis, queue_at: MakeQueue
) -> None:
    info: Any = client.info("server")
    if tuple(map(int, info["redis_version"].split(".")[:2])) >= (7, 2):
        pytest.skip("this server has WAITAOF")
    with pytest.raises(ackq.UnsupportedServer):
        queue_at(server.url).push({"id": "a"}, confirm=ackq.Confirm(fsync=True))
    assert client.keys("*") == []


def test_a_server_that_would_evict_messages_is_refused(
    server: Server, client: redis.Redis, queue_at: MakeQueue
) -> None:
    client.config_set("maxmemory-policy", "allkeys-lru")
    try:
        with pytest.raises(ackq.EvictionPolicyError, match="maxmemory-policy noeviction") as caught:
            queue_at(server.url).push({"id": "a"})
        assert "volatile" not in str(caught.value)
        assert client.keys("*") == []
    finally:
        client.config_set("maxmemory-policy", "noeviction")


def fill(client: redis.Redis) -> None:
    """Write keys without a time to live until the server refuses."""
    for number in itertools.count():
        client.set(f"filler{number}", bytes(2**16))


def test_under_a_volatile_policy_markers_are_dropped_and_messages_are_not(
    queue: ackq.Queue, client: redis.Redis
) -> None:
    queue.push({"id": "marked"}, dedup="order")
    queue.push_many({"id": str(number)} for number in range(4))
    queue.push({"id": "later"}, delay=600)
    queue.reject(*queue.pop_many(2))
    queue.pop()
    info: Any = client.info("memory")
    client.config_set("maxmemory-policy", "volatile-lru")
    client.config_set("maxmemory", info["used_memory"] + 2**20)
    try:
        with pytest.raises(OutOfMemoryError):
            fill(client)
        client.config_set("maxmemory", 0)
        stats = queue.stats()
        assert (stats.ready, stats.in_flight, stats.delayed, stats.dead) == (2, 1, 1, 2)
        assert queue.push({"id": "again"}, dedup="order") == "again"  # documented: stored twice
    finally:
        client.config_set("maxmemory", 0)
        client.config_set("maxmemory-policy", "noeviction")


# --- loading, busy ------------------------------------------------------------------


def test_a_push_waits_while_the_server_loads(tmp_path: Path, queue_at: MakeQueue) -> None:
    with private_server(tmp_path, rdbcompression="no", aof_use_rdb_preamble="yes") as server:
        with redis.Redis.from_url(server.url) as client:
            for first in range(0, 4000, 1000):
                client.mset({f"ballast{first + n}": b"x" * 10_000 for n in range(1000)})
            client.bgrewriteaof()
            wait_until(lambda: not rewriting(client), "the log to be rewritten")
        queue = queue_at(server.url)
        queue.push({"id": "a"})
        server.kill()
        loader, _ = in_background(server.start)
        wait_until(lambda: refusal(server) == "LOADING" or not loader.is_alive(), "it to load")
        until = time.monotonic() + 10
        while time.monotonic() < until:
            try:
                queue.push({"id": "b"})
                break
            except redis.ConnectionError:  # not listening yet, or still loading
                continue
        loader.join(10)
        assert [message.id for message in queue.pop_many(2)] == ["a", "b"]


def rewriting(client: redis.Redis) -> bool:
    info: Any = client.info("persistence")
    return bool(info["aof_rewrite_in_progress"] or info["aof_rewrite_scheduled"])


def refusal(server: Server) -> str:
    try:
        with redis.Redis.from_url(server.url, retry=None) as client:
            client.ping()
    except redis.BusyLoadingError:
        return "LOADING"
    except redis.ConnectionError:
        return "none"
    return ""


def test_a_busy_server_refuses_and_goes_on_after_script_kill(
    server: Server, client: redis.Redis, queue: ackq.Queue
) -> None:
    queue.push({"id": "a"})
    client.config_set("lua-time-limit", 20)
    # Waits for as long as the refusals take, and does not begin the script again.
    with redis.Redis.from_url(server.url, socket_timeout=None, retry=None) as other:
        thread, results = in_background(lambda: other.eval("while true do end", 0))
        try:
            wait_until(lambda: is_busy(client), "the script to take too long")
            for operation in (queue.pop, lambda: queue.push({"id": "b"}), queue.stats):
                with pytest.raises(ResponseError, match="BUSY"):
                    operation()
        finally:
            client.script_kill()
            thread.join(30)
            client.config_set("lua-time-limit", 5000)
    assert isinstance(results[0], ResponseError)
    assert queue.stats().ready == 1
    message = queue.pop()
    assert message is not None
    assert message.id == "a"


def is_busy(client: redis.Redis) -> bool:
    try:
        client.ping()
    except ResponseError:
        return True
    return False


# --- wrong keys ---------------------------------------------------------------------


def contents(client: redis.Redis) -> dict[bytes, bytes]:
    keys: list[bytes] = client.keys("*")  # type: ignore[assignment]
    return {key: client.dump(key) for key in keys}  # type: ignore[misc]


def test_a_read_only_server_is_connected_to_anew(
    client: redis.Redis, proxy: Proxy, flavoured: Callable[..., Any]
) -> None:
    """Another server may be behind its name by now."""
    queue = flavoured(ackq.Queue.from_url, ackq.AsyncQueue.from_url, proxy.url, "jobs")
    queue.stats()
    before = proxy.opened
    client.replicaof("127.0.0.1", 1)
    try:
        with pytest.raises(ReadOnlyError):
            queue.push({"id": "a"})
    finally:
        client.replicaof("NO", "ONE")
    assert proxy.opened > before
    assert queue.push({"id": "b"}) == "b"
    queue.close()


@pytest.mark.parametrize("kind", ["lose_reply", "lose_request"])
def test_a_cancel_is_not_sent_again(
    client: redis.Redis, proxy: Proxy, flavoured: Callable[..., Any], kind: Kind
) -> None:
    delay = flavoured(DelayQueue.from_url, AsyncDelayQueue.from_url, proxy.url, "d")
    delay.push("k", "x", delay=60)
    assert delay.cancel("other") == 0  # the script is loaded now
    fault = proxy.fail(b"EVALSHA", kind)
    sent = proxy.count(b"EVALSHA")
    with pytest.raises(ackq.UnknownOutcome):
        delay.cancel("k")
    assert fault.hit == 1
    assert proxy.count(b"EVALSHA") - sent == 1
    delay.close()
