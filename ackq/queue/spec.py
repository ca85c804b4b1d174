"""A queue as operations see it: keys, settings, and the limits of its connections."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from functools import cached_property
from typing import NoReturn

from redis.exceptions import ResponseError

from ackq.config import QueueConfig, microseconds
from ackq.core.call import raise_for_type
from ackq.core.effects import Arg, Operation
from ackq.queue.keys import QueueKeys


@dataclass(frozen=True)
class QueueSpec:
    """One queue."""

    name: str
    keys: QueueKeys
    config: QueueConfig
    #: Longest blocking command in seconds, below the connection's read timeout. A message handed
    #: to a frozen connection is found by another consumer within this time.
    block_limit: float = 1.0
    #: One entry per consumer that waits for a push. Appending and popping are thread-safe.
    waiting: deque[None] = field(default_factory=deque, init=False, repr=False, compare=False)

    @cached_property
    def lease(self) -> int:
        """The visibility timeout in microseconds."""
        return microseconds(self.config.visibility_timeout, "visibility_timeout")

    @cached_property
    def pop_keys(self) -> tuple[Arg, ...]:
        """The first arguments of every call of the pop script."""
        keys = self.keys.all()[:11]
        return (len(keys), *keys)

    @cached_property
    def pop_settings(self) -> tuple[Arg, ...]:
        """The queue's settings as arguments of the pop script."""
        config = self.config
        return (config.max_receives or 0, config.max_body_bytes, config.requeue)

    def raise_for_reply(self, error: ResponseError) -> Operation[NoReturn]:
        """Raise `KeyTypeError` if a key has another type, else ``error`` itself."""
        return raise_for_type(f"queue {self.name!r}", self.keys.types(), error)
