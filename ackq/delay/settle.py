"""Delete, nack, release, reject and extend messages of a delay queue, all fenced."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ackq import scripts
from ackq.config import microseconds
from ackq.core import failure_notes, fencing
from ackq.core.backoff import backoff
from ackq.core.effects import Arg, Operation, Request
from ackq.core.fencing import split_remaining
from ackq.core.io.jitter import draw_jitter
from ackq.core.observed import Settle, observed
from ackq.delay.messages import LONGEST_DELAY, DelayedMessage, DelaySpec, raw_key
from ackq.errors import ConfigurationError


@observed(Settle("delete"))
def delete(spec: DelaySpec, messages: Sequence[DelayedMessage]) -> Operation[int]:
    """Delete; see `ackq.delay.DelayQueue.delete`."""
    return (yield from _settle(spec, "delete", (), messages))


@observed(Settle("nack"))
def nack(
    spec: DelaySpec,
    messages: Sequence[DelayedMessage],
    delay: float | None,
    charge: bool = True,
    error: BaseException | None = None,
) -> Operation[int]:
    """Nack or release; see `ackq.delay.DelayQueue.nack` and `ackq.delay.DelayQueue.release`."""
    fixed = None if delay is None else _delay_us(delay)

    def delay_of(message: DelayedMessage) -> int:
        return round(backoff(message.receive_count) * 1_000_000) if fixed is None else fixed

    head = (int(charge), spec.config.max_receives or 0)
    verb = "nack" if charge else "release"
    return (yield from _settle(spec, verb, head, messages, delay_of, error=error))


@observed(Settle("reject"))
def reject(
    spec: DelaySpec,
    messages: Sequence[DelayedMessage],
    reason: str,
    error: BaseException | None = None,
) -> Operation[int]:
    """Move to the dead letters; see `ackq.delay.DelayQueue.reject`."""
    if not isinstance(reason, str) or len(reason.encode()) > 1024:
        raise ConfigurationError("reason is at most 1024 bytes of text")
    return (yield from _settle(spec, "reject", (reason,), messages, error=error))


def extend(
    spec: DelaySpec, messages: Sequence[DelayedMessage], timeout: float | None
) -> Operation[int]:
    """Renew leases; see `ackq.delay.DelayQueue.extend`."""
    seconds = spec.config.visibility_timeout if timeout is None else timeout
    lease = microseconds(seconds, "timeout")
    deadlines: list[int] = []
    head = (lease, draw_jitter())
    return (yield from _settle(spec, "extend", head, messages, deadlines=deadlines))


def _settle(
    spec: DelaySpec,
    verb: str,
    head: tuple[Arg, ...],
    messages: Sequence[DelayedMessage],
    delay_of: Callable[[DelayedMessage], int] | None = None,
    deadlines: list[int] | None = None,
    error: BaseException | None = None,
) -> Operation[int]:
    _check_own(spec, messages)
    failure_notes.note_error(messages, error, spec.config.record_errors)
    settled = 0
    refused: list[DelayedMessage] = []
    script = scripts.load(f"delay/{'nack' if verb in fencing.GIVES_BACK else verb}")
    held, given_back = fencing.admit(verb, messages)
    for session, chunk in _chunks(verb, held):
        while chunk:
            keys, args, order = _group(spec, chunk, delay_of)
            if verb in failure_notes.FAILS:
                args += failure_notes.arguments(order)
            request = Request((len(keys), *keys, session, *head, *args), script=script, resend=True)
            reply = yield from fencing.send(spec, verb, request, order)
            deadline = reply.pop(0) if deadlines is not None else 0
            dead = reply.pop() if isinstance(reply[-1], list) else ()
            reply, chunk = split_remaining(reply, order)
            settled += reply[0]
            refused += fencing.note_reply(verb, order, reply[1:], request, len(chunk))
            for position in dead:
                order[position - 1].dead = True
            for message in order if verb == "reject" else ():
                message.dead = fencing.was_settled(message, verb)
            for message in order if deadline else ():
                if not message.lease_lost:
                    message.lease_expires_at = deadline / 1_000_000
    fencing.raise_if_refused(
        f"delay queue {spec.name!r}",
        verb,
        refused,
        given_back,
        settled,
        _name_of,
        "the lease ended or the consumer was fenced off",
    )
    return settled


def _name_of(message: DelayedMessage) -> str:
    return message.key


def _chunks(
    verb: str, messages: Sequence[DelayedMessage]
) -> Iterable[tuple[bytes, Sequence[DelayedMessage]]]:
    """Yield the messages of one session at a time, so that a fenced session fails alone."""
    sessions: dict[bytes, list[DelayedMessage]] = {}
    for message in messages:
        sessions.setdefault(message.session, []).append(message)
    for session, members in sessions.items():
        for chunk in failure_notes.chunks(verb, members):
            yield session, chunk


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


def _delay_us(delay: float) -> int:
    return 0 if delay == 0 else microseconds(delay, "delay", LONGEST_DELAY / 1_000_000)


def _check_own(spec: DelaySpec, messages: Iterable[DelayedMessage]) -> None:
    for message in messages:
        if not isinstance(message, DelayedMessage):
            raise ConfigurationError(
                f"settle takes messages that take returned, not {type(message).__name__}"
            )
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
