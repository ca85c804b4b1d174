"""Push one or many messages, ready now or later, optionally deduplicated."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from redis.exceptions import RedisError

from ackq import scripts
from ackq.config import QueueConfig
from ackq.core.call import call
from ackq.core.chunks import CHUNK_BYTES, CHUNK_MESSAGES, end_of_chunk
from ackq.core.effects import Arg, Clock, Operation, Request
from ackq.core.encode import Pushable, encode, encode_many, several
from ackq.core.operation_marks import Send, observed
from ackq.errors import (
    AckqError,
    ConfigurationError,
    NotConfirmed,
    PartlyStored,
    UnknownOutcome,
    redact,
)
from ackq.queue import dedup as deduplicated
from ackq.queue import front
from ackq.queue import unique as uniqueness
from ackq.queue.group_names import check_read, grouped
from ackq.queue.messages import Pushed
from ackq.queue.pop_from import before_push
from ackq.queue.push_options import PLAIN, PushOptions, Terms
from ackq.queue.spec import QueueSpec
from ackq.queue.unique import UniqueTerms

#: Messages for later, or with markers, that one call stores: a script adds them one by one.
CHUNK_ONE_BY_ONE = 500


@observed(Send("push"))
def push(spec: QueueSpec, message: Pushable, options: PushOptions) -> Operation[Pushed]:
    """Push one message; see `ackq.Queue.push`."""
    if options is PLAIN:  # most are, and each further hop would cost them all
        id, body = encode(message, spec.config.max_body_bytes, spec.outside, spec.config.time_field)
        yield from _compare_end(spec)
        yield from call(spec, Request((*spec.push_command, body)))
        return Pushed(id)
    check_groups(spec.name, spec.config, options)
    terms = Terms.of(options)
    if (unique := UniqueTerms.of(options, terms)) is not None:
        message = uniqueness.identified(message, unique.by)
    if spec.group_field is not None:
        message = grouped(message, spec.group_field, options.group)
    id, body = encode(message, spec.config.max_body_bytes, spec.outside, spec.config.time_field)
    if spec.group_field is not None and options.group is not None:
        check_read([body], spec.group_field)
    if unique is not None:
        uniqueness.check_found(id, body)
    elif options.dedup is not None:
        deduplicated.check_key(options.dedup)
    yield from _compare_end(spec)
    if unique is not None:
        return (yield from uniqueness.store(spec, [id], [body], unique, terms))[0]
    if options.dedup is None:
        yield from _store(spec, [id], [body], terms)
        return Pushed(id)
    marked = deduplicated.store(spec, [id], [body], [options.dedup], options.dedup_window, terms)
    return (yield from marked)[0]


@observed(Send("push", many=True))
def push_many(
    spec: QueueSpec, messages: Iterable[Pushable], options: PushOptions
) -> Operation[list[str]]:
    """Push many messages; see `ackq.Queue.push_many`."""
    check_groups(spec.name, spec.config, options)
    terms = Terms.of(options)
    unique = UniqueTerms.of(options, terms)
    keys: list[str] = []
    if unique is not None:
        each = several(messages, "push_many")
        messages = [uniqueness.identified(message, unique.by) for message in each]
    elif options.dedup is not None:
        messages = listed = list(several(messages, "push_many"))
        keys = deduplicated.keys_of(options.dedup, listed)
    if (field := spec.group_field) is not None:
        each = several(messages, "push_many")
        messages = [grouped(message, field, options.group) for message in each]
    ids, bodies = encode_many(
        messages, spec.config.max_body_bytes, spec.outside, spec.config.time_field
    )
    if field is not None and options.group is not None:
        check_read(bodies, field)
    sizes, most, largest = list(map(len, bodies)), CHUNK_MESSAGES, CHUNK_BYTES
    if terms.is_later or options.dedup is not None:
        most = CHUNK_ONE_BY_ONE
    if options.front:
        largest = front.CHUNK_BYTES
    if unique is not None:
        most = uniqueness.CHUNK
        for id, body in zip(ids, bodies, strict=True):
            uniqueness.check_found(id, body)
    yield from _compare_end(spec)
    pushed: list[str] = []
    while (first := len(pushed)) < len(bodies):
        end = end_of_chunk(sizes, first, most, largest)
        part = ids[first:end], bodies[first:end]
        try:
            if unique is not None:
                pushed += yield from uniqueness.store(spec, *part, unique, terms)
            elif options.dedup is not None:
                pushed += yield from deduplicated.store(
                    spec, *part, keys[first:end], options.dedup_window, terms
                )
            else:
                yield from _store(spec, *part, terms)
                pushed += part[0]
        except (AckqError, RedisError, OSError) as error:
            ended = account(error, range(first), range(first, end), range(end, len(bodies)))
            raise ended from ended.__cause__
    return pushed


def check_groups(name: str, config: QueueConfig, options: PushOptions) -> None:
    """Check that options fit the queue ``name`` with groups, or without.

    Raises:
        ConfigurationError: they do not.
    """
    if config.groups is None and options.group is not None:
        raise ConfigurationError(
            f"queue {name!r} has no groups: leave out group=, or open the queue with"
            " groups=Groups(field=...)"
        )
    is_named = options.unique is not None or options.unique_by is not None
    if config.grouped and (options.front or is_named):
        raise ConfigurationError(
            "a queue with groups or max_in_flight takes no push with front= or unique="
        )


def account(
    error: Exception, stored: Sequence[int], sending: Sequence[int], rest: Sequence[int]
) -> Exception:
    """Return the error to raise after ``error`` ended a push of many messages.

    Args:
        error: raised by the call that stores ``sending``.
        stored: positions of the messages that earlier calls stored.
        sending: positions of the messages of this call.
        rest: positions of the messages that have not been sent.
    """
    if isinstance(error, NotConfirmed):
        return error.account([*stored, *sending], (), rest)
    if isinstance(error, UnknownOutcome):
        error.stored = len(stored)
        return error.account(stored, sending, rest)
    if not stored:
        return error  # nothing is stored, as in a push of one message
    early = PartlyStored(f"the push ended early: {redact(str(error)) or type(error).__name__}")
    early.__cause__ = error
    return early.account(stored, (), [*sending, *rest])


def _store(
    spec: QueueSpec, ids: Sequence[str], bodies: Sequence[bytes], terms: Terms
) -> Operation[Any]:
    if terms.when == "now":
        request = Request((*spec.push_command, *bodies), confirm=terms.confirm)
    elif terms.when == "front":
        return front.store(spec, bodies, terms)
    else:
        pairs: list[Arg] = []
        for pair in zip(ids, bodies, strict=True):
            pairs += pair
        request = Request(
            (*spec.keys.passed("schedule"), terms.when, terms.due, *pairs),
            scripts.load("schedule"),
            confirm=terms.confirm,
        )
    return terms.send(spec, request)


def _compare_end(spec: QueueSpec) -> Operation[None]:
    """Compare the end onto which messages are pushed with the recorded one, now and then."""
    if (now := (yield Clock())) >= spec.push_check.due:
        yield from before_push(spec.keys, spec.push_check, now)
