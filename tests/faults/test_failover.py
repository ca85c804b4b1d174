"""Work goes on, and nothing confirmed is lost, when the primary changes or a slot moves."""

import contextlib
import functools
import hashlib
import itertools
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
import redis.asyncio
import redis.sentinel
from redis.cluster import RedisCluster
from redis.crc import key_slot
from redis.exceptions import AskError, ClusterDownError

import ackq
from ackq import scripts
from ackq.core import retries
from ackq.core.client import Client
from ackq.core.effects import Operation, Request
from ackq.core.io import settings
from ackq.embedded import Server
from ackq.ops.overview import Overview
from ackq.topic import Topic
from tests.facade import AsSync, Portal
from tests.membership.scripted import NOW, SESSION, Group
from tests.queue.scripts.fixtures import BINARIES
from tests.servers import private_server
from tests.servers.binaries import best_server
from tests.servers.process import running
from tests.servers.target import Absent
from tests.waiting import wait_until

from .slots import Move, begin_move, end_move, follow, is_whole, move_keys, move_slot
from .test_consumer_death import blocked
from .test_server_states import in_background, replicas

SERVICE = "ackq"
#: What an operation meets until a failover is over. A cluster whose node was silent for 15 s, as
#: one may seem on a busy machine, says that it is down.
UNREACHABLE = (redis.ConnectionError, redis.TimeoutError, ClusterDownError)
_sentinel: Any = redis.sentinel.Sentinel


@pytest.fixture
def executable(request: pytest.FixtureRequest) -> Path:
    """The server of this machine, or the one that a parameter names."""
    try:
        return getattr(request, "param", best_server)()
    except Absent as reason:
        pytest.skip(str(reason))


# --- Sentinel -----------------------------------------------------------------------


@pytest.fixture
def watched(tmp_path: Path, executable: Path) -> Iterator[tuple[Server, Server, int]]:
    """A primary, its replica, and the port of a Sentinel that is quick to act."""
    name = tmp_path / "redis-sentinel"
    name.symlink_to(executable)
    with contextlib.ExitStack() as stack:
        primary = stack.enter_context(private_server(tmp_path / "primary", executable))
        replica = stack.enter_context(
            private_server(tmp_path / "replica", executable, replicaof=f"127.0.0.1 {primary.port}")
        )
        client = stack.enter_context(redis.Redis.from_url(primary.url))
        wait_until(lambda: replicas(client) == 1, "the replica to be in step")
        watch: list[str] = [
            f"monitor {SERVICE} 127.0.0.1 {primary.port} 1",
            f"down-after-milliseconds {SERVICE} 300",
            f"failover-timeout {SERVICE} 3000",
        ]
        sentinel = stack.enter_context(running(tmp_path / "sentinel", name, {"sentinel": watch}))
        assert sentinel.port is not None
        manager = _sentinel([("127.0.0.1", sentinel.port)])
        stack.enter_context(contextlib.closing(manager.sentinels[0]))
        wait_until(lambda: manager.discover_slaves(SERVICE), "the Sentinel to know the replica")
        yield primary, replica, sentinel.port


def insist(operation: Callable[[], Any]) -> Any:
    """Repeat a call until the server can be reached and the cluster is whole."""
    results: list[Any] = []

    def tried() -> bool:
        with contextlib.suppress(*UNREACHABLE, redis.ReadOnlyError):
            results.append(operation())
        return bool(results)

    wait_until(tried, "the failover to be over", timeout=60)
    return results[0]


def test_work_goes_on_after_a_failover(watched: tuple[Server, Server, int]) -> None:
    primary, replica, port = watched
    manager = _sentinel([("127.0.0.1", port)])
    with (
        contextlib.closing(manager.sentinels[0]),
        contextlib.closing(manager.master_for(SERVICE)) as client,
        contextlib.closing(ackq.Queue(client, "jobs")) as queue,
    ):
        confirmed = {queue.push({"id": f"a{number}"}, confirm=1) for number in range(20)}
        held = queue.pop_many(5)
        done = queue.pop_many(5)
        assert queue.ack(*done, confirm=1) == 5
        primary.kill()
        assert insist(lambda: queue.ack(held[0])) in (0, 1)
        insist(lambda: queue.push({"id": "after"}, dedup="after"))
        seen: set[str] = set()
        while message := insist(lambda: queue.pop(timeout=0.1)):
            assert message.id not in seen
            seen.add(message.id)
            queue.ack(message)
        with redis.Redis.from_url(replica.url) as promoted:
            assert promoted.role()[0] == b"master"
        assert seen == confirmed - {each.id for each in (*held, *done)} | {"after"}
        assert queue.ack(*held[1:]) == 4  # their receipts are the replica's, too
        assert queue.audit().findings == ()


