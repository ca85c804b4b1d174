"""Errors of the drop-in that a loop with ``except redis.RedisError`` survives."""

from __future__ import annotations

import redis

from ackq.errors import ConfigurationError, QueueNameError


class Refused(ConfigurationError, redis.ResponseError):
    """ackq does not pop from this list, or not on this server. Nothing was popped.

    The reasons are those of `CrossSlotError`, `EvictionPolicyError` and `UnsupportedServer`, one of
    which is the ``__cause__``, an unusable name (`ListNameRefused`), and another database than the
    client's.
    """

    def __init__(self, text: str) -> None:
        # Not that of ValueError, which comes first: redis-py's __repr__ needs what this one sets.
        redis.ResponseError.__init__(self, text)


class ListNameRefused(Refused, QueueNameError):
    """ackq cannot use the name of this list, as the text explains. Nothing was popped.

    Unusable are names that are empty, longer than 200 bytes or not UTF-8, contain a control
    character or one of ``*?[]\\``, or end like one of ackq's own keys, such as ``BACKUP``. Pop from
    such a list with the redis-py client itself, or rename it.
    """


def refused(error: ConfigurationError) -> Refused | redis.RedisError:
    """Return ``error`` as one that ``except redis.RedisError`` catches."""
    if isinstance(error, redis.RedisError):
        return error
    kind = ListNameRefused if isinstance(error, QueueNameError) else Refused
    return kind(str(error))
