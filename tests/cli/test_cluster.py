"""The URL of any node of a cluster will do."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import redis
from redis.cluster import RedisCluster

from ackq.ops.acl import rules
from ackq.ops.kinds import KINDS
from ackq.scripts import names
from ackq.sharded import ShardedQueue
from tests.cli.conftest import Run
from tests.kinds.stock import all_stocks

NODES = 3


@pytest.fixture(params=range(NODES))
def url(request: pytest.FixtureRequest, cluster: RedisCluster) -> str:
    """The URL of each node in turn: the owner of the queue's slot, and others."""
    found = sorted(cluster.get_primaries(), key=lambda each: each.port)[request.param]
    return f"redis://{found.host}:{found.port}/0"


@pytest.fixture
def name(token: str) -> str:
    return f"{{{token}}}"


def test_a_queue_is_used_from_any_node(ackq: Run, name: str, tmp_path: Path) -> None:
    (tmp_path / "lines").write_text('{"id":"d"}\n{"id":"e"}\n')
    ackq("push", name, '{"id":"a"}', '{"id":"b"}', '{"id":"c"}')
    ackq("push", name, "--file", str(tmp_path / "lines"))
    ackq("push", name, '{"id":"later"}', "--delay", "600")
    popped = json.loads(ackq("pop", name, "--json").output)
    pair = [popped["key"], str(popped["receipt"])]
    assert ackq("extend", name, *pair, "--lease", "60").output == "1\n"
    assert ackq("ack", name, *pair).output == "1\n"
    popped = json.loads(ackq("pop", name, "--json", "--wait", "5").output)
    assert ackq("nack", name, popped["key"], str(popped["receipt"]), "--dead", "no").output == "1\n"
    letter = json.loads(ackq("dead", "list", name, "--json").output)
    assert "no" in ackq("dead", "show", name, letter["entry"]).output
    ackq("dead", "redrive", name, "--all")
    ackq("pause", name)
    assert json.loads(ackq("stats", name, "--json").output)["paused"] is True
    ackq("resume", name)
    assert ackq("peek", name, "-n", "1").output.startswith("b\t")
    assert "sound" in ackq("audit", name, "--repair").output
    assert json.loads(ackq("top", name, "--json").output)["ready"] == 4
    ackq("pop", name, "-n", "9", "--ack")
    assert ackq("pop", name, "--wait", "0.1", code=1).output == ""
    assert ackq("purge", name, "--yes").output == "1\n"


def test_messages_are_moved_between_nodes(ackq: Run, name: str, token: str) -> None:
    ackq("push", name, *(f'{{"id":{number}}}' for number in range(5)))
    arrived = 0
    for number in range(4):
        other = f"{{{token}:{number}}}"
        assert ackq("move", name, other, "-n", "1").output == "1\n"
        arrived += json.loads(ackq("stats", other, "--json").output)["ready"]
    assert arrived == 4


def test_a_name_without_a_hash_tag_is_refused(ackq: Run, token: str) -> None:
    assert f"name it '{{{token}}}'" in ackq("push", token, "{}", code=3).stderr


def test_other_queues_are_used_from_any_node(ackq: Run, name: str, token: str) -> None:
    ackq("topic", "publish", name, "one")
    ackq("topic", "subscribe", name, "reader")
    assert ackq("topic", "consume", name, "reader").output == "one\n"
    ackq("delay", "push", f"{{{token}d}}", "key", "body")
    assert ackq("delay", "take", f"{{{token}d}}", "--delete").output == "body\n"
    shards = [token, "--shards", "4"]
    ackq("sharded", "push", *shards, *(f'{{"id":{number}}}' for number in range(8)))
    assert ackq("sharded", "pop", *shards, "-n", "9", "--ack").output.count("\n") == 8


def test_a_queue_of_every_kind_is_looked_at_from_any_node(
    ackq: Run, cluster: RedisCluster, token: str
) -> None:
    with all_stocks(cluster, token) as stocks:
        for stock in stocks.values():
            verbs = KINDS[stock.kind].does
            for verb, command in (("stats", ["stats"]), ("dead", ["dead", "list"])):
                if verb in verbs:
                    ackq(*command, stock.name)
            if "peek" in verbs:
                found = ackq("peek", stock.name, "--json").output.splitlines()
                assert {json.loads(line)["id"] for line in found} == {"r1", "r2"}
            if "purge" in verbs:
                assert ackq("purge", stock.name, "--dead", "--yes").output == "7\n"


def test_rsmq_is_used_from_any_node(ackq: Run, name: str) -> None:
    ackq("rsmq", "create", "mails", "--ns", name)
    ackq("rsmq", "send", "mails", "one", "--ns", name)
    assert ackq("rsmq", "receive", "mails", "--delete", "--ns", name).output == "one\n"


def test_top_finds_the_queues_of_all_nodes(ackq: Run, cluster: RedisCluster, token: str) -> None:
    queues = {f"{{{token}:{number}}}" for number in range(8)}
    for queue in queues:
        ackq("push", queue, "{}")
        ackq("pop", queue)
    found = {json.loads(line)["queue"] for line in ackq("top", "--json").output.splitlines()}
    assert queues <= found
    with ShardedQueue(cluster, token, 8) as whole:
        whole.pop()  # joins the group, which shows that they are the shards of one queue
    (row,) = [line for line in ackq("top").stdout.splitlines() if line.startswith(token)]
    assert row.startswith(f"{token}\t0\t8\t0\t0\t")
    assert row.split("\t")[11] == "sharded"


def test_the_doctor_needs_no_more_than_its_role_on_every_node(
    ackq: Run,
    cluster: RedisCluster,
    url: str,
    name: str,
    token: str,
    make: Callable[[str], redis.Redis],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    everywhere = [
        make(f"redis://{primary.host}:{primary.port}/0") for primary in cluster.get_primaries()
    ]
    for each in everywhere:
        each.execute_command("ACL", "SETUSER", token, *rules(name, "doctor"), ">secret")
    try:
        monkeypatch.setenv("ACKQ_REDIS_URL", url.replace("//", f"//{token}:secret@"))
        rows = [json.loads(line) for line in ackq("doctor", "--json").output.splitlines()]
        assert ackq("doctor").output.count("durability\t") == NODES
    finally:
        for each in everywhere:
            each.acl_deluser(token)
    assert len({row["server"] for row in rows}) == NODES
    for row in rows:
        assert set(row["permissions"].values()) == {"allowed"}
        assert {"cluster": "ok"}.items() <= {
            finding["check"]: finding["verdict"] for finding in row["findings"]
        }.items()


def test_scripts_are_loaded_into_every_node(
    ackq: Run, cluster: RedisCluster, make: Callable[[str], redis.Redis]
) -> None:
    lines = ackq("scripts", "load").output.splitlines()
    assert len(lines) == len(names())
    for node in cluster.get_primaries():
        client = make(f"redis://{node.host}:{node.port}/0")
        assert all(client.script_exists(*(line.split("\t")[1] for line in lines)))


@pytest.fixture
def make(request: pytest.FixtureRequest) -> Callable[[str], redis.Redis]:
    """``make(url)``: a client that is closed after the test."""

    def client(url: str) -> redis.Redis:
        made = redis.Redis.from_url(url)
        request.addfinalizer(made.close)
        return made

    return client
