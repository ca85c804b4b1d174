"""``ackq groups``, and what other commands do with a queue that has groups."""

import json

import pytest
import redis

from ackq import Groups, Queue
from tests.cli.conftest import Run


def test_groups_are_turned_on_listed_and_turned_off_with_messages_in_every_state(
    ackq: Run, url: str, plain_client: redis.Redis, name: str
) -> None:
    bodies = [b'{"id":"%d","of":"%s"}' % (n, of) for n, of in enumerate([b"a", b"a", b"b", b"a"])]
    plain_client.lpush(name, *bodies)
    assert "has no groups" in ackq("groups", name, code=1).stderr
    turned_on = ackq("groups", name, "--on", "field=of").stdout
    assert "has groups=Groups(field='of', in_flight=1" in turned_on
    empty = ackq("groups", name)  # no group is known before a pop
    assert (empty.stdout, empty.stderr) == ("", "ackq: nothing to show\n")
    other = f"{name}-other"
    ackq("groups", other, "--on", "field=customer.id", code=3)
    ackq("groups", other, "--on", "field=customer")
    plain_client.lpush(other, *bodies)
    assert "next 4 messages have no member 'customer', so no group" in ackq("groups", other).stderr
    plain_client.delete(other, f"{other}RECORD")
    with Queue.from_url(url, name, groups=Groups("of")) as queue:
        taken = queue.pop_many(1) + queue.pop_many(1)
        assert [message.id for message in taken] == ["0", "2"]
        assert queue.pop() is None
        queue.push({"id": "later", "of": "c"}, delay=600)
        queue.nack(taken[1], delay=600)
    assert ackq("groups", name, "--containing", "b").stdout == "b\t0\t1\t\t\t\n"
    shown = ackq("groups", name, "--json", "--top", "2", "--by", "oldest").stdout
    (first, _) = map(json.loads, shown.splitlines())
    assert 0 < first.pop("oldest") < 60
    expected = {"name": "a", "waiting": 2, "in_flight": 1, "turn_for": None, "stopped_by": []}
    expected |= {"paused": False, "paused_for": None, "limit": None, "rate": None}
    assert first == expected
    assert ackq("peek", name, "--group", "a").stdout.splitlines() == [
        f"{n}\t0\t-\t{bodies[n].decode()}" for n in (1, 3)
    ]
    assert ackq("peek", name, "--group", "b").stdout == ""
    assert "1\tready\tmoved aside, waits for its group's turn\t" in ackq("find", name, "1").stdout
    assert "is ready" in ackq("run-now", name, "1", code=3).stderr
    figures = json.loads(ackq("stats", name, "--json").stdout)
    counted = {key: figures[key] for key in ("moved_aside", "groups_in_flight", "groups_ready")}
    assert counted == {"moved_aside": 2, "groups_in_flight": 2, "groups_ready": 0}
    assert ackq("stats", name).stdout.startswith("ready\t2\nin_flight\t1\ndelayed\t2\n")
    assert "cannot ask for confirmation" in ackq("groups", name, "--off", code=2).stderr
    assert "has no groups" in ackq("groups", name, "--off", "--yes").stdout
    left = sorted(plain_client.lrange(name, 0, -1))
    assert left == sorted([*bodies, b'{"id":"later","of":"c"}'])
    assert plain_client.keys(f"{name}*") == [name.encode()]
    assert "has no groups" in ackq("groups", name, "--off", "--yes").stderr


def test_a_stopped_group_is_shown_with_its_dead_letters_and_resumed(
    ackq: Run, url: str, name: str
) -> None:
    ackq("groups", name, "--on", "field=of,on_dead=stop")
    with Queue.from_url(url, name, groups=Groups("of", on_dead="stop")) as queue:
        queue.push_many([{"id": f"a{n}"} for n in range(4)], group="a")
        queue.reject(*queue.pop_many(2), reason="bad")
        assert queue.pop() is None
        entries = [letter.entry for letter in queue.dead_letters()]
    assert ackq("groups", name).stdout.endswith("\ta0: bad, and 1 more\n")
    stopped_by = json.loads(ackq("groups", name, "--json").stdout)["stopped_by"]
    assert stopped_by == [
        {"entry": entry, "id": f"a{n}", "reason": "bad"} for n, entry in enumerate(entries)
    ]
    assert ackq("groups", name, "--resume", "a").stdout == "a goes on\n"
    assert "is neither paused nor stopped" in ackq("groups", name, "--resume", "a", code=1).stderr
    assert ackq("pop", name).stdout == '{"id":"a2","of":"a"}\n'


def test_a_group_is_pushed_popped_and_acked_by_commands(ackq: Run, name: str) -> None:
    ackq("groups", name, "--on", "field=customer,in_flight=1")
    ackq("push", name, "--group", "c", '{"n":1}', '{"id":"a"}', '{"n":2,"id":"b"}')
    ackq("push", name, "--group", "c", '{"id":"d","customer":"c"}', "--dedup", "once")
    pushed = ackq("pop", name, "--ack").stdout
    assert json.loads(pushed).pop("customer") == "c"
    assert pushed.startswith('{"id":"')
    assert ackq("pop", name, "--ack").stdout == '{"id":"a","customer":"c"}\n'
    assert ackq("pop", name, "--ack").stdout == '{"customer":"c","n":2,"id":"b"}\n'
    assert ackq("pop", name, "--ack").stdout == '{"id":"d","customer":"c"}\n'
    ackq("audit", name)
    ackq("purge", name, "--yes")


