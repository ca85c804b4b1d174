"""What the doctor reports about servers that are set up well or badly, or that answer nothing."""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click.testing
import pytest
import redis

from ackq import Groups, Queue, RateLimit
from ackq.cli import main
from ackq.config import PopFrom
from ackq.core.failure_notes import mark
from ackq.errors import ConfigurationError, KeyTypeError
from ackq.membership.shards import GROUPED, shard_names
from ackq.ops.acl import SCRATCH, rules
from ackq.ops.diagnosis import Diagnosis, durability_of, judge
from ackq.ops.doctor import Doctor, convert
from ackq.ops.facts import Facts
from ackq.ops.trials import TRIALS, Answer
from ackq.queue.record import fields_of
from ackq.sharded import ShardedQueue
from tests.servers import private_server
from tests.waiting import wait_until

ALLOWED: dict[str, Answer] = {name: "allowed" for names in TRIALS.values() for name in names}


def examined(url: str, pop_from: PopFrom = "right", **settings: Any) -> Diagnosis:
    with (
        redis.Redis.from_url(url, **settings) as client,
        Doctor(client, pop_from=pop_from) as doctor,
    ):
        return doctor.examine()


def verdicts(diagnosis: Diagnosis) -> dict[str, str]:
    return {finding.check: finding.verdict for finding in diagnosis.findings}


def text(diagnosis: Diagnosis, check: str) -> str:
    return next(finding.text for finding in diagnosis.findings if finding.check == check)


# --- real servers -----------------------------------------------------------------


def test_a_sound_server_is_found_so_and_nothing_is_left_there(tmp_path: Path) -> None:
    with private_server(tmp_path, aof_load_truncated="no") as server:
        diagnosis = examined(server.url)
        assert diagnosis.sound
        assert diagnosis.durability == "always"
        assert set(diagnosis.permissions.values()) == {"allowed"}
        found = verdicts(diagnosis)
        assert found["replicas"] == "warning"
        assert {found[each] for each in found if each != "replicas"} == {"ok"}
        with redis.Redis.from_url(server.url) as client:
            assert client.dbsize() == 0


@pytest.mark.parametrize(
    ("options", "check", "verdict", "durability"),
    [
        ({"maxmemory_policy": "allkeys-lru"}, "eviction", "problem", "always"),
        ({"maxmemory_policy": "volatile-lru"}, "eviction", "warning", "always"),
        ({"appendonly": "no", "save": '""'}, "persistence", "warning", "none"),
        ({"appendonly": "no", "save": "60 1"}, "persistence", "warning", "snapshots"),
        ({"no_appendfsync_on_rewrite": "yes"}, "persistence", "warning", None),
        ({"aof_load_truncated": "yes"}, "persistence", "warning", "always"),
        ({"appendfsync": "no"}, "eviction", "ok", "system"),
        ({"appendfsync": "everysec"}, "eviction", "ok", "everysec"),
    ],
)
def test_a_setting_is_judged(
    tmp_path: Path, options: dict[str, Any], check: str, verdict: str, durability: str | None
) -> None:
    with private_server(tmp_path, **options) as server:
        diagnosis = examined(server.url)
    assert verdicts(diagnosis)[check] == verdict
    assert durability in (None, diagnosis.durability)
    assert f"class {diagnosis.durability}." in text(diagnosis, "durability")


@pytest.mark.parametrize(("room", "verdict"), [(1.05, "warning"), (0.9, "problem")])
def test_a_server_that_is_full_or_nearly_is_reported(
    users: redis.Redis, room: float, verdict: str
) -> None:
    examined(url_of(users))  # it loads the scripts
    users.config_set("maxmemory", int(users.info()["used_memory"] * room))
    diagnosis = examined(url_of(users))
    assert verdicts(diagnosis)["memory"] == verdict
    assert diagnosis.permissions["push"] in ("allowed", "refused")
    assert diagnosis.permissions["purge"] == "allowed"


def test_a_replica_is_a_problem_and_its_primary_wants_it_needed(tmp_path: Path) -> None:
    with (
        private_server(tmp_path / "one") as primary,
        private_server(tmp_path / "two", replicaof=f"127.0.0.1 {primary.port}") as replica,
    ):
        with redis.Redis.from_url(primary.url) as client:
            wait_until(lambda: client.info()["connected_slaves"], "the replica to connect")
        assert verdicts(examined(primary.url))["replicas"] == "warning"
        with redis.Redis.from_url(primary.url) as client:
            client.config_set("min-replicas-to-write", 1)
            wait_until(lambda: client.info().get("min_slaves_good_slaves"), "a good replica")
        diagnosis = examined(primary.url)
        assert verdicts(diagnosis)["replicas"] == "ok"
        assert "1 connected, 1 required" in text(diagnosis, "replicas")
        diagnosis = examined(replica.url)
        assert verdicts(diagnosis)["replicas"] == "problem"
        assert not diagnosis.sound