def test_a_waiting_pop_outlasts_a_failover(watched: tuple[Server, Server, int]) -> None:
    primary, _, port = watched
    manager = _sentinel([("127.0.0.1", port)])
    with (
        contextlib.closing(manager.sentinels[0]),
        contextlib.closing(manager.master_for(SERVICE)) as client,
        contextlib.closing(ackq.Queue(client, "jobs")) as queue,
    ):
        insist(queue.stats)  # on a busy machine a Sentinel may take the primary for dead
        thread, results = in_background(lambda: insist(lambda: queue.pop(timeout=20)))
        with redis.Redis.from_url(primary.url) as control:
            wait_until(lambda: blocked(control), "it to wait")
        primary.kill()
        insist(lambda: queue.push({"id": "a"}, dedup="a"))
        thread.join(20)
        assert [message.id for message in results] == ["a"]


# --- a cluster ----------------------------------------------------------------------


@pytest.fixture
def pair(tmp_path: Path, executable: Path) -> Iterator[list[Server]]:
    """A cluster of two nodes that share the slots; the first has that of ``{jobs}``."""
    options: dict[str, str | list[str]] = {"cluster-enabled": "yes", "appendonly": "no"}
    with contextlib.ExitStack() as stack:
        nodes = [
            stack.enter_context(running(tmp_path / str(n), executable, options, cluster=True))
            for n in range(2)
        ]
        clients = [stack.enter_context(redis.Redis.from_url(node.url)) for node in nodes]
        for number, client in enumerate(clients):
            client.execute_command("CLUSTER SET-CONFIG-EPOCH", number + 1)
        # A node that gives its last slot away becomes a replica, so each has some to keep.
        own = range(key_slot(b"{jobs}"), key_slot(b"{jobs}") + 1000)
        clients[0].execute_command("CLUSTER ADDSLOTS", *own)
        clients[1].execute_command("CLUSTER ADDSLOTS", *sorted({*range(16_384)} - {*own}))
        clients[0].execute_command("CLUSTER MEET", "127.0.0.1", str(nodes[1].port))
        wait_until(lambda: all(is_whole(each, 2) for each in clients), "the cluster to be whole")
        yield nodes


@contextlib.contextmanager
def frozen(server: Server) -> Iterator[None]:
    """Let a server stand still for as long as the block runs."""
    assert server.pid is not None
    os.kill(server.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(server.pid, signal.SIGCONT)


@pytest.mark.parametrize("flavour", ["sync", "async"])
@pytest.mark.parametrize("connect", ["RedisCluster", "Redis"])
def test_a_slot_that_moves_to_an_unknown_node_is_followed_there(
    pair: list[Server], executable: Path, tmp_path: Path, portal: Portal, flavour: str, connect: str
) -> None:
    options: dict[str, str | list[str]] = {"cluster-enabled": "yes", "appendonly": "no"}
    with contextlib.ExitStack() as stack:
        # It has no slots, so CLUSTER SLOTS does not list it and no client has met it.
        third = stack.enter_context(running(tmp_path / "third", executable, options, cluster=True))
        source, other, target = (
            stack.enter_context(redis.Redis.from_url(each.url)) for each in (*pair, third)
        )
        target.execute_command("CLUSTER MEET", "127.0.0.1", str(pair[0].port))
        nodes = (source, other, target)
        wait_until(lambda: all(is_whole(node, 3) for node in nodes), "all nodes to know all")
        queue = opened(stack, flavour, connect, pair[1].url, portal)
        queue.push({"id": "before"})
        assert queue.ack(queue.pop()) == 1
        move = begin_move(key_slot(b"{jobs}"), source, target)
        for number in range(2):  # the second time the connection is there already
            queue.push({"id": f"{number}"})
        assert (source.dbsize(), target.dbsize()) == (0, 1)
        end_move(move, source, target)
        if connect == "RedisCluster":
            # A node that has not heard of the move is not asked: this one would not even answer.
            stack.enter_context(frozen(pair[1]))
        begin = time.monotonic()
        assert [queue.pop().id, queue.pop().id] == ["0", "1"]
        assert time.monotonic() - begin < settings.READ_TIMEOUT


def test_an_overview_passes_over_a_queue_while_its_slot_moves(pair: list[Server]) -> None:
    with (
        redis.Redis.from_url(pair[0].url) as source,
        redis.Redis.from_url(pair[1].url) as target,
        ackq.Queue(source, "{jobs}") as queue,
        Overview(source) as overview,
    ):
        queue.push_many([{"id": "a"}, {"id": "b"}])
        queue.pop()
        assert [each.states["in_flight"] for each in overview.read().queues] == [1]
        move = begin_move(key_slot(b"{jobs}"), source, target)
        assert pair[1].port is not None
        move_keys(move.slot, source, pair[1].port)
        snapshot = overview.read()
        assert (snapshot.queues, snapshot.left_out) == ((), 0)
        end_move(move, source, target)
        (reading,) = overview.read().queues
        assert (reading.states["ready"], reading.states["in_flight"]) == (1, 1)


@pytest.fixture
def scripts_directory() -> Path:
    return scripts.directory()


@contextlib.contextmanager
def both_nodes(
    pair: list[Server], directory: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Any, Any]]:
    """Yield clients of both nodes; the scripts are those of ``directory``, perhaps a mutant's."""
    monkeypatch.setattr(scripts, "directory", lambda: directory)
    with contextlib.ExitStack() as stack:
        scripts.load.cache_clear()
        stack.callback(scripts.load.cache_clear)
        source, target = (stack.enter_context(redis.Redis.from_url(each.url)) for each in pair)
        yield source, target


