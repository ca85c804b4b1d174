"""Any consumer of a topic or a delay queue finishes a commit whose driver never comes back."""

import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest
import redis

from ackq.core.effects import Request
from ackq.delay import (
    AsyncDelayQueue,
    AsyncPartitionedDelayQueue,
    DelayQueue,
    PartitionedDelayQueue,
)
from ackq.delay.messages import partition_of
from ackq.delay.staging_client import DelayStaging
from ackq.staging import recovery
from ackq.staging.client import StagingBase
from ackq.staging.keys import StagingKeys
from ackq.staging.operations import StagingSpec
from ackq.staging.recovery import UnfinishedCommits
from ackq.topic import AsyncTopic, Topic
from ackq.topic.consume import MOVE_ATTEMPTS
from tests.servers import Target, private_server
from tests.staging.test_delay import entries, expected, taken
from tests.staging.test_staging import commit_and_die, keys, rows, stage
from tests.staging.test_topic import read

Open = Callable[..., Any]

#: Requests of a commit: it looks, it commits, and moves rows. So it dies between two of these.
AFTER = [2, 3, 4]


@pytest.fixture
def consuming(make_flavoured: Callable[..., Any], name: str) -> Open:
    """``consuming(Topic)``, ``consuming(partitions)``: a consumer of the test's flavour."""

    def make(what: Any, **settings: Any) -> Any:
        if what is Topic:
            return make_flavoured(Topic, AsyncTopic, name, **settings)
        if what is None:
            return make_flavoured(DelayQueue, AsyncDelayQueue, name, **settings)
        kinds = (PartitionedDelayQueue, AsyncPartitionedDelayQueue)
        return make_flavoured(*kinds, name, what, **settings)

    return make


def remains(target: Target, name: str) -> set[str]:
    return {key for key in keys(target, name) if "staged" in key or "held" in key}


def leave(writer: StagingBase, bodies: list[bytes], requests: int = 2, task: str = "0-a") -> None:
    """Commit, and die after a number of requests."""
    commit_and_die(writer, 3, [stage(writer, 3, bodies, task)], requests)


@pytest.mark.parametrize(
    ("partitions", "requests"),
    [
        (None, 3),
        (4, 4),
        *(
            pytest.param(*each, marks=pytest.mark.campaign)
            for each in ((None, 2), (None, 4), (4, 2), (4, 3))
        ),
    ],
)
def test_a_take_finishes_the_commit_of_a_driver_that_died(
    make_delay_writer: Open,
    consuming: Open,
    target: Target,
    name: str,
    partitions: int | None,
    requests: int,
) -> None:
    writer = make_delay_writer(partitions=partitions)
    leave(writer, entries(writer, 1200), requests)
    assert remains(target, name)
    assert taken(consuming(partitions)) == expected(1200)
    assert not remains(target, name)


@pytest.mark.parametrize("requests", AFTER)
def test_a_consume_finishes_it_in_order(
    make_topic_writer: Open, consuming: Open, target: Target, name: str, requests: int
) -> None:
    writer, topic = make_topic_writer(), consuming(Topic)
    topic.publish(b"before")
    staged = [stage(writer, 3, rows(1500, str(task)), f"{task}-a") for task in range(2)]
    commit_and_die(writer, 3, staged, requests)
    between = topic.publish(b"between")
    found = read(topic)
    assert found.pop(between - 1) == b"between"
    assert found == [b"before", *rows(1500, "0"), *rows(1500, "1")]
    assert topic.publish(b"after") == topic.newest() == 3003
    assert not remains(target, name)


def test_a_take_that_waits_finds_it(make_delay_writer: Open, consuming: Open) -> None:
    writer, delays = make_delay_writer(), consuming(None)
    assert delays.take() == []
    leave(writer, entries(writer, 3))
    assert len(delays.take(10, timeout=30)) == 3


def test_a_consume_that_waits_finds_it(make_topic_writer: Open, consuming: Open) -> None:
    topic = consuming(Topic)
    topic.subscribe("reader")
    assert not topic.consume("reader")
    leave(make_topic_writer(), rows(3))
    assert [each.body for each in topic.consume("reader", 10, timeout=30)] == rows(3)


def test_consumers_at_once_move_each_row_once(
    make_delay_writer: Open, opened: Open, name: str
) -> None:
    writer = make_delay_writer(partitions=4)
    leave(writer, entries(writer, 6000))
    parts: list[dict[str, bytes]] = []

    def consume() -> None:
        found: dict[str, bytes] = {}
        while batch := delays.take(1000, timeout=3):
            found |= {each.key: each.body for each in batch}
            delays.delete(*batch)
        parts.append(found)

    threads = []
    for _ in range(3):
        delays = opened(PartitionedDelayQueue, name, 4)
        threads.append(threading.Thread(target=consume))
    run(threads)
    assert sum(map(len, parts)) == 6000
    assert parts[0] | parts[1] | parts[2] == expected(6000)


