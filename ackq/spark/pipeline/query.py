"""The query of a pipeline: Spark's own, which calls back with each micro-batch."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ackq.errors import Fenced
from ackq.spark import offsets
from ackq.spark.offsets import Offset
from ackq.spark.options import Reading
from ackq.spark.shards import Shards

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


class Query(ABC):
    """A query that calls a `BatchCallback` with each micro-batch of a source."""

    @property
    @abstractmethod
    def is_active(self) -> bool:
        """Whether it runs."""

    @property
    @abstractmethod
    def error(self) -> BaseException | None:
        """The error that ended it; None: it runs, or ended without one."""

    @property
    @abstractmethod
    def committed(self) -> int:
        """The number of the last batch that is known to be in the commit log; -1: none."""

    @property
    @abstractmethod
    def reached(self) -> Offset | None:
        """The offset of the last batch that this run finished; None: there is none yet."""

    @abstractmethod
    def stop(self) -> None:
        """Stop, and abort a batch that runs."""

    @abstractmethod
    def ack_last_batch(self) -> None:
        """Ack the last batch of a query that has ended. Otherwise the next run would ack it."""


class SparkQuery(Query):
    """A query of Structured Streaming."""

    def __init__(self, query: StreamingQuery, reading: Reading) -> None:
        self._query = query
        self._reading = reading

    @property
    def is_active(self) -> bool:
        return self._query.isActive

    @property
    def error(self) -> BaseException | None:
        return self._query.exception()

    @property
    def committed(self) -> int:
        last = self._query.lastProgress
        return -1 if last is None else last.batchId

    @property
    def reached(self) -> Offset | None:
        return self._progress("endOffset")

    def stop(self) -> None:
        self._query.stop()

    def ack_last_batch(self) -> None:
        reached, latest = self.reached, self._progress("latestOffset")
        epochs = list((latest or {}).get("epochs", ()))
        if reached is None or not epochs:  # a topic has none
            return
        shards = Shards(self._reading)
        # Use the epochs of the query, so that a query that took over the group is not fenced.
        shards.adopt(epochs)
        with suppress(Fenced):
            shards.ack(offsets.read(reached, self._reading.source, "batch")[0], 0.0)

    def _progress(self, name: str) -> Offset | None:
        last = self._query.lastProgress
        text: Any = getattr(last.sources[0], name) if last is not None else None
        return json.loads(text) if text else None
