"""Lists outside the queue that belong to it: claims, and committed rows on their way in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ackq import scripts
from ackq.core.call import call
from ackq.core.claim_groups import HeldClaim
from ackq.core.effects import Arg, Operation, Request
from ackq.core.names import CLAIM, DELAYED_LIST, STAGED
from ackq.queue.spec import QueueSpec


@dataclass(frozen=True, slots=True)
class Held:
    """One list. At ``score``, in µs since the epoch, its messages return to the queue; 0: they
    are being moved now."""

    name: bytes
    score: int
    rows: int


def lists(spec: QueueSpec) -> Operation[tuple[int, list[Held]]]:
    """Return the server's time in µs, and all lists, those due to return first."""
    held: dict[bytes, Held] = {}
    cursor: Arg = b"0"
    while True:
        request = Request(
            (*spec.keys.passed("held/scan"), cursor, spec.keys.known),
            script=scripts.load("held/scan"),
            resend=True,
        )
        cursor, now, *page = yield from call(spec, request)
        for at in range(0, len(page), 3):
            name, score, rows = page[at : at + 3]
            held[name] = Held(name, int(score), int(rows))
        if cursor == b"0":
            return now, sorted(held.values(), key=lambda named: (named.score, named.name))


def claims(spec: QueueSpec) -> Operation[list[HeldClaim]]:
    """List the claims of all groups; see `ackq.Queue.claims`."""
    now, held = yield from lists(spec)
    listed = []
    for entry in held:
        if named := claim_of(spec, entry.name):
            ends_in = (entry.score - now) / 1_000_000 if entry.score else None
            listed.append(HeldClaim(*named, entry.rows, ends_in))
    return sorted(listed, key=lambda claim: (claim.group, claim.batch))


def claim_of(spec: QueueSpec, name: bytes) -> tuple[str, int] | None:
    """Return the group and batch from the name of a claim's list; None if it is not a claim's."""
    prefix = spec.keys.ready + CLAIM.encode()
    group, _, batch = name.removeprefix(prefix).rpartition(b":")
    if not name.startswith(prefix) or not group or not batch.isdigit():
        return None
    return group.decode(errors="replace"), int(batch)


def mode_of(spec: QueueSpec, name: bytes) -> str:
    """Return where in the queue a list's messages go: "front", "back" or "delayed"."""
    if not name.startswith(spec.keys.ready + STAGED.encode()):
        return "front"
    return "delayed" if name.endswith(DELAYED_LIST.encode()) else "back"


def return_to_queue(spec: QueueSpec, name: bytes) -> Operation[int]:
    """Move the messages of a list whose lease has ended into the queue; return how many.

    Other clients may do the same at the same time. A list whose lease has not ended is unchanged.
    """
    moved = 0
    while True:
        step, left = yield from return_some(spec, name)
        moved += step
        if not left:
            return moved


def return_some(spec: QueueSpec, name: bytes) -> Operation[Sequence[int]]:
    """Move some of a list's messages into the queue; return how many, and how many are left."""
    request = Request(
        (*spec.keys.passed("held/give_back", name), mode_of(spec, name), spec.keys.pop_from),
        script=scripts.load("held/give_back"),
        resend=True,  # a second application moves the next messages
    )
    reply: Sequence[int] = yield from call(spec, request)
    return reply


def into_queue(spec: QueueSpec, name: bytes) -> Operation[bool]:
    """Move a bounded part of a list into its list queue; this is the list queue's `Mover`."""
    if spec.config.pop_from == "right" and mode_of(spec, name) == "back":
        request = Request(
            spec.keys.passed("staging/queue", name),
            script=scripts.load("staging/queue"),
            resend=True,  # a second application moves the next rows
        )
        return bool((yield from call(spec, request)))
    _, left = yield from return_some(spec, name)
    return left > 0
