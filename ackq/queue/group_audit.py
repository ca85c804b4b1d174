"""The audit of groups: their messages in flight, and whose turn it is."""

from __future__ import annotations

from ackq import scripts
from ackq.core.call import call
from ackq.core.effects import Operation, Request
from ackq.queue.group_names import shown_name
from ackq.queue.messages import AuditFinding
from ackq.queue.spec import QueueSpec


def audit(spec: QueueSpec, repair: bool) -> Operation[list[AuditFinding]]:
    """Compare what a queue knows of its groups; see `ackq.Queue.audit`.

    The slots first: it depends on them whose turn it is.
    """
    findings: list[AuditFinding] = []
    for walk in ("slots", "turns"):
        found = yield from compare(spec, walk, repair)
        findings += [
            AuditFinding(f"group: {problem.decode()}", shown_name(tag), repair)
            for problem, tag in found
        ]
    return findings


def compare(spec: QueueSpec, walk: str, repair: bool) -> Operation[list[tuple[bytes, bytes]]]:
    """Compare the slots or the turns, and return each problem with its group."""
    problems: list[tuple[bytes, bytes]] = []
    after = b""
    while True:
        args = (*spec.keys.passed("groups/audit"), walk, after, int(repair))
        request = Request(args, scripts.load("groups/audit"), resend=True)
        after, *found = yield from call(spec, request)
        problems += zip(found[::2], found[1::2], strict=True)
        if not after:
            return problems
