"""The jitter of leases, drawn from the system."""

from __future__ import annotations

import os

#: Microseconds of jitter, exclusive: the values of 16 random bits.
JITTER = 1 << 16
#: Values that one read of the system's random numbers yields: a read costs as much as the rest of
#: an operation in Python.
_DRAWN_AT_ONCE = 256
_drawn: list[int] = []
# A forked child must not repeat its parent's values.
os.register_at_fork(after_in_child=_drawn.clear)


def draw_jitter() -> int:
    """Return the jitter to add to a lease, in microseconds: 0 to 65,535.

    It is part of the receipt, so it must not depend on a seed that processes may share.
    """
    while True:
        try:
            return _drawn.pop()
        except IndexError:
            _drawn.extend(memoryview(os.urandom(2 * _DRAWN_AT_ONCE)).cast("H"))
