"""``ackq rsmq``, ``ackq topic``, ``ackq delay``, ``ackq sharded``."""

from __future__ import annotations

import base64
import json
import math
import time

import pytest
import redis

from ackq.delay import DelayClaims, DelayQueue, PartitionedDelayQueue
from ackq.membership.shards import shard_names
from ackq.rsmq import RSMQ
from tests.cli.conftest import Run
from tests.waiting import wait_until


def test_rsmq_from_create_to_drop(ackq: Run, name: str) -> None:
    ns = ["--ns", name]
    ackq("rsmq", "create", "mails", "--vt", "60", *ns)
    assert ackq("rsmq", "list", *ns).output == "mails\n"
    assert json.loads(ackq("rsmq", "list", "--json", *ns).output) == ["mails"]
    first, second = ackq("rsmq", "send", "mails", "one", "two", *ns).output.split()
    got = json.loads(ackq("rsmq", "receive", "mails", "--json", *ns).output)
    assert (got["id"], got["body"], got["rc"]) == (first, "one", 1)
    assert ackq("rsmq", "receive", "mails", "--delete", *ns).output == "two\n"
    ackq("rsmq", "receive", "mails", *ns, code=1)
    stats = json.loads(ackq("rsmq", "stats", "mails", "--json", *ns).output)
    assert (stats["vt"], stats["msgs"], stats["totalsent"]) == (60, 1, 2)
    assert ackq("rsmq", "visibility", "mails", first, "0", *ns).output == "1\n"
    assert ackq("rsmq", "visibility", "mails", second, "0", *ns).output == "0\n"
    ackq("rsmq", "set", "mails", "--vt", "5", "--delay", "1", *ns)
    ackq("rsmq", "set", "mails", *ns, code=3)
    stats = json.loads(ackq("rsmq", "stats", "mails", "--json", *ns).output)
    assert (stats["vt"], stats["delay"], stats["maxsize"]) == (5, 1, 65536)
    assert ackq("rsmq", "delete", "mails", first, second, *ns).output == "1\n"
    ackq("rsmq", "drop", "mails", *ns, code=2)
    ackq("rsmq", "drop", "mails", "--yes", *ns)
    assert "mails" in ackq("rsmq", "stats", "mails", *ns, code=3).stderr


def test_the_dead_letters_of_rsmq_are_listed_and_redriven(ackq: Run, url: str, name: str) -> None:
    ns = ["--ns", name]
    with RSMQ.from_url(url, name, max_receives=1) as rsmq:
        rsmq.create_queue("mails", vt=0)
        ids = rsmq.send_messages("mails", ["one", "two"])
        # On its last receive each travels alone; after it, it dies.
        wait_until(lambda: not rsmq.receive_message("mails"), "both to die")
        letters = ackq("rsmq", "dead", "mails", "--json", *ns).output.splitlines()
        found = [(each["id"], each["body"], each["rc"]) for each in map(json.loads, letters)]
        assert sorted(found) == sorted([(ids[0], "one", 1), (ids[1], "two", 1)])
        assert ackq("rsmq", "dead", "mails", "-n", "1", *ns).output.count("\n") == 1
        causes = json.loads(ackq("rsmq", "dead", "mails", "--causes", "--json", *ns).output)
        newest = rsmq.dead_letters("mails")[-1]
        assert causes == {
            "count": 2,
            "cause": "received too often",
            "newest": newest.entry,
            "died_at": newest.died_at,
        }
        year = f"\t{time.localtime(newest.died_at / 1000).tm_year}-"
        assert year in ackq("rsmq", "dead", "mails", "--causes", "-n", "1", *ns).output
        assert ackq("rsmq", "redrive", "mails", "-n", "1", *ns).output == "1\n"
        (left,) = (each.entry for each in rsmq.dead_letters("mails"))
        assert ackq("rsmq", "drop-dead", "mails", "1-1", *ns).output == "0\n"
        assert ackq("rsmq", "redrive", "mails", "1-1", left, *ns).output == "1\n"
        assert ackq("rsmq", "redrive", "mails", *ns).output == "0\n"
        ackq("rsmq", "redrive", "mails", "1-1", "-n", "1", *ns, code=2)
        assert rsmq.get_queue_attributes("mails").msgs == 2


