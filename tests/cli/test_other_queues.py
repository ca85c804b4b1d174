"""``ackq rsmq``, ``ackq topic``, ``ackq delay``, ``ackq sharded``."""

import base64
import json
import math
import re

import pytest
import redis

from ackq.delay import DelayQueue
from ackq.membership.shards import shard_names
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
    stats = json.loads(ackq("stats", f"{name}:mails", "--json").output)
    assert (stats["vt"], stats["msgs"], stats["totalsent"]) == (60, 1, 2)
    assert ackq("rsmq", "visibility", "mails", first, "0", *ns).output == "1\n"
    assert ackq("rsmq", "visibility", "mails", second, "0", *ns).output == "0\n"
    ackq("rsmq", "set", "mails", "--vt", "5", "--delay", "1", *ns)
    ackq("rsmq", "set", "mails", *ns, code=3)
    stats = json.loads(ackq("stats", f"{name}:mails", "--json").output)
    assert (stats["vt"], stats["delay"], stats["maxsize"]) == (5, 1, 65536)
    assert ackq("rsmq", "delete", "mails", first, second, *ns).output == "1\n"
    ackq("rsmq", "drop", "mails", *ns, code=2)
    ackq("rsmq", "drop", "mails", "--yes", *ns)
    assert "mails" in ackq("stats", f"{name}:mails", "--kind", "rsmq", code=3).stderr


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
    later = json.loads(ackq("peek", name, "--state", "delayed", "--json", *partitions).output)
    assert (later["id"], later["body"], later["receive_count"]) == ("later", "two", 0)
    assert "now\t0\t" in ackq("peek", name, *partitions).output
    stats = json.loads(ackq("stats", name, "--json", *partitions).output)
    assert (stats["ready"], stats["delayed"]) == (1, 1)
    got = json.loads(ackq("delay", "take", name, "--lease", "0.05", "--json", *partitions).output)
    assert (got["key"], got["body"]) == ("now", "one")
    assert ackq("delay", "take", name, "--wait", "5", "--delete", *partitions).output == "one\n"
    ackq("delay", "take", name, *partitions, code=1)
    ackq("delay", "reschedule", name, "later", "--delay", "0", *partitions)
    ackq("delay", "reschedule", name, "none", "--delay", "0", *partitions, code=1)
    assert json.loads(ackq("stats", name, "--json", *partitions).output)["ready"] == 1
    assert ackq("delay", "cancel", name, "later", "now", *partitions).output == "1\n"
    code = 0 if partitions else 1  # without messages or a consumer, nothing is there
    left = ackq("stats", name, "--json", *partitions, code=code)
    assert json.loads(left.stdout)["delayed"] == 0


def test_any_time_of_others_is_shown(ackq: Run, plain_client: redis.Redis, name: str) -> None:
    times = {"-inf": -math.inf, "early": -1e12, "year 1": -62_135_596_800.0, "one": 1.0}
    later = {"ms": 1.7e12, "huge": 1e300, "inf": math.inf}
    plain_client.zadd(f"{name}:z", {**times, **later})
    lines = [line.split("\t") for line in ackq("peek", name).output.splitlines()]
    assert [line[0] for line in lines] == list(times)
    assert [line[2] for line in lines[:2]] == ["-inf", "-1000000000000.0"]
    assert lines[3][2].startswith("19")
    lines = [
        line.split("\t") for line in ackq("peek", name, "--state", "delayed").output.splitlines()
    ]
    assert [line[2] for line in lines] == ["1700000000000.0", "1e+300", "inf"]
    for state, stored in (("ready", times), ("delayed", later)):
        output = ackq("peek", name, "--state", state, "--json").output
        shown = [json.loads(line, parse_constant=pytest.fail) for line in output.splitlines()]
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
        found = map(json.loads, ackq(*args, "--json").output.splitlines())
        return [
            base64.b64decode(text) if field.endswith("_base64") else text
            for each in found
            for field, text in each.items()
            if re.match("(id|key)(_base64)?$", field)
        ]

    assert sorted(keys("peek", name), key=repr) == ["café", key]
    assert "caf\\udce9\t0\t" in ackq("peek", name).output
    with DelayQueue(plain_client, name) as queue:
        queue.reject(*queue.take(2), reason="no good")
    assert sorted(keys("dead", "list", name), key=repr) == ["café", key]
    assert "caf\\udce9\tno good\t1\t" in ackq("dead", "list", name).output
    assert ackq("dead", "redrive", name, "--all").output == "2\n"
    ackq("delay", "reschedule", name, typed, "--delay", "0")
    both = keys("delay", "take", name, "-n", "2", "--lease", "0.01")
    assert sorted(both, key=repr) == ["café", key]
    ackq("delay", "take", name, "--wait", "5", "--lease", "0.01")
    ackq("delay", "push", name, typed, "body", code=3)
    wait_until(lambda: keys("peek", name)[1:], "both leases to end")
    assert ackq("delay", "cancel", name, typed).output == "1\n"
    assert plain_client.hkeys(f"{name}:h") == ["café".encode()]


def test_a_sharded_queue_is_used_shard_by_shard(ackq: Run, name: str) -> None:
    ackq("sharded", "push", name, '{"id":"a"}', code=3)
    assert ackq("sharded", "create", name, "--shards", "3").output == f"{name}: 3 shards\n"
    assert "has 3 shards, not 4" in ackq("sharded", "pop", name, "--shards", "4", code=3).stderr
    shards = [name]
    ids = ackq("sharded", "push", *shards, '{"id":"a"}', '{"n":1}', '{"id":"c"}').output.split()
    assert (ids[0], ids[2]) == ("a", "c")
    names = ackq("sharded", "shards", name).output.split()
    assert names == list(shard_names(name, 3))
    ackq("sharded", "push", *shards, '{"id":"k1"}', '{"id":"k2"}', "--key", "one")
    ackq("sharded", "push", *shards, '{"id":"later"}', "--delay", "600")
    ackq("sharded", "push", *shards, '{"id":null}', code=3)
    assert "total\t5\t0\t1\t0\tno\n" in ackq("stats", *shards, "--parts").output
    ackq("pause", *shards)
    ackq("sharded", "pop", *shards, code=1)
    ackq("resume", *shards)
    (popped,) = map(json.loads, ackq("sharded", "pop", *shards, "--json").output.splitlines())
    assert ackq("ack", popped["queue"], popped["key"], str(popped["receipt"])).output == "1\n"
    assert ackq("sharded", "resize", name, "2").output == f"{name}: 2 shards\n"
    assert ackq("sharded", "pop", *shards, "-n", "9", "--ack").output.count("\n") == 4
    ackq("sharded", "pop", *shards, code=1)