# --- users ------------------------------------------------------------------------


@pytest.fixture
def users(tmp_path: Path) -> Iterator[redis.Redis]:
    """The administrator of a server of this test's own."""
    with private_server(tmp_path, aof_load_truncated="no") as server:
        client = redis.Redis.from_url(server.url)
        with contextlib.closing(client):
            yield client


def log_in(admin: redis.Redis, *words: str) -> dict[str, Any]:
    admin.execute_command("ACL", "SETUSER", "someone", *words, ">c4n4ry")
    return {"username": "someone", "password": "c4n4ry"}


def url_of(admin: redis.Redis) -> str:
    return f"redis://127.0.0.1:{admin.connection_pool.connection_kwargs['port']}/0"


def test_the_doctors_own_rules_are_enough(users: redis.Redis) -> None:
    diagnosis = examined(url_of(users), **log_in(users, *rules("jobs", "doctor")))
    unknown = {check for check, verdict in verdicts(diagnosis).items() if verdict == "unknown"}
    assert unknown <= {"persistence", "replicas", "durability"}
    assert set(diagnosis.permissions.values()) == {"allowed"}
    more = log_in(users, *rules("jobs", "doctor"), "+config|get")
    diagnosis = examined(url_of(users), **more)
    assert "unknown" not in verdicts(diagnosis).values()
    assert set(diagnosis.permissions.values()) == {"allowed"}
    assert users.dbsize() == 0


def test_a_user_of_the_left_end_is_tried_there(users: redis.Redis) -> None:
    words = rules("jobs", "doctor", pop_from="left")
    diagnosis = examined(url_of(users), pop_from="left", **log_in(users, *words))
    assert set(diagnosis.permissions.values()) == {"allowed"}
    assert users.dbsize() == 0


def test_what_a_user_may_not_do_is_named(users: redis.Redis) -> None:
    words = [rule for rule in rules("jobs", "doctor") if rule not in ("+unlink", "+xadd")]
    diagnosis = examined(url_of(users), **log_in(users, *words))
    denied = {name for name, answer in diagnosis.permissions.items() if answer == "denied"}
    assert denied == {"reject", "ack a claim", "purge"}
    assert "user 'someone' may not: purge" in text(diagnosis, "may look after")
    assert users.dbsize() == 0


def test_for_a_user_without_permissions_the_diagnosis_says_unknown(users: redis.Redis) -> None:
    diagnosis = examined(url_of(users), **log_in(users, "on", "-@all", "+hello"))
    assert set(verdicts(diagnosis).values()) == {"unknown", "warning"}
    assert diagnosis.sound
    assert "allowed" not in diagnosis.permissions.values()


# --- judging ----------------------------------------------------------------------


def test_valkey_is_judged_by_its_own_version() -> None:
    facts = Facts({"redis_version": "7.2.4", "valkey_version": "8.1.7"})
    assert (facts.product, facts.version) == ("valkey", (8, 1, 7))
    assert text(judge(facts, ALLOWED), "server") == "valkey 8.1.7, standalone"


@pytest.mark.parametrize(
    ("ahead", "verdict"), [(None, "unknown"), (0.2, "ok"), (-600.0, "warning"), (600.0, "warning")]
)
def test_clocks_that_differ_are_a_warning(ahead: float | None, verdict: str) -> None:
    facts = Facts({"redis_version": "8.4.0"}, clock_ahead=ahead, clock_uncertainty=0.01)
    assert verdicts(judge(facts, ALLOWED))["clock"] == verdict


@pytest.mark.parametrize(
    ("info", "check"),
    [
        ({"redis_version": "6.0.16"}, "server"),
        ({"redis_version": "7.4.6", "loading": "1"}, "persistence"),
        ({"redis_version": "7.4.6", "aof_last_write_status": "err"}, "persistence"),
    ],
)
def test_what_cannot_hold_a_queue_is_a_problem(info: dict[str, str], check: str) -> None:
    diagnosis = judge(Facts(info), ALLOWED)
    assert verdicts(diagnosis)[check] == "problem"
    assert not diagnosis.sound


def test_what_may_not_be_asked_is_not_made_up() -> None:
    assert durability_of(Facts()) == "unknown"
    assert durability_of(Facts({"aof_enabled": "1"})) == "unknown"
    assert durability_of(Facts({"aof_enabled": "0"})) == "unknown"


