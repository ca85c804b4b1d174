"""The commands that take the name of a queue of any kind."""

import json
import re
import subprocess
import sys
from typing import Any

import pytest
import redis

from ackq import Queue
from ackq.delay import DelayClaims, DelayQueue, PartitionedDelayQueue
from ackq.ops.kinds import KINDS, opened
from ackq.queue.claims_client import Claims
from ackq.rsmq import RSMQ
from ackq.sharded import ShardedQueue
from ackq.topic import Topic
from tests.cli.conftest import Run
from tests.kinds.stock import PARTS, Stock, each_that_can


@pytest.fixture
def client(plain_client: redis.Redis) -> redis.Redis:
    """A client of the server that the commands use."""
    return plain_client


def lines(ackq: Run, *args: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in ackq(*args, "--json").output.splitlines()]


def listed(ackq: Run, stock: Stock, *args: str) -> list[dict[str, Any]]:
    return lines(ackq, "dead", "list", stock.name, *args)


def test_dead_letters_are_listed_and_shown_in_full(ackq: Run, stock: Stock) -> None:
    letters = listed(ackq, stock)
    assert {letter["id"]: letter["cause"] for letter in letters} == stock.dead
    for letter in letters:
        assert letter["reason"] == stock.reason
        assert (letter["receive_count"], letter["errors"][0]["type"]) == (1, letter["cause"])
        assert abs(letter["died_at"] - letters[0]["died_at"]) < 60
    if stock.parts:
        assert {letter["queue"] for letter in letters} <= {*stock.parts}
    else:
        assert [letter["id"] for letter in letters] == [*stock.dead][::-1]  # the newest first
        assert "queue" not in letters[0]
    assert len(listed(ackq, stock, "-n", "2")) == 2
    rows = [row.split("\t") for row in ackq("dead", "list", stock.name).output.splitlines()]
    found = [row[1:] if stock.parts else row for row in rows]
    assert [row[:3] for row in found] == [
        [letter["entry"], letter["id"], f"{stock.reason}: {letter['cause']}"] for letter in letters
    ]
    assert all(re.fullmatch(r"20\d\d-\d\d-\d\d .*", row[4]) for row in found)
    one = letters[-1]
    assert one in [
        {**one, **line} for line in lines(ackq, "dead", "show", stock.name, one["entry"], "1-1")
    ]
    text = ackq("dead", "show", stock.name, one["entry"]).output
    assert f"error     1: {one['cause']}, 20" in text
    assert f"\n          {one['errors'][0]['text']}\n" in text
    ackq("dead", "show", stock.name, "1-1", code=1)


def test_dead_letters_are_counted_by_cause(ackq: Run, stock: Stock) -> None:
    letters = listed(ackq, stock)
    causes = {each["cause"]: each for each in listed(ackq, stock, "--causes")}
    assert {cause: each["count"] for cause, each in causes.items()} == {
        "KeyError": 2,
        "ValueError": 1,
    }
    (only,) = (letter for letter in letters if letter["cause"] == "ValueError")
    found = causes["ValueError"]
    assert (found["newest"], found["died_at"]) == (only["entry"], only["died_at"])
    assert ackq("dead", "list", stock.name, "--causes").output.startswith("2\tKeyError\t")
    assert listed(ackq, stock, "--causes", "-n", "1")[0]["count"] == 1


def test_dead_letters_are_redriven(ackq: Run, stock: Stock) -> None:
    ready = ready_messages(ackq, stock)
    for wrong in ([], ["--all", "-n", "1"], ["1-1", "--cause", "x"], ["bad entry"]):
        ackq("dead", "redrive", stock.name, *wrong, code=2)
    assert ackq("dead", "redrive", stock.name, "--cause", "none").output == "0\n"
    assert ackq("dead", "redrive", stock.name, "--cause", "ValueError").output == "1\n"
    assert ackq("dead", "redrive", stock.name, "-n", "1").output == "1\n"
    (last,) = listed(ackq, stock)
    if stock.parts:
        part = KINDS[stock.kind].part
        refused = ackq("dead", "redrive", stock.name, last["entry"], code=2).stderr
        assert f"give the {part}" in refused
    place = last.get("queue", stock.name)
    assert ackq("dead", "redrive", place, "1-1", last["entry"]).output == "1\n"
    assert ackq("dead", "redrive", stock.name, "--all").output == "0\n"
    assert ready_messages(ackq, stock) == ready + 3


