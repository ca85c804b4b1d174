"""The hash with a queue's past: read some fields, and write them unless they have changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ackq import scripts
from ackq.core.call import Keys, call
from ackq.core.effects import Operation, Request
from ackq.core.names import HISTORY
from ackq.membership.shards import whole

#: Seconds for which a record is kept after it was last written.
LIFETIME = 25 * 3600.0
#: How often a record is read again if others write it at the same time.
ATTEMPTS = 10
_VERSION = b"v"

#: Fields by name. An empty value stands for none.
Fields = Mapping[bytes, bytes]


def history_key(kind: str, name: str) -> bytes:
    """Return the key with the past of a queue, shard or partition."""
    if kind == "sharded":
        kind, name = "list", whole(name)
    return f"{name}{HISTORY}{kind}".encode()


def load(key: bytes, fields: Sequence[bytes]) -> Operation[dict[bytes, bytes]]:
    """Return some fields of a record.

    Raises:
        KeyTypeError: the key holds another type.
    """
    values = yield from call(_owner(key), Request((b"HMGET", key, *fields), resend=True))
    return {field: value for field, value in zip(fields, values, strict=True) if value is not None}


def update(
    key: bytes, token: str, fields: Sequence[bytes], change: Callable[[Fields], Fields]
) -> Operation[bool]:
    """Change some fields of a record. What others write at the same time is not lost.

    Args:
        key: of the record.
        token: unlike that of any other call.
        fields: those to read.
        change: returns the fields to write, given those that were read; none: leave all.

    Returns:
        Whether it was written. False: others wrote it `ATTEMPTS` times meanwhile.

    Raises:
        KeyTypeError: the key holds another type.
    """
    for _ in range(ATTEMPTS):
        fields_read = yield from load(key, (_VERSION, *fields))
        before = fields_read.pop(_VERSION, b"")
        changed = change(fields_read)
        if not changed:
            return True
        pairs = [text for pair in changed.items() for text in pair]
        request = Request(
            (1, key, before, token, round(LIFETIME * 1000), *pairs),
            script=scripts.load("history/store"),
            resend=True,
        )
        if (yield from call(_owner(key), request)):
            return True
    return False


def _owner(key: bytes) -> Keys:
    return Keys("the history of a queue", {key: "hash"})
