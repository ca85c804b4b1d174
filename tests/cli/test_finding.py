"""ackq find and ackq search."""

import json

import pytest
import redis

from ackq import LeaseLost, Queue
from ackq.queue.registry import cropped
from ackq.sharded import ShardedQueue
from ackq.worker.presence import heartbeat

from .conftest import Run


def test_find_shows_every_place_of_an_id(ackq: Run, plain_client: redis.Redis, name: str) -> None:
    queue = Queue(plain_client, name)
    for _ in range(3):
        queue.push({"id": "a-1"})
    message = queue.pop()
    assert message
    queue.reject(message, reason="no such customer")
    queue.pop(visibility_timeout=600)
    rows = [row.split("\t") for row in ackq("find", name, "a-1").output.splitlines()]
    assert [row[:2] for row in rows] == [["a-1", "in flight"], ["a-1", "ready"], ["a-1", "dead"]]
    assert rows[0][2].startswith("lease ends in ")
    assert [row[2] for row in rows[1:]] == ["next", "no such customer"]
    lines = ackq("find", name, "a-1", "--json").output.splitlines()
    assert [json.loads(line)["state"] for line in lines] == ["in_flight", "ready", "dead"]
    assert json.loads(lines[1])["position"] == 0


def test_find_names_the_worker_of_a_message(
    ackq: Run, plain_client: redis.Redis, name: str
) -> None:
    queue = Queue(plain_client, name)
    long = "a-1" + "x" * 100
    queue.push({"id": long})
    queue.pop(visibility_timeout=600)
    record = json.dumps({"name": "mailer", "running": [[cropped(long), 1.5]]}).encode()
    queue.execute(heartbeat, "host:17:ab", record, 60.0, b"")
    assert "host:17:ab" in ackq("find", name, long).output


def test_what_is_not_found_is_said_with_how_far_it_was_looked(
    ackq: Run, plain_client: redis.Redis, name: str
) -> None:
    Queue(plain_client, name).push_many([{"id": "a-1"}, {"id": "a-2"}])
    missed = ackq("find", name, "a-2", "--within", "1", code=1)
    assert missed.stderr == f"ackq: {name} has no message 'a-2' within 1 messages of each state\n"
    assert "a-2" in ackq("find", name, "a-2", "--within", "all").output
    missed = ackq("find", name, "a-3", "--within", "all", code=1)
    assert missed.stderr == f"ackq: {name} has no message 'a-3'\n"
    assert (
        "is a number from 1 on, or all" in ackq("find", name, "a", "--within", "0", code=2).output
    )


def test_search_compares_json_values(ackq: Run, plain_client: redis.Redis, name: str) -> None:
    queue = Queue(plain_client, name)
    queue.push_many(
        [
            {"id": "a", "customer": 17, "of": {"kind": "refund"}},
            {"id": "b", "customer": "17", "of": {"kind": "refund"}},
        ]
    )

    def ids(*where: str) -> list[str]:
        output = ackq("search", name, *(f"--where={each}" for each in where)).output
        return [line.split("\t")[0] for line in output.splitlines()]

    assert ids("customer=17") == ["a"]
    assert ids('customer="17"') == ["b"]
    assert ids("of.kind=refund") == ["a", "b"]
    assert ids("of.kind=refund", "customer=17") == ["a"]
    missed = ackq("search", name, "--where", "customer=18", code=1)
    assert f"ackq: no match among 2 messages of {name}" in missed.stderr


@pytest.mark.parametrize(
    ("where", "text"),
    [
        (["customer"], "'customer' is not FIELD=VALUE"),
        (["=1"], "'=1' is not FIELD=VALUE"),
        (["a=1", "a=2"], "'a' is given twice"),
    ],
)
def test_a_condition_that_is_none_is_refused(
    ackq: Run, name: str, where: list[str], text: str
) -> None:
    assert text in ackq("search", name, *(f"--where={each}" for each in where), code=2).output


def test_a_sharded_queue_is_searched_shard_by_shard(
    ackq: Run, plain_client: redis.Redis, name: str
) -> None:
    with ShardedQueue(plain_client, name, 2) as queue:
        queue.push_many({"id": f"a-{number}", "customer": number % 2} for number in range(8))
    (line,) = ackq("find", name, "a-5", "--json").output.splitlines()
    assert json.loads(line)["queue"].startswith(f"{{{name}")
    found = ackq("search", name, "--where", "customer=1").output.splitlines()
    assert sorted(row.split("\t")[0] for row in found) == ["a-1", "a-3", "a-5", "a-7"]


def test_what_runs_is_canceled_by_its_id_if_that_is_asked_for(
    ackq: Run, name: str, plain_client: redis.Redis
) -> None:
    queue = Queue(plain_client, name)
    queue.push_many({"id": f"a-{n}"} for n in range(3))
    taken = queue.pop_many(2)
    assert ackq("cancel", name, "a-0", code=1).output == "0\n"
    assert ackq("cancel", name, "a-0", "a-1", "none", "--running").output == "2\n"
    assert {letter.reason for letter in queue.dead_letters()} == {"canceled"}
    with pytest.raises(LeaseLost):
        queue.extend(*taken)
    assert all(message.canceled for message in taken)


def test_ready_messages_are_canceled_or_run_now_by_their_ids(
    ackq: Run, name: str, plain_client: redis.Redis
) -> None:
    queue = Queue(plain_client, name)
    queue.push_many({"id": f"a-{n}"} for n in range(5))
    queue.push({"id": "later"}, delay=600)
    assert ackq("run-now", name, "a-3", "later", "none").output == "2\n"
    assert ackq("cancel", name, "a-0", "none").output == "1\n"
    assert [message.id for message in queue.pop_many(9)] == ["later", "a-3", "a-1", "a-2", "a-4"]
    assert ackq("run-now", name, "none", code=1).output == "0\n"