# --- the command ------------------------------------------------------------------


def test_the_command_says_it_by_its_exit_code_and_shows_no_password(
    users: redis.Redis,
) -> None:
    log_in(users, *rules("jobs", "doctor"), "+config|get")
    url = url_of(users).replace("//", "//someone:c4n4ry@")
    runner = click.testing.CliRunner()
    done = runner.invoke(main, ["doctor", "--url", url], catch_exceptions=False)
    assert done.exit_code == 0
    assert "ok\tpersistence\tappend-only file, appendfsync always" in done.output
    users.config_set("maxmemory-policy", "allkeys-lru")
    bad = runner.invoke(main, ["doctor", "--url", url, "--json"], catch_exceptions=False)
    assert bad.exit_code == 1
    assert json.loads(bad.stdout)["sound"] is False
    wrong = url.replace("c4n4ry", "c4n4ry2")
    refused = runner.invoke(main, ["doctor", "--url", wrong], catch_exceptions=False)
    assert refused.exit_code in (3, 4)
    assert "c4n4ry" not in done.output + bad.output + refused.output


def test_the_scratch_queue_is_one_that_no_rule_of_a_queue_covers() -> None:
    assert not any(word.startswith(f"~{SCRATCH}") for word in rules("jobs", "operator"))


GROUPS_1 = "groups:1:10/60000000/1:stop:40:customer"
GROUPS_2 = Groups("customer", rate=RateLimit(10, per=60), on_dead="stop")


@pytest.mark.parametrize(
    ("text", "settings", "more"),
    [
        ("left", {"pop_from": "left"}, {}),
        (GROUPS_1, {"groups": GROUPS_2, "max_in_flight": 40}, {b"place": b"7"}),
        (
            f"held 5 {GROUPS_1}",
            {"groups": GROUPS_2, "max_in_flight": 40},
            {b"place": b"7", b"since": b"5", b"waits": b"1"},
        ),
    ],
)
def test_a_queue_of_format_1_is_refused_and_converted_with_its_consumers_stopped(
    plain_client: redis.Redis, name: str, text: str, settings: dict[str, Any], more: dict[Any, Any]
) -> None:
    plain_client.set(f"{name}HELD", text)
    if "groups" in settings:
        plain_client.hset(f"{name}GROUPS:BUSY", mapping={"": 7, "a": 1})
    if "since" in str(more):
        plain_client.set(f"{name}GROUPS:SINCE", 5)
    plain_client.lpush(name, '{"id":"a"}')
    plain_client.zadd(f"{name}BACKUP", {"held": 4e15})
    with Queue(plain_client, name) as plain, Queue(plain_client, name, **settings) as queue:
        for use in (plain.pop, queue.pop, plain.stats, plain.claims):
            with pytest.raises(KeyTypeError, match=f"(?s)format 1.*ackq doctor {name} --convert"):
                use()
        for only_look in (True, False):
            with pytest.raises(ConfigurationError, match="leased or claimed: stop its consumers"):
                convert(plain_client, name, only_look=only_look)
        plain_client.delete(f"{name}BACKUP")
        assert convert(plain_client, name, only_look=True)
        assert plain_client.get(f"{name}HELD") == text.encode()
        assert convert(plain_client, name)
        assert not convert(plain_client, name)
        expected = {key.encode(): value.encode() for key, value in fields_of(queue.config).items()}
        assert plain_client.hgetall(f"{name}RECORD") == expected | more
        busy = plain_client.hgetall(f"{name}GROUPS:BUSY")
        assert busy == ({b"a": b"1"} if "groups" in settings else {})
        assert not plain_client.exists(f"{name}HELD", f"{name}GROUPS:SINCE")
    plain_client.delete(*plain_client.scan_iter(f"{name}*"))


def test_a_string_of_another_program_is_not_converted(plain_client: redis.Redis, name: str) -> None:
    plain_client.set(f"{name}HELD", "mine")
    with pytest.raises(ConfigurationError, match="not a record of ackq"):
        convert(plain_client, name)
    assert plain_client.getdel(f"{name}HELD") == b"mine"


