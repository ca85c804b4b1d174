"""A queue as the protocol sees it: keys, settings, and what its connections allow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

from redis.exceptions import ResponseError

from ackq.config import QueueConfig
from ackq.keys import QueueKeys
from ackq.protocol.errors import explain_types
from ackq.protocol.steps import Steps


@dataclass(frozen=True, slots=True)
class QueueSpec:
    """One queue."""

    name: str
    keys: QueueKeys
    config: QueueConfig
    #: Seconds that one blocking command may last; under the connection's read timeout. A message
    #: handed to a frozen connection is found by another consumer within this time.
    stretch: float = 1.0

    def explain(self, error: ResponseError) -> Steps[NoReturn]:
        """Raise what ``error`` means: `KeyTypeError` for a key of another type, else itself."""
        return explain_types(f"queue {self.name!r}", self.keys.types(), error)
