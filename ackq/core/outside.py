"""What an operation needs from outside: random numbers, and the time of day.

Operations import neither. The client hands them in with the queue or topic, so a test can run an
operation twice with the same result.
"""

from __future__ import annotations

from typing import Protocol

#: Microseconds of jitter, exclusive: the values of 16 random bits.
JITTER = 1 << 16


class Outside(Protocol):
    """Where an operation gets them."""

    #: The name of this process, if another one supervises it and gives back what its latest takes
    #: brought too late.
    taker: str

    def jitter(self) -> int:
        """Return the jitter to add to a lease, in microseconds: 0 to 65,535.

        It is part of the receipt, so it must not depend on a seed that processes may share.
        """

    def fraction(self) -> float:
        """Return a number from 0 to 1, exclusive, such as the part of a wait."""

    def token(self, size: int) -> bytes:
        """Return random bytes that no other process draws."""

    def now(self) -> str:
        """Return the time in RFC 3339, in UTC, with milliseconds."""
