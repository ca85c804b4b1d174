"""Base of the functions that Spark calls with each micro-batch of a query."""

from __future__ import annotations

from abc import ABC, abstractmethod
from threading import Event
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Stopping(Exception):
    """The pipeline is stopping, so the batch is left to the next run."""


class BatchCallback(ABC):
    """Writes micro-batches. Spark may call it again with the same batch."""

    def __init__(self) -> None:
        self._query_id = ""
        self._started = Event()
        #: Set this to stop before the next batch.
        self.stopping = False
        #: Set this before the current batch is aborted from outside.
        self.aborted = False
        #: The current batch, or the last one; -1 before the first.
        self.number = -1
        #: Whether a batch is running.
        self.busy = False
        #: The error that ended the last batch.
        self.error: BaseException | None = None
        #: The section of the sink that is being written; empty: none is.
        self.writing = ""

    def start(self, query_id: str) -> None:
        """Allow batches to run, now that the id of the query is known."""
        self._query_id = query_id
        self._started.set()

    def is_between_batches(self, committed: int) -> bool:
        """Return whether no batch is running, and the last one is in the commit log.

        Args:
            committed: the last batch that is known to be there; -1: none is.
        """
        return not self.busy and committed >= self.number

    def __call__(self, rows: DataFrame, number: int) -> None:
        """Write the micro-batch ``number``."""
        self._started.wait()
        self.number, self.busy, self.writing = number, True, ""
        try:
            if self.stopping:
                raise Stopping
            self._write(rows, number)
        except BaseException as error:
            self.error = error
            raise
        finally:
            self.busy = False

    @abstractmethod
    def _write(self, rows: DataFrame, number: int) -> None:
        """Write the micro-batch."""
