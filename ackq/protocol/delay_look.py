"""Look at the messages of a delay queue without taking them."""

from __future__ import annotations

from redis.exceptions import ResponseError

from ackq import scripts
from ackq.config import check_integer
from ackq.errors import ConfigurationError
from ackq.message import PeekedMessage
from ackq.protocol.delay import DelaySpec, decode_key
from ackq.protocol.inspection import State
from ackq.protocol.steps import Request, Steps

#: Messages that one call looks at at most.
PAGE = 1000

#: Where a page begins: the index of the partition, and the rank in its sorted set.
Place = tuple[int, int]
FIRST: Place = (0, 0)


def page(
    spec: DelaySpec, wanted: int, state: State, place: Place
) -> Steps[tuple[list[PeekedMessage], Place | None]]:
    """Look at one page; see `ackq.delay.DelayQueue.peek_page`."""
    if state not in ("ready", "in_flight", "delayed"):
        raise ConfigurationError(f"state is 'ready', 'in_flight' or 'delayed', not {state!r}")
    check_integer(wanted, "n", 1, PAGE)
    index, rank = place
    check_integer(index, "the partition of a place", 0, len(spec.partitions) - 1)
    check_integer(rank, "the rank of a place", 0, 2**53 - 1)
    keys = spec.partitions[index].all()
    request = Request(
        (len(keys), *keys, state, rank, wanted), script=scripts.load("delay/peek"), resend=True
    )
    try:
        after, *found = yield request
    except ResponseError as error:
        yield from spec.explain(error)
    unit = 1_000_000 if state == "in_flight" else 1
    seen = [
        PeekedMessage(decode_key(key), body, count, float(score) / unit)
        for key, body, count, score in zip(*(found[at::4] for at in range(4)), strict=True)
    ]
    if after >= 0:
        return seen, (index, after)
    return seen, (index + 1, 0) if index + 1 < len(spec.partitions) else None


def peek(spec: DelaySpec, wanted: int, state: State) -> Steps[list[PeekedMessage]]:
    """Look at the first ones; see `ackq.delay.DelayQueue.peek`."""
    check_integer(wanted, "peek", 0, 2**53)
    seen: list[PeekedMessage] = []
    place: Place | None = FIRST
    while place is not None and len(seen) < wanted:
        found, place = yield from page(spec, min(PAGE, wanted - len(seen)), state, place)
        seen += found
    return seen