def test_a_topic_is_read_by_each_consumer_at_its_own_place(ackq: Run, name: str) -> None:
    assert ackq("topic", "publish", name, "one", "two", "three").output == "1\n2\n3\n"
    ackq("topic", "subscribe", name, "a")
    ackq("topic", "subscribe", name, "a", code=1)
    ackq("topic", "subscribe", name, "b", "--from", "end")
    assert ackq("topic", "consume", name, "a", "-n", "2").output == "one\ntwo\n"
    assert json.loads(ackq("topic", "consume", name, "a", "--json").output) == {
        "index": 3,
        "body": "three",
    }
    ackq("topic", "consume", name, "a", code=1)
    ackq("topic", "consume", name, "b", code=1)
    ackq("topic", "seek", name, "a", "oldest")
    stats = json.loads(ackq("topic", "stats", name, "a", "b", "--json").output)
    assert stats == {"oldest": 1, "newest": 3, "lag": {"a": 3, "b": 0}}
    ackq("topic", "trim", name, "--keep", "1", code=2)
    assert ackq("topic", "trim", name, "--keep", "1", "--yes").output == "2\n"
    assert "lag of b\t0" in ackq("topic", "stats", name, "b").output
    ackq("topic", "consume", name, "nobody", code=3)
    ackq("topic", "seek", name, "a", "-1", code=2)
    ackq("topic", "unsubscribe", name, "a", code=2)
    ackq("topic", "unsubscribe", name, "a", "--yes")
    ackq("topic", "unsubscribe", name, "a", "--yes", code=1)
    ackq("topic", "consume", name, "a", code=3)


@pytest.mark.parametrize("partitions", [[], ["--partitions", "3"]], ids=["plain", "partitioned"])
def test_a_delay_queue_gives_what_is_due(ackq: Run, name: str, partitions: list[str]) -> None:
    ackq("delay", "push", name, "now", "one", *partitions)
    ackq("delay", "push", name, "later", "two", "--delay", "600", *partitions)
    ackq("delay", "push", name, "now", "again", *partitions, code=3)
    later = json.loads(
        ackq("delay", "peek", name, "--state", "delayed", "--json", *partitions).output
    )
    assert (later["key"], later["body"], later["receive_count"]) == ("later", "two", 0)
    assert ackq("delay", "peek", name, *partitions).output.startswith("now\t0\t")
    stats = json.loads(ackq("delay", "stats", name, "--json", *partitions).output)
    assert (stats["ready"], stats["delayed"]) == (1, 1)
    got = json.loads(ackq("delay", "take", name, "--lease", "0.05", "--json", *partitions).output)
    assert (got["key"], got["body"]) == ("now", "one")
    assert ackq("delay", "take", name, "--wait", "5", "--delete", *partitions).output == "one\n"
    ackq("delay", "take", name, *partitions, code=1)
    ackq("delay", "reschedule", name, "later", "--delay", "0", *partitions)
    ackq("delay", "reschedule", name, "none", "--delay", "0", *partitions, code=1)
    assert json.loads(ackq("delay", "stats", name, "--json", *partitions).output)["ready"] == 1
    assert ackq("delay", "cancel", name, "later", "now", *partitions).output == "1\n"
    assert "delayed\t0" in ackq("delay", "stats", name, *partitions).output


@pytest.mark.parametrize("partitions", [[], ["--partitions", "3"]], ids=["plain", "partitioned"])
def test_the_claims_on_a_delay_queue_are_listed_and_released(
    ackq: Run, url: str, name: str, partitions: list[str]
) -> None:
    parts = [f"{name}:{n}" for n in range(3)] if partitions else [name]
    for n in range(9):
        ackq("delay", "push", name, f"key {n}", "x", *partitions)
    for part in parts:
        with DelayClaims.from_url(url, part, "nightly") as claims:
            claims.begin()
            claims.claim(0, messages=100, batch=1)
    shown = json.loads(ackq("delay", "claims", name, "--json", *partitions).output)
    assert (shown["group"], shown["batch"], shown["rows"]) == ("nightly", 1, 9)
    assert ackq("delay", "claims", name, "--group", "other", "--json", *partitions).output == ""
    ackq("delay", "take", name, *partitions, code=1)
    release = ("delay", "release-claims", name, "--yes", *partitions)
    assert ackq(*release, "--group", "other").output == "0\n"
    assert ackq(*release).output == "9\n"
    ackq("delay", "take", name, *partitions)


