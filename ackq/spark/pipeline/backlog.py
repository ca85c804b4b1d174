"""The size of a batch of ``--once``: larger than usual, since its messages are there already."""

from __future__ import annotations

from collections.abc import Mapping

from redis.exceptions import NoPermissionError

from ackq.spark.options import MAX_MESSAGES, Reading
from ackq.spark.shards import open_queue

#: Most messages in a batch, and about the most bytes of bodies.
MAX_BACKLOG, BYTES = 1_000_000, 1024 * 1024 * 1024
#: Messages whose size is looked at.
SAMPLE = 100
#: The option that is set here, and its other name.
LIMIT, _ALIAS = "maxMessagesPerTrigger", "maxOffsetsPerTrigger"


def batch_options(reading: Reading, given: Mapping[str, str]) -> dict[str, str]:
    """Return options for a run with ``--once``: a larger limit for batches of a queue.

    Each batch costs Spark some time. The limit depends on the size of the first messages, and is
    never below the usual one.

    Args:
        reading: the source.
        given: the user's options, which win.
    """
    named = {name.lower() for name in given}
    if reading.target.kind == "topic" or named & {LIMIT.lower(), _ALIAS.lower()}:
        return {}
    try:
        sizes = _sizes(reading)
    except NoPermissionError:  # a user who may claim, but not look
        return {}
    average = sum(sizes) // len(sizes) if sizes else 0
    return {LIMIT: str(max(MAX_MESSAGES, min(MAX_BACKLOG, BYTES // max(1, average))))}


def _sizes(reading: Reading) -> list[int]:
    names = reading.target.lists[:SAMPLE]
    sizes: list[int] = []
    for name in names:
        with open_queue(reading, name) as queue:
            sizes += [len(each.body) for each in queue.peek(SAMPLE // len(names))]
    return sizes
