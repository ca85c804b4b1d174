"""Connections are kept and checked, and the route leads to where the key is: with no server."""

import asyncio
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import redis
import redis.asyncio
from redis.crc import key_slot
from redis.exceptions import (
    AskError,
    ClusterDownError,
    MovedError,
    ReadOnlyError,
    ResponseError,
)

from ackq.core.io import connections, connections_async, routes, routes_async

from .wires import AsyncWire, Wire


class Flavour:
    """The blocking module or the one for asyncio, called alike."""

    def __init__(self, name: str) -> None:
        self.is_async = name == "async"
        self.module: Any = connections_async if self.is_async else connections
        self.routes: Any = routes_async if self.is_async else routes
        self.wire: Any = AsyncWire if self.is_async else Wire
        self.library: Any = redis.asyncio if self.is_async else redis
        self.runner = asyncio.Runner()  # of one loop, to which its connections belong

    def __call__(self, called: Callable[..., Any], *args: Any) -> Any:
        if not self.is_async:
            return called(*args)

        async def awaited() -> Any:
            return await called(*args)

        return self.runner.run(awaited())

    def client(self, **settings: Any) -> Any:
        pool = self.library.ConnectionPool(connection_class=self.wire, **settings)
        return self.library.Redis(connection_pool=pool)


@pytest.fixture
def on(flavour: str) -> Iterator[Flavour]:
    found = Flavour(flavour)
    with found.runner:
        yield found


def test_a_new_connection_is_not_pinged_and_an_idle_one_is_used_again(on: Flavour) -> None:
    pool = on.module.Connections(lambda: on.wire(socket_timeout=2.0, health_check_interval=7))
    assert pool.socket_timeout == 2.0
    before = time.monotonic()
    first, second = on(pool.acquire), on(pool.acquire)
    assert first is not second
    assert first.done == [("connect", 2.0, 0)]
    assert first.health_check_interval == 7
    assert before + 7 <= first.next_health_check <= time.monotonic() + 7
    # On asyncio the driver keeps the time.
    assert first.socket_timeout == (None if on.is_async else 2.0)
    pool.release(first)
    pool.release(second)
    assert (on(pool.acquire), on(pool.acquire)) == (second, first)
    assert len(first.done) == 1
    assert on.module.Connections(on.wire).socket_timeout == 5.0


@pytest.mark.parametrize(
    "unread", [True, redis.ConnectionError("x"), redis.TimeoutError("x"), OSError("x")], ids=repr
)
def test_a_connection_with_unread_data_or_none_at_all_connects_anew(
    on: Flavour, unread: Any
) -> None:
    pool = on.module.Connections(on.wire)
    wire = on(pool.acquire)
    wire.unread = unread
    pool.release(wire)
    assert on(pool.acquire) is wire
    assert not wire.waited_for_its_end
    assert wire.done[1:] == ["disconnect", ("connect", 5.0 if on.is_async else None, 0)]


def test_a_connection_that_was_idle_for_long_is_pinged(on: Flavour) -> None:
    ping = ("PING", {"check_health": False})
    for answer, is_kept in (
        (b"PONG", True),
        ("PONG", True),
        (ResponseError("MISCONF"), True),
        (b"x", False),
        (redis.ConnectionError("gone"), False),
        (redis.TimeoutError("late"), False),
        (OSError("gone"), False),
    ):
        pool = on.module.Connections(on.wire)
        wire = on(pool.acquire)
        wire.next_health_check = time.monotonic()
        wire.answers = [answer]
        pool.release(wire)
        assert on(pool.acquire) is wire
        assert wire.done[1] == ping
        assert ("disconnect" not in wire.done) is is_kept, answer
        assert len([each for each in wire.done if each[0] == "connect"]) == 2 - is_kept
    wire.next_health_check = time.monotonic() + 60
    pool.release(wire)
    assert on(pool.acquire).done.count(ping) == 1


