"""Spark's side of a stream, in this process: its order of calls, its logs, and its deaths.

A driver that dies leaves its two logs and nothing else; another `Engine` on the same logs goes on,
as Spark does. The order is that of MicroBatchExecution in Spark 4.3.
"""

import json
import pickle
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow

Stage = Literal["claimed", "planned", "reading", "written", "logged"]
STAGES: tuple[Stage, ...] = ("claimed", "planned", "reading", "written", "logged")


class Died(Exception):
    """The driver was killed."""


@dataclass
class Checkpoint:
    """The state that survives a driver: the offset log, the commit log and the rows in the sink."""

    offsets: list[str] = field(default_factory=list)
    commits: int = 0
    #: The rows of every attempt that reached the sink, for each batch.
    written: dict[int, list[list[dict[str, Any]]]] = field(default_factory=dict)

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows in an idempotent sink: those of the last attempt of each batch."""
        return [row for batch in sorted(self.written) for row in self.written[batch][-1]]

    def ids(self) -> list[str]:
        """Return the ids of these rows."""
        return [row["id"] for row in self.rows()]

    def is_repeatable(self) -> bool:
        """Whether all attempts of a batch had the same rows."""
        attempts = self.written.values()
        return all(attempt == each[0] for each in attempts for attempt in each)

    def sizes(self) -> list[int]:
        """Return the rows of each batch."""
        return [len(self.written[batch][-1]) for batch in sorted(self.written)]


class Engine:
    """One run of a query."""

    def __init__(self, make: Callable[[], DataSourceStreamReader], checkpoint: Checkpoint) -> None:
        self._reader = make()
        # Executors get a copy that was made in another process.
        self._executor = pickle.loads(pickle.dumps(make()))
        self._log = checkpoint
        self._dies_at: tuple[Stage, int] | None = None
        #: The partitions of each batch.
        self.planned: list[list[InputPartition]] = []

    def die_at(self, stage: Stage, batch: int) -> None:
        """Die at a stage of a batch."""
        self._dies_at = stage, batch

    def run_until(self, stage: Stage, batch: int) -> None:
        """Run, and die at a stage of a batch."""
        self.die_at(stage, batch)
        with pytest.raises(Died):
            self.run()

    def run(self) -> None:
        """Run with Trigger.AvailableNow, to the end."""
        assert isinstance(self._reader, SupportsTriggerAvailableNow)
        self._reader.prepareForTriggerAvailableNow()
        while self.step():
            pass

    def step(self) -> bool:
        """Run the next batch; return whether there was one."""
        log = self._log
        batch = log.commits
        if len(log.offsets) == batch:  # no planned batch is unfinished
            before = self._offset(batch - 1)
            limit: ReadLimit = self._reader.getDefaultReadLimit()
            end = _through_json(self._reader.latestOffset(before, limit))
            if end == before:
                return False
            self._pass("claimed", batch)
            log.offsets.append(json.dumps(end))
            if batch:
                self._reader.commit(before)
        self._pass("planned", batch)
        partitions = list(self._reader.partitions(self._offset(batch - 1), self._offset(batch)))
        self.planned.append(partitions)
        rows = []
        for partition in pickle.loads(pickle.dumps(partitions)):
            for record_batch in self._executor.read(partition):
                rows += record_batch.to_pylist()
                self._pass("reading", batch)
        log.written.setdefault(batch, []).append(rows)
        self._pass("written", batch)
        log.commits += 1
        self._pass("logged", batch)
        return True

    def stop(self) -> None:
        """End the process, and with it the heartbeat."""
        self._reader.stop()

    def _offset(self, batch: int) -> dict[str, Any]:
        if batch < 0:
            return _through_json(self._reader.initialOffset())
        found: dict[str, Any] = json.loads(self._log.offsets[batch])
        return found

    def _pass(self, stage: Stage, batch: int) -> None:
        if self._dies_at == (stage, batch):
            raise Died(stage)


def _through_json(offset: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(offset))
    return found
