"""``--totals`` of ``ackq stats``. Those of other kinds of queue are in `tests.kinds`."""

import json
from typing import Any

import pytest
import redis

from ackq import Queue
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
    assert "totals" not in json.loads(ackq("stats", name, "--json", code=1).stdout)
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
    assert ", ".join(line.replace("\t", " = ") for line in shown[-11:]) == (
        "pushed = 4, taken = 5, acked = 1, returned = 0, nacked = 2, released = 1,"
        " dead: max receives = 2, dead: rejected = 1, redriven = 3, dropped = 3,"
        " dead letters dropped = 0"
    )
