"""Push one or many messages, ready now or later, optionally deduplicated."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ackq import scripts
from ackq.config import QueueConfig
from ackq.core.call import call
from ackq.core.chunks import CHUNK_BYTES, CHUNK_MESSAGES, end_of_chunk
from ackq.core.effects import Arg, Clock, Operation, Request
from ackq.core.encode import Pushable, encode, encode_many, several
from ackq.core.operation_marks import Send, observed
from ackq.errors import (
    EXPECTED,
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
from ackq.queue.push_options import PLAIN, PushOptions, Terms
from ackq.queue.record import before_push
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
    keys = [] if options.dedup is None else [options.dedup]
    (pushed,), unconfirmed = yield from _store(spec, [id], [body], keys, unique, options, terms)
    if unconfirmed is not None:
        raise unconfirmed
    return pushed if isinstance(pushed, Pushed) else Pushed(pushed)


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
        part = ids[first:end], bodies[first:end], keys[first:end]
        try:
            stored, unconfirmed = yield from _store(spec, *part, unique, options, terms)
            pushed += stored
            if unconfirmed is not None:
                raise unconfirmed
        except EXPECTED as error:
            ended = _account_of(error, pushed, end, len(bodies))
            raise ended from ended.__cause__
    return pushed


def _account_of(error: Exception, pushed: Sequence[str], sent: int, total: int) -> Exception:
    """Return the error to raise after ``error`` ended a push of ``total`` messages.

    Args:
        error: what ended it.
        pushed: the messages whose outcome is known.
        sent: how many messages were sent.
        total: how many there are.
    """
    refused = [at for at, each in enumerate(pushed) if getattr(each, "stored", True) is False]
    stored = sorted(set(range(len(pushed))).difference(refused))
    return account(error, stored, range(len(pushed), sent), [*refused, *range(sent, total)])


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
    if config.grouped and (options.front or options.replace):
        raise ConfigurationError(
            "a queue with groups or max_in_flight takes no push with front= or replace="
        )


def account(
    error: Exception, stored: Sequence[int], sending: Sequence[int], rest: Sequence[int]
) -> Exception:
    """Return the error to raise after ``error`` ended a push of many messages.

    Args:
        error: raised by the call that stores ``sending``.
        stored: positions of the messages that are stored.
        sending: positions of the messages of the call that failed.
        rest: positions of the messages that were refused, or have not been sent.
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
    spec: QueueSpec,
    ids: Sequence[str],
    bodies: Sequence[bytes],
    keys: Sequence[str],
    unique: UniqueTerms | None,
    options: PushOptions,
    terms: Terms,
) -> Operation[tuple[Sequence[str], NotConfirmed | None]]:
    """Store messages in one call, and return their ids; see `Terms.send` for the error."""
    if unique is not None:
        return (yield from uniqueness.store(spec, ids, bodies, unique, terms))
    if keys:
        window = options.dedup_window
        return (yield from deduplicated.store(spec, ids, bodies, keys, window, terms))
    if terms.when == "front":
        return ids, (yield from front.store(spec, bodies, terms))
    if terms.when == "now":
        request = Request((*spec.push_command, *bodies), confirm=terms.confirm)
    else:
        pairs: list[Arg] = []
        for pair in zip(ids, bodies, strict=True):
            pairs += pair
        request = Request(
            (*spec.keys.passed("schedule"), terms.when, terms.due, *pairs),
            scripts.load("schedule"),
            confirm=terms.confirm,
        )
    _, unconfirmed = yield from terms.send(spec, request)
    return ids, unconfirmed


def _compare_end(spec: QueueSpec) -> Operation[None]:
    """Compare the end onto which messages are pushed with the recorded one, now and then."""
    if (now := (yield Clock())) >= spec.push_check.due:
        yield from before_push(spec, spec.push_check, now)