@pytest.mark.parametrize(
    ("settings", "shown"),
    [
        ("max_in_flight=1", "max_in_flight=1"),
        ("field=c,rate=10/60,max_in_flight=1", "RateLimit(count=10, per=60.0, burst=None)"),
        ("field=c,rate=10/60/3", "RateLimit(count=10, per=60.0, burst=3)"),
    ],
)
def test_limits_are_turned_on_and_off(
    ackq: Run, plain_client: redis.Redis, name: str, settings: str, shown: str
) -> None:
    assert shown in ackq("groups", name, "--on", settings).stdout
    ackq("push", name, '{"id":"a","c":"x"}', '{"id":"b","c":"x"}')
    assert ackq("pop", name).stdout
    ackq("pop", name, code=1)
    ackq("groups", name, "--off", "--yes")
    assert plain_client.keys(f"{name}*") == [name.encode()]


def test_wrong_groups_are_refused(ackq: Run, url: str, name: str) -> None:
    for wrong in ("customer", "field=", "in_flight=2", "field=c,in_flight=x", "field=c,rate=1"):
        ackq("groups", name, "--on", wrong, code=3 if wrong == "field=" else 2)
    ackq("groups", name, "--on", "field=c", "--off", code=2)
    assert "has no groups yet" in ackq("push", name, "--group", "c", "{}", code=3).stderr
    ackq("groups", name, "--on", "field=c")
    assert "recorded at its first use" in ackq("groups", name, "--on", "field=d", code=3).stderr
    refused = ackq("push", name, "--group", "x", '{"c":"y"}', code=3).stderr
    assert "its 'c' is another group" in refused
    ackq("push", name, "--raw", "--group", "x", "{}", code=2)
    with Queue.from_url(url, name) as plain, pytest.raises(ValueError, match="this client has"):
        plain.pop()
    ackq("groups", name, "--off", "--yes")


@pytest.mark.parametrize("way", ["force", "resume"])
def test_a_stopped_group_whose_dead_letter_cannot_be_redriven_has_a_way_on(
    ackq: Run, name: str, url: str, way: str
) -> None:
    """A unique message with the same id waits behind the dead letter."""
    with Queue.from_url(url, name, groups=Groups("of", on_dead="stop")) as queue:
        queue.push({"id": "x", "of": "a"}, unique="done")
        message = queue.pop()
        assert message is not None
        queue.reject(message)
        queue.push({"id": "x", "of": "a", "n": 2}, unique="done")
        refused = ackq("dead", "redrive", name, "--all").stderr
        assert f"ackq groups {name} --resume GROUP" in refused
        assert queue.pop() is None
        if way == "force":
            said = ackq("dead", "redrive", name, "--all", "--force").stderr
            assert "--resume" not in said
        else:
            ackq("groups", name, "--resume", "a")
        message = queue.pop()
        assert message is not None
        assert message.json() == {"id": "x", "of": "a"} | ({} if way == "force" else {"n": 2})
        queue.ack(message)


def test_limits_change_and_one_group_is_held(ackq: Run, url: str, name: str) -> None:
    ackq("groups", name, "--on", "field=of")
    changed = ackq("groups", name, "--in-flight", "3", "--rate", "10/60", "--max-in-flight", "9")
    assert "in_flight=3, rate=RateLimit(count=10, per=60.0, burst=1)" in changed.stdout
    ackq("groups", name, "--rate", "none", "--max-in-flight", "none")
    with Queue.from_url(url, name, groups=Groups("of")) as queue:
        queue.push_many([{"id": "a0"}, {"id": "a1"}], group="a")
        assert ackq("groups", name, "--pause", "a").stdout == "a is paused\n"
        assert (
            ackq("groups", name, "--pause", "b", "--for", "30").stdout == "b is paused for 30 s\n"
        )
        assert queue.pop() is None
        shown = ackq("groups", name).stdout.splitlines()
        assert shown[0].startswith("a\t2\t0\t")
        assert (shown[0].endswith("\ta pause"), "a pause for " in shown[1]) == (True, True)
        limits = ackq("groups", name, "--limit", "a", "--in-flight", "1")
        assert limits.stdout == "a has in_flight=1\n"
        assert ackq("groups", name, "--resume", "a").stdout == "a goes on\n"
        assert [message.id for message in queue.pop_many(1) + queue.pop_many(1)] == ["a0"]
        assert ackq("groups", name, "--cancel", "a").stdout == "1\n"
        assert ackq("groups", name, "--limit", "a").stdout == "a has no own limits\n"
        for wrong in (
            ["--rate", "x"],
            ["--pause", "a", "--off"],
            ["--limit", "a", "--on-dead", "stop"],
        ):
            ackq("groups", name, *wrong, code=2)
        ackq("groups", name, "--in-flight", "0", code=3)
        assert "are in flight" in ackq("groups", name, "--on-dead", "stop", code=3).stderr
        ackq("groups", name, "--resume", "a", code=1)
        queue.drain()