def test_a_sharded_queue_of_format_1_is_converted_shard_by_shard(
    plain_client: redis.Redis, token: str
) -> None:
    groups = GROUPS_1.replace(":40:", ":0:")
    fields: dict[Any, Any] = {
        "format": 3,
        "shards": 2,
        "draining": "",
        "version": 1,
        "groups": groups,
    }
    plain_client.hset(f"{{{token}}}:shards", mapping=fields)
    for shard in shard_names(token, 2, GROUPED):
        plain_client.set(f"{shard}HELD", groups)
    assert convert(plain_client, token, only_look=True)
    assert convert(plain_client, token)
    assert not convert(plain_client, token)
    with ShardedQueue(plain_client, token, groups=GROUPS_2) as queue:
        queue.push({"id": "a"}, group="c")
        taken = queue.pop()
        assert taken is not None
        queue.ack(taken)
    plain_client.delete(*plain_client.scan_iter(f"*{token}*"))


def doctored(url: str, name: str, *options: str) -> tuple[int, str]:
    """Run ``ackq doctor NAME``; return its exit code, and what it says of the queue."""
    words = ["doctor", name, "--url", url, *options]
    done = click.testing.CliRunner().invoke(main, words, catch_exceptions=False)
    return done.exit_code, done.output


def test_notes_of_format_1_are_converted(plain_client: redis.Redis, url: str, name: str) -> None:
    """A unique message in each state, counts of listed ones, and one that is canceled deep.

    The dead letter of a unique message is the same in both formats.
    """
    bodies = {id: b'{"id":"%s"}' % id.encode() for id in ("done", "taken", "back", "dead", "twice")}
    marks = {id: mark(body) for id, body in bodies.items()}
    now = plain_client.time()[0] * 1_000_000
    until = now + 3_600_000_000
    week, derived = 7 * 86_400_000_000, b"\0%d:7:0001" % (now * 2)
    for id in ("done", "taken", "back", "dead"):
        plain_client.lpush(name, bodies[id])
    for key, due in ((b"later", now), (b"nacked", now + 1), (derived, now * 2)):
        plain_client.zadd(f"{name}DELAYED", {key: due})
        body = bodies["twice"] if key == derived else b'{"id":"%s"}' % key
        plain_client.hset(f"{name}CONTEXT", key, body)
    old: dict[Any, Any] = {
        b"done": b"0:%s:%d" % (marks["done"], until),
        b"\0unique:": b":",
        b"\0unique:taken": b"0:%s:%d" % (marks["taken"], until),
        b"back": b"3:%s" % marks["back"],
        b"\0canceled": b"%d:1" % (now - 9),
        b"\0canceled:dead": b"%d:1:%s\n%d:1:7:ab"
        % (now - 5 + week, marks["dead"], now - 99 + week),
        b"later": b":",
        b"nacked": b"2 ",
        derived: b":",
        b"\0unique:twice": derived.replace(b":", b"-"),
        b"gone": b":",
        b"plain": b"4",
    }
    plain_client.hset(f"{name}RECEIVES", mapping=old)
    letter = {"key": "buried", "body": '{"id":"buried"}', "reason": "rejected", "count": 1}
    plain_client.xadd(f"{name}DEAD", {**letter, "time": now, "unique": 1})  # type: ignore[dict-item]
    assert doctored(url, name) == (
        1,
        f"{name} is stored in format 1: stop its consumers, then add --convert\n",
    )
    assert plain_client.hgetall(f"{name}RECEIVES") == old
    assert doctored(url, name, "--convert") == (
        0,
        f"{name} was converted from format 1 to format 2\n",
    )
    assert doctored(url, name, "--convert") == (
        0,
        f"{name} is stored in format 2, or has nothing that depends on it\n",
    )
    assert plain_client.hgetall(f"{name}RECEIVES") == {b"nacked": b"2", b"plain": b"4"}
    assert plain_client.hgetall(f"{name}NOTES") == {
        b":done": b"%s/%d" % (marks["done"], until),
        b":taken": b"%s/%d" % (marks["taken"], until),
        b"%s:back" % marks["back"]: b"1 3 0",
        b"%s:dead" % marks["dead"]: b"%d 0 1" % (now - 5),
        b":later": b"=",
        b":nacked": b"=",
        b":twice": derived[1:],
    }
    with Queue(plain_client, name) as queue:
        assert {each.problem for each in queue.audit(repair=True).findings} == {"stale count"}
        assert queue.redrive() == 1
        ids = ["done", "taken", "later", "nacked", "twice", "buried"]
        pushed = queue.push_many([{"id": id} for id in ids], unique="done")
        assert not any(each.stored for each in pushed)
        taken = {message.id: message.receive_count for message in queue.pop_many(10)}
        back, listed = {"later": 1, "nacked": 3, "buried": 1}, {"done": 1, "taken": 1, "back": 4}
        assert taken == back | listed
        assert [letter.id for letter in queue.dead_letters()] == ["dead"]
        queue.purge(dead=True)
