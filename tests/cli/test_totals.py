"""``--totals`` of ``ackq stats``, for each kind of queue that counts."""

from __future__ import annotations

import json
from typing import Any

import pytest
import redis

from ackq import Queue
from ackq.delay import DelayEntry, DelayQueue
from ackq.rsmq import RSMQ
from tests.cli.conftest import Run


@pytest.fixture
def totals(ackq: Run) -> Any:
    """``totals("stats", name)``: the totals that the command reports, without zeros."""

    def totals(*args: str) -> dict[str, Any]:
        found = json.loads(ackq(*args, "--totals", "--json").output)["totals"]
        return {field: value for field, value in found.items() if value and field != "at"}

    return totals


def test_stats_show_the_totals_of_a_list_queue(
    ackq: Run, totals: Any, plain_client: redis.Redis, name: str
) -> None:
    assert "totals" not in json.loads(ackq("stats", name, "--json").output)
    began = totals("stats", name)
    assert [*began] == ["since"]
    with Queue(plain_client, name, max_receives=1) as queue:
        queue.push_many({"id": id} for id in ("acked", "released", "rejected", "dies"))
        acked, released, rejected = (queue.pop_many(1)[0] for _ in range(3))
        queue.ack(acked)
        queue.reject(rejected, reason="no such order")
        queue.release(released)
        while message := queue.pop():
            queue.nack(message, delay=0)
    assert totals("stats", name) == {
        **began,
        "pushed": 4,
        "taken": 5,
        "acked": 1,
        "nacked": 2,
        "released": 1,
        "dead": {"rejected": 1, "max receives": 2},
    }
    ackq("dead", "redrive", name, "--all")
    ackq("purge", name, "--yes")
    shown = ackq("stats", name, "--totals").output.splitlines()
    assert [line.split("\t") for line in shown][-11:] == [
        ["pushed", "4"],
        ["taken", "5"],
        ["acked", "1"],
        ["returned", "0"],
        ["nacked", "2"],
        ["released", "1"],
        ["dead: max receives", "2"],
        ["dead: rejected", "1"],
        ["redriven", "3"],
        ["dropped", "3"],
        ["dead letters dropped", "0"],
    ]


def test_delay_stats_show_totals_and_dead_letters_their_causes(
    ackq: Run, totals: Any, plain_client: redis.Redis, name: str
) -> None:
    began = totals("stats", name, "--kind", "delay")
    with DelayQueue(plain_client, name) as queue:
        queue.push_many(DelayEntry(key, "body") for key in "abc")
        first, second, third = queue.take(3)
        queue.delete(first)
        queue.nack(second, delay=60)
        queue.reject(third, reason="no such order", error=KeyError("order\n\x1b[31m"))
    assert totals("stats", name, "--kind", "delay") == {
        **began,
        "pushed": 3,
        "taken": 3,
        "acked": 1,
        "nacked": 1,
        "dead": {"rejected": 1},
    }
    assert "dead: rejected\t1\n" in ackq("stats", name, "--totals").output
    letter = json.loads(ackq("dead", "list", name, "--json").output)
    assert (letter["cause"], letter["errors"][0]["type"]) == ("KeyError", "KeyError")
    assert "no such order: KeyError\t" in ackq("dead", "list", name).output


def test_rsmq_stats_show_what_was_counted_since_the_queue_was_created(
    ackq: Run, totals: Any, plain_client: redis.Redis, name: str
) -> None:
    with RSMQ(plain_client, name, max_receives=1) as rsmq:
        rsmq.create_queue("mails", vt=0)
        plain_client.hset(f"{name}:mails:Q", "totalsent", 5)  # by the original, and deleted by it
        first, *_ = rsmq.send_messages("mails", ["one", "two", "three"])
        rsmq.delete_message("mails", first)
        rsmq.pop_message("mails")
        rsmq.receive_message("mails")
        assert rsmq.receive_message("mails") is None  # it died
        found = totals("stats", f"{name}:mails")
        assert (found["pushed"], found["taken"], found["acked"]) == (8, 2, 5 + 2)
        assert found["letters"] == 1
        assert found.get("dead") in (1, None)  # None before Redis 7
        assert "acked\t7\n" in ackq("stats", f"{name}:mails", "--totals").output
        assert rsmq.redrive("mails") == 1
        again = rsmq.counters("mails")
        assert (again.pushed, again.acked, again.dead) == (8, 7, found.get("dead"))
