"""The past of a queue on its page: curves, gaps, marks and tasks."""

import re
import secrets
from collections.abc import Iterator
from contextlib import closing

import pytest
import redis
from starlette.testclient import TestClient

from ackq.core.io.driver import Driver
from ackq.core.io.routes import route_of
from ackq.ops import operation_log
from ackq.ops.chronicle.minutes import MINUTE, Minute, Work, record
from ackq.ops.chronicle.store import history_key
from ackq.ops.operation_log import Entry, OperationLog
from ackq.ops.readings import Reading, Totals
from ackq.web.past import SPANS, bins, past
from tests.web.test_pages import path_of

NOON = 1_800_000_000 // 86_400 * 86_400 + 43_200


def keep(client: redis.Redis, name: str, minutes: int, kind: str = "list") -> None:
    """Record some minutes of a queue that end now: 60 acks in each, and a task that fails."""
    key = history_key(kind, name)
    driver = Driver(route_of(client, key))
    seconds, _ = client.time()
    now = int(seconds)
    with closing(driver.route):
        for number in range(minutes, -1, -1):
            at = now - MINUTE * number
            acked = 60 * (minutes - number)
            work = Work()
            work.durations.add(0.02)
            work.task("send").failed += 1
            work.task("send").durations.add(2.0)
            states = {"ready": number, "in_flight": 1, "delayed": 0, "dead": 0}
            totals = Totals(now - MINUTE * minutes, {"acked": acked}, {"rejected": acked // 60})
            reading = Reading("list", name, number, states, oldest_ready=1.0, totals=totals)
            driver.run(record(key, reading, at, secrets.token_hex(4), work))


@pytest.fixture
def log(plain_client: redis.Redis) -> Iterator[OperationLog]:
    with OperationLog(plain_client) as log:
        yield log
    plain_client.delete(operation_log.KEY)


def test_what_happened_before_anybody_looked_is_there(
    http: TestClient, plain_client: redis.Redis, name: str, log: OperationLog
) -> None:
    keep(plain_client, name, 30)
    log.mark("ada", "deploy v2.3 <b>")
    text = http.get(path_of("queue", kind="list", name=name, span="1h")).text
    titles = re.findall(r"<figcaption><span>([^<]*)</span>", text)
    assert titles == [
        "Backlog",
        "Messages per second",
        "Failures per minute",
        "Age of the oldest ready message",
        "Time of handlers",
    ]
    assert "acked now 1" in text
    assert "Dead letters in this time: 30 rejected." in text
    assert text.count("deploy v2.3 &lt;b&gt;, by ada") == len(titles) + 1
    assert re.search(r'send</td><td class="number" data-label="Acked">0</td>', text)
    assert len(re.findall(r'<text x="[\d.]+%"', text)) >= 4 * len(titles)
    for span in SPANS:
        assert http.get(path_of("queue", kind="list", name=name, span=span)).status_code == 200
    assert "deploy v2.3 &lt;b&gt;" in http.get("/operations").text


def test_where_nobody_recorded_a_curve_has_a_gap() -> None:
    rows = [Minute(NOON - 3000 + at, 60, at, counts={"acked": 60}) for at in range(0, 600, 60)]
    rows += [Minute(NOON - 600 + at, 60, 5, counts={"acked": 60}) for at in range(0, 540, 60)]
    parts = bins(rows, NOON, 3600, 60)
    assert sum(part.counts.get("acked", 0) for part in parts) == 60 * len(rows)
    known = [part.per_second("acked") for part in parts]
    assert known[9:19] == [1.0] * 10
    assert known[19:49] == [None] * 30
    shown = past(rows, (), NOON, "1h")
    (speed,) = (chart for chart in shown.charts if chart.title == "Messages per second")
    (acked,) = (line for line in speed.lines if line.label == "acked")
    assert acked.path.count("M") == 2
    assert acked.last == "1.0"


def test_a_long_row_is_spread_over_its_time() -> None:
    rows = [Minute(NOON, 600, 5, counts={"acked": 600})]
    speeds = [part.per_second("acked") for part in bins(rows, NOON, 3600, 60)]
    assert speeds == [None] * 50 + [1.0] * 10


def test_only_what_lies_within_the_time_is_marked() -> None:
    def entry(seconds: float) -> Entry:
        return Entry(f"{round((NOON - seconds) * 1000)}-0", "ada", "Deploy", "", "", "marked", "")

    shown = past([Minute(NOON, 60)], map(entry, (0, 1800, 3700)), NOON, "1h")
    assert [(mark.place, mark.text) for mark in shown.marks] == [
        ("100.00%", "Deploy, by ada"),
        ("50.00%", "Deploy, by ada"),
    ]
    assert [tick.text for tick in shown.ticks] == ["11:10", "11:20", "11:30", "11:40", "11:50"]


def test_a_queue_without_records_says_so(http: TestClient, name: str) -> None:
    text = http.get(path_of("queue", kind="list", name=name)).text
    assert "Nothing was recorded in this time." in text
