"""The counts of a queue as its script returns them, with no server."""

from __future__ import annotations

from ackq.rsmq.values import RSMQCounters


def test_the_counts_of_a_queue() -> None:
    found = RSMQCounters.of([5_000_000, b"7", b"100", b"60", 30, 4, 9])
    assert found == RSMQCounters(5.0, 7, 100, 60, 66, 9, 4)
    found = RSMQCounters.of([5_000_000, b"7000000000000", None, b"x", 30, 4, -1])
    assert found == RSMQCounters(5.0, 7_000_000_000, 0, 0, 0, None, 4)
