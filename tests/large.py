"""Messages of several MiB, of which one call can store only a few."""

MIB = 1 << 20
#: Sizes in MiB of messages that are stored one after the other, by the call that they go in:
#: 4 MiB fill one, and a larger message has one to itself.
CALLS = ((2, 2), (1, 3), (3,), (5,), (1,))
#: What a queue must permit for them.
MAX_BODY_BYTES = 5 * MIB


def large_bodies() -> list[bytes]:
    """Return bodies that are stored in ``len(CALLS)`` calls."""
    return [b"x" * size * MIB for call in CALLS for size in call]
