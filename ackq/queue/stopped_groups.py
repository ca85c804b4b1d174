"""Groups that wait for a dead letter to be redriven or dropped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ackq import scripts
from ackq.core.call import call
from ackq.core.effects import Arg, Operation, Request
from ackq.errors import ConfigurationError
from ackq.queue import group_stats
from ackq.queue.group_names import shown_name, tags_of, text_of_group
from ackq.queue.messages import AuditFinding
from ackq.queue.spec import QueueSpec

#: Pairs of a group and a dead letter that one call looks at.
CHUNK = 100


def tags_in(spec: QueueSpec, group: str | int) -> tuple[bytes, ...]:
    """Return what stands for a group in the keys; see `tags_of`.

    Raises:
        ConfigurationError: the queue has no groups, or no group can have this name.
    """
    if spec.config.groups is None:
        raise ConfigurationError(f"queue {spec.name!r} has no groups")
    if (name := text_of_group(group)) is None:
        raise ConfigurationError(f"a group is a text or an integer below 2**53, not {group!r}")
    return tags_of(name)


def resume(spec: QueueSpec, group: str | int) -> Operation[int]:
    """Let a group go on without its dead letters or pause; see `ackq.Queue.resume_group`."""
    held = 0
    for tag in tags_in(spec, group):
        if not held:
            # Not resent: a repeat would return 0.
            args = (*spec.keys.passed("groups/limit"), tag, -1)
            held = yield from call(spec, Request(args, scripts.load("groups/limit")))
    return held


def missing(
    spec: QueueSpec, pairs: Sequence[tuple[bytes, bytes]], repair: bool
) -> Operation[list[Any]]:
    """Look at some pairs of a group and a dead letter that stops it; see groups/letters.lua.

    Returns:
        How many pairs were looked at, then the dead letters that no longer exist.
    """
    request = Request(
        (
            *spec.keys.passed("groups/letters"),
            int(repair),
            *(part for pair in pairs for part in pair),
        ),
        script=scripts.load("groups/letters"),
        resend=True,
    )
    reply: list[Any] = yield from call(spec, request)
    return reply


def audit(spec: QueueSpec, repair: bool) -> Operation[tuple[int, list[AuditFinding]]]:
    """Find groups whose dead letters no longer exist; return how many were looked at, too."""
    looked = 0
    findings: dict[str, AuditFinding] = {}
    cursor: Arg = b"0"
    while True:
        _, cursor, rows = yield from group_stats.page(spec, "stopped", cursor)
        pairs = [(tag, id) for tag, *_, ids in rows for id in ids.split()]
        names = {id: shown_name(tag) for tag, id in pairs}
        while pairs:
            seen, *gone = yield from missing(spec, pairs[:CHUNK], repair)
            for id in gone:
                key = f"{names[id]} by {id.decode()}"
                findings[key] = AuditFinding("stopped without its dead letter", key, repair)
            looked, pairs = looked + seen, pairs[seen:]
        if cursor == b"0":
            return looked, list(findings.values())
