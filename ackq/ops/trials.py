"""Find out what the current user may do, by trying it on a scratch queue."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Literal, TypeVar

from redis.exceptions import NoPermissionError, ResponseError

from ackq.core.effects import Operation, Request
from ackq.core.waits import MIN_BLOCK
from ackq.queue import claims, inspection, push, settle, take
from ackq.queue.messages import Message
from ackq.queue.push_options import PushOptions
from ackq.queue.spec import QueueSpec

T = TypeVar("T")

#: "denied": to this user. "refused": the server cannot do it now for any user.
Answer = Literal["allowed", "denied", "refused", "not tried"]

#: The operations to try, by the kind of use that needs them.
TRIALS = {
    "produce": ("push", "push later", "push once", "push to the front", "push unique"),
    "consume": ("take", "wait", "ack", "nack", "release", "reject", "extend"),
    "claim": ("claim", "ack a claim", "release claims"),
    "look after": (
        "count",
        "peek",
        "read the dead",
        "redrive",
        "drop",
        "pause",
        "audit",
        "drain",
        "purge",
    ),
}
_MARKER = _GROUP = "doctor"
_WITHIN_SCRIPTS = re.compile(
    "no permissions|can't run this command|can't access at least one|no longer has permission",
    re.IGNORECASE,
)


def untried() -> dict[str, Answer]:
    """Return the answers for a server on which nothing was tried."""
    return {name: "not tried" for names in TRIALS.values() for name in names}


def try_out(spec: QueueSpec) -> Operation[dict[str, Answer]]:
    """Try every operation on queue ``spec``, which no one else uses, and delete all of it.

    Redis checks commands within a script only when they run, so each operation is really done.
    """
    answers = untried()
    try:
        yield from _try_all(spec, answers)
    except Exception:
        yield from _clean_up(spec)
        raise
    yield from _clean_up(spec)
    return answers


def _try_all(spec: QueueSpec, answers: dict[str, Answer]) -> Operation[None]:
    bodies = [{"id": str(number)} for number in range(8)]
    yield from _try(answers, "push", push.push_many(spec, bodies, PushOptions()))
    for name, options in (
        ("push later", PushOptions(delay=60)),
        ("push once", PushOptions(dedup=_MARKER, dedup_window=1)),
        ("push to the front", PushOptions(front=True)),
        ("push unique", PushOptions(unique="done")),
    ):
        yield from _try(answers, name, push.push(spec, {"id": name}, options))
    taken = yield from _try(answers, "take", take.pop_many(spec, 5, None, None, ()))
    yield from _settle_all(spec, answers, taken or [])
    yield from _try_claims(spec, answers)
    yield from _try(answers, "wait", _wait(spec))
    yield from _try(answers, "count", inspection.stats(spec))
    yield from _try(answers, "peek", inspection.peek(spec, 1, "ready"))
    yield from _try(answers, "read the dead", inspection.dead_letters(spec, 1, ()))
    yield from _try(answers, "redrive", inspection.redrive(spec, 1, ()))
    yield from _try(answers, "drop", inspection.drop_dead_letters(spec, ("1-1",)))
    yield from _try(answers, "pause", inspection.pause(spec))
    if answers["pause"] == "allowed":
        yield from _try(answers, "pause", inspection.resume(spec))
    yield from _try(answers, "audit", inspection.audit(spec, True))
    yield from _try(answers, "drain", inspection.drain(spec))
    yield from _try(answers, "purge", inspection.purge(spec, True))


def _settle_all(
    spec: QueueSpec, answers: dict[str, Answer], taken: Sequence[Message]
) -> Operation[None]:
    """Settle one message in each way, as long as there are messages."""
    ways: tuple[tuple[str, Callable[[Message], Operation[int]]], ...] = (
        ("extend", lambda message: settle.extend(spec, [message], None)),
        ("ack", lambda message: settle.ack(spec, [message])),
        ("nack", lambda message: settle.nack(spec, [message], 60)),
        ("release", lambda message: settle.nack(spec, [message], 0, charge=False)),
        ("reject", lambda message: settle.reject(spec, [message], "tried")),
    )
    for (name, way), message in zip(ways, taken, strict=False):
        yield from _try(answers, name, way(message))


def _try_claims(spec: QueueSpec, answers: dict[str, Answer]) -> Operation[None]:
    group = claims.Group(spec, _GROUP, 60)

    def claim() -> Operation[None]:
        yield from claims.begin(group)
        for batch in (1, 2):
            yield from claims.claim(group, batch - 1, 1, None, None)

    def settle_claim() -> Operation[None]:
        yield from claims.ack(group, 1, 1)
        yield from claims.forget(group, 1)
        yield from claims.beat(group)

    yield from _try(answers, "claim", claim())
    if answers["claim"] == "allowed":
        yield from _try(answers, "ack a claim", settle_claim())
        yield from _try(answers, "release claims", claims.release(group))


def _wait(spec: QueueSpec) -> Operation[None]:
    yield Request(spec.keys.wait(MIN_BLOCK))


def _try(answers: dict[str, Answer], name: str, steps: Operation[T]) -> Operation[T | None]:
    try:
        result = yield from steps
    except ResponseError as error:
        answers[name] = "denied" if is_denial(error) else "refused"
        return None
    answers[name] = "allowed"
    return result


def is_denial(error: ResponseError) -> bool:
    """Return whether the user lacks a permission, for a command or within a script."""
    return isinstance(error, NoPermissionError) or bool(_WITHIN_SCRIPTS.search(str(error)))


def _clean_up(spec: QueueSpec) -> Operation[None]:
    """Delete all remaining keys, with whichever command the user may run."""
    keys = (
        *spec.keys.all(),
        spec.keys.dedup(_MARKER),
        spec.keys.claims(_GROUP),
        spec.keys.claim(_GROUP, 1),
        spec.keys.claim(_GROUP, 2),
    )
    for command in (b"UNLINK", b"DEL"):
        try:
            yield Request((command, *keys), resend=True)
        except ResponseError:
            continue
        return