def test_dead_letters_are_dropped(ackq: Run, stock: Stock) -> None:
    ready = ready_messages(ackq, stock)
    for wrong in ([], ["--all", "1-1"], ["--all"], ["--cause", "KeyError"]):  # they ask first
        ackq("dead", "drop", stock.name, *wrong, code=2)
    assert len(listed(ackq, stock)) == 3
    assert ackq("dead", "drop", stock.name, "--cause", "none", "--yes").output == "0\n"
    assert ackq("dead", "drop", stock.name, "--cause", "ValueError", "--yes").output == "1\n"
    one = listed(ackq, stock)[0]
    if stock.parts:
        assert "give the" in ackq("dead", "drop", stock.name, one["entry"], code=2).stderr
    place = one.get("queue", stock.name)
    assert ackq("dead", "drop", place, "1-1", one["entry"]).output == "1\n"
    assert ackq("dead", "drop", stock.name, "--all", "--yes").output == "1\n"
    assert listed(ackq, stock) == []
    assert ready_messages(ackq, stock) == ready


def ready_messages(ackq: Run, stock: Stock) -> int:
    (found,) = lines(ackq, "stats", stock.name)
    number: int = found["ready"] if "ready" in found else found["msgs"] - found["hiddenmsgs"]
    return number


def test_messages_are_counted_by_state_in_all_and_by_part(ackq: Run, stock: Stock) -> None:
    (found,) = lines(ackq, "stats", stock.name)
    if stock.kind == "rsmq":
        assert (found["msgs"], found["hiddenmsgs"], found["dead"], found["vt"]) == (4, 2, 3, 600)
        assert re.search(r"\ncreated\t20\d\d-", ackq("stats", stock.name).output)
        return
    assert {state: found[state] for state in stock.states} == stock.states
    shown = ackq("stats", stock.name).output
    assert all(f"{state}\t{count}\n" in shown for state, count in stock.states.items())
    *parts, total = lines(ackq, "stats", stock.name, "--parts")
    assert {state: total[state] for state in stock.states} == stock.states
    assert total["queue"] == stock.name
    assert [part["queue"] for part in parts] == [*(stock.parts or [stock.name])]
    for state, count in stock.states.items():
        assert sum(part[state] for part in parts) == count
    rows = ackq("stats", stock.name, "--parts").output.splitlines()
    assert rows[-1].split("\t")[:5] == ["total", "2", "1", "1", "3"]
    assert len(rows) == len(parts) + 1


def test_totals_begin_with_the_first_look(ackq: Run, stock: Stock) -> None:
    ackq("stats", stock.name, "--parts", "--totals", code=2)
    before = lines(ackq, "stats", stock.name, "--totals")[0]["totals"]
    ackq("dead", "redrive", stock.name, "-n", "2")
    ackq("dead", "drop", stock.name, "--all", "--yes")
    after = lines(ackq, "stats", stock.name, "--totals")[0]["totals"]
    assert after["since"] == before["since"]
    shown = ackq("stats", stock.name, "--totals").output
    assert re.search(r"\nsince\t20\d\d-.*\npushed\t\d+\ntaken\t\d+\nacked\t\d+\n", shown)
    if stock.kind == "rsmq":  # its own counts, since it was created
        assert (before["pushed"], before["taken"], before["acked"]) == (7, 4, 0)
        assert (after["letters"], after["acked"], before["letters"]) == (0, 1, 3)
        assert before["dead"] in (3, None)  # None before Redis 7
        return
    assert before == {**before, "pushed": 0, "taken": 0, "redriven": 0, "dead_dropped": 0}
    assert after == {**before, "at": after["at"], "redriven": 2, "dead_dropped": 1}
    assert "\nredriven\t2\ndropped\t0\ndead letters dropped\t1\n" in shown


@pytest.mark.parametrize("state", ["ready", "in_flight", "delayed"])
@each_that_can("peek")
def test_messages_are_shown_without_taking_them(ackq: Run, stock: Stock, state: str) -> None:
    expected = {"ready": {"r1", "r2"}, "in_flight": {"held"}, "delayed": {"later"}}[state]
    found = lines(ackq, "peek", stock.name, "--state", state)
    assert {each["id"] for each in found} == expected
    assert all(each["receive_count"] == (state == "in_flight") for each in found)
    assert {each["queue"] for each in found} <= {*stock.parts} if stock.parts else found
    assert len(lines(ackq, "peek", stock.name, "--state", state, "-n", "1")) == 1
    rows = ackq("peek", stock.name, "--state", state).output.splitlines()
    assert {row.split("\t")[1 if stock.parts else 0] for row in rows} == expected
    assert len(lines(ackq, "peek", stock.name, "--state", state)) == len(expected)


