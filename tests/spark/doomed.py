"""A source that stops at a point of a batch and waits until its driver is killed.

It is the format as a user has it, but for one class between Spark and the source, which touches a
file when the point is reached and then sleeps.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from ackq.delay import claims as delay_claims
from ackq.queue import claims
from ackq.spark.claim_reader import ClaimReader
from ackq.spark.lists import located
from ackq.spark.options import Reading
from ackq.spark.source import AckqDataSource
from ackq.spark.stream import QueueStream

#: Where a driver can stop, in the order of a batch.
POINTS = ("claiming", "claimed", "planned", "reading", "logged")
#: The batch that it stops in, counted from 0.
BATCH = 1
POINT, FOLDER = "ACKQ_TEST_POINT", "ACKQ_TEST_FOLDER"


def stop_at(point: str) -> None:
    """Say that the point is reached and wait for the end, if it is the one of this run."""
    if os.environ[POINT] == point:
        Path(os.environ[FOLDER], "reached").touch()
        time.sleep(600)


def ordinal(claim: int) -> int:
    """Return which claim this is of those that came by in any process, from 1; 0: none."""
    if not claim:
        return 0
    with open(Path(os.environ[FOLDER], "claims"), "a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        known = file.read().splitlines()
        if str(claim) not in known:
            file.write(f"{claim}\n")
            known.append(str(claim))
    return known.index(str(claim)) + 1


class DoomedSource(AckqDataSource):
    """The format ``ackq_doomed``."""

    @classmethod
    def name(cls) -> str:
        return "ackq_doomed"

    def streamReader(self, schema: StructType) -> DoomedStream:
        return DoomedStream(located(Reading.of(self.options)), schema)


class DoomedReader(ClaimReader):
    """Stops within a read of batch `BATCH`, if that is its point."""

    def read(self, partition: InputPartition) -> Iterator[Any]:
        for batch in super().read(partition):
            yield batch
            if ordinal(partition.batch) == BATCH + 1:  # type: ignore[attr-defined]
                stop_at("reading")


class DoomedStream(QueueStream):
    """Stops at its point in batch `BATCH`, whose claim is the one after as many."""

    reader = DoomedReader

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        if ordinal(start["batch"]) == BATCH:
            _stop_within_a_claim()
        elif ordinal(start["batch"]) == BATCH + 1:
            stop_at("logged")
        end = super().latestOffset(start, limit)
        if ordinal(end["batch"]) == BATCH + 1:
            stop_at("claimed")
        return end

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Any:
        if ordinal(end["batch"]) == BATCH + 1:
            stop_at("planned")
        return super().partitions(start, end)


def _stop_within_a_claim() -> None:
    def first_only(step: Any) -> Any:
        def stepping(*args: Any) -> Any:
            reply = yield from step(*args)
            if reply[0] == b"ok" and reply[2]:
                stop_at("claiming")
            return reply

        return stepping

    claims._step = first_only(claims._step)
    delay_claims.step = first_only(delay_claims.step)


def logged(folder: Path) -> dict[str, str | int | bool]:
    """Return the settings of an event log that can be searched."""
    (folder / "events").mkdir()
    return {
        "spark.eventLog.enabled": True,
        "spark.eventLog.compress": False,
        "spark.eventLog.dir": f"file://{folder / 'events'}",
    }
