"""The record that a queue has groups. It keeps clients without groups from taking messages.

It is a string. Other queues have a sorted set under the same name, for their held lists.
"""

from __future__ import annotations

import re
from typing import NoReturn

from redis.exceptions import NoPermissionError, ResponseError

from ackq import scripts
from ackq.config import Groups
from ackq.core.call import Keys, call
from ackq.core.effects import Operation, Request
from ackq.errors import ConfigurationError, GroupsMismatch
from ackq.queue.keys import QueueKeys

_RECORD = re.compile(r"groups:(\d+):(.+)")


def record_of(groups: Groups) -> str:
    """Return the record of these groups."""
    return f"groups:{groups.in_flight}:{groups.field}"


def groups_of(record: bytes) -> Groups | None:
    """Return the groups that a record describes; None if it records something else."""
    matched = _RECORD.fullmatch(record.decode(errors="replace"))
    try:
        return Groups(matched[2], int(matched[1])) if matched else None
    except ConfigurationError:
        return None


def recorded(keys: QueueKeys) -> Operation[Groups | None]:
    """Return the groups of a queue, or None if it has none."""
    _, known = yield from _stored(keys)
    return groups_of(known)


def _stored(keys: QueueKeys) -> Operation[tuple[bytes, bytes]]:
    """Return the type of the record's key, and the record; empty if there is none."""
    kind: bytes = yield Request((b"TYPE", keys.record), resend=True)
    if kind != b"string":
        return kind, b""
    return kind, (yield Request((b"GET", keys.record), resend=True)) or b""


def record(keys: QueueKeys, groups: Groups) -> Operation[None]:
    """Record the groups of a queue that has no record yet.

    Raises:
        GroupsMismatch: it has another record, or consumers without groups hold messages.
        KeyTypeError: a key has another type.
    """
    answer = yield from _call(keys, "groups/record", record_of(groups))
    if answer != record_of(groups).encode():
        _raise_mismatch(keys, answer, groups)


def forget(keys: QueueKeys) -> Operation[bool]:
    """Delete the record and all other keys of the groups, unless messages are parked.

    Returns:
        Whether the queue has no record of groups now.
    """
    return groups_of((yield from _call(keys, "groups/forget"))) is None


def _call(keys: QueueKeys, script: str, *args: str) -> Operation[bytes]:
    request = Request((*keys.passed(script), *args), script=scripts.load(script), resend=True)
    expected = QueueKeys.of(keys.ready.decode(), grouped=True).types()
    answer: bytes = yield from call(Keys(f"queue {keys.ready.decode()!r}", expected), request)
    return answer


def compare(keys: QueueKeys, groups: Groups | None) -> Operation[None]:
    """Compare the groups of this client with the record, and write nothing.

    Raises:
        GroupsMismatch: they differ. A client with groups may find no record.
    """
    try:
        kind, known = yield from _stored(keys)
    except NoPermissionError:
        return  # a user who may not look gets the error of the script
    if kind == b"zset" and groups is not None:
        _raise_mismatch(keys, b"busy", groups)
    if kind == b"string":
        check(keys, known, groups)


def check(keys: QueueKeys, record: bytes, groups: Groups | None) -> None:
    """Compare the groups of this client with what the record describes.

    Raises:
        GroupsMismatch: they differ.
    """
    if groups_of(record) != groups:
        _raise_mismatch(keys, record, groups)


def is_missing(error: ResponseError) -> bool:
    """Return whether a script did not find the record that it was passed."""
    return str(error).startswith("ACKQ_GROUPS")


def _raise_mismatch(keys: QueueKeys, answer: bytes, groups: Groups | None) -> NoReturn:
    name, known = keys.ready.decode(), groups_of(answer)
    if known is not None:
        why = f"has groups={known!r}, recorded at its first use"
    elif answer == b"left":
        why = "is popped from the left"
    elif answer == b"busy":
        why = "has no groups, and consumers without groups hold messages of it now"
    else:
        why = f"has a record in {keys.record.decode()!r} that this release does not know"
    raise GroupsMismatch(
        f"queue {name!r} {why}; this client has groups={groups!r}. Nothing was changed. Use the"
        " same groups in all clients. To change them, stop the consumers, then run: ackq groups"
        f" {name}",
        recorded=repr(known),
    )