@each_that_can("find")
def test_messages_are_found_by_their_ids(ackq: Run, stock: Stock) -> None:
    found = {
        id: [(each["state"], each["queue"]) for each in lines(ackq, "find", stock.name, id)]
        for id in (*stock.found, *stock.dead)
    }
    expected = {**stock.found, **dict.fromkeys(stock.dead, "dead")}
    assert {id: [state for state, _ in places] for id, places in found.items()} == {
        id: [state] for id, state in expected.items()
    }
    names = {name for places in found.values() for _, name in places}
    assert names <= {*(stock.parts or (stock.name,))}
    positions = [lines(ackq, "find", stock.name, id)[0]["position"] for id in stock.found]
    assert sorted(each for each in positions if each is not None)[0] == 0
    dead = next(iter(stock.dead))
    (letter,) = lines(ackq, "find", stock.name, dead)
    assert (letter["reason"], letter["errors"][0]["type"]) == (stock.reason, stock.dead[dead])
    other = dead[:-1] + ("1" if dead.endswith("0") else "0")
    ackq("find", stock.name, other, code=1)


@each_that_can("search")
def test_messages_are_searched_by_their_fields(
    ackq: Run, plain_client: redis.Redis, stock: Stock
) -> None:
    with opened(plain_client, stock.kind, stock.name) as queue:
        for number in range(9):
            body = {"id": f"s{number}", "customer": number % 3}
            if stock.kind == "delay":
                queue.client.push(f"s{number}", body)
            else:
                queue.client.push(body)
    search = ("search", stock.name, "--where")
    assert {each["id"] for each in lines(ackq, *search, "customer=1")} == {"s1", "s4", "s7"}
    assert len(lines(ackq, *search, "customer=1", "-n", "2")) == 2
    missed = ackq(*search, "customer=4", code=1).stderr
    assert "no match among 16 messages" in missed


def test_a_kind_in_which_nothing_is_found_says_why(
    ackq: Run, plain_client: redis.Redis, name: str
) -> None:
    with Topic(plain_client, name) as topic:
        topic.publish(b"{}")
    for command in (["find", name, "1"], ["search", name, "--where", "a=1"]):
        assert "a topic keeps its messages for all consumers" in ackq(*command, code=3).stderr
    with RSMQ(plain_client, name) as rsmq:
        rsmq.create_queue("mails")
    refused = ackq("search", f"{name}:mails", "--where", "a=1", code=3).stderr
    assert "found by their id only" in refused


@each_that_can("purge")
def test_all_messages_are_deleted_and_the_dead_only_if_asked(ackq: Run, stock: Stock) -> None:
    ackq("purge", stock.name, code=2)  # it asks first
    assert ackq("purge", stock.name, "--yes").output == "4\n"
    assert len(listed(ackq, stock)) == 3
    assert ackq("purge", stock.name, "--dead", "--yes").output == "3\n"
    assert listed(ackq, stock) == []


@each_that_can("pause")
def test_a_queue_is_paused_and_resumed(ackq: Run, stock: Stock) -> None:
    ackq("pause", stock.name)
    assert lines(ackq, "stats", stock.name)[0]["paused"]
    ackq("resume", stock.name)
    assert not lines(ackq, "stats", stock.name)[0]["paused"]


@each_that_can("claims")
def test_claims_are_listed_and_released(
    ackq: Run, plain_client: redis.Redis, stock: Stock, request: pytest.FixtureRequest
) -> None:
    left = "left" in request.node.callspec.id
    for part in stock.parts or (stock.name,):
        with (
            DelayClaims(plain_client, part, "nightly")
            if stock.kind == "delay"
            else Claims(plain_client, part, "nightly", pop_from="left" if left else "right")
        ) as claims:
            claims.begin()
            claims.claim(0, messages=100, batch=1)
    shown = lines(ackq, "claims", "list", stock.name)
    assert [(each["group"], each["batch"]) for each in shown] == [("nightly", 1)]
    assert shown[0]["rows"] == 2
    assert lines(ackq, "claims", "list", stock.name, "--group", "other") == []
    assert "nightly\t1\t2\tin " in ackq("claims", "list", stock.name).output
    release = ("claims", "release", stock.name)
    ackq(*release, code=2)  # it asks first
    assert ackq(*release, "--group", "other", "--yes").output == "0\n"
    assert ackq(*release, "--yes").output == "2\n"
    assert lines(ackq, "claims", "list", stock.name) == []


