"""Commands that take a sharded queue by its name, like any other queue."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
import redis

from ackq import Groups, Queue
from ackq.sharded import ShardedQueue
from tests.cli.conftest import Run
from tests.waiting import wait_until


@pytest.fixture
def sharded(plain_client: redis.Redis, name: str) -> Iterator[ShardedQueue]:
    with ShardedQueue(plain_client, name, 3) as queue:
        queue.stats()  # creates it
        yield queue


def lines(ackq: Run, *args: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in ackq(*args, "--json").output.splitlines()]


def test_delayed_messages_of_all_shards_are_run_and_canceled(
    ackq: Run, sharded: ShardedQueue
) -> None:
    name = sharded.name
    for number in range(5):
        sharded.push({"id": str(number)})
    ackq("push", name, '{"id":"5"}')
    ackq("push", name, '{"id":"later"}', "--delay", "600")
    (stats,) = lines(ackq, "stats", name, "--totals")
    assert (stats["ready"], stats["delayed"], stats["totals"]["acked"]) == (6, 1, 0)
    (found,) = lines(ackq, "delayed", "list", name)
    assert ackq("delayed", "cancel", name, found["entry"]).output == "1\n"
    ackq("push", name, '{"id":"a"}', '{"id":"b"}', "--delay", "600")
    ackq("push", name, '{"id":"c"}', "--delay", "600")
    assert ackq("delayed", "run", name, "--all", "--yes").output == "3\n"
    sharded.purge(dead=True)


def test_commands_for_a_list_say_what_to_do_with_a_sharded_queue(
    ackq: Run, sharded: ShardedQueue, plain_client: redis.Redis
) -> None:
    name = sharded.name
    for args in (
        ["pop", name],
        ["audit", name],
        ["drain", name, "--yes"],
        ["claims", "list", name],
    ):
        assert "is a sharded queue" in ackq(*args, code=3).stderr, args
    plain_client.lpush(name, '{"id":"list"}')
    result = ackq("push", name, '{"id":"sharded"}')
    assert "the list of the same name is left alone" in result.stderr
    assert sharded.stats().ready == plain_client.llen(name) == 1
    plain_client.delete(name)


def test_messages_move_between_a_list_and_a_sharded_queue(
    ackq: Run, sharded: ShardedQueue, plain_client: redis.Redis, token: str
) -> None:
    name, other = sharded.name, f"{token}:list"
    with Queue(plain_client, other) as queue:
        queue.push_many([{"id": str(number)} for number in range(10)])
        assert ackq("move", other, name, "-n", "9").output == "9\n"
        assert (queue.stats().ready, sharded.stats().ready) == (1, 9)
        assert "both source and destination" in ackq("move", name, name, code=3).stderr
        shard = sharded.shards()[2].name
        assert "both source and destination" in ackq("move", name, shard, code=3).stderr
        for number in range(3):
            sharded.push({"id": f"more {number}"})
        queue.purge()
        assert ackq("move", name, other, "--copy", "-n", "4").output == "4\n"
        assert ackq("move", name, other, "--copy", "--skip", "4").output == "8\n"
        copied = [each.id for each in queue.peek(20)]
        assert copied == [each.id for shard in sharded.shards() for each in shard.peek(20)]
        queue.purge()
        assert ackq("move", name, other, "-n", "5").output == "5\n"
        assert ackq("move", name, other).output == "7\n"
        assert [each.id for each in queue.peek(20)] == copied
        assert sharded.stats().in_flight == sharded.stats().ready == 0
        queue.purge()


def test_workers_of_a_sharded_queue_are_found_by_its_name(ackq: Run, sharded: ShardedQueue) -> None:
    assert ackq("workers", "-q", sharded.name).stdout == ""


def test_commands_take_the_groups_of_a_sharded_queue_from_its_record(ackq: Run, name: str) -> None:
    ackq("sharded", "create", name, "--shards", "3", "--groups", "field=customer")
    ackq("push", name, '{"id":"a"}', '{"id":"b"}', "--group", "c-17")
    ackq("sharded", "push", name, '{"id":"c","customer":"c-17"}')
    ids = [each["id"] for each in lines(ackq, "peek", name)]
    assert ids == ["a", "b", "c"]
    (taken,) = lines(ackq, "sharded", "pop", name, "-n", "1")
    assert taken["id"] == "a"
    ackq("purge", name, "--yes")
    other = ("--shards", "3", "--groups", "field=tenant")
    assert "Nothing was changed" in ackq("sharded", "create", name, *other, code=3).stderr


def test_the_groups_of_all_shards_are_listed(
    ackq: Run, plain_client: redis.Redis, name: str
) -> None:
    with ShardedQueue(plain_client, name, 3, groups=Groups("of")) as queue:
        for n in range(4):
            queue.push_many({"id": f"{of}{n}", "of": of} for of in "abcdef"[: 6 - n])
        held = [message for _ in range(12) for message in queue.pop_many(1)]
        assert {message.group for message in held} == set("abcdef")
        found = lines(ackq, "groups", name, "--top", "4")
        waiting = sorted((each["name"], each["waiting"]) for each in found)
        assert waiting == [("a", 3), ("b", 3), ("c", 3), ("d", 2)]
        assert queue.groups(1, containing="f")[0].waiting == 0
        counts = queue.stats().groups
        assert counts is not None
        assert (counts.moved_aside, counts.in_flight, counts.ready) == (12, 6, 0)
        for shard in (name, queue.shards()[0].name):
            for change in (("--off", "--yes"), ("--on", "field=of")):
                refused = ackq("groups", shard, *change, code=3).stderr
                assert f"'{name}' is a sharded queue, whose groups cannot be changed" in refused
        queue.purge()


def test_commands_count_the_former_shards_of_a_queue_with_groups(
    ackq: Run, plain_client: redis.Redis, name: str
) -> None:
    with ShardedQueue(plain_client, name, 2, groups=Groups("customer")) as queue:
        queue.push_many([{"id": "a"}, {"id": "b"}, {"id": "c"}], group="c-17")
        held = queue.pop()
        assert held
        former = held.queue
        queue.push({"id": "d"}, group="c-18")
        queue.reject(queue.pop() or held)
        queue.resize(3)
        queue.push({"id": "e"}, group="c-17")
        (listed,) = [each for each in lines(ackq, "ls") if each["queue"] == name]
        assert (listed["ready"], listed["in_flight"], listed["dead"]) == (3, 1, 1)
        (stats,) = lines(ackq, "stats", former)
        assert (stats["ready"], stats["in_flight"]) == (2, 1)
        assert "sound" in ackq("audit", former).output
        assert [each["id"] for each in lines(ackq, "peek", former)] == ["b", "c"]
        assert ackq("sharded", "pop", name, code=1).output == ""  # e waits for a, b and c
        queue.ack(held)
        wait_until(lambda: queue.ack(*queue.pop_many(9)) and not queue.stats().ready, "all")
        assert ackq("dead", "redrive", name, "--all").output == "1\n"
        assert queue.purge(dead=True) == 1
        plain_client.delete(*plain_client.keys(f"{{{name}*"))
