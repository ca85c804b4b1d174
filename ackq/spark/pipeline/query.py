"""The query of a pipeline: Spark's own, which calls back with each micro-batch."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from ackq.spark.offsets import Offset

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


class SparkQuery(Query):
    """A query of Structured Streaming."""

    def __init__(self, query: StreamingQuery) -> None:
        self._query = query

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

    def _progress(self, name: str) -> Offset | None:
        last = self._query.lastProgress
        text: Any = getattr(last.sources[0], name) if last is not None else None
        return json.loads(text) if text else None