def test_a_topic_is_committed_and_read_on_while_its_slot_moves(
    pair: list[Server], scripts_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Redis refuses a script's access to a key that it has emptied, once the slot is moving."""
    with (
        both_nodes(pair, scripts_directory, monkeypatch) as (source, target),
        Topic(source, "{jobs}", visibility_timeout=0.2) as topic,
    ):
        topic.subscribe("c")
        topic.publish_many([b"0", b"1", b"2", b"3", b"4"])
        assert topic.commit(topic.consume("c", 1)) == 1
        assert topic.trim(4) == 1  # now all keys of a read exist
        expired, committed = topic.consume("c", 1), topic.consume("c", 1)
        assert (expired.first, committed.first) == (2, 3)
        assert topic.commit(committed) == 1
        wait_until(lambda: time.time() > (expired.lease_expires_at or 0), "the lease to end")
        move = begin_move(key_slot(b"{jobs}"), source, target)
        again = topic.consume("c", 1)
        assert again.first == 2
        assert topic.commit(again) == 1
        assert pair[1].port is not None
        move_keys(move.slot, source, pair[1].port)
        end_move(move, source, target)
        assert topic.lag("c") == 2


@contextlib.contextmanager
def moving_queue(
    source: redis.Redis, target: redis.Redis
) -> Iterator[tuple[ackq.Queue, list[ackq.Message], Move]]:
    """Yield a queue whose slot moves, its only two leased messages, and the move.

    All keys of a settle exist, or Redis would refuse to run its script.
    """
    with ackq.Queue(source, "{jobs}", pop_from="left") as queue:
        queue.counters()
        queue.push({"id": "later"}, delay=100, unique="done")
        queue.push_many([{"id": "dead"}, {"id": "first"}])
        queue.reject(*queue.pop_many(1))
        queue.nack(*queue.pop_many(1), error=ValueError("once"))
        (first,) = queue.pop_many(1, timeout=5)
        queue.push_many([{"id": "second"}, {"id": "ready"}])
        (second,) = queue.pop_many(1)
        queue.push({"id": "before"}, front=True)
        queue.extend(first)
        assert (first.id, second.id) == ("first", "second")
        keys = [key.replace("{name}", "{jobs}") for key, _ in scripts.load("nack").keys]
        assert source.exists(*keys) == len(keys)
        yield queue, [first, second], begin_move(key_slot(b"{jobs}"), source, target)


@pytest.mark.parametrize("settle", ["nack", "release", "reject"])
def test_no_message_is_left_without_a_lease_while_its_slot_moves(
    pair: list[Server], scripts_directory: Path, monkeypatch: pytest.MonkeyPatch, settle: str
) -> None:
    """A script that ends halfway, at a key that it has emptied, has moved each message or none."""
    monkeypatch.setattr(retries, "ATTEMPTS", 1)
    with (
        both_nodes(pair, scripts_directory, monkeypatch) as (source, target),
        moving_queue(source, target) as (queue, leased, _),
    ):
        with contextlib.suppress(redis.RedisError):
            getattr(queue, settle)(*leased)
        held: set[bytes] = set()
        for each in ("{jobs}DELAYED", "{jobs}BACKUP"):
            with contextlib.suppress(AskError):  # it is empty
                held.update(source.zrange(each, 0, -1))
        assert set(source.hkeys("{jobs}CONTEXT")) <= held
        # Each of them is in one place.
        lists = [source.lrange(each, 0, -1) for each in ("{jobs}", "{jobs}HANDOFF")]
        ready = [json.loads(each)["id"] for each in itertools.chain(*lists)]
        dead = [fields[b"key"].decode() for _, fields in source.xrange("{jobs}DEAD")]
        bodies = [hkey.decode() for hkey in source.hkeys("{jobs}CONTEXT")]
        assert sorted([*ready, *dead, *bodies]) == [
            *("before", "dead", "first", "later", "ready", "second")
        ]


@pytest.mark.parametrize("settle", ["ack", "nack", "release", "reject"])
def test_a_settle_that_ended_halfway_is_completed_once_its_slot_has_moved(
    pair: list[Server], scripts_directory: Path, monkeypatch: pytest.MonkeyPatch, settle: str
) -> None:
    monkeypatch.setattr(retries, "ATTEMPTS", 10)
    port = pair[1].port
    assert port is not None
    with (
        both_nodes(pair, scripts_directory, monkeypatch) as (source, target),
        moving_queue(source, target) as (queue, leased, move),
    ):
        keys = source.dbsize()
        thread, results = in_background(lambda: getattr(queue, settle)(*leased))
        wait_until(lambda: source.dbsize() < keys, "the script to empty a key")
        move_keys(move.slot, source, port)
        end_move(move, source, target)
        thread.join(60)
        # Those that the script settled before it ended are not counted, as after a lost reply.
        assert results in ([0], [1], [2])
        assert not any(each.lease_lost for each in leased)
        assert queue.audit().findings == ()
        stats = queue.stats()
        left = stats.ready + stats.delayed + stats.dead
        assert (stats.in_flight, left) == (0, 4 if settle == "ack" else 6)


@pytest.mark.parametrize("executable", BINARIES.values(), ids=BINARIES, indirect=True)
def test_a_script_that_ends_halfway_is_called_again_only_where_that_does_no_harm(
    pair: list[Server],
) -> None:
    """Redis refuses a script's access to a key that it has emptied, once the slot is moving."""
    text = b"redis.call('DEL', KEYS[1]) return redis.call('SET', KEYS[1], ARGV[1])"
    script = scripts.Script("halts", text, hashlib.sha1(text).hexdigest().encode())
    with (
        redis.Redis.from_url(pair[0].url) as source,
        redis.Redis.from_url(pair[1].url) as target,
        Client(source, "{jobs}") as client,
    ):
        source.mset({"{jobs}1": "", "{jobs}2": ""})
        begin_move(key_slot(b"{jobs}"), source, target)
        harmful = Request((1, "{jobs}1", "new"), script=script)
        with pytest.raises(ackq.UnknownOutcome, match="the script ended halfway"):
            client._run(as_operation(harmful))
        harmless = Request((1, "{jobs}2", "new"), script=script, resend=True)
        assert client._run(as_operation(harmless)) == b"OK"  # of the target
        assert (harmless.reply_lost, source.dbsize(), target.dbsize()) == (True, 0, 1)


@pytest.mark.parametrize("executable", BINARIES.values(), ids=BINARIES, indirect=True)
def test_a_script_whose_cluster_is_down_has_done_nothing(
    pair: list[Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retries, "ATTEMPTS", 1)
    with redis.Redis.from_url(pair[0].url) as node, ackq.Queue(node, "{jobs}") as queue:
        queue.push({"id": "a"})
        node.config_set("cluster-allow-reads-when-down", "yes")
        node.execute_command("CLUSTER DELSLOTS", key_slot(b"{jobs}") + 1)
        wait_until(
            lambda: node.execute_command("CLUSTER INFO")["cluster_state"] != "ok", "it to be down"
        )
        assert queue.stats().ready == 1
        with pytest.raises(ClusterDownError):
            queue.pop()


def as_operation(request: Request) -> Operation[Any]:
    return (yield request)


def test_a_group_is_assigned_on_while_its_slot_moves(
    pair: list[Server], scripts_directory: Path
) -> None:
    with redis.Redis.from_url(pair[0].url) as source, redis.Redis.from_url(pair[1].url) as target:
        group = Group(source, "{jobs}", scripts_directory)
        group.join("one")
        assert group.call("assign", 1, 0, "one", 1, "one") == 1
        begin_move(key_slot(b"{jobs}"), source, target)
        # The only other session ends, and the only owner changes.
        generation, *_, sessions, owned = group.join("two", now=NOW + SESSION)
        assert (generation, sessions, len(owned)) == (2, [b"two"], 4)
        assert group.call("assign", 2, 0, "two", 1, "two") == 1
        assert source.hgetall(group.owners) == {b"0": b"two", b"1": b"two"}
        # The number of partitions changes, so the former owners are forgotten.
        generation, *_, owned = group.join("three", now=NOW + 2 * SESSION, shares=5)
        assert (generation, owned) == (3, [])


#: The number of groups in the next test.
GROUPS = 5


def longer_than(listed: list[str], size: int) -> bool:
    return len(listed) > size


@pytest.mark.parametrize(
    ("connect", "settings"),
    [
        (RedisCluster.from_url, {}),
        (redis.Redis.from_url, {}),
        (RedisCluster.from_url, {"groups": ackq.Groups("customer")}),
    ],
    ids=["RedisCluster", "Redis", "groups"],
)
def test_nothing_is_lost_while_the_slot_of_a_busy_queue_moves(
    pair: list[Server], connect: Callable[[str], Any], settings: dict[str, Any]
) -> None:
    slot = key_slot(b"{jobs}")
    moved = threading.Event()
    stored: set[str] = set()
    unsure: set[str] = set()
    seen: list[str] = []
    problems: list[BaseException] = []

    def produce(queue: ackq.Queue) -> None:
        for number in itertools.count():
            if moved.is_set():
                return
            try:
                stored.add(queue.push({"id": str(number), "customer": number % GROUPS}))
            except redis.RedisError as error:
                unsure.add(str(number))
                problems.append(error)

    def consume(queue: ackq.Queue) -> None:
        done: list[ackq.Message] = []
        while True:
            try:
                done = queue.pop_many(3, timeout=0.3, ack=done)
            except redis.RedisError as error:
                problems.append(error)
                done = []
                continue
            seen.extend(message.id for message in done)
            if not done and moved.is_set():
                return

    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(redis.Redis.from_url(node.url)) for node in pair]
        threads = []
        for role in (produce, consume, consume):
            client = stack.enter_context(contextlib.closing(connect(pair[0].url)))
            queue = stack.enter_context(
                ackq.Queue(client, "{jobs}", visibility_timeout=1.0, **settings)
            )
            threads.append(threading.Thread(target=role, args=(queue,)))
        for thread in threads:
            thread.start()
        try:
            for number in range(6):
                before = len(seen)
                wait_until(functools.partial(longer_than, seen, before + 100), "traffic")
                source, target = clients[number % 2], clients[1 - number % 2]
                port = pair[1 - number % 2].port
                assert port is not None
                move_slot(slot, source, target, port)
        finally:
            moved.set()
            for thread in threads:
                thread.join(20)
        assert [error for error in problems if not isinstance(error, redis.ConnectionError)] == []
        assert stored <= set(seen) <= stored | unsure
        if settings:
            for group in range(GROUPS):
                own = [
                    number for number in dict.fromkeys(map(int, seen)) if number % GROUPS == group
                ]
                assert own == sorted(own)
        stats = queue.stats()
        assert (stats.ready, stats.in_flight, stats.delayed) == (0, 0, 0)
        assert queue.audit().findings == ()


def test_a_slot_that_comes_back_meets_no_consumer_that_is_still_blocked(
    pair: list[Server],
) -> None:
    slot, (here, there) = key_slot(b"{jobs}"), (node.port for node in pair)
    assert here is not None
    assert there is not None
    with contextlib.ExitStack() as stack:
        former, owner, consumer = (
            stack.enter_context(redis.Redis(port=port)) for port in (here, there, here)
        )

        def block() -> None:
            with contextlib.suppress(redis.RedisError):  # it is sent to the slot's new owner
                consumer.execute_command("BLMOVE", "{jobs}", "{jobs}HANDOFF", "RIGHT", "LEFT", 2)

        blocked = threading.Thread(target=block)
        blocked.start()
        wait_until(lambda: former.info("clients")["blocked_clients"], "a blocked consumer")
        move_slot(slot, former, owner, there)
        with ackq.Queue(owner, "{jobs}") as queue:
            queue.push({"id": "a"})
            assert owner.lmove("{jobs}", "{jobs}HANDOFF", "RIGHT", "LEFT")
            queue.push({"id": "b"})
            # The list is newer than the hand-off list, so it moves first.
            move_slot(slot, owner, former, here)
        blocked.join()
        with ackq.Queue(former, "{jobs}") as queue:
            found = queue.pop_many(3)
            assert [each.id for each in found] == ["a", "b"]
            assert queue.ack(*found) == 2


@pytest.mark.timeout(180)
@pytest.mark.parametrize("flavour", ["sync", "async"])
@pytest.mark.parametrize("connect", ["RedisCluster", "Redis"])
def test_work_goes_on_when_a_replica_takes_over_a_slot(
    pair: list[Server], executable: Path, tmp_path: Path, portal: Portal, flavour: str, connect: str
) -> None:
    owner, other = pair
    options: dict[str, str | list[str]] = {"cluster-enabled": "yes", "appendonly": "no"}
    with contextlib.ExitStack() as stack:
        replica = stack.enter_context(
            running(tmp_path / "replica", executable, options, cluster=True)
        )
        control, there, here = (
            stack.enter_context(redis.Redis.from_url(each.url)) for each in (owner, other, replica)
        )
        here.execute_command("CLUSTER MEET", "127.0.0.1", str(other.port))
        master = control.execute_command("CLUSTER MYID").decode()
        insist(lambda: follow(here, master))
        wait_until(lambda: replicas(control) == 1, "the replica to be in step")
        wait_until(lambda: knows_replica(there, here), "the other node to know it")

        queue = opened(stack, flavour, connect, other.url, portal)
        queue.push({"id": "before"}, confirm=1)
        owner.kill()
        with pytest.raises(UNREACHABLE):
            queue.push({"id": "lost"})
        here.execute_command("CLUSTER FAILOVER", "TAKEOVER")
        insist(lambda: queue.push({"id": "after"}, dedup="after"))
        assert [insist(queue.pop).id, insist(queue.pop).id] == ["before", "after"]


@pytest.mark.parametrize("flavour", ["sync", "async"])
def test_a_node_that_falls_silent_blocks_no_caller_for_ever(
    pair: list[Server], portal: Portal, flavour: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings, "READ_TIMEOUT", 0.5)
    owner, other = pair
    with contextlib.ExitStack() as stack:
        queue = opened(stack, flavour, "RedisCluster", other.url, portal, socket_timeout=None)
        queue.push({"id": "a"})
        with frozen(owner):
            for _ in range(2):  # the second time the nodes are asked for the slot's owner
                thread, results = in_background(queue.pop)
                thread.join(30)
                assert results, "it hangs"
                assert isinstance(results[0], redis.ConnectionError | redis.TimeoutError)
        insist(lambda: queue.push({"id": "b"}, dedup="b"))
        assert queue.stats().ready + queue.stats().in_flight >= 2


def knows_replica(node: redis.Redis, replica: redis.Redis) -> bool:
    mine = replica.execute_command("CLUSTER MYID").decode()
    return any(mine in line and "slave" in line for line in nodes_lines(node))


def nodes_lines(node: redis.Redis) -> list[str]:
    """Return a line for each node that a node knows."""
    connection = node.connection_pool.get_connection()
    try:
        connection.send_command("CLUSTER", "NODES")
        return connection.read_response().decode().splitlines()  # type: ignore[no-any-return]
    finally:
        node.connection_pool.release(connection)


def opened(
    stack: contextlib.ExitStack,
    flavour: str,
    connect: str,
    url: str,
    portal: Portal,
    **settings: Any,
) -> Any:
    """Return queue {jobs} through a client of one node, or of the cluster that it is of."""
    if flavour == "sync":
        client: Any = getattr(redis, connect).from_url(url, **settings)
        stack.callback(client.close)
        queue: Any = ackq.Queue(client, "{jobs}")
    else:
        client = portal.call(lambda: getattr(redis.asyncio, connect).from_url(url, **settings))
        stack.callback(portal.call, client.aclose)
        queue = AsSync(portal, portal.call(ackq.AsyncQueue, client, "{jobs}"))
    stack.callback(queue.close)
    return queue
