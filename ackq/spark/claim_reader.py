"""What executors read of a batch: the messages of claims, as rows."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from ackq.core.page_size import next_size
from ackq.errors import ClaimLost
from ackq.spark.columns import Columns
from ackq.spark.connection import retry
from ackq.spark.options import Reading
from ackq.spark.rows import Rows, text, timestamp

if TYPE_CHECKING:
    from ackq.delay.claims import ClaimedMessage
    from ackq.delay.claims_client import DelayClaims
    from ackq.queue.claims_client import Claims

_LOG = logging.getLogger("ackq.spark")

#: Maximum messages per call.
MAX_PER_CALL = 10_000
#: The place of the first message of a page, bodies, and the columns that only this source knows.
Page: TypeAlias = tuple[int, Sequence[bytes], dict[str, Any]]
Body = TypeVar("Body", bound=bytes | None)


@dataclass(frozen=True)
class Slice(InputPartition):
    """Messages ``start`` to ``start + rows - 1`` of one list's part of a batch."""

    queue: str
    batch: int
    start: int
    rows: int
    #: When the batch was planned first, in µs since the epoch; None: its offset does not tell.
    received: int | None


class ClaimReader:
    """Reads slices of claims. Pickled into tasks, in place of the stream that planned them.

    So an executor imports neither what claims nor what acks.
    """

    def __init__(self, reading: Reading, columns: Columns) -> None:
        self._reading, self._columns = reading, columns

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one slice."""
        assert isinstance(partition, Slice)
        rows = Rows(self._columns, self._reading.parsing)
        queue, batch = partition.queue, partition.batch
        for start, bodies, facts in pages(self._reading, partition):
            yield rows.batch(
                bodies,
                {"queue": queue, "batch": batch, "received": partition.received, **facts},
                f"queue {queue!r}, batch {batch}, from position {start}",
            )


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
        bodies = retry(partial(fetch, at, count), reading.retry_timeout)
        yield at, bodies
        at += count
        if reading.fetch_size is None:
            size = next_size(bodies, MAX_PER_CALL)


# Cached, so that a reused process keeps its connections; it imports only what it reads.
@lru_cache(maxsize=256)
def list_claims(reading: Reading, queue: str) -> Claims:
    """Return the claims on a list."""
    from ackq.queue.claims_client import Claims

    end, timeout = reading.target.pop_from, reading.claim_timeout
    return Claims(reading.connection.client(), queue, reading.group, timeout=timeout, pop_from=end)


@lru_cache(maxsize=256)
def delay_claims(reading: Reading, queue: str) -> DelayClaims:
    """Return the claims on a delay queue or partition."""
    from ackq.delay.claims_client import DelayClaims

    client, timeout = reading.connection.client(), reading.claim_timeout
    return DelayClaims(client, queue, reading.group, timeout=timeout)


def pages(reading: Reading, part: Slice) -> Iterator[Page]:
    """Yield the messages of a slice, about a mebibyte at a time.

    Raises:
        ClaimLost: messages are gone, and ``failOnDataLoss`` is set.
    """
    if reading.target.kind == "delayQueue":
        yield from _from_delay_queue(reading, part)
        return
    try:
        yield from _from_list(reading, part)
    except ClaimLost as error:
        if reading.fail_on_data_loss:
            raise
        _LOG.warning("failOnDataLoss is false, so the query goes on: %s", error)


def bodies_at(
    reading: Reading, queue: str, batch: int, start: int, count: int
) -> Sequence[bytes | None]:
    """Return messages ``start`` to ``start + count - 1`` of a claim; None for those that are gone.

    Raises:
        ClaimLost: messages are gone, and ``failOnDataLoss`` is set.
    """
    if reading.target.kind == "queue":
        return list_claims(reading, queue).read(batch, start, count)
    claims = delay_claims(reading, queue)
    bodies: list[bytes | None] = []
    while len(bodies) < count:
        page = claims.read(batch, start + len(bodies), count - len(bodies))
        if reading.fail_on_data_loss:
            _check(claims, batch, start + len(bodies), page)
        bodies += [each.body if each else None for each in page]
    return bodies


def _from_list(reading: Reading, part: Slice) -> Iterator[Page]:
    fetch = partial(list_claims(reading, part.queue).read, part.batch)
    for start, bodies in fetch_in_steps(reading, part.start, part.rows, fetch):
        places = pa.array(range(start, start + len(bodies)), pa.int64())
        yield start, bodies, {"position": places}


def _from_delay_queue(reading: Reading, part: Slice) -> Iterator[Page]:
    claims = delay_claims(reading, part.queue)
    at, stop = part.start, part.start + part.rows
    while at < stop:
        size = min(reading.fetch_size or stop, stop - at)
        page = retry(partial(claims.read, part.batch, at, size), reading.retry_timeout)
        if lost := page.count(None):
            if reading.fail_on_data_loss:
                _check(claims, part.batch, at, page)
            _LOG.warning(
                "%s: %d messages of batch %d left their claim; failOnDataLoss is false, so the"
                " query goes on",
                reading.source,
                lost,
                part.batch,
            )
        rows = [(place, each) for place, each in enumerate(page, at) if each is not None]
        # Other clients may have used any bytes as a key.
        keys = [each.key.encode(errors="surrogateescape") for _, each in rows]
        yield (
            at,
            [each.body for _, each in rows],
            {
                "position": pa.array([place for place, _ in rows], pa.int64()),
                "id": text(pa.array(keys, pa.binary()), keys),
                "ready_time": pa.array(
                    [timestamp(each.ready_time) for _, each in rows], pa.timestamp("us", "UTC")
                ),
            },
        )
        at += len(page)


def _check(
    claims: DelayClaims, batch: int, start: int, page: Sequence[ClaimedMessage | None]
) -> None:
    """Raise `ClaimLost` if messages are missing."""
    if None in page:
        raise ClaimLost(
            f"delay queue {claims.name!r}, group {claims.group!r}: message"
            f" {start + page.index(None)} of batch {batch}, and possibly more, left its claim: it"
            " was canceled or purged, or the lease of claimTimeoutMs ended and another consumer"
            " took it, or its key was pushed again by a client without leases. Set"
            " failOnDataLoss=false to go on without such messages",
            group=claims.group,
            batch=batch,
        )
