"""Put committed rows into a delay queue."""

from __future__ import annotations

from redis.exceptions import ResponseError

from ackq import scripts
from ackq.config import check_integer
from ackq.protocol.delay import LATEST, DelaySpec, encode_key
from ackq.protocol.staging_keys import StagingKeys
from ackq.protocol.steps import Request, Steps

#: Rows that one call stores at most: each costs several commands.
CHUNK_ROWS = 500


def row(spec: DelaySpec, key: str, due: int, body: bytes) -> bytes:
    """Return a message as it is staged; see `ackq.sync.staging.DelayStaging.row`."""
    raw = encode_key(key)
    check_integer(due, "due", 0, LATEST)
    return b"%d:%d:%d:%b%b" % (spec.place(raw, None) + 1, due, len(raw), raw, body)


def move(spec: DelaySpec, staging: StagingKeys, name: bytes) -> Steps[bool]:
    """Store a bounded part of a committed list; return whether something is left."""
    keys = [key for partition in spec.partitions for key in partition.all()]
    request = Request(
        (3 + len(keys), staging.held, staging.heldrows, name, *keys, CHUNK_ROWS),
        script=scripts.load("staging/delay"),
        resend=True,  # a row that was stored has left the list
    )
    try:
        _, left, _ = yield request
    except ResponseError as error:
        yield from spec.explain(error)
    return bool(left)
