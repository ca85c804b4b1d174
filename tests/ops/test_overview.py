"""An overview finds the queues of every kind, and reads true figures in few round trips."""

import contextlib
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import redis
from redis.exceptions import NoPermissionError

from ackq import Queue
from ackq.config import QueueConfig
from ackq.core.io import driver as driver_module
from ackq.core.io.driver import Driver
from ackq.core.io.routes import SingleRoute
from ackq.delay import DelayQueue, PartitionedDelayQueue
from ackq.errors import KeyTypeError
from ackq.membership.shards import whole
from ackq.ops import overview as overview_module
from ackq.ops.asking import read_clock
from ackq.ops.overview import Overview
from ackq.ops.read_lists import read_alone, read_together
from ackq.ops.readings import Asked, Reading
from ackq.queue.claims_client import Claims
from ackq.sharded import ShardedQueue
from ackq.topic import Topic
from ackq.worker.presence import encode_record, heartbeat
from tests.kinds.stock import all_stocks
from tests.servers import Client, Target, private_server
from tests.waiting import wait_until


@pytest.fixture
def client(target: Target) -> Iterator[Client]:
    with contextlib.closing(target.make_client()) as made:
        yield made


def figures(queues: tuple[Reading, ...]) -> dict[tuple[str, str], tuple[int, Any]]:
    return {(each.kind, each.name): (each.backlog, each.states) for each in queues}


def test_queues_of_every_kind_are_found_by_themselves(client: Client, token: str) -> None:
    with all_stocks(client, token) as stocks, Overview(client) as overview:
        snapshot = overview.read()
    expected = {(each.kind, each.name): (each.backlog, each.states) for each in stocks.values()}
    assert figures(snapshot.queues) == expected
    assert snapshot.complete
    assert snapshot.left_out == 0
    assert all(server.up for server in snapshot.servers)
    (topic,) = (each for each in snapshot.queues if each.kind == "topic")
    assert topic.lags == stocks["topic"].lags
    with Queue(client, f"{{{token}}}other") as other:
        other.push({"id": "a"})
        other.pop()
    # Named queues are read without a search for others.
    with Overview(client, [name for _, name in expected]) as overview:
        assert figures(overview.read().queues) == expected


def test_a_queue_without_keys_is_read_if_it_is_named(client: Client, name: str) -> None:
    with Overview(client, [name]) as overview:
        (reading,) = overview.read().queues
        assert (reading.kind, reading.backlog) == ("list", 0)
        client.lpush(name, "{}")
        (reading,) = overview.read().queues
        assert (reading.kind, reading.backlog) == ("list", 1)


def test_what_only_looks_like_a_queue_is_left_out(client: Client, name: str) -> None:
    client.set(f"{name}BACKUP", "text")
    client.zadd(f"{name}:z", {"a rank": 1})
    client.xadd(f"{name}log:dead", {"text": "x"})
    client.set(f"{name}:nextIndex", "soon")
    client.set(f"{name}:QUEUES", "text")
    client.set(f"{name}:group", "text")
    client.zadd(name.encode() + b"\xffBACKUP", {"a": 1})
    with Overview(client) as overview:
        snapshot = overview.read()
        assert snapshot.queues == ()
        assert snapshot.left_out == 4
        assert overview.read().left_out == 4