def test_a_refused_connection_is_the_bare_error_with_a_hint(on: Flavour) -> None:
    wire = on.wire()
    pool = on.module.Connections(lambda: wire)
    for refused, hint in (
        (redis.ConnectionError("Connection closed by server."), "rediss://"),
        (redis.TimeoutError("late"), "late"),
    ):
        wire.refuses = refused
        with pytest.raises(type(refused), match=hint) as raised:
            on(pool.acquire)
        assert raised.value.__suppress_context__
        assert raised.value.__cause__ is None
        assert len(raised.traceback) < 12
    assert not wire.waited_for_its_end
    wire.refuses = OSError("x")
    with pytest.raises(OSError, match="x"):
        on(pool.acquire)
    assert (wire.done[-1] == "disconnect") is on.is_async


def test_an_interrupted_check_leaves_no_open_connection(on: Flavour) -> None:
    pool = on.module.Connections(on.wire)
    wire = on(pool.acquire)
    wire.unread = KeyboardInterrupt()
    pool.release(wire)
    with pytest.raises(KeyboardInterrupt):
        on(pool.acquire)
    assert not pool._idle
    assert (wire.done[-1] == "disconnect") is on.is_async  # the blocking one is collected


def test_a_cancellation_that_redis_py_swallows_while_connecting_is_noticed() -> None:
    class Swallowing(AsyncWire):
        async def connect(self) -> None:
            try:
                await asyncio.sleep(30)
            except asyncio.CancelledError:
                self.is_open = True

    async def body() -> None:
        wire: Any = Swallowing()
        task = asyncio.create_task(connections_async.Connections(lambda: wire).acquire())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert wire.done == ["disconnect"]

    asyncio.run(body())


def test_closing_disconnects_what_is_idle(on: Flavour) -> None:
    pool = on.module.Connections(on.wire)
    wires = [on(pool.acquire) for _ in range(3)]
    for wire in wires[:2]:
        pool.release(wire)
    on(pool.close)
    assert [wire.is_open for wire in wires] == [False, False, True]
    assert not pool._idle


# --- one server -------------------------------------------------------------------------

MOVED, ASK = MovedError("5 10.0.0.1:7001"), AskError("5 10.0.0.2:7002")


def _where(pool: Any) -> str:
    return repr(pool._make())


def test_a_route_follows_redirections_and_comes_home_when_a_server_fails(on: Flavour) -> None:
    client = on.client(host="here", port=7000, db=3, password="x", socket_timeout=2.0)
    route = on.routes.SingleRoute(client)
    assert (route.address, route.socket_timeout) == ("here:7000/3", 2.0)
    home = on(route.connections, None)
    assert _where(home) == "here:7000"
    asked = on(route.connections, ASK)
    assert _where(asked) == "10.0.0.2:7002"
    assert asked._make().settings["password"] == "x"
    assert on(route.connections, ASK) is asked
    assert on(route.connections, None) is home
    route.note(ASK)
    assert on(route.connections, None) is home
    route.note(MOVED)
    moved = on(route.connections, MOVED)
    assert _where(moved) == "10.0.0.1:7001"
    assert on(route.connections, None) is moved
    beside = route.beside(b"other")
    assert on(beside.connections, None) is home
    assert on(beside.connections, MOVED) is home
    route.note(ResponseError("ERR"))
    assert on(route.connections, None) is moved
    for error in (
        redis.ConnectionError("x"),
        redis.TimeoutError("x"),
        OSError("x"),
        ClusterDownError("x"),
        ReadOnlyError("x"),
    ):
        route.note(MOVED)
        route.note(error)
        assert on(route.connections, error) is home
    assert on.routes.SingleRoute(on.client(path="/s")).address == "unix:/s"


def test_a_server_that_became_a_replica_is_looked_up_again_once(on: Flavour) -> None:
    route = on.routes.SingleRoute(on.client())
    home = on(route.connections, None)
    wires = [on(home.acquire) for _ in range(2)]
    home.release(wires[0])
    route.note(redis.ConnectionError("x"))
    on(route.connections, None)
    assert wires[0].is_open
    route.note(ReadOnlyError("READONLY"))
    beside = route.beside(b"other")
    on(beside.connections, None)
    assert wires[0].is_open
    assert on(route.connections, ReadOnlyError("READONLY")) is home
    assert not wires[0].is_open
    home.release(wires[1])
    on(route.connections, None)
    assert wires[1].is_open


