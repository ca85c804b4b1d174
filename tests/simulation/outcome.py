"""How operations end."""

from __future__ import annotations

from typing import Any, NamedTuple

import redis

import ackq
from ackq.core.effects import Operation
from ackq.errors import PushAccount


class Outcome(NamedTuple):
    """What became of an operation."""

    state: str
    result: Any = None
    refused: tuple[Any, ...] = ()
    account: PushAccount | None = None  #: which messages of a push are stored


def outcome_of(operation: Operation[Any]) -> Operation[Outcome]:
    """Run an operation, and return how it ended."""
    try:
        return Outcome("ok", (yield from operation))
    except ackq.LeaseLost as error:
        return Outcome("refused", error.settled, error.messages)
    except PushAccount as error:
        return Outcome("unknown", account=error)
    except redis.ResponseError:
        return Outcome("fail")
    except redis.ConnectionError:
        # Perhaps nothing was ever sent; or it was, again and again.
        return Outcome("unknown")
