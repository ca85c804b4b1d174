"""The names of messages, and the one body that each may have."""

import zlib

#: The checksum of a body.
checksum = zlib.crc32


def body_of(name: str) -> bytes:
    """Return the one body that a message of this name may have.

    The name is its id, or its id after an equals sign: messages of several names share that one.
    What follows an at sign is its group.
    """
    own, shared, message_id = name.encode().partition(b"=")
    size = zlib.crc32(name.encode()) % 150
    if group := group_of(name):
        return b'{"id":"%s","of":"%s","pad":"%s"}' % (own, group.encode(), b"x" * size)
    if shared:
        return b'{"id":"%s","pad":"%s","own":"%s"}' % (message_id, b"x" * size, own)
    return b'{"id":"%s","pad":"%s"}' % (own, b"x" * size)


def id_of(body: bytes) -> str:
    """Return the name of a body that `body_of` made, or the beginning of any other body."""
    found = body[7 : body.find(b'"', 7)].decode("latin-1")
    _, shared, own = body.partition(b'"own":"')
    return f"{own[:-2].decode('latin-1')}={found}" if shared else found


def group_of(name: str) -> str | None:
    """Return the group of a message with this name."""
    return name.partition("@")[2] or None


def names_of(
    by: str, first: int, size: int, sharers: int = 1, unique: int = 0, groups: int = 0
) -> list[str]:
    """Return the names of some messages of a producer.

    Args:
        by: the producer.
        first: number of the first message.
        size: how many.
        sharers: how many messages in a row share an id.
        unique: if not 0, all messages of all producers share this many ids.
        groups: if not 0, each message belongs to one of that many.
    """
    numbers = range(first, first + size)
    own = [f"{by}-{number}" for number in numbers]
    if unique:
        return [f"{name}=u-{zlib.crc32(name.encode()) % unique}" for name in own]
    if groups:
        return [f"{name}@{zlib.crc32(name.encode()) % groups}" for name in own]
    if sharers == 1:
        return [f"{by}-{number}" for number in numbers]
    return [f"{by}-{number}={by}-of-{number // sharers}" for number in numbers]
