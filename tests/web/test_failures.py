"""The page of causes: what fails, since when, why, and the way to the messages."""

import html
import re
from collections.abc import Iterator

import pytest
import redis
from starlette.testclient import TestClient

from ackq import Queue
from ackq.ops import operation_log
from ackq.ops.dead_letters import MAX_READ
from ackq.sharded import ShardedQueue
from ackq.web import application
from ackq.web.requests import Ask
from tests.waiting import wait_until
from tests.web.test_operating import ORIGIN, Operator
from tests.web.test_pages import path_of


@pytest.fixture
def page(plain_client: redis.Redis, eager: None) -> Iterator[TestClient]:
    with TestClient(application(plain_client, operate=True), base_url=ORIGIN) as http:
        yield http
    plain_client.delete(operation_log.KEY)


def shown(page: TestClient, name: str, kind: str = "list") -> list[list[str]]:
    """Return the rows of the table: the cause with its task, and the numbers."""
    text = page.get(path_of("failures", kind=kind, name=name)).text
    rows = re.findall(r'<tr><td class="cause why">(.*?)</tr>', text, re.DOTALL)
    return [
        [html.unescape(re.sub("<[^>]+>", "", cell)).strip() for cell in re.split("</td>", row)]
        for row in rows
    ]


def counted(page: TestClient, name: str, kind: str = "list") -> int:
    return sum(int(row[4].replace(",", "")) for row in shown(page, name, kind))


def die(queue: Queue, number: int, error: Exception, task: str) -> None:
    queue.push_many([{"id": f"{task} {each}", "task": task} for each in range(number)])
    while taken := queue.pop_many(100):
        queue.nack(*taken, delay=0, error=error)


def test_all_dead_letters_are_in_the_table_and_the_newest_incident_on_top(
    page: TestClient, plain_client: redis.Redis, name: str
) -> None:
    old = MAX_READ + 500  # more than a page of dead letters reads
    with Queue(plain_client, name, max_receives=1) as queue:
        die(queue, old, ValueError("long ago"), "send")
        page.get("/live")
        die(queue, 30, KeyError("total"), "bill")
        die(queue, 20, KeyError("total"), "send")
        wait_until(
            lambda: sum(int(row[4].replace(",", "")) for row in shown(page, name)) == old + 50,
            "all",
        )
        assert [(row[0].split("\n")[0], row[4]) for row in shown(page, name)] == [
            ("ValueError task sendlong ago", f"{old:,}"),
            ("KeyError task bill'total'", "30"),
            ("KeyError task send'total'", "20"),
        ]
        text = page.get("/failures").text
        assert name in text
        link = re.search(r'href="(/dead\?[^"]*task=bill[^"]*)"', text)
        assert link
        found = page.get(html.unescape(link[1])).text
        assert found.count("<code>bill ") == 30
        assert "<code>send " not in found
        ask = Ask("redrive", "list", name, cause="KeyError", task="bill")
        assert "30 dead letters" in page.get(path_of("preview", what=ask.query())).text
        Operator(page).do(ask, pace="10000")
        wait_until(lambda: queue.stats().ready == 30, "the dead letters of the task to be redriven")
        assert {message.json()["task"] for message in queue.pop_many(100)} == {"bill"}
        # What was redriven stays counted.
        assert shown(page, name)[1][4] == "30"


def test_the_causes_of_all_shards_are_one_table(
    page: TestClient, plain_client: redis.Redis, token: str
) -> None:
    with ShardedQueue(plain_client, token, 2) as queue:
        queue.push_many([{"id": str(number)} for number in range(20)])
        while taken := queue.pop_many(20):
            queue.reject(*taken, reason="odd")
        wait_until(
            lambda: [row[4] for row in shown(page, token, "sharded")] == ["20"], "all shards"
        )


def test_a_server_without_failures_says_so(page: TestClient) -> None:
    assert "No failures have been counted." in page.get("/failures").text
