"""Pushes under a key of their own, by which a second push of the same message is recognized."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from redis.exceptions import RedisError

from ackq import scripts
from ackq.config import Seconds, microseconds
from ackq.core.effects import Arg, Operation, Request
from ackq.core.ids import key_of_id
from ackq.core.limits import MAX_DEDUP_WINDOW
from ackq.core.names import is_unicode
from ackq.core.retries import raise_if_unknown
from ackq.errors import ConfigurationError, NotConfirmed
from ackq.queue import front
from ackq.queue.messages import Pushed
from ackq.queue.push_options import Terms
from ackq.queue.spec import QueueSpec

#: A key for each message of a call, or a function that returns the key of a message.
DedupKeys = Callable[[Any], str] | Sequence[str]


def keys_of(dedup: DedupKeys, messages: Sequence[Any]) -> list[str]:
    """Return the keys of messages.

    Raises:
        ConfigurationError: not one for each message, or one that is no key.
    """
    if isinstance(dedup, str):
        raise ConfigurationError(
            "push_many takes a function or a list as dedup: each message has a key of its own"
        )
    keys = [dedup(message) for message in messages] if callable(dedup) else list(dedup)
    if len(keys) != len(messages):
        raise ConfigurationError(f"dedup has {len(keys)} keys for {len(messages)} messages")
    for key in keys:
        check_key(key)
    return keys


def check_key(key: str) -> None:
    """Raise an error unless this can be the key of a push."""
    if not isinstance(key, str) or not is_unicode(key) or not 0 < len(key.encode()) <= 512:
        raise ConfigurationError(f"dedup is 1 to 512 bytes of text, not {key!r}")


def store(
    spec: QueueSpec,
    ids: Sequence[str],
    bodies: Sequence[bytes],
    keys: Sequence[str],
    window: Seconds,
    terms: Terms,
) -> Operation[tuple[list[Pushed], NotConfirmed | None]]:
    """Store those messages whose keys no push had within the window; see `Terms.send`.

    Raises:
        UnknownOutcome: the reply was lost, also that of a second attempt.
    """
    milliseconds = microseconds(window, "dedup_window", MAX_DEDUP_WINDOW) // 1000
    messages: list[Arg] = []
    for id, body in zip(ids, bodies, strict=True):
        messages += (id, body, key_of_id(id) or b"")
    request = Request(
        (
            *spec.keys.passed("push_once", *map(spec.keys.dedup, keys)),
            max(1, milliseconds),
            terms.when,
            terms.due,
            spec.keys.pop_from,
            *messages,
        ),
        script=scripts.load("push_once"),
        resend=True,  # the markers make a second application harmless
        confirm=terms.confirm,
    )
    try:
        (on_list, *rows), unconfirmed = yield from terms.send(spec, request)
    except RedisError as error:
        raise_if_unknown(error, request)
        raise
    pushed = []
    for id, stored, first_id in zip(ids, rows[::2], rows[1::2], strict=True):
        each = Pushed(first_id.decode())
        if not stored:
            # The lost first attempt may have stored it.
            each.stored = None if request.reply_lost and each == id else False
        pushed.append(each)
    stored_bodies = [body for body, stored in zip(bodies, rows[::2], strict=True) if stored]
    if on_list:
        yield from front.hand_over(spec, on_list, stored_bodies[-1])
    return pushed, unconfirmed
