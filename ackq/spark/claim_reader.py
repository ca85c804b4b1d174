"""Read the messages of claims: those of list queues, and those of delay queues."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from ackq.delay.claims import PAGE, ClaimedMessage
from ackq.delay.claims_client import DelayClaims
from ackq.errors import ClaimLost
from ackq.queue.claims_client import Claims
from ackq.spark.connection import retry
from ackq.spark.options import Reading
from ackq.spark.partitions import fetch_in_steps
from ackq.spark.rows import text, timestamp
from ackq.spark.shards import claims_of

_LOG = logging.getLogger("ackq.spark")

#: The place of the first message of a page, bodies, and the columns that only this source knows.
Page: TypeAlias = tuple[int, Sequence[bytes], dict[str, Any]]


@dataclass(frozen=True)
class Slice(InputPartition):
    """Messages ``start`` to ``start + rows - 1`` of one list's part of a batch."""

    queue: str
    batch: int
    start: int
    rows: int
    #: When the batch was planned first, in µs since the epoch; None: its offset does not tell.
    received: int | None


def pages(reading: Reading, part: Slice) -> Iterator[Page]:
    """Yield the messages of a slice, about a mebibyte at a time.

    Raises:
        ClaimLost: messages are gone, and ``failOnDataLoss`` is set.
    """
    claims = claims_of(reading, part.queue)
    if isinstance(claims, DelayClaims):
        yield from _from_delay_queue(reading, part, claims)
        return
    try:
        yield from _from_list(reading, part, claims)
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
    claims = claims_of(reading, queue)
    if isinstance(claims, Claims):
        return claims.read(batch, start, count)
    bodies: list[bytes | None] = []
    while len(bodies) < count:
        page = claims.read(batch, start + len(bodies), count - len(bodies))
        if reading.fail_on_data_loss:
            _check(claims, batch, start + len(bodies), page)
        bodies += [each.body if each else None for each in page]
    return bodies


def _from_list(reading: Reading, part: Slice, claims: Claims) -> Iterator[Page]:
    for start, bodies in fetch_in_steps(
        reading, part.start, part.rows, lambda start, count: claims.read(part.batch, start, count)
    ):
        places = pa.array(range(start, start + len(bodies)), pa.int64())
        yield start, bodies, {"position": places}


def _from_delay_queue(reading: Reading, part: Slice, claims: DelayClaims) -> Iterator[Page]:
    at, stop = part.start, part.start + part.rows
    while at < stop:
        size = min(reading.fetch_size or PAGE, stop - at)
        page = retry(
            lambda at=at, size=size: claims.read(part.batch, at, size),  # type: ignore[misc]
            reading.retry_timeout,
        )
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