@pytest.mark.parametrize("partitions", [[], ["--partitions", "3"]], ids=["plain", "partitioned"])
def test_the_dead_of_a_delay_queue_are_listed_redriven_and_purged(
    ackq: Run, url: str, name: str, partitions: list[str]
) -> None:
    with (
        PartitionedDelayQueue.from_url(url, name, 3)
        if partitions
        else DelayQueue.from_url(url, name)
    ) as queue:
        queue.push("a", b"x")
        queue.push("b", b"y")
        queue.reject(*queue.take(2, timeout=5), reason="no good")
    letters = ackq("delay", "dead", name, "--json", *partitions).output.splitlines()
    assert sorted((each["key"], each["reason"]) for each in map(json.loads, letters)) == [
        ("a", "no good"),
        ("b", "no good"),
    ]
    assert ackq("delay", "dead", name, "-n", "1", *partitions).output.count("\n") == 1
    causes = ("delay", "dead", name, "--causes", *partitions)
    assert ackq(*causes).output.startswith("2\tno good\t")
    assert ackq(*causes, "-n", "1").output.startswith("1\tno good\t")
    assert json.loads(ackq(*causes, "--json").output)["count"] == 2
    assert ackq("delay", "redrive", name, "--cause", "other", *partitions).output == "0\n"
    assert ackq("delay", "redrive", name, "--cause", "no good", *partitions).output == "2\n"
    with (
        PartitionedDelayQueue.from_url(url, name, 3)
        if partitions
        else DelayQueue.from_url(url, name)
    ) as queue:
        queue.reject(*queue.take(2, timeout=5), reason="no better")
        queue.push("c", b"z")
        queue.reject(*queue.take(1, timeout=5), reason="other")
        (entry,), at = max(
            ([each.entry for each in queue.dead_letters(partition=part) if each.id == "c"], part)
            for part in range(3 if partitions else 1)
        )
    drop = ("delay", "drop-dead", name, *partitions)
    assert ackq(*drop, entry, "--partition", str(at)).output == "1\n"
    ackq(*drop, "--cause", "no better", code=2)
    ackq(*drop, code=2)
    assert ackq(*drop, "--cause", "none", "--yes").output == "0\n"
    assert ackq("delay", "redrive", name, "-n", "1", *partitions).output == "1\n"
    ackq("delay", "purge", name, *partitions, code=2)
    assert ackq("delay", "purge", name, "--yes", *partitions).output == "1\n"
    assert "dead\t1" in ackq("delay", "stats", name, *partitions).output
    assert ackq("delay", "purge", name, "--dead", "--yes", *partitions).output == "1\n"
    assert "dead\t0" in ackq("delay", "stats", name, *partitions).output


def test_any_time_of_others_is_shown(ackq: Run, plain_client: redis.Redis, name: str) -> None:
    times = {"-inf": -math.inf, "early": -1e12, "year 1": -62_135_596_800.0, "one": 1.0}
    later = {"ms": 1.7e12, "huge": 1e300, "inf": math.inf}
    plain_client.zadd(f"{name}:z", {**times, **later})
    lines = [each.split("\t") for each in ackq("delay", "peek", name).output.splitlines()]
    assert [each[0] for each in lines] == list(times)
    assert [each[2] for each in lines[:2]] == ["-inf", "-1000000000000.0"]
    assert lines[3][2].startswith("19")
    lines = [
        each.split("\t")
        for each in ackq("delay", "peek", name, "--state", "delayed").output.splitlines()
    ]
    assert [each[2] for each in lines] == ["1700000000000.0", "1e+300", "inf"]
    for state, stored in (("ready", times), ("delayed", later)):
        output = ackq("delay", "peek", name, "--state", state, "--json").output
        shown = [json.loads(each, parse_constant=pytest.fail) for each in output.splitlines()]
        expected = [None if math.isinf(at) else at for at in stored.values()]
        assert [each["at"] for each in shown] == expected
    plain_client.hset(f"{name}:h", mapping=dict.fromkeys(times, "body"))
    taken = ackq("delay", "take", name, "-n", "4", "--json").output.splitlines()
    shown = [json.loads(each, parse_constant=pytest.fail) for each in taken]
    assert [each["ready_time"] for each in shown] == [None, *list(times.values())[1:]]


