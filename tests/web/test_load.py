"""What the page costs where there is much to show."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis
from starlette.testclient import TestClient

from ackq import Queue
from ackq.web import application
from tests.servers.private import private_server
from tests.web.test_operating import ORIGIN
from tests.web.test_pages import path_of

pytestmark = [pytest.mark.campaign, pytest.mark.timeout(300)]

#: Seconds for which a page is open.
OPEN = 30.0
#: Writes many dead letters in one call.
FILL = """
for i = 1, 50000 do
  redis.call('XADD', KEYS[1], '*', 'key', ARGV[1] .. i, 'body', '{"id":"' .. ARGV[1] .. i .. '"}',
    'reason', 'reason ' .. i % 7, 'count', '3', 'time', '1795252215312092', 'errors', '')
end
"""


@pytest.fixture
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[redis.Redis]:
    """A server of its own, whose processor time is the page's."""
    with (
        private_server(tmp_path_factory.mktemp("load"), appendfsync="everysec") as server,
        redis.Redis.from_url(server.url) as client,
    ):
        yield client


def test_a_million_dead_letters_are_paged_in_less_than_200_ms(client: redis.Redis) -> None:
    middle = ""
    for part in range(20):
        client.eval(FILL, 1, "jobsDEAD", f"m-{part}-")
        if part == 10:
            newest: Any = client.xrevrange("jobsDEAD", count=1)
            middle = newest[0][0].decode()
    with TestClient(application(client, ["jobs"]), base_url=ORIGIN) as http:
        http.get(path_of("dead", name="jobs"))  # compiles the templates
        times = []
        for query in ({}, {"before": middle}, {"cause": "reason 3"}, {"cause": "none of them"}) * 5:
            begin = time.perf_counter()
            text = http.get(path_of("dead", name="jobs", **query)).text
            times.append(time.perf_counter() - begin)
            assert "1,000,000 dead letters" in text
        with Queue(client, "jobs") as queue:
            assert queue.stats().dead == 1_000_000
    print(
        f"median {sorted(times)[len(times) // 2] * 1e3:.0f} ms, longest {max(times) * 1e3:.0f} ms"
    )
    assert sorted(times)[len(times) // 2] < 0.2


def test_a_page_open_on_a_thousand_queues_costs_redis_less_than_a_hundredth_of_a_core(
    client: redis.Redis,
) -> None:
    for number in range(1000):
        with Queue(client, f"queue-{number}") as queue:
            queue.push_many([{"id": str(each)} for each in range(5)])
            queue.pop()

    def spent() -> float:
        found = client.info("cpu")
        return float(found["used_cpu_sys"]) + float(found["used_cpu_user"])

    with TestClient(application(client), base_url=ORIGIN) as http:
        assert "1,000 queues" in http.get("/").text
        idle = _while_nobody_looks(spent)
        begin, before = time.monotonic(), spent()
        while time.monotonic() - begin < OPEN:
            time.sleep(http.get("/live").json()["interval"] / 3)  # three pages, which share samples
        open_page = (spent() - before) / (time.monotonic() - begin)
    print(f"{open_page:.2%} of a core with the page open, {idle:.2%} without")
    assert open_page < 0.01


def _while_nobody_looks(spent: Callable[[], float]) -> float:
    begin, before = time.monotonic(), spent()
    time.sleep(5)
    return (spent() - before) / (time.monotonic() - begin)
