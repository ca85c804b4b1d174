"""What a stream tells Spark: where batches end, and their partitions; and how often it looks."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator
from typing import Any, TypeAlias

from ackq.errors import ConfigurationError
from ackq.spark.options import Reading

Offset: TypeAlias = dict[str, Any]

VERSION = 2
#: Minimum rows for an additional partition, unless the number of partitions is set.
MIN_ROWS = 10_000


def now() -> int:
    """Return the time of this machine in µs since the epoch, as Spark's current_timestamp()."""
    return time.time_ns() // 1000


def make(source: str, **fields: int) -> Offset:
    """Return an offset of this version for a source, as named by `Reading.source`."""
    return {"version": VERSION, "source": source, **fields}


def messages(offset: Offset) -> int:
    """Return the number of messages in the batch that ends at an offset."""
    if "rows" in offset:
        return int(offset["rows"])
    return int(offset["index"]) - int(offset["first"]) + 1


def read(offset: Offset, source: str, *fields: str) -> tuple[int, ...]:
    """Return the fields of an offset.

    Raises:
        ConfigurationError: the offset is of another version or another source, so it does not
            describe what has been done here.
    """
    version = offset.get("version")
    if version != VERSION:
        raise ConfigurationError(
            f"the checkpoint has an offset of version {version!r}, but this ackq reads version"
            f" {VERSION}: use the ackq that wrote it, or a new checkpoint, which first receives the"
            " messages that were claimed and not acked"
        )
    if offset.get("source") != source:
        raise ConfigurationError(
            f"the checkpoint belongs to {offset.get('source')}, not to {source}: use a new"
            " checkpoint if you change the queue, the topic or the group of a query"
        )
    return tuple(offset[field] for field in fields)


def split(rows: int, reading: Reading, parts: int = 1) -> Iterator[tuple[int, int]]:
    """Yield start and length of partitions of nearly equal length.

    Args:
        rows: the total number of rows.
        reading: has the number of tasks, the minimum of partitions and their maximum length.
        parts: the number of ranges that share the partitions.
    """
    tasks = reading.parallelism or os.cpu_count() or 1
    wanted = reading.min_partitions or min(tasks, -(-rows // MIN_ROWS))
    slices = min(rows, max(-(-wanted // parts), -(-rows // reading.max_records)))
    first = 0
    for at in range(slices):
        stop = rows * (at + 1) // slices
        yield first, stop - first
        first = stop


#: The pause before another look, as a share of the time for which nothing has come.
SHARE = 0.1


class Polling:
    """Paces the looks of one driver at its source.

    The pause after a look that found nothing is a tenth of the time for which the source has been
    idle. It is ``pollIntervalMs`` at most, so this is how often a driver looks at an idle source.
    """

    def __init__(self, reading: Reading) -> None:
        self._longest, self._patience = reading.poll_interval, reading.max_delay
        self._came = time.monotonic()
        self._looked = -math.inf

    def wait(self) -> None:
        """Wait until the next look after one that found nothing is due."""
        now = time.monotonic()
        pause = self._looked + min(self._longest, SHARE * (now - self._came)) - now
        if pause > 0:
            time.sleep(pause)

    def may_wait(self) -> bool:
        """Return whether a batch may still wait for its minimum of messages."""
        return time.monotonic() - self._came < self._patience

    def note(self, *, found: bool) -> None:
        """Note whether a look has found messages."""
        now = time.monotonic()
        if found:
            self._came, self._looked = now, -math.inf
        else:
            self._looked = now
