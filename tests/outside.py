"""What operations need from outside, the same each time: see `ackq.core.outside`."""

import random


class Fixed:
    """Jitter, tokens and times that never change; fractions follow from `random.seed`."""

    taker = ""
    fraction = staticmethod(random.random)

    def jitter(self) -> int:
        """Return 7 µs."""
        return 7

    def token(self, size: int) -> bytes:
        """Return the first numbers."""
        return bytes(range(size))

    def now(self) -> str:
        """Return no time."""
        return "NOW"


FIXED = Fixed()
