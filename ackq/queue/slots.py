"""The slots of groups: freed after scripts without groups have deleted messages."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from redis.exceptions import RedisError

from ackq import scripts
from ackq.core.call import call
from ackq.core.effects import Arg, Operation, Request
from ackq.errors import AckqError
from ackq.queue.spec import QueueSpec

#: Lease keys that one call is given.
CHUNK = 1000


def free(spec: QueueSpec, keys: Sequence[Arg]) -> Operation[None]:
    """Free the slots of messages with these lease keys that the queue no longer has.

    If this fails, a later pop frees them.
    """
    with suppress(AckqError, RedisError, OSError):
        for first in range(0, len(keys) if spec.keys.grouped else 0, CHUNK):
            request = Request(
                (*spec.keys.passed("groups/free"), *keys[first : first + CHUNK]),
                script=scripts.load("groups/free"),
                resend=True,
            )
            yield from call(spec, request)
