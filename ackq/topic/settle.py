"""Commit, release and extend ranges of a topic. Fenced by the receipt."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ackq import scripts
from ackq.config import Seconds, microseconds
from ackq.core.call import call
from ackq.core.effects import Arg, Operation, Request
from ackq.core.fencing import not_leased, others_settled, unpacked
from ackq.core.operation_marks import Settle, observed
from ackq.errors import ConfigurationError, LeaseLost
from ackq.topic.messages import Batch
from ackq.topic.spec import TopicSpec

#: What the settling methods take.
Given = Sequence[Batch | Iterable[Batch]]
#: Most ranges that one call settles.
CHUNK = 1000


@observed(Settle("commit"))
def commit(spec: TopicSpec, batches: Given) -> Operation[int]:
    """Commit batches; see `ackq.topic.Topic.commit`."""
    settled = 0
    refused: list[Batch] = []
    for consumer, chunk in _chunks(spec, batches, "commit"):
        reply = yield from _send(spec, consumer, "commit", (), chunk)
        settled += reply[0]
        refused += mark_lost(chunk, reply[1:])
    _raise_if_refused(spec, "commit", refused, settled)
    return settled


def extend(spec: TopicSpec, batches: Given, timeout: Seconds | None) -> Operation[int]:
    """Extend leases; see `ackq.topic.Topic.extend`."""
    if timeout is None:
        timeout = spec.config.visibility_timeout
    return (yield from _extend(spec, "extend", batches, microseconds(timeout, "timeout")))


@observed(Settle("release"))
def release(spec: TopicSpec, batches: Given) -> Operation[int]:
    """Return ranges to the topic; see `ackq.topic.Topic.release`."""
    return (yield from _extend(spec, "release", batches, 0))


def leased(
    spec: TopicSpec, batches: Given | Iterable[Batch] | Batch, method: str = "commit"
) -> list[Batch]:
    """Return the batches, those in lists too, that have a lease; the others need no settling.

    Raises:
        ConfigurationError: an argument is not a batch of this topic.
    """
    listed = unpacked((batches,))
    for batch in listed:
        if not isinstance(batch, Batch):
            raise not_leased(batch, method, "consume", "batches")
        if batch.topic != spec.name:
            raise ConfigurationError(
                f"a batch was read from topic {batch.topic!r}, not {spec.name!r}: settle it there"
            )
    return [batch for batch in listed if batch.receipt]


def mark_lost(batches: Sequence[Batch], positions: Iterable[int]) -> list[Batch]:
    """Mark and return the batches at the refused positions, counted from 1."""
    lost = [batches[position - 1] for position in positions]
    for batch in lost:
        batch.lease_lost = True
    return lost


def _extend(spec: TopicSpec, verb: str, batches: Given, timeout_us: int) -> Operation[int]:
    extended = 0
    refused: list[Batch] = []
    for consumer, chunk in _chunks(spec, batches, verb):
        deadline, count, *positions = yield from _send(
            spec, consumer, "extend", (timeout_us,), chunk
        )
        extended += count
        refused += mark_lost(chunk, positions)
        for batch in chunk:
            if not batch.lease_lost:
                batch.lease_expires_at = deadline / 1_000_000
    _raise_if_refused(spec, verb, refused, extended)
    return extended


def _send(
    spec: TopicSpec, consumer: str, name: str, head: tuple[Arg, ...], batches: Sequence[Batch]
) -> Operation[list[int]]:
    keys = spec.keys.consumer(consumer)
    receipts = (batch.receipt for batch in batches)
    request = Request(
        (3, keys.place, keys.leases, keys.ranges, *head, *receipts),
        script=scripts.load(f"topic/{name}"),
        resend=True,
    )
    reply: list[int] = yield from call(spec, request, keys)
    return reply


def _chunks(spec: TopicSpec, batches: Given, method: str) -> Iterable[tuple[str, Sequence[Batch]]]:
    by_consumer: dict[str, list[Batch]] = {}
    for batch in leased(spec, batches, method):
        by_consumer.setdefault(batch.consumer, []).append(batch)
    for consumer, members in by_consumer.items():
        for first in range(0, len(members), CHUNK):
            yield consumer, members[first : first + CHUNK]


def _raise_if_refused(spec: TopicSpec, verb: str, refused: Sequence[Batch], settled: int) -> None:
    if refused:
        named = ", ".join(f"{batch.first} to {batch.last}" for batch in refused[:5])
        more = f" and {len(refused) - 5} more" if len(refused) > 5 else ""
        raise LeaseLost(
            f"topic {spec.name!r}: {verb} refused for {named}{more}: the lease ended, or the"
            " consumer's place was moved, so the range is read again. Use a longer"
            f" visibility_timeout, or extend the lease in time{others_settled(settled)}",
            messages=tuple(refused),
            settled=settled,
        )
