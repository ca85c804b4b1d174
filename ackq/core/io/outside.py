"""Random numbers and the time of day, from the system."""

from __future__ import annotations

import os
import random
from datetime import UTC, datetime

#: Values that one read of the system's random numbers yields: a read costs as much as the rest of
#: an operation in Python.
_DRAWN_AT_ONCE = 256
_drawn: list[int] = []
# A forked child must not repeat its parent's values.
os.register_at_fork(after_in_child=_drawn.clear)


class System:
    """What operations need from outside; see `ackq.core.outside.Outside`."""

    taker = ""
    fraction = staticmethod(random.random)

    def jitter(self) -> int:
        """Return microseconds, 0 to 65,535."""
        while True:
            try:
                return _drawn.pop()
            except IndexError:
                _drawn.extend(memoryview(os.urandom(2 * _DRAWN_AT_ONCE)).cast("H"))

    def token(self, size: int) -> bytes:
        """Return random bytes."""
        return os.urandom(size)

    def now(self) -> str:
        """Return the time in RFC 3339, in UTC, with milliseconds."""
        return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


SYSTEM = System()