def test_a_key_of_any_bytes_is_shown_and_may_be_typed(
    ackq: Run, plain_client: redis.Redis, name: str
) -> None:
    key = b"caf\xe9"
    typed = key.decode(errors="surrogateescape")
    ackq("delay", "push", name, typed, "body")
    assert plain_client.hgetall(f"{name}:h") == {key: b"body"}
    ackq("delay", "push", name, "café", "body")

    def keys(*args: str) -> list[object]:
        output = ackq("delay", *args, "--json").output
        return [
            base64.b64decode(each["key_base64"]) if "key_base64" in each else each["key"]
            for each in map(json.loads, output.splitlines())
        ]

    assert sorted(keys("peek", name), key=repr) == ["café", key]
    assert "caf\\udce9\t0\t" in ackq("delay", "peek", name).output
    with DelayQueue(plain_client, name) as queue:
        queue.reject(*queue.take(2), reason="no good")
    assert sorted(keys("dead", name), key=repr) == ["café", key]
    assert "caf\\udce9\tno good\t1\t" in ackq("delay", "dead", name).output
    assert ackq("delay", "redrive", name).output == "2\n"
    ackq("delay", "reschedule", name, typed, "--delay", "0")
    assert sorted(keys("take", name, "-n", "2", "--lease", "0.01"), key=repr) == ["café", key]
    ackq("delay", "take", name, "--wait", "5", "--lease", "0.01")
    ackq("delay", "push", name, typed, "body", code=3)
    wait_until(lambda: keys("peek", name)[1:], "both leases to end")
    assert ackq("delay", "cancel", name, typed).output == "1\n"
    assert plain_client.hkeys(f"{name}:h") == ["café".encode()]


def test_a_sharded_queue_is_used_shard_by_shard(ackq: Run, name: str) -> None:
    ackq("sharded", "push", name, '{"id":"a"}', code=3)
    assert ackq("sharded", "create", name, "--shards", "3").output == f"{name}: 3 shards\n"
    assert "has 3 shards, not 4" in ackq("sharded", "stats", name, "--shards", "4", code=3).stderr
    shards = [name]
    ids = ackq("sharded", "push", *shards, '{"id":"a"}', '{"n":1}', '{"id":"c"}').output.split()
    assert (ids[0], ids[2]) == ("a", "c")
    names = ackq("sharded", "shards", name).output.split()
    assert names == list(shard_names(name, 3))
    ackq("sharded", "push", *shards, '{"id":"k1"}', '{"id":"k2"}', "--key", "one")
    ackq("sharded", "push", *shards, '{"id":"later"}', "--delay", "600")
    ackq("sharded", "push", *shards, '{"id":null}', code=3)
    rows = [json.loads(each) for each in ackq("sharded", "stats", *shards, "--json").output.split()]
    assert [each["queue"] for each in rows] == [*names, name]
    assert (rows[3]["ready"], rows[3]["delayed"]) == (5, 1)
    assert "total\t5\t0\t1\t0\tno\n" in ackq("sharded", "stats", *shards).output
    peeked = ackq("sharded", "peek", *shards, "-n", "1", "--json").output.splitlines()
    assert 1 <= len(peeked) <= 2
    ackq("sharded", "pause", *shards)
    ackq("sharded", "pop", *shards, code=1)
    ackq("sharded", "resume", *shards)
    (popped,) = map(json.loads, ackq("sharded", "pop", *shards, "--json").output.splitlines())
    assert ackq("ack", popped["queue"], popped["key"], str(popped["receipt"])).output == "1\n"
    assert ackq("sharded", "resize", name, "2").output == f"{name}: 2 shards\n"
    assert ackq("sharded", "pop", *shards, "-n", "9", "--ack").output.count("\n") == 4
    ackq("sharded", "pop", *shards, code=1)
