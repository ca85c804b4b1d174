"""The record of a queue's groups and limits. It keeps other clients from taking messages.

It is a string. Other queues have a sorted set under the same name, for their held lists.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NoReturn, cast

from redis.exceptions import NoPermissionError, ResponseError

from ackq import scripts
from ackq.config import Groups, OnDead, QueueConfig, RateLimit
from ackq.core.call import Keys, call
from ackq.core.effects import Operation, Request
from ackq.errors import ConfigurationError, GroupsMismatch
from ackq.queue.keys import QueueKeys

#: What the record begins with while consumers must not take from a new shard; see
#: `ackq.sharded.resize`.
WAITS = b"held "
_RECORD = re.compile(r"(?:held \d+ )?groups:(\d+):(\d+)/(\d+)/(\d+):(\w+):(\d+):(.*)")


def record_of(config: QueueConfig) -> str:
    """Return the record of these settings: that of groups of an empty field if it has a limit only.

    It is ``groups:<in_flight>:<rate>:<on_dead>:<max_in_flight>:<field>``; the rate is
    ``<count>/<µs>/<burst>``, and a number is 0 if it is not set.
    """
    groups, rate = config.groups or Groups("none"), "0/0/0"
    if groups.rate is not None:
        rate = f"{groups.rate.count}/{groups.rate.period}/{groups.rate.at_once}"
    field = groups.field if config.groups is not None else ""
    limit = config.max_in_flight or 0
    return f"groups:{groups.in_flight}:{rate}:{groups.on_dead}:{limit}:{field}"


def settings_of(record: bytes) -> dict[str, Any]:
    """Return the settings of `QueueConfig` that a record describes; none if it describes others."""
    if not (matched := _RECORD.fullmatch(record.decode(errors="replace"))):
        return {}
    in_flight, count, period, burst, on_dead, limit, field = matched.groups()
    try:
        rate = RateLimit(int(count), int(period) / 1_000_000, int(burst)) if int(count) else None
        groups = Groups(field, int(in_flight), rate, cast(OnDead, on_dead)) if field else None
        settings: dict[str, Any] = {"groups": groups, "max_in_flight": int(limit) or None}
        return settings if QueueConfig(**settings).grouped else {}
    except ConfigurationError:
        return {}


def in_words(settings: Mapping[str, Any]) -> str:
    """Return the groups and limits among settings as the code that sets them."""
    named = ((name, settings.get(name)) for name in ("groups", "max_in_flight"))
    return ", ".join(f"{name}={each!r}" for name, each in named if each) or "groups=None"


def recorded(keys: QueueKeys) -> Operation[dict[str, Any]]:
    """Return the settings that are recorded of a queue; none if it has no groups and no limit."""
    _, known = yield from _stored(keys)
    return settings_of(known)


def _stored(keys: QueueKeys) -> Operation[tuple[bytes, bytes]]:
    """Return the type of the record's key, and the record; empty if there is none."""
    kind: bytes = yield Request((b"TYPE", keys.record), resend=True)
    if kind != b"string":
        return kind, b""
    return kind, (yield Request((b"GET", keys.record), resend=True)) or b""


def record(keys: QueueKeys, config: QueueConfig) -> Operation[None]:
    """Record the groups and the limit of a queue that has no record yet.

    Raises:
        GroupsMismatch: it has another record, or consumers without groups hold messages.
        KeyTypeError: a key has another type.
    """
    answer = yield from _call(keys, "groups/record", record_of(config))
    if answer != record_of(config).encode():
        _raise_mismatch(keys, answer, config)


def forget(keys: QueueKeys) -> Operation[bool]:
    """Delete the record and all other keys of the groups, unless messages are parked.

    Returns:
        Whether the queue has no such record now.
    """
    return not settings_of((yield from _call(keys, "groups/forget")))


def _call(keys: QueueKeys, script: str, *args: str) -> Operation[bytes]:
    request = Request((*keys.passed(script), *args), script=scripts.load(script), resend=True)
    name = keys.base.decode()
    expected = QueueKeys.of(name, grouped=True, stage=keys.stage).types()
    answer: bytes = yield from call(Keys(f"queue {name!r}", expected), request)
    return answer


def compare(keys: QueueKeys, config: QueueConfig) -> Operation[None]:
    """Compare the settings of this client with the record, and write nothing.

    Raises:
        GroupsMismatch: they differ. A client with groups or a limit may find no record.
    """
    try:
        kind, known = yield from _stored(keys)
    except NoPermissionError:
        return  # a user who may not look gets the error of the script
    if kind == b"zset" and config.grouped:
        _raise_mismatch(keys, b"busy", config)
    if known:  # it may have been deleted since its type was read
        check(keys, known, config)


def check(keys: QueueKeys, record: bytes, config: QueueConfig) -> None:
    """Compare the settings of this client with what the record describes.

    Raises:
        GroupsMismatch: they differ.
    """
    expected = record_of(config).encode() if config.grouped else b""
    if config.grouped and record.startswith(WAITS):
        return  # the record of the shards has the groups
    if record != expected and (config.grouped or settings_of(record)):
        _raise_mismatch(keys, record, config)


def is_missing(error: ResponseError) -> bool:
    """Return whether a script did not find the record that it was passed."""
    return str(error).startswith("ACKQ_GROUPS")


def refusal(name: str, what: str, mismatch: GroupsMismatch) -> GroupsMismatch:
    """Return the error for what no queue with groups supports, whatever its settings.

    Args:
        name: of the queue.
        what: a sentence on what is refused, and why.
        mismatch: the error for a client without groups.
    """
    return GroupsMismatch(
        f"queue {name!r} has {mismatch.recorded}. {what}. Nothing was changed. Use workers, or stop"
        f" the consumers and take the groups away: ackq groups {name} --off",
        recorded=mismatch.recorded,
    )


def _raise_mismatch(keys: QueueKeys, answer: bytes, config: QueueConfig) -> NoReturn:
    name, known = keys.base.decode(), settings_of(answer)
    advice = (
        "Use the same groups and the same max_in_flight in all clients. To change them, stop the"
        f" consumers, then run: ackq groups {name} --off, then --on with the new settings"
    )
    if answer.startswith(WAITS):
        why = "waits until the former shards of its sharded queue are empty"
        advice = "Take from the sharded queue by its name, so that its former shards are emptied"
    elif known:
        why = f"has {in_words(known)}, recorded at its first use"
    elif answer == b"left":
        why = "is popped from the left"
    elif answer == b"busy":
        why = "has no groups, and consumers without groups hold messages of it now"
    else:
        why = f"has a record in {keys.record.decode()!r} that this release does not know"
    raise GroupsMismatch(
        f"queue {name!r} {why}; this client has {in_words(config.settings())}. Nothing was changed."
        f" {advice}",
        recorded=in_words(known),
    )
