"""A gigabyte of rejected rows in one batch, with Spark's default memory, through SIGKILL.

``ACKQ_SOAK=0.02`` makes it a small one, and ``ACKQ_SOAK=10`` ten gigabytes in batches of one.
"""

import os
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest
import redis

from ackq import Queue
from tests.servers.private import private_server
from tests.spark.killed import running_pipeline
from tests.waiting import wait_until

#: Bytes of a message, messages, and the most in a batch.
SIZE = 12_000
GIGABYTES = float(os.environ.get("ACKQ_SOAK", "1"))
MESSAGES = int(90_000 * GIGABYTES)
BATCH = min(MESSAGES, 90_000)
#: Seconds that a run may take.
LIMIT = 600 * max(1, GIGABYTES)
#: Shares of the rows that are dead letters when a driver is killed.
KILLED_AT = (0.1, 0.6)
#: One in this many messages is valid.
VALID = 100


@pytest.mark.campaign
@pytest.mark.timeout(3 * LIMIT)
def test_a_gigabyte_of_rejects_becomes_dead_letters_once_whoever_is_killed(tmp_path: Path) -> None:
    config = tmp_path / "drift.toml"
    config.write_text(f"""
        checkpoint = "state"
        [source]
        queue = "jobs"
        [source.options]
        maxMessagesPerTrigger = {BATCH}
        [schema]
        ddl = "id STRING, n INT"
        [sink]
        queue = "out"
        """)
    with (
        private_server(tmp_path / "redis") as server,
        redis.Redis.from_url(server.url) as client,
        Queue.from_url(server.url, "jobs") as jobs,
        Queue.from_url(server.url, "out") as out,
    ):
        valid = set(range(0, MESSAGES, VALID))
        text = "x" * SIZE
        for first in range(0, MESSAGES, 500):
            jobs.push_many(
                {"id": f"m{n}", "n": n if n in valid else "text", "text": text}
                for n in range(first, min(MESSAGES, first + 500))
            )
        for number, share in enumerate(KILLED_AT):
            output = tmp_path / f"output-{number}"
            with running_pipeline(config, server.url, output) as process:
                wait_until(
                    partial(_written, client, share * MESSAGES, process),
                    "the pipeline to write dead letters",
                    LIMIT,
                )
                assert process.poll() is None, output.read_text()[-3000:]
            assert client.xlen("jobsDEAD") < MESSAGES - len(valid)
        with running_pipeline(config, server.url, tmp_path / "output") as process:
            process.wait(LIMIT)
        assert process.returncode == 0, (tmp_path / "output").read_text()[-3000:]
        assert Counter(_dead_ids(client)) == Counter(
            f"m{n}" for n in range(MESSAGES) if n not in valid
        )
        assert Counter(each.id for each in out.peek(MESSAGES)) == Counter(f"m{n}" for n in valid)
        stats = jobs.stats()
        assert (stats.ready, stats.in_flight) == (0, 0)


def _written(client: redis.Redis, letters: float, process: psutil.Popen) -> bool:
    return client.xlen("jobsDEAD") >= letters or process.poll() is not None


def _dead_ids(client: redis.Redis) -> Iterator[str]:
    """Read dead letters a hundred at a time."""
    found: Any = client.xrange("jobsDEAD", count=100)
    while found:
        yield from (fields[b"key"].decode() for _, fields in found)
        found = client.xrange("jobsDEAD", f"({found[-1][0].decode()}", count=100)
