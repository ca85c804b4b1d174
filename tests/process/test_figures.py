"""The figures of several worker processes, added up and served on one port."""

from pathlib import Path

import orjson
import psutil
import pytest
import redis

from ackq import Queue
from ackq.process.figures import ChildHealth, Reported
from ackq.worker.figures import Handled, Snapshot
from tests.metrics.test_collector import value
from tests.waiting import wait_until
from tests.worker.conftest import settled
from tests.worker.test_figures import scraped

from .commands import working


def test_counts_of_a_process_that_ended_are_kept_once(tmp_path: Path) -> None:
    file = tmp_path / "0.figures"
    reported = Reported([file])
    handled = Handled(1.0, outcomes={"ack": 3}, waited=2.0)
    handled.waits[1] = handled.buckets[2] = 3
    file.write_bytes(orjson.dumps(Snapshot(1.0, {"jobs": handled}, busy=2, concurrency=4)))
    assert reported.snapshot().queues["jobs"].outcomes == {"ack": 3}
    assert reported.snapshot().busy == 2
    reported.end(file)
    after = reported.snapshot()
    assert (after.queues["jobs"].outcomes, after.busy, after.concurrency) == ({"ack": 3}, 0, 0)
    file.write_bytes(orjson.dumps(Snapshot(2.0, {"jobs": handled}, concurrency=4)))
    both = reported.snapshot().queues["jobs"]
    assert (both.outcomes, both.waited, both.waits[:3]) == ({"ack": 6}, 4.0, [0, 6, 0])
    assert (both.seconds, both.buckets[2]) == (2.0, 6)
    file.write_bytes(b"{")
    assert reported.snapshot().queues["jobs"].outcomes == {"ack": 3}


@pytest.mark.timeout(120)
def test_one_port_has_the_figures_of_all_processes_and_of_those_that_died(
    tmp_path: Path,
    url: str,
    name: str,
    free_port: int,
    plain_client: redis.Redis,
) -> None:
    def count() -> float:
        samples = scraped(("127.0.0.1", free_port))
        return sum(number for (name, _), number in samples.items() if name == "ackq_handled_total")

    options = (
        "-q",
        name,
        "--processes",
        "2",
        "--concurrency",
        "2",
        "--prefetch",
        "0",
        "--lease",
        "2",
        "--health-port",
        str(free_port),
    )
    with (
        Queue(plain_client, name) as queue,
        working(tmp_path, url, "tests.process.jobs:scripted", *options) as command,
    ):
        wait_until(lambda: command.log().count("working on") == 2, "both processes", 40)
        queue.push_many([{"id": f"m{number}", "seconds": 0.05} for number in range(40)])
        wait_until(lambda: len(command.events("end")) == 40 and settled(queue), "all", 40)
        assert len({event["pid"] for event in command.events()}) == 2
        wait_until(lambda: count() == 40, "all figures", 10)
        victim = psutil.Process(command.events("end")[0]["pid"])
        victim.kill()
        wait_until(lambda: "starting another" in command.log(), "the death", 20)
        assert count() == 40
        queue.push_many([{"id": f"n{number}", "seconds": 0} for number in range(10)])
        wait_until(lambda: count() == 50, "the others", 40)
        samples = scraped(("127.0.0.1", free_port))
        wait_until(
            lambda: value(scraped(("127.0.0.1", free_port)), "ackq_worker_concurrency") == 4,
            "the successor",
            20,
        )
        assert value(samples, "ackq_handler_seconds_count", queue=name) == 50


def test_a_process_whose_figures_cannot_be_written_goes_on(tmp_path: Path) -> None:
    health = ChildHealth(str(tmp_path / "healthy"), 5.0, str(tmp_path / "gone" / "0.figures"), None)
    health._write()
    assert Reported([tmp_path / "gone" / "0.figures"]).snapshot().queues == {}
