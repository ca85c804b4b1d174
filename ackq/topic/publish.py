"""Publish to a topic, and trim it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from redis.exceptions import RedisError

from ackq import scripts
from ackq.config import Confirm, Seconds, check_integer, microseconds
from ackq.core import observation
from ackq.core.call import call
from ackq.core.chunks import CHUNK_MESSAGES, chunked
from ackq.core.confirm import check_confirmed, require_confirmable
from ackq.core.effects import Arg, Operation, Request
from ackq.core.encode import Pushable, mapping_of, several
from ackq.core.json_values import to_json
from ackq.core.limits import MAX_DEDUP_WINDOW
from ackq.core.operation_marks import Send, observed
from ackq.core.retries import raise_if_unknown
from ackq.errors import (
    ConfigurationError,
    IndexTaken,
    InvalidMessage,
    MessageTooLarge,
    PublishContention,
    UnknownOutcome,
)
from ackq.topic.spec import TopicSpec, pause

#: Attempts without a pause between them.
AT_ONCE = 2
#: Old messages that one publish trims, in addition to as many as it stores.
CATCH_UP = 8


@dataclass(frozen=True, slots=True)
class _Once:
    """The marker of an idempotent publish: its name and lifetime in milliseconds."""

    marker: str = ""
    window_ms: int = 0


@observed(Send("publish"))
def publish(
    spec: TopicSpec,
    message: Pushable,
    dedup: str | None,
    dedup_window: Seconds,
    confirm: Confirm | None,
) -> Operation[int]:
    """Publish one message; see `ackq.topic.Topic.publish`."""
    body = encode(message, spec.config.max_body_bytes)
    once = _Once()
    if dedup is not None:
        if not isinstance(dedup, str) or not dedup or len(dedup.encode()) > 512:
            raise ConfigurationError(f"dedup is 1 to 512 bytes of text, not {dedup!r}")
        window = microseconds(dedup_window, "dedup_window", MAX_DEDUP_WINDOW)
        once = _Once(dedup, max(1, window // 1000))
    return (yield from _publish(spec, [body], once, confirm))


@observed(Send("publish", many=True))
def publish_many(
    spec: TopicSpec, messages: Iterable[Pushable], confirm: Confirm | None
) -> Operation[list[int]]:
    """Publish many messages; see `ackq.topic.Topic.publish_many`."""
    bodies = [
        encode(message, spec.config.max_body_bytes) for message in several(messages, "publish_many")
    ]
    indexes: list[int] = []
    for chunk in chunked(bodies, list(map(len, bodies))):
        try:
            first = yield from _publish(spec, chunk, _Once(), confirm)
        except (UnknownOutcome, PublishContention) as error:
            error.stored = len(indexes)
            raise
        except RedisError as error:
            error.add_note(f"ackq: the first {len(indexes)} of {len(bodies)} messages are stored")
            raise
        indexes += range(first, first + len(chunk))
    return indexes


def trim(spec: TopicSpec, keep: int) -> Operation[int]:
    """Trim a topic by count; see `ackq.topic.Topic.trim`."""
    check_integer(keep, "keep", 0, 2**53 - 1)
    keys, guess = spec.keys, spec.publishing
    deleted, oldest, count = 0, 1, 0
    while True:
        request = Request(
            (2 + count, keys.newest, keys.first, *keys.messages(oldest - 1, count), keep, oldest),
            script=scripts.load("topic/trim"),
            resend=True,
        )
        newest, first, gone = yield from call(spec, request)
        deleted += int(gone)
        guess.first = oldest = first
        count = min(CHUNK_MESSAGES, newest - keep - first + 1)
        if count < 1:
            return deleted


def encode(message: Pushable, limit: int) -> bytes:
    """Return the bytes to store: bytes unchanged, a mapping or record as JSON.

    Raises:
        InvalidMessage: another type, or a value that JSON cannot hold.
        MessageTooLarge: longer than ``limit`` bytes.
    """
    members = observation.members()
    if isinstance(message, bytes | bytearray | memoryview):
        body, members = bytes(message), None
    else:
        try:
            body = to_json(dict(mapping_of(message)))
        except TypeError as error:
            raise InvalidMessage(f"the message cannot be JSON: {error}") from error
    if len(body) > limit:
        raise MessageTooLarge(
            f"a message is {len(body)} bytes, over the limit of {limit}: store the content"
            " elsewhere and publish a reference, or raise max_body_bytes"
        )
    return members.added_to(body, message, limit) if members else body


def _publish(
    spec: TopicSpec, bodies: Sequence[bytes], once: _Once, confirm: Confirm | None
) -> Operation[int]:
    """Store all bodies under the next indexes, and return the first index."""
    if confirm is not None:
        yield from require_confirmable(confirm)
    guess = spec.publishing
    for attempt in range(spec.config.publish_attempts):
        if attempt >= AT_ONCE:
            yield pause(spec, attempt)
        after = guess.after
        request = _request(spec, after, guess.slack, guess.first, bodies, once)
        request.confirm = confirm
        try:
            reply = yield from call(spec, request)
        except RedisError as error:
            raise_if_unknown(error, request)
            raise
        confirmation = None
        if confirm is not None:
            reply, confirmation = reply
        status = reply[0]
        if status == b"moved":
            guess.missed(reply[1])
            guess.first = reply[2]
            continue
        if status == b"taken":
            raise IndexTaken(
                f"topic {spec.name!r}: there is a message beyond the newest index, so nextIndex"
                " was lost or set back. Nothing was overwritten: set nextIndex to the index of"
                " the last message, or delete the messages"
            )
        index: int = reply[1]
        if status == b"ok":
            guess.hit(index - 1 - after, index + len(bodies) - 1)
            guess.first = reply[2]
        if confirm is not None:
            check_confirmed(confirm, confirmation)
        return index
    raise PublishContention(
        f"topic {spec.name!r}: other producers published first {spec.config.publish_attempts} times"
        " in a row; this was not stored. Publish it again, or raise publish_attempts"
    )


def _request(
    spec: TopicSpec, after: int, slack: int, first: int, bodies: Sequence[bytes], once: _Once
) -> Request:
    keys, config = spec.keys, spec.config
    count = len(bodies)
    keep = config.max_messages or 0
    trims = 0
    if keep:
        # Between two calls, other producers trim as much as they publish; slack follows that.
        window = 2 * (count + slack) + CATCH_UP
        trims = max(0, min(window, after + slack + count - keep - first + 1))
    named = [
        keys.newest,
        keys.first,
        keys.wake,
        keys.dedup(once.marker),
        *keys.messages(first - 1, trims),
        *keys.messages(after, count + slack),
    ]
    settings: tuple[Arg, ...] = (after, config.max_age_ms, keep, trims, first, once.window_ms)
    return Request(
        (len(named), *named, *settings, *bodies),
        script=scripts.load("topic/publish"),
        resend=once.window_ms > 0,  # the marker makes a repeat harmless
    )
