"""Delete, nack, release, reject and extend messages of a delay queue, all fenced."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ackq.config import Seconds, microseconds
from ackq.core.backoff import backoff
from ackq.core.chunks import settle_chunks
from ackq.core.effects import Arg, Operation
from ackq.core.failure_notes import failed_chunks, note_error
from ackq.core.fencing import Verb, not_leased, settle, unpacked
from ackq.core.operation_marks import Settle, observed
from ackq.delay.messages import MAX_DELAY, DelayedMessage, DelaySpec, raw_key
from ackq.errors import ConfigurationError

Messages = Sequence[DelayedMessage]
#: What the settling methods take.
Given = Sequence[DelayedMessage | Iterable[DelayedMessage]]


def _by_session(messages: Messages) -> Iterable[Messages]:
    """Return messages in chunks of one session each, so that a fenced session fails alone."""
    return (chunk for session in _sessions(messages) for chunk in settle_chunks(session))


def _failed_by_session(messages: Messages) -> Iterable[Messages]:
    """Return messages in chunks of one session each that one nack or reject may settle."""
    return (chunk for session in _sessions(messages) for chunk in failed_chunks(session))


def _sessions(messages: Messages) -> Iterable[Messages]:
    sessions: dict[bytes, list[DelayedMessage]] = {}
    for message in messages:
        sessions.setdefault(message.session, []).append(message)
    return sessions.values()


DELETE = Verb("delete", "delay/delete", _by_session)
NACK = Verb("nack", "delay/nack", _failed_by_session, gives_back=True, notes_errors=True)
RELEASE = Verb("release", "delay/nack", _by_session, gives_back=True)
REJECT = Verb("reject", "delay/nack", _failed_by_session, kills=True, notes_errors=True)
EXTEND = Verb("extend", "delay/extend", _by_session, settles=False)


@observed(Settle("delete"))
def delete(spec: DelaySpec, given: Given) -> Operation[int]:
    """Delete; see `ackq.delay.DelayQueue.delete`."""
    return (yield from _settle(spec, DELETE, (), given))


@observed(Settle("nack"))
def nack(
    spec: DelaySpec,
    given: Given,
    delay: Seconds | None,
    charge: bool = True,
    error: BaseException | None = None,
) -> Operation[int]:
    """Nack or release; see `ackq.delay.DelayQueue.nack` and `ackq.delay.DelayQueue.release`."""
    limit = MAX_DELAY / 1_000_000
    fixed = None if delay is None else microseconds(delay, "delay", limit, zero=True)

    def delay_of(message: DelayedMessage) -> int:
        return round(backoff(message.receive_count) * 1_000_000) if fixed is None else fixed

    verb = NACK if charge else RELEASE
    head = (verb.name, spec.config.max_receives or 0, "")
    return (yield from _settle(spec, verb, head, given, delay_of, error))


@observed(Settle("reject"))
def reject(
    spec: DelaySpec,
    given: Given,
    reason: str,
    error: BaseException | None = None,
) -> Operation[int]:
    """Move to the dead letters; see `ackq.delay.DelayQueue.reject`."""
    if not isinstance(reason, str) or len(reason.encode()) > 1024:
        raise ConfigurationError("reason is at most 1024 bytes of text")
    head = (REJECT.name, 0, reason)
    return (yield from _settle(spec, REJECT, head, given, lambda message: 0, error))


def extend(spec: DelaySpec, given: Given, timeout: Seconds | None) -> Operation[int]:
    """Renew leases; see `ackq.delay.DelayQueue.extend`."""
    seconds = spec.config.visibility_timeout if timeout is None else timeout
    lease = microseconds(seconds, "timeout")
    return (yield from _settle(spec, EXTEND, (lease, spec.outside.jitter()), given))


def _settle(
    spec: DelaySpec,
    verb: Verb,
    head: tuple[Arg, ...],
    given: Given,
    delay_of: Callable[[DelayedMessage], int] | None = None,
    error: BaseException | None = None,
) -> Operation[int]:
    messages = _own_messages(spec, given, verb)
    note_error(messages, error, spec.config.record_errors)

    def arguments(chunk: Messages) -> tuple[tuple[Arg, ...], Messages]:
        keys, named, order = _group(spec, chunk, delay_of)
        return (len(keys), *keys, chunk[0].session, *head, *named), order

    return (yield from settle(spec, verb, messages, arguments))


def _group(
    spec: DelaySpec,
    messages: Iterable[DelayedMessage],
    delay_of: Callable[[DelayedMessage], int] | None,
) -> tuple[list[bytes], list[Arg], list[DelayedMessage]]:
    """Return keys, arguments grouped by partition and receipt, and messages in that order."""
    groups: dict[tuple[int, ...], list[DelayedMessage]] = {}
    for message in messages:
        head: tuple[int, ...] = (message.partition or 0, message.receipt)
        if delay_of is not None:
            head += (delay_of(message),)
        groups.setdefault(head, []).append(message)
    partitions = sorted({head[0] for head in groups})
    args: list[Arg] = []
    order: list[DelayedMessage] = []
    for (partition, *rest), members in groups.items():
        raw = [raw_key(message.key) for message in members]
        args += (partitions.index(partition) + 1, *rest, len(members), *raw)
        order += members
    return [*spec.fence.all()[:2], *spec.keys_of(partitions)], args, order


def _own_messages(spec: DelaySpec, given: Given, verb: Verb) -> Messages:
    """Return messages of this queue, those in lists too."""
    messages = unpacked(given)
    for message in messages:
        if not isinstance(message, DelayedMessage):
            raise not_leased(message, verb.name, "take")
        if message.queue != spec.name:
            raise ConfigurationError(
                f"message {message.key!r} was taken from delay queue {message.queue!r},"
                f" not {spec.name!r}: settle it there"
            )
        if (message.partition is None) is not (spec.group is None):
            kind = "without" if message.partition is None else "with"
            raise ConfigurationError(
                f"message {message.key!r} was taken from {message.queue!r} as a delay queue {kind}"
                " partitions: settle it with a client of that kind"
            )
    return messages
