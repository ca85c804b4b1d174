"""How calls end."""

from collections.abc import Awaitable
from typing import Any, NamedTuple

import redis

import ackq
from ackq.errors import PushAccount


class Outcome(NamedTuple):
    """What became of a call."""

    state: str
    result: Any = None
    refused: tuple[Any, ...] = ()
    account: PushAccount | None = None  #: which messages of a push are stored

    def state_at(self, position: int) -> str:
        """Return what became of one message of a push."""
        if self.account is not None and position in self.account.stored_positions:
            return "ok"
        if self.account is not None and position in self.account.not_stored_positions:
            return "fail"
        return self.state

    def state_of_chosen(self, count: int, is_resent: bool = False) -> str:
        """Return what became of messages that an operator chose; the result is of how many.

        ``is_resent``: the request is sent again if its reply is lost, so 0 may be a late answer.
        """
        if self.state == "ok" and self.result < count:
            return "unknown" if self.result or is_resent else "fail"
        return self.state


async def outcome_of(call: Awaitable[Any], unsure: tuple[type[BaseException], ...]) -> Outcome:
    """Make the call, and say how it ended. After errors in ``unsure``, nobody knows."""
    try:
        return Outcome("ok", await call)
    except ackq.LeaseLost as error:
        return Outcome("refused", error.settled, error.messages)
    except PushAccount as error:
        return Outcome("unknown", account=error)
    except redis.ResponseError:
        return Outcome("fail")
    except unsure:
        return Outcome("unknown")
