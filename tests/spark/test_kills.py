"""The driver is killed, JVM and Python, at every point of a batch; another one goes on.

The ordinary run kills a driver that has a source and a sink: test_pipeline_kills.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from ackq import Queue
from ackq.embedded import Server
from tests.servers.private import private_server
from tests.spark.doomed import POINTS, write
from tests.spark.killed import assert_silent, run_until_killed

MESSAGES = 9000
PASSWORD = "canary-7f3a-of-redis"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with private_server(tmp_path / "redis", requirepass=PASSWORD) as server:
        yield server


def with_password(server: Server) -> str:
    return server.url.replace("redis://", f"redis://:{PASSWORD}@")


@pytest.mark.campaign
@pytest.mark.parametrize("point", POINTS)
def test_a_driver_killed_anywhere_loses_nothing_doubles_nothing_and_leaks_no_secret(
    spark: SparkSession, server: Server, tmp_path: Path, point: str
) -> None:
    folder = tmp_path / "driver"
    folder.mkdir()
    with Queue.from_url(with_password(server), "jobs") as queue:
        ids = queue.push_many({"n": n, "text": "x" * 100} for n in range(MESSAGES))
        run_until_killed(
            "tests.spark.doomed",
            folder,
            "jobs",
            point,
            folder=folder,
            environment={"ACKQ_REDIS_URL": with_password(server)},
        )
        left = queue.stats()
        assert left.claimed
        assert left.claimed + left.ready == MESSAGES - 3000
        _go_on(spark, server, tmp_path)
        attempts = _attempts(folder / "rows")
        written = [row for batch in sorted(attempts) for row in attempts[batch][-1]]
        assert [row[0] for row in written] == ids
        for rows in attempts.values():
            assert all(row == rows[0] for row in rows), "a replay differs"
        counts = queue.stats()
        assert (counts.ready, counts.in_flight) == (0, 0)
    assert "Physical Plan" in (folder / "output").read_text(errors="replace")
    assert_silent(folder, PASSWORD)


def _go_on(spark: SparkSession, server: Server, tmp_path: Path) -> None:
    password = tmp_path / "password"
    password.write_text(PASSWORD)
    folder = tmp_path / "driver"

    def sink(frame: DataFrame, batch: int) -> None:
        write(frame, batch, folder / "rows", "heir")

    frame = (
        spark.readStream.format("ackq")
        .options(url=server.url, passwordFile=str(password), maxMessagesPerTrigger=3000)
        .load("jobs")
    )
    query = frame.writeStream.foreachBatch(sink)
    query = query.option("checkpointLocation", str(folder / "checkpoint"))
    assert query.trigger(availableNow=True).start().awaitTermination(100)


def _attempts(folder: Path) -> dict[int, list[list[list[object]]]]:
    """Return the rows of every attempt at each batch, the last one last."""
    found: dict[int, list[list[list[object]]]] = {}
    for path in sorted(folder.glob("*.json")):  # "doomed" comes before "heir"
        found.setdefault(int(path.name.split(".")[0]), []).append(json.loads(path.read_text()))
    return found
