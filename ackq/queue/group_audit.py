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
        after = b""
        while True:
            args = (*spec.keys.passed("groups/audit"), walk, after, int(repair))
            request = Request(args, scripts.load("groups/audit"), resend=True)
            after, *found = yield from call(spec, request)
            for at in range(0, len(found), 2):
                problem, tag = found[at].decode(), found[at + 1]
                findings.append(AuditFinding(f"group: {problem}", shown_name(tag), repair))
            if not after:
                break
    return findings