def test_a_closed_route_leaves_no_connection_anywhere(on: Flavour) -> None:
    route = on.routes.SingleRoute(on.client())
    wires = []
    for pool in (on(route.connections, None), on(route.connections, ASK)):
        wires.append(on(pool.acquire))
        pool.release(wires[-1])
    on(route.close)
    assert not any(wire.is_open for wire in wires)


def test_a_route_that_does_not_follow_or_knows_no_address_stays(on: Flavour) -> None:
    route = on.routes.SingleRoute(on.client(), follow=False)
    assert on(route.connections, ASK) is on(route.connections, None)
    unnamed = on.routes.SingleRoute(on.client(service_name="x"))
    assert on(unnamed.connections, ASK) is on(unnamed.connections, None)


def test_asking_is_sent_before_a_request_to_a_slot_that_moves(on: Flavour) -> None:
    single = on.routes.SingleRoute(on.client())
    for route in (single, on.routes.ClusterRoute(Cluster(on, {1: OWNED}), KEY)):
        for error, sent in ((ASK, [("ASKING",)]), (MOVED, []), (None, []), (OSError("x"), [])):
            wire = on.wire()
            wire.answers = [b"OK"]
            on(route.prepare, wire, error)
            assert wire.done == sent
            assert len(wire.answers) == 1 - len(sent)


# --- a cluster --------------------------------------------------------------------------

ASKED = ("CLUSTER", "SLOTS", {"check_health": False})


class Cluster:
    """A cluster client whose nodes answer CLUSTER SLOTS as told."""

    def __init__(self, on: Flavour, slots: dict[int, Any]) -> None:
        self.slots = slots
        self.asked: list[int] = []
        cluster = self

        class Node(on.wire):  # type: ignore[misc, name-defined]
            def __init__(self, **settings: Any) -> None:
                super().__init__(**settings)
                self.answers = [cluster.slots.get(self.port)] * 9

            def send_command(self, *args: Any, **options: Any) -> Any:
                assert (*args, options) == ASKED
                cluster.asked.append(self.port)
                return super().send_command(*args, **options)

        settings = {"host": "n", "port": 1, "socket_timeout": 3.0}
        nodes = [
            SimpleNamespace(host="n", port=port, connection_class=Node, connection_kwargs=settings)
            for port in slots
        ]
        pool = SimpleNamespace(connection_class=Node, connection_kwargs=settings)
        self.nodes_manager = SimpleNamespace(
            startup_nodes={each.port: each for each in nodes},
            nodes_cache={},
            slots_cache={},
            connection_kwargs=settings,
            remap_host_port=lambda host, port: (host.replace("inner", "n"), port),
        )
        self.get_nodes = lambda: nodes
        self.get_redis_connection = lambda node: SimpleNamespace(connection_pool=pool)


KEY = b"{jobs}"
SLOT = key_slot(KEY)
OWNED: Any = [
    [0, SLOT - 1, [b"inner", 1, b""]],
    [SLOT, SLOT, [b"inner", 2, b""], [b"inner", 3, b""]],
]
UNOWNED: Any = [[0, SLOT - 1, [b"inner", 1, b""]]]
NAMELESS: Any = [[0, 16383, [None, 2, b""]]]
GONE = redis.ConnectionError("gone")


def found(on: Flavour, slots: dict[int, Any], owner: int | None = None) -> tuple[str, list[int]]:
    """Return where the route leads after an error, and which nodes were asked."""
    cluster = Cluster(on, slots)
    route = on.routes.ClusterRoute(cluster, KEY)
    if owner is not None:
        route._owner = ("n", owner)
    route.note(GONE)
    where = _where(on(route.connections, GONE))
    assert not route._stale
    return where, cluster.asked


def test_after_an_error_the_nodes_are_asked_for_the_owner(on: Flavour) -> None:
    assert found(on, {1: OWNED, 2: OWNED}) == ("n:2", [1])
    assert found(on, {1: OWNED, 2: OWNED}, owner=1) == ("n:2", [2])  # the former one at last
    assert found(on, {1: GONE, 2: OWNED}) == ("n:2", [1, 2])
    assert found(on, {1: ResponseError("x"), 2: OSError("x"), 3: OWNED}) == ("n:2", [1, 2, 3])
    assert found(on, {1: UNOWNED, 2: OWNED}) == ("n:2", [1, 2])
    assert found(on, {1: NAMELESS, 2: NAMELESS}) == ("n:2", [1])
    with pytest.raises(redis.ConnectionError, match=r"^none of 2 nodes .* be reached: gone$"):
        found(on, {1: GONE, 2: GONE})
    with pytest.raises(ClusterDownError, match=r"^no node .* the slot of b'\{jobs\}'$"):
        found(on, {1: UNOWNED, 2: GONE})


