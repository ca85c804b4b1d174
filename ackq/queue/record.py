"""The record of a queue's settings that all clients must share: its end, its groups, its limits.

It is written at the first use. Scripts refuse a client that knows other settings. Only a plain push
runs no script, so it is checked here. A queue that is popped from the right, and has neither groups
nor limits, has no record.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol, cast

from redis.exceptions import NoPermissionError, ResponseError

from ackq import scripts
from ackq.config import Groups, OnDead, QueueConfig, RateLimit
from ackq.core.call import call, raise_for_type
from ackq.core.effects import Operation, Request
from ackq.errors import ConfigurationError, GroupsMismatch, KeyTypeError, PopFromMismatch
from ackq.queue.keys import QueueKeys

#: Seconds after which a client that pushes compares its settings with the record again.
RECHECK = 10.0
#: The fields that are compared, in this order.
FIELDS = ("format", "kind", "in_flight", "rate", "on_dead", "max_in_flight", "field")
#: The field of a shard from which consumers must not take yet; see `ackq.sharded.resize`.
WAITS = b"waits"
#: The field of a record whose limits apply to all clients, whatever these were given.
CHANGED = b"changed"


@dataclass
class PushCheck:
    """When the next check is due, in seconds of a monotonic clock."""

    due: float = -math.inf


class HasSettings(Protocol):
    """A queue as operations see it."""

    @property
    def keys(self) -> QueueKeys:
        """The names of its keys."""

    @property
    def config(self) -> QueueConfig:
        """Its settings."""

    @property
    def given(self) -> str | None:
        """The record of the settings that the client was given, if it uses others."""

    def adopt(self, settings: Mapping[str, Any]) -> None:
        """Use other limits from now on."""


def fields_of(config: QueueConfig) -> dict[str, str]:
    """Return the record of these settings, as record.lua describes it; empty if they need none."""
    if config.pop_from == "left":
        return {"format": str(scripts.FORMAT), "kind": "left"}
    if not config.grouped:
        return {}
    groups, rate = config.groups or Groups("none"), "0/0/0"
    if groups.rate is not None:
        rate = f"{groups.rate.count}/{groups.rate.period}/{groups.rate.at_once}"
    field = groups.field if config.groups is not None else ""
    limit = str(config.max_in_flight or 0)
    values = ("groups", str(groups.in_flight), rate, groups.on_dead, limit, field)
    return dict(zip(FIELDS, (str(scripts.FORMAT), *values), strict=True))


def text_of(config: QueueConfig) -> str:
    """Return the values of the record, as groups/pop compares them; empty if there is none."""
    return " ".join(fields_of(config).values())


def settings_of(text: str) -> dict[str, Any]:
    """Return the settings of `QueueConfig` that a record describes; none if it describes others.

    Args:
        text: the values of its fields, as `text_of` returns them.
    """
    format, kind, *values = [*text.split(" ", len(FIELDS) - 1), "", ""][: len(FIELDS)]
    if format != str(scripts.FORMAT):
        return {}
    if kind != "groups":
        return {"pop_from": "left"} if kind == "left" else {}
    try:
        in_flight, rate, on_dead, limit, field = values
        count, period, burst = map(int, rate.split("/"))
        allowed = RateLimit(count, period / 1_000_000, burst) if count else None
        groups = Groups(field, int(in_flight), allowed, cast(OnDead, on_dead)) if field else None
        settings: dict[str, Any] = {"groups": groups, "max_in_flight": int(limit) or None}
        return settings if QueueConfig(**settings).grouped else {}
    except (ConfigurationError, ValueError):
        return {}


def in_words(settings: Mapping[str, Any]) -> str:
    """Return the groups and limits among settings as the code that sets them."""
    named = ((name, settings.get(name)) for name in ("groups", "max_in_flight"))
    return ", ".join(f"{name}={each!r}" for name, each in named if each) or "groups=None"


def _text(stored: Mapping[bytes, bytes]) -> str:
    """Return the values of a stored record, up to the first field that it lacks."""
    values = [stored[name.encode()] for name in FIELDS if name.encode() in stored]
    return b" ".join(values).decode(errors="replace")


def _stored(keys: QueueKeys) -> Operation[dict[bytes, bytes]]:
    """Return the stored record; empty if there is none."""
    request = Request((b"HGETALL", keys.record), resend=True)
    flat = yield from call(_Owner(keys), request)
    return flat if isinstance(flat, dict) else dict(zip(flat[::2], flat[1::2], strict=True))


@dataclass(frozen=True, slots=True)
class _Owner:
    """The queue of a record, for the errors of its calls."""

    keys: QueueKeys

    def raise_for_reply(self, error: ResponseError) -> Operation[NoReturn]:
        """Raise `KeyTypeError` if a key has another type, else ``error`` itself."""
        return _raise_for_type(self.keys, error)


def recorded(keys: QueueKeys) -> Operation[dict[str, Any]]:
    """Return the settings that are recorded of a queue: its end, or its groups and its limit."""
    return settings_of(_text((yield from _stored(keys))))


def record(spec: HasSettings) -> Operation[None]:
    """Record the settings of a queue that has no record yet; nothing if they need none.

    Raises:
        PopFromMismatch: the queue has another end, or consumers of that one hold messages.
        GroupsMismatch: it has other groups, consumers without groups hold messages, or it is a
            shard from which consumers must not take yet.
        KeyTypeError: a key has another type.
    """
    given = spec.config if spec.given is None else spec.config.changed(settings_of(spec.given))
    if not (wanted := fields_of(given)):
        return
    args = [part for pair in wanted.items() for part in pair]
    reply = yield from _call(spec.keys, "record", *args)
    if reply == b"busy":
        _raise_mismatch(spec, {})
    stored = dict(zip(reply[::2], reply[1::2], strict=True))
    check(spec, stored)
    if WAITS in stored:
        _raise_mismatch(spec, stored)


def forget(keys: QueueKeys) -> Operation[bool]:
    """Delete the record, and what else is known of groups, unless messages depend on it.

    Returns:
        Whether the queue has no record now.
    """
    return bool((yield from _call(keys, "forget")))


def forget_if_unused(spec: HasSettings) -> Operation[None]:
    """Delete the record if the list does not exist either, as after its only use."""
    if not (yield Request((b"EXISTS", spec.keys.ready), resend=True)):
        yield from forget(spec.keys)


def _call(keys: QueueKeys, script: str, *args: str) -> Operation[Any]:
    request = Request((*keys.passed(script), *args), script=scripts.load(script), resend=True)
    return (yield from call(_Owner(keys), request))


def before_push(spec: HasSettings, check: PushCheck, now: float) -> Operation[None]:
    """Refuse to push onto the end that other clients pop, or with a record of another format.

    The next check is due in `RECHECK` s. If the user may not look, there is none, now and later.

    Args:
        spec: of the queue.
        check: is due.
        now: the time of the monotonic clock.

    Raises:
        PopFromMismatch: the queue is popped from the other end.
        GroupsMismatch: this release does not know the record.
    """
    try:
        if spec.keys.pop_from == "left":
            yield from record(spec)
        else:
            stored = yield from _stored(spec.keys)
            if stored and "groups" not in settings_of(_text(stored)):
                _raise_mismatch(spec, stored)
    except NoPermissionError:
        check.due = math.inf
    else:
        check.due = now + RECHECK


def compare(spec: HasSettings) -> Operation[None]:
    """Compare the settings of this client with the record, if there is one, and write nothing.

    Raises:
        PopFromMismatch: the queue is popped from the other end.
        GroupsMismatch: the groups or limits differ.
    """
    with contextlib.suppress(NoPermissionError):  # a user who may not look: the script refuses
        check(spec, (yield from _stored(spec.keys)))


def check(spec: HasSettings, stored: Mapping[bytes, bytes]) -> None:
    """Compare the settings of this client with a record, if there is one.

    If the limits were changed while consumers worked, the client uses them from now on.

    Raises:
        PopFromMismatch: the queue is popped from the other end.
        GroupsMismatch: the groups or limits differ.
    """
    text = _text(stored)
    if not stored or text == text_of(spec.config):
        return
    if text != spec.given and not (CHANGED in stored and have_one_field(spec.config, text)):
        _raise_mismatch(spec, stored)
    spec.adopt(settings_of(text))


def have_one_field(config: QueueConfig, text: str) -> bool:
    """Return whether a record and these settings have the same groups, with other limits or not."""
    theirs = QueueConfig(**settings_of(text))
    return (
        config.grouped
        and theirs.grouped
        and getattr(config.groups, "field", "") == getattr(theirs.groups, "field", "")
    )


def raise_for_reply(
    spec: HasSettings, error: ResponseError, expected: Mapping[bytes, str] | None = None
) -> Operation[NoReturn]:
    """Raise the error that a reply means.

    Args:
        spec: of the queue.
        error: what Redis replied.
        expected: the keys that were passed, and their types. Defaults to those of the queue.

    Raises:
        PopFromMismatch: the queue is popped from the other end.
        GroupsMismatch: the groups of the queue and of this client differ.
        KeyTypeError: a key has another type.
        ResponseError: ``error`` itself, if it is another one.
    """
    if is_refused(error):
        with contextlib.suppress(NoPermissionError):
            check(spec, (yield from _stored(spec.keys)))
    yield from _raise_for_type(spec.keys, error, expected)
    raise error  # only for mypy: the line before always raises


def _raise_for_type(
    keys: QueueKeys, error: ResponseError, expected: Mapping[bytes, str] | None = None
) -> Operation[NoReturn]:
    name = keys.base.decode()
    if "WRONGTYPE" in str(error):
        with contextlib.suppress(NoPermissionError):
            if (yield Request((b"TYPE", keys.held), resend=True)) == b"string":
                raise KeyTypeError(
                    f"queue {name!r}: {keys.held.decode()!r} is a string, as in format 1. Nothing"
                    f" was changed. Stop the consumers, then run: ackq doctor {name} --convert. If"
                    " it is not of ackq, rename that key or the queue"
                ) from error
    types = keys.types() if expected is None else expected
    yield from raise_for_type(f"queue {name!r}", types, error)
    raise error  # only for mypy: the line before always raises


def is_refused(error: ResponseError) -> bool:
    """Return whether a script refused its caller, whose settings are not those of the record."""
    return str(error).startswith("ACKQ_RECORD")


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


def _raise_mismatch(spec: HasSettings, stored: Mapping[bytes, bytes]) -> NoReturn:
    """Raise the error for a record that differs; without one, others hold messages now."""
    name, mine, known = spec.keys.base.decode(), spec.config, settings_of(_text(stored))
    if not mine.grouped and ("pop_from" in known or not stored):
        end = "left" if stored else "right"
        since = "recorded at its first use" if stored else "and messages are in flight now"
        raise PopFromMismatch(
            f"queue {name!r} is popped from the {end}, {since}; this client has"
            f" pop_from={mine.pop_from!r}. Nothing was changed. Use pop_from={end!r} (--pop-from"
            f" {end}). To change the queue's end, stop its consumers, then run: ackq drain {name}",
            recorded=end,
        )
    advice = (
        "Use the same groups and the same max_in_flight in all clients. To change limits, run: ackq"
        f" groups {name} --in-flight N. To change the field, stop the consumers, then run: ackq"
        f" groups {name} --off, then --on"
    )
    if not stored:
        why = "has no groups, and consumers without groups hold messages of it now"
    elif WAITS in stored and _text(stored) == text_of(mine):
        why = "waits until the former shards of its sharded queue are empty"
        advice = "Take from the sharded queue by its name, so that its former shards are emptied"
    elif "pop_from" in known:
        why = "is popped from the left"
    elif known:
        why = f"has {in_words(known)}, recorded at its first use"
    else:
        why = f"has a record in {spec.keys.record.decode()!r} that this release does not know"
        advice = "Upgrade ackq"
    raise GroupsMismatch(
        f"queue {name!r} {why}; this client has {in_words(mine.settings())}. Nothing was changed."
        f" {advice}",
        recorded=in_words(known),
    )
