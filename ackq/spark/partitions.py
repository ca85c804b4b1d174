"""Split a range into Spark partitions, and these into calls to Redis."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from ackq.core.page_size import next_size
from ackq.spark.connection import retry
from ackq.spark.options import Reading

Body = TypeVar("Body", bound=bytes | None)

#: Maximum messages per call.
MAX_PER_CALL = 10_000
#: Minimum rows for an additional partition, unless the number of partitions is set.
MIN_ROWS = 10_000


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


def fetch_in_steps(
    reading: Reading, start: int, rows: int, fetch: Callable[[int, int], Sequence[Body]]
) -> Iterator[tuple[int, Sequence[Body]]]:
    """Read ``rows`` messages from ``start`` on; yield the position and messages of each call.

    Calls are retried while Redis is unreachable.

    Args:
        reading: has the number of messages per call. If it is not set, calls read 1, 2, 4, …
            messages, up to about a mebibyte.
        start: the position of the first message.
        rows: the number of messages.
        fetch: ``fetch(start, count)`` reads ``count`` messages.
    """
    at, stop = start, start + rows
    size = reading.fetch_size or 1
    while at < stop:
        count = min(size, stop - at)
        bodies = retry(lambda at=at, count=count: fetch(at, count), reading.retry_timeout)  # type: ignore[misc]
        yield at, bodies
        at += count
        if reading.fetch_size is None:
            size = next_size(bodies, MAX_PER_CALL)