def test_a_message_in_any_partition_makes_a_queue_known(
    ackq: Run, plain_client: redis.Redis, name: str
) -> None:
    with PartitionedDelayQueue(plain_client, name, 2) as queue:
        queue.take(1)  # records the partitions
        queue.push("a", b"", partition=1)
        assert lines(ackq, "stats", name, "--kind", "delay")[0]["ready"] == 1
        queue.purge()


def test_a_name_of_several_queues_needs_its_kind(
    ackq: Run, plain_client: redis.Redis, name: str
) -> None:
    with Queue(plain_client, name) as queue, DelayQueue(plain_client, name) as delay:
        queue.push({"id": "in the list"})
        assert lines(ackq, "peek", name)[0]["id"] == "in the list"
        delay.push("in the delay queue", b"")
        refused = ackq("peek", name, code=2).stderr
        assert "a list queue and a delay queue" in refused
        assert "--kind list or delay" in refused
        assert lines(ackq, "peek", name, "--kind", "list")[0]["id"] == "in the list"
        assert lines(ackq, "peek", name, "--kind", "delay")[0]["id"] == "in the delay queue"
        ackq("purge", name, "--yes", code=2)
        ackq("dead", "drop", name, "--all", "--yes", code=2)
        ackq("pause", name)  # no delay queue can be paused
        assert queue.stats().paused
        queue.purge()
        queue.resume()
        assert lines(ackq, "peek", name)[0]["id"] == "in the delay queue"
        delay.purge()
    with Queue(plain_client, name) as queue, Topic(plain_client, name) as topic:
        queue.push({"id": "a"})
        topic.publish(b"a topic has no states")
        assert ackq("purge", name, "--yes").output == "1\n"


def test_a_partitioned_queue_that_no_consumer_has_used_needs_its_number(
    ackq: Run, plain_client: redis.Redis, name: str
) -> None:
    with PartitionedDelayQueue(plain_client, name, PARTS) as queue:
        for each in "abcdef":
            queue.push(each, b"")
    assert lines(ackq, "peek", name) == []
    found = lines(ackq, "peek", name, "--partitions", str(PARTS))
    assert {each["id"] for each in found} == set("abcdef")
    assert "queue" in found[0]
    used = found[0]["queue"]
    (one,) = lines(ackq, "stats", used)
    assert one["ready"] == len([each for each in found if each["queue"] == used])


def test_the_list_of_a_sharded_queues_name_is_left_alone(
    ackq: Run, plain_client: redis.Redis, name: str
) -> None:
    with ShardedQueue(plain_client, name, 2) as sharded, Queue(plain_client, name) as queue:
        sharded.push({"id": "sharded"})
        queue.push({"id": "list"})
        result = ackq("purge", name, "--yes")
        assert "the list of the same name is left alone" in result.stderr
        assert (sharded.stats().ready, queue.stats().ready) == (0, 1)
        assert lines(ackq, "peek", name, "--kind", "list")[0]["id"] == "list"


def test_what_a_kind_lacks_is_no_kind_of_the_command(ackq: Run, name: str) -> None:
    for command, kind in ((["peek"], "rsmq"), (["dead", "list"], "topic"), (["purge"], "topic")):
        assert "'--kind'" in ackq(*command, name, "--kind", kind, code=2).stderr


def test_only_a_delay_queue_has_partitions(ackq: Run, name: str) -> None:
    refused = ackq("peek", name, "--kind", "list", "--partitions", "2", code=2)
    assert "--partitions is for delay queues" in refused.stderr


def test_a_command_for_lists_does_not_import_other_products() -> None:
    code = """
import sys, ackq.cli.pop
for each in ("delay", "rsmq", "topic", "sharded"):
    assert f"ackq.{each}" not in sys.modules, each
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_queue_of_rsmq_that_is_not_there_is_an_error(
    ackq: Run, plain_client: redis.Redis, name: str
) -> None:
    with RSMQ(plain_client, name) as rsmq:
        rsmq.create_queue("mails")
        rsmq.delete_queue("mails")
    assert "mails" in ackq("stats", f"{name}:mails", "--kind", "rsmq", code=3).stderr
