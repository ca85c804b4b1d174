"""The number that a program declares: how many messages it is still working on when it pops."""

from __future__ import annotations

from typing import Any, NamedTuple

from ackq.config import Seconds, microseconds
from ackq.errors import ConfigurationError

#: Most messages that one thread or task may hold. Each of their leases is renewed.
MAX_HOLD = 1_000_000

QUESTIONS = """\
hold= is missing: how many of the messages that your loop has popped may it still be working on
when it pops the next one? Three questions decide:
- Does it collect messages and work on them later (rows.append, a transaction or a pipeline every
  100)? Declare the most that it collects: Redis(client, hold=100)
- Does it hand them on, to a thread, a task, a process or a callback? Declare more than are ever
  unfinished, and settle each when its work ends, in the process that popped it:
  Redis(client, hold=100_000), then r.settle("jobs", raw)
- Does it buffer results (a file, a flush every few seconds)? Declare the most messages between two
  flushes, hold=100, or at least twice the seconds between two: Redis(client, hold=0, for_=10)
If all three answers are no, each message is finished before the next one is popped:
Redis(client, hold=0)"""


class Hold(NamedTuple):
    """Which messages stay leased when the next one is asked for. True unless there are none."""

    #: Their number: the last ones.
    last: int
    #: Those that were popped within as many seconds, too.
    seconds: float

    def __bool__(self) -> bool:
        return self.last > 0 or self.seconds > 0

    @classmethod
    def of(cls, hold: Any, for_: Seconds | None) -> Hold:
        """Return what the settings ``hold`` and ``for_`` of a client mean.

        Raises:
            ConfigurationError: ``hold`` is missing, or a setting is out of range.
        """
        if hold is None:
            raise ConfigurationError(QUESTIONS)
        if type(hold) is not int or not 0 <= hold <= MAX_HOLD:
            raise ConfigurationError(f"hold is a whole number, 0 to {MAX_HOLD:_}, not {hold!r}")
        seconds = 0 if for_ is None else microseconds(for_, "for_") / 1_000_000
        return cls(hold, seconds)