def test_many_queues_are_read_in_few_bounded_steps_while_the_server_works_on_the_next(
    plain_client: redis.Redis, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe = plain_client.pipeline()
    for number in range(1050):
        pipe.zadd(f"{name}-{number}BACKUP", {"key": number * 1e9})
    pipe.execute()
    pipelined: list[int] = []
    unread: list[int] = [0]
    send, read = driver_module._send, driver_module.read_reply

    def counting_send(connection: Any, requests: list[Any]) -> None:
        pipelined.append(len(requests))
        unread.append(unread[-1] + len(requests))
        send(connection, requests)

    def counting_read(connection: Any) -> Any:
        unread.append(unread[-1] - 1)
        return read(connection)

    with Overview(plain_client) as overview:
        overview.read()  # learns the script
        monkeypatch.setattr(driver_module, "_send", counting_send)
        monkeypatch.setattr(driver_module, "read_reply", counting_read)
        queues = {each.name: each for each in overview.read().queues}
    for number in range(1050):  # each has its own figures
        overdue = queues[f"{name}-{number}"].overdue
        assert overdue == pytest.approx(time.time() - number * 1000, abs=400)
    # 25 queues in a call, and 20 calls at once.
    assert sorted(pipelined) == [2, 20, 20]
    assert (max(unread), unread[-1]) == (40, 0)


def test_queues_that_were_read_one_by_one_are_not_kept(
    plain_client: redis.Redis, name: str
) -> None:
    with Overview(plain_client) as overview:
        for number in range(3):
            overview.read_one(f"{name}-{number}")
        (node,) = overview._nodes
        assert [each.name for each in node.checked] == [f"{name}-2"]


def test_a_search_is_complete_at_once_and_goes_on_in_bounded_steps(
    plain_client: redis.Redis, name: str
) -> None:
    pipe = plain_client.pipeline()
    for number in range(5000):
        pipe.set(f"{name}:{number}", "")
    pipe.execute()
    plain_client.zadd(f"{name}BACKUP", {"key": 1e15})

    def scans() -> int:
        return int(plain_client.info("commandstats").get("cmdstat_scan", {}).get("calls", 0))

    with Overview(plain_client, steps=2) as overview:
        assert overview.read().complete
        before = scans()
        overview.read()
        assert scans() - before == 2


def test_more_queues_than_the_limit_are_counted(plain_client: redis.Redis, name: str) -> None:
    for number in range(5):
        plain_client.zadd(f"{name}-{number}BACKUP", {"key": 1e15})
    with Overview(plain_client, most=3) as overview:
        snapshot = overview.read()
    assert (len(snapshot.queues), snapshot.left_out) == (3, 2)


def test_the_age_of_the_oldest_ready_message_is_that_of_every_kind(
    client: Client, token: str
) -> None:
    ago = round(time.time() * 1000) - 600_000
    timed = b'{"made":%d}' % ago
    with (
        all_stocks(client, token) as stocks,
        Overview(client, time_field="made") as overview,
    ):
        names = {each: stock.name for each, stock in stocks.items()}
        shards = stocks["sharded"].parts
        ages = {each.name: each.oldest_ready for each in overview.read().queues}
        # Lists and topics have no times, and neither have these messages.
        known = {name: age for name, age in ages.items() if age is not None}
        untimed = {names[each] for each in ("list", "left", "sharded", "topic")}
        assert ages.keys() - known.keys() == untimed
        assert all(0 <= age < 30 for age in known.values())

        for each in (names["delay"], stocks["partitioned"].parts[1]):
            with DelayQueue(client, each) as delayed:
                delayed.purge()
                delayed.push("old", b"1", at_ms=ago)
        for each in ("list", "left"):
            pop_from: Any = "left" if each == "left" else "right"
            with Queue(client, names[each], pop_from=pop_from) as queue:
                queue.purge()
                queue.push(timed)
        with Topic(client, names["topic"]) as topic:
            topic.publish(timed)
            topic.seek("billing", 4)
            topic.seek('o"dd\\name', "end")
        visible: Any = client.zrange(names["rsmq"], 0, 0)
        client.zadd(names["rsmq"], {visible[0]: ago})
        for each in shards:
            with Queue(client, each) as queue:
                queue.purge()
        ages = {each.name: each.oldest_ready for each in overview.read().queues}
        assert ages.pop(names["sharded"]) == 0
        (lags,) = (each.lag_seconds for each in overview.read().queues if each.kind == "topic")
        assert lags == {"billing": pytest.approx(600, abs=15), 'o"dd\\name': 0.0}
        assert all(age == pytest.approx(600, abs=15) for age in ages.values()), ages
        with Queue(client, shards[-1]) as queue:
            queue.push(timed)
        ages = {each.name: each.oldest_ready for each in overview.read().queues}
        assert ages[names["sharded"]] == pytest.approx(600, abs=15)
        with Queue(client, shards[0]) as queue:
            queue.push({"id": "untimed"})
        ages = {each.name: each.oldest_ready for each in overview.read().queues}
        assert ages[names["sharded"]] is None


def test_what_was_there_before_counting_began_is_no_push(
    plain_client: redis.Redis, name: str
) -> None:
    with Queue(plain_client, name) as queue, Overview(plain_client, [name], window=60) as overview:
        queue.push_many([{"id": each} for each in "abc"])
        queue.pop()
        overview.read()
        queue.push_many([{"id": each} for each in "de"])
        counters = queue.counters()
        assert (counters.pushed, counters.taken) == (2, 0)
        queue.purge()


def test_a_queue_that_stays_empty_is_forgotten(
    plain_client: redis.Redis, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Queue(plain_client, name) as queue, Overview(plain_client, window=60) as overview:
        queue.push({"id": "a"})
        message = queue.pop()
        assert message is not None
        assert len(overview.read().queues) == 1
        queue.ack(message)
        assert [each.backlog for each in overview.read().queues] == [0]
        monkeypatch.setattr(overview_module, "FORGET_AFTER", 0.0)
        queue.push({"id": "b"})
        message = queue.pop()
        assert message is not None
        queue.ack(message)
        # It was used since the last reading, as its totals show.
        assert len(overview.read().queues) == 1
        wait_until(lambda: overview.read().queues == (), "it to be forgotten")


def test_consumers_that_unsubscribed_are_forgotten(client: Client, name: str) -> None:
    with Topic(client, name) as topic, Overview(client) as overview:
        topic.publish(b"1")
        topic.subscribe("gone", "end")
        topic.subscribe("stays", "end")
        (reading,) = overview.read().queues
        assert reading.lags == {"gone": 0, "stays": 0}
        topic.unsubscribe("gone")
        (reading,) = overview.read().queues
        assert reading.lags == {"stays": 0}


@pytest.mark.usefixtures("impatient")
def test_a_server_that_is_away_has_no_figures_and_is_read_again_later(tmp_path: Path) -> None:
    with (
        private_server(tmp_path) as server,
        contextlib.closing(redis.Redis(port=server.port or 0)) as client,
        Overview(client) as overview,
    ):
        client.zadd("jobsBACKUP", {"key": 1e15})
        assert len(overview.read().queues) == 1
        server.kill()
        snapshot = overview.read()
        assert snapshot.queues == ()
        assert [each.up for each in snapshot.servers] == [False]
        server.start()
        client.zadd("jobsBACKUP", {"key": 1e15})
        assert len(overview.read().queues) == 1


class Failing:
    """A route on which every request fails."""

    address = "away"

    def __init__(self, error: Exception) -> None:
        self._error = error

    def __getattr__(self, name: str) -> Any:
        raise self._error

    def close(self) -> None: ...


@pytest.mark.parametrize(
    "error", [redis.ConnectionError("away"), redis.TimeoutError("late"), OSError("no route")]
)
@pytest.mark.parametrize("named", [False, True])
def test_a_node_that_fails_is_down_and_the_others_are_read(
    plain_client: redis.Redis,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    named: bool,
) -> None:
    with (
        Topic(plain_client, name) as topic,
        Overview(plain_client, [name] if named else []) as overview,
    ):
        topic.publish(b"1")
        away = overview_module._Node(Driver(Failing(error)), clustered=False)  # type: ignore[arg-type]
        overview._nodes = [away, *overview._connected()]
        snapshot = overview.read()
        assert [(each.up, each.problem) for each in snapshot.servers] == [
            (False, error),
            (True, None),
        ]
        assert [each.name for each in snapshot.queues] == [name]
        assert not snapshot.complete
        monkeypatch.setattr(overview_module, "nodes_of", Failing(error).__getattr__)
        assert [each.up for each in overview.read().servers] == [False]


def test_a_user_who_may_not_ask_for_a_servers_figures_reads_the_queues() -> None:
    refused = Failing(NoPermissionError("no permissions to run the 'info' command"))
    node = overview_module._Node(Driver(refused), clustered=False)  # type: ignore[arg-type]
    assert overview_module._server(node) == overview_module.Server("away", True)


def test_scripts_that_the_server_does_not_know_are_sent(client: Client, name: str) -> None:
    with Queue(client, name) as queue, Overview(client, [name]) as overview:
        queue.push({"id": "a"})
        overview.read()
        client.script_flush()
        assert [each.backlog for each in overview.read().queues] == [1]


def test_a_sharded_queue_that_no_consumer_has_used_is_found(client: Client, token: str) -> None:
    with ShardedQueue(client, token, 4) as queue:
        queue.push_many([{"id": str(number)} for number in range(10)])
        queue.push({"id": "one more"})
        with Overview(client) as overview:
            for _ in range(2):
                (reading,) = overview.read().queues
                assert (reading.kind, reading.name, reading.backlog) == ("sharded", token, 11)
            # What a worker that ended left for all shards is no list queue.
            with Queue(client, whole(token)) as workers:
                record = encode_record({"name": "w", "queues": [token], "lifetime": 30}, [])
                workers.execute(lambda spec: heartbeat(spec, "w", record, 30.0, b""))
            (reading,) = overview.read().queues
            assert (reading.kind, reading.backlog, reading.workers) == ("sharded", 11, 1)


def test_shards_without_a_group_are_queues_of_their_own(client: Client, token: str) -> None:
    for number in range(2):
        with Queue(client, f"{{{token}:{number}}}") as queue:
            queue.push({"id": "a"})
            queue.pop()
    with Overview(client) as overview:
        names = [each.name for each in overview.read().queues]
    assert names == [f"{{{token}:0}}", f"{{{token}:1}}"]


def test_queues_have_the_same_figures_if_they_are_read_together_and_alone(
    plain_client: redis.Redis, token: str
) -> None:
    tag = f"{{{token}}}"
    plain_client.lpush(f"{tag}wrongBACKUP", "x")
    with all_stocks(plain_client, token):
        names = [f"{tag}{each}" for each in ("list", "left", "wrong", "busy", "none")]
    with Queue(plain_client, f"{tag}busy") as busy, Claims(plain_client, f"{tag}busy", "g") as g:
        busy.counters()
        busy.push_many([{"id": str(each), "made": 1_700_000_000} for each in range(20)])
        busy.ack(*busy.pop_many(3, visibility_timeout=600))
        busy.reject(*busy.pop_many(1))
        busy.nack(*busy.pop_many(2), delay=600)
        busy.pop_many(2, visibility_timeout=0.001)
        wait_until(lambda: busy.stats().expired == 2, "two leases to end")
        g.begin()
        g.claim(0, messages=4)
        busy.pause()
        plain_client.zadd(f"{busy.name}WORKERS:SEEN", {"w": 8e15, "gone": 1})
    driver = Driver(SingleRoute(plain_client))
    try:
        now = driver.run(read_clock())
        assert now is not None
        asked = Asked(60.0, QueueConfig(time_field="made"), round(now * 1e6), set(), set())
        together = driver.run(read_together(names, asked))
        alone = [*map(steady, driver.run_all(read_alone(each, asked) for each in names))]
    finally:
        driver.route.close()
    assert [*map(steady, together)] == alone
    assert isinstance(together[2], KeyTypeError)
    assert not asked.alone
    (busy_reading,) = (each for each in together if getattr(each, "name", "") == f"{tag}busy")
    assert isinstance(busy_reading, Reading)
    assert busy_reading.totals is not None
    assert busy_reading.workers == busy_reading.totals.dead["rejected"] == 1


def steady(reading: Reading | Exception) -> Any:
    """Return what does not depend on the time of the reading."""
    if isinstance(reading, Exception):
        return str(reading)
    stats = reading.stats
    assert stats is not None
    ages = [
        each is not None and round(each / 60)
        for each in (
            reading.oldest_ready,
            reading.overdue,
            reading.lease_age,
            stats.next_event_in,
            stats.lease_ends_in,
        )
    ]
    timeless = replace(stats, next_event_in=None, lease_ends_in=None)
    return ages, replace(reading, oldest_ready=None, overdue=None, lease_age=None, stats=timeless)


def test_the_counters_of_partitions_that_are_empty_count(client: Client, token: str) -> None:
    with PartitionedDelayQueue(client, f"{{{token}}}", 3) as queue:
        queue.push("a", b"body")  # the others have no message, then none has
        queue.delete(*queue.take(1, timeout=5))

        def counted() -> dict[str, int]:
            with Overview(client, window=60.0) as overview:
                (reading,) = overview.read().queues
            assert len(reading.parts) == 3
            assert reading.totals is not None
            return {name: reading.totals.counts[name] for name in ("pushed", "acked")}

        assert counted() == {"pushed": 0, "acked": 0}
        for number in range(20):
            queue.push(str(number), b"body")
        while taken := queue.take(5):
            queue.delete(*taken)
        assert counted() == {"pushed": 20, "acked": 20}
        queue.push("last", b"body")
        assert counted() == {"pushed": 21, "acked": 20}