def test_consumers_and_producers_at_once_keep_the_order(
    make_topic_writer: Open, opened: Open, name: str
) -> None:
    leave(make_topic_writer(), rows(10_000))
    found: list[list[bytes]] = []

    def publish(topic: Topic) -> None:
        for number in range(50):
            topic.publish(b"other-%d" % number)

    def consume(topic: Topic, reader: str) -> None:
        topic.subscribe(reader)
        seen: list[bytes] = []
        while len(seen) < 10_050:
            batch = topic.consume(reader, 1000, timeout=10)
            seen += [each.body for each in batch]
            topic.commit(batch)
        found.append(seen)

    readers = [(opened(Topic, name), f"reader {number}") for number in range(3)]
    threads = [threading.Thread(target=consume, args=each) for each in readers]
    run([*threads, threading.Thread(target=publish, args=(opened(Topic, name),))])
    assert found[0] == found[1] == found[2]
    assert [body for body in found[0] if body.startswith(b"{")] == rows(10_000)


def run(threads: list[threading.Thread]) -> None:
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_what_is_not_committed_stays_as_it_is(
    make_delay_writer: Open, make_topic_writer: Open, consuming: Open, target: Target, name: str
) -> None:
    writer, publisher = make_delay_writer(), make_topic_writer()
    stage(writer, 5, entries(writer, 10), "d")
    stage(publisher, 5, rows(10), "t")
    before = {key: target.control.dump(name + key) for key in keys(target, name)}
    topic = consuming(Topic)
    topic.subscribe("reader")
    assert not topic.consume("reader", 10)
    assert topic.unsubscribe("reader")
    assert consuming(None).take(10) == []
    assert {key: target.control.dump(name + key) for key in keys(target, name)} == before
    assert all(target.control.pttl(name + key) > 0 for key in before)


@pytest.mark.parametrize("others", [None, 2, 8])
def test_rows_go_where_their_writer_meant_whatever_partitions_a_consumer_has(
    make_delay_writer: Open, opened: Open, target: Target, name: str, others: int | None
) -> None:
    writer = make_delay_writer(partitions=4)
    leave(writer, entries(writer, 1200), 3)
    other = opened(PartitionedDelayQueue, name, others) if others else opened(DelayQueue, name)
    first = other.take(1)
    other.delete(*first)
    other.close()
    assert not remains(target, name)
    for number in range(4):
        stored: Any = target.control.hkeys(f"{name}:{number}:h")
        assert {partition_of(key, 4) for key in stored} <= {number}
    rest = taken(opened(PartitionedDelayQueue, name, 4))
    assert rest | {each.key: each.body for each in first} == expected(1200)
    assert len(rest) + len(first) == 1200


def test_messages_are_kept_as_long_as_their_writer_said(
    make_topic_writer: Open, consuming: Open, target: Target, name: str
) -> None:
    leave(make_topic_writer(max_age=3600.0, max_messages=100), rows(1500))
    topic = consuming(Topic, max_age=7200.0, on_trimmed="report")
    assert read(topic) == rows(1500)[-100:]
    assert 0 < target.control.pttl(f"{name}:messages:1500") <= 3_600_000
    leave(make_topic_writer("other"), rows(1))
    assert topic.consume("reader", timeout=30)
    assert target.control.pttl(f"{name}:messages:1501") == -1


@pytest.mark.parametrize("first", ["topic", "delay queue"])
def test_a_topic_and_a_delay_queue_of_one_name_leave_each_other_alone(
    make_delay_writer: Open, make_topic_writer: Open, opened: Open, name: str, first: str
) -> None:
    writer, publisher = make_delay_writer(partitions=4), make_topic_writer("other")
    leave(writer, entries(writer, 10), task="d")
    commit_and_die(publisher, 2, [stage(publisher, 2, rows(10), "t")], 2)
    found = read(opened(Topic, name)) if first == "topic" else None
    assert taken(opened(PartitionedDelayQueue, name, 4)) == expected(10)
    assert (found or read(opened(Topic, name))) == rows(10)


def test_a_list_of_an_earlier_version_waits_for_its_writer(
    make_delay_writer: Open, opened: Open, target: Target, name: str
) -> None:
    """As one of an earlier version: a consumer cannot know how many partitions it is for."""
    writer = make_delay_writer(partitions=4)
    writer._staging = StagingSpec("delay queue", StagingKeys.of_topic(name), "query")
    waiting = [row for row in entries(writer, 40) if row.startswith(b"1:")]
    leave(writer, waiting)
    assert opened(DelayQueue, name).take(10) == []
    assert writer.finish() == 1
    assert len(taken(opened(PartitionedDelayQueue, name, 4))) == len(waiting) > 0


