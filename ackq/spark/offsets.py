"""What Spark knows of a batch: its end, as an offset in the checkpoint, and its partitions."""

from __future__ import annotations

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