def test_nodes_that_were_heard_of_are_asked_too(on: Flavour) -> None:
    cluster = Cluster(on, {1: OWNED})
    route = on.routes.ClusterRoute(cluster, KEY)
    route.note(GONE)
    on(route.connections, GONE)
    cluster.slots |= {1: GONE, 2: GONE, 3: OWNED}
    for node in route._nodes.values():
        node._idle.clear()
    route.note(GONE)
    assert _where(on(route.connections, GONE)) == "n:2"
    assert cluster.asked == [1, 1, 3]


def test_a_cluster_route_follows_redirections(on: Flavour) -> None:
    cluster = Cluster(on, {1: OWNED})
    route = on.routes.ClusterRoute(cluster, KEY)
    assert (route.address, route.socket_timeout) == ("cluster", 3.0)
    route.note(MovedError("5 inner:8"))
    owner = on(route.connections, None)
    assert _where(owner) == "n:8"
    assert owner.socket_timeout == 3.0
    asked = on(route.connections, AskError("5 inner:9"))
    assert _where(asked) == "n:9"
    assert on(route.connections, AskError("5 inner:9")) is asked
    assert on(route.connections, None) is owner
    route.note(AskError("5 inner:9"))
    route.note(ResponseError("ERR"))
    assert on(route.connections, None) is owner
    route.note(MovedError("5 :9"))  # a host that is not named: ask
    assert cluster.asked == []
    assert _where(on(route.connections, None)) == "n:2"
    assert cluster.asked == [1]
    for pool, is_idle in ((owner, True), (asked, True), (asked, False)):
        wire = on(pool.acquire)
        if is_idle:
            pool.release(wire)
            on(route.close)
            assert not wire.is_open


def test_a_route_beside_shares_connections_and_looks_for_its_own_key(on: Flavour) -> None:
    rest: Any = [SLOT + 1, 16383, [b"inner", 1, b""]]
    cluster = Cluster(on, {1: [*OWNED, rest]})
    route = on.routes.ClusterRoute(cluster, KEY)
    route.note(MovedError("5 inner:8"))
    route.note(GONE)
    beside = route.beside(b"{other}")
    assert (beside._key, beside._owner, beside._stale) == (b"{other}", None, False)
    assert route._key == KEY
    assert beside._nodes is route._nodes
    for other in (beside, route.beside(b"{other}"), beside.beside(b"{other}")):
        assert _where(on(other.connections, MovedError("5 inner:1"))) == "n:1"
    assert _where(on(route.beside(KEY).connections, None)) == "n:2"
    # redis-py's asyncio client may open connections without a limit, so it is not asked.
    assert cluster.asked == [1]
    assert _where(on(beside.beside(KEY).connections, None)) == "n:2"
    assert cluster.asked == [1], "the reply is remembered"


def test_a_cluster_route_begins_at_the_node_that_the_client_knows(on: Flavour) -> None:
    cluster = Cluster(on, {1: OWNED})
    cluster.nodes_manager.slots_cache[SLOT] = [SimpleNamespace(host="n", port="7")]
    route = on.routes.ClusterRoute(cluster, KEY)
    assert route.at is None
    assert _where(on(route.connections, None)) == "n:7"
    assert route.at is on(route.connections, None)
    assert cluster.asked == []


def test_a_node_that_cannot_be_asked_is_disconnected(on: Flavour) -> None:
    wire = on.wire()
    pool = on.module.Connections(lambda: wire)
    wire.answers = [GONE, OWNED]
    with pytest.raises(redis.ConnectionError):
        on(on.module.ask_for_slots, pool)
    assert not wire.is_open
    assert not wire.waited_for_its_end
    assert not pool._idle
    assert on(on.module.ask_for_slots, pool) == OWNED
    assert wire.is_open
    assert list(pool._idle) == [wire]