def test_a_take_within_a_second_sends_nothing_more(
    plain_client: redis.Redis, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with DelayQueue(plain_client, name) as delays, Topic(plain_client, name + "t") as topic:
        topic.subscribe("reader")

        def take() -> None:
            delays.take()
            topic.consume("reader")

        looks, takes = ["ZRANGEBYSCORE"] * 2, ["EVALSHA"] * 2
        take()  # the server is checked, and learns the scripts
        take()
        monkeypatch.setattr(recovery, "CHECK_INTERVAL", 3600.0)
        delays._unfinished = UnfinishedCommits(name)
        topic._unfinished = UnfinishedCommits(name + "t")
        assert sorted(sent(plain_client, name, take)) == takes + looks
        for _ in range(50):
            assert sent(plain_client, name, take) == takes


def sent(client: redis.Redis, name: str, call: Callable[[], None]) -> list[str]:
    """Return the commands sent about ``name`` meanwhile, without those of scripts."""
    found: list[str] = []
    with client.monitor() as monitor:
        call()
        client.echo("the end")
        for each in monitor.listen():
            if "the end" in each["command"]:
                return found
            if name in each["command"] and each["client_type"] != "lua":
                found.append(each["command"].split()[0])
    raise AssertionError


def test_a_take_moves_for_a_second_and_the_next_goes_on(
    make_delay_writer: Open, opened: Open, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recovery, "CHECK_INTERVAL", 0.0)
    writer = make_delay_writer()
    leave(writer, entries(writer, 1200))
    delays = opened(DelayQueue, name)
    for count in (500, 1000, 1200, 1200):
        assert len(delays.take()) == 1
        counts = delays.stats()
        assert counts.ready + counts.in_flight == count


def test_who_may_not_look_takes_as_before(plain_client: redis.Redis, name: str, token: str) -> None:
    """As a user whose rules are older than this."""
    patterns = [
        f"~{name}:{part}"
        for part in (
            "z",
            "h",
            "leases",
            "extended",
            "receives",
            "dead",
            "wake",
            "errors",
            "counters",
            "members",
            "group",
        )
    ]
    plain_client.execute_command("ACL", "SETUSER", token, "on", ">secret", *patterns, "+@all")
    given = plain_client.get_connection_kwargs()
    place = {part: given[part] for part in ("host", "port")}
    try:
        with (
            redis.Redis(**place, username=token, password="secret") as client,
            DelayQueue(client, name) as delays,
        ):
            delays.push("k", b"x")
            assert [each.body for each in delays.take()] == [b"x"]
            with pytest.raises(redis.exceptions.NoPermissionError):
                client.exists(f"{name}:held")
    finally:
        plain_client.acl_deluser(token)


def test_a_key_of_another_application_is_left_alone(plain_client: redis.Redis, name: str) -> None:
    plain_client.set(f"{name}:held", "mine")
    with Topic(plain_client, name) as topic:
        topic.publish(b"x")
        assert read(topic) == [b"x"]
    assert plain_client.get(f"{name}:held") == b"mine"


def test_rows_that_cannot_be_moved_wait_and_stop_no_others(
    make_topic_writer: Open,
    opened: Open,
    target: Target,
    name: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    topic = opened(Topic, name)
    topic.publish(b"x")
    target.control.set(f"{name}:messages:2", b"precious")
    leave(make_topic_writer(), rows(3))
    with caplog.at_level(logging.WARNING, "ackq.staging"):
        assert read(topic) == [b"x"]
    waiting = f"committed rows of {name}:held could not be moved in yet"
    assert any(record.message.startswith(waiting) for record in caplog.records)
    assert target.control.get(f"{name}:messages:2") == b"precious"
    target.control.delete(f"{name}:messages:2")
    assert topic.consume("reader", 10, timeout=30)


def test_a_consumer_leaves_it_to_a_quicker_one(
    make_topic_writer: Open,
    opened: Open,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Or many of them would be in the way of a driver that is at it, whose attempts are counted."""
    leave(make_topic_writer(), rows(3))
    topic = opened(Topic, name)
    topic.publish(b"x")
    send, tries = topic._driver._request, []

    def lose(request: Request) -> Any:
        if request.script and request.script.name == "staging/topic":
            tries.append(request)
            return [b"moved", 1000 * len(tries)]
        return send(request)

    monkeypatch.setattr(topic._driver, "_request", lose)
    topic.subscribe("reader")
    assert topic.consume("reader")
    assert len(tries) == MOVE_ATTEMPTS
    assert not [record for record in caplog.records if record.name == "ackq.staging"]


def test_on_a_full_server_a_take_goes_on(tmp_path: Any, name: str) -> None:
    with (
        private_server(tmp_path) as server,
        redis.Redis.from_url(server.url) as client,
        DelayStaging(client, name, "query") as writer,
        DelayQueue(client, name) as delays,
    ):
        delays.push("first", b"x")
        leave(writer, entries(writer, 3))
        client.config_set("maxmemory", 1)
        taken_first = delays.take(10)
        client.config_set("maxmemory", 0)
        assert [each.key for each in taken_first] == ["first"]
        assert len(delays.take(10, timeout=30)) == 3
