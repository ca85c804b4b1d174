"""The account: the claims that must hold at the end, checked against the journals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ackq.demo.tally import Delivery, PushTally, WorkTally, counted
from ackq.queue.messages import AuditReport, QueueStats


@dataclass(frozen=True)
class Check:
    """One claim: its name, whether it holds, and the numbers."""

    name: str
    ok: bool
    detail: str


@dataclass
class Evidence:
    """The data for the account.

    ``digests`` are the results of a serial pass over the input. ``killed_held`` are the deliveries
    that the killed worker held. ``crashes`` describes processes that ended unexpectedly.
    """

    input: Counter[str]
    digests: Mapping[str, str]
    producers: Mapping[str, PushTally]
    workers: Mapping[str, WorkTally]
    killed: str
    killed_held: frozenset[Delivery]
    stats: QueueStats
    audit: AuditReport
    crashes: list[str] = field(default_factory=list)

    @property
    def processed(self) -> Counter[str]:
        """How often each body was processed, by all workers."""
        return sum((each.processed for each in self.workers.values()), Counter())

    @property
    def acked(self) -> Counter[str]:
        """How many acks the queue accepted for each body."""
        return sum((each.acked for each in self.workers.values()), Counter())


def check(evidence: Evidence) -> list[Check]:
    """Check every claim. A demo has passed if all hold."""
    claims: list[Callable[[Evidence], Check]] = [
        _pushed, _processed, _digests, _acked, _earned, _came_back, _fenced, _empty, _sound,
        _ended,
    ]  # fmt: skip
    return [claim(evidence) for claim in claims]


def _pushed(evidence: Evidence) -> Check:
    pushed: Counter[str] = sum((each.pushed for each in evidence.producers.values()), Counter())
    return Check(
        "pushed", pushed == evidence.input,
        f"{pushed.total():,} of {counted(evidence.input.total(), 'message')}, each"
        f" once, by {counted(len(evidence.producers), 'producer')}",
    )  # fmt: skip


def _processed(evidence: Evidence) -> Check:
    processed = evidence.processed
    missing = evidence.input - processed
    unknown = set(processed) - set(evidence.input)
    detail = f"{processed.total():,} times, every message at least once"
    if missing or unknown:
        detail = f"{counted(missing.total(), 'message')} never, {len(unknown):,} that nobody pushed"
    return Check("processed", not missing and not unknown, detail)


def _digests(evidence: Evidence) -> Check:
    wrong = [key for each in evidence.workers.values() for key in each.wrong]
    detail = f"{counted(len(evidence.digests), 'digest')} as in a serial pass"
    if wrong:
        detail = f"{len(wrong):,} differ from those of a serial pass, such as {wrong[0]!r}"
    return Check("digests", not wrong, detail)


def _acked(evidence: Evidence) -> Check:
    lost, twice = evidence.input - evidence.acked, evidence.acked - evidence.input
    detail = f"{counted(evidence.acked.total(), 'message')}, each exactly once: none lost"
    if lost or twice:
        detail = f"{lost.total():,} never acked, {twice.total():,} acked too often"
    return Check("acked", not lost and not twice, detail)


def _earned(evidence: Evidence) -> Check:
    unearned = [key for each in evidence.workers.values() for key in each.unearned]
    detail = "no ack without the work that it stands for"
    if unearned:
        detail = f"{len(unearned):,} acks without work, such as {unearned[0]!r}"
    return Check("earned", not unearned, detail)


def _came_back(evidence: Evidence) -> Check:
    others = [tally for name, tally in evidence.workers.items() if name != evidence.killed]
    redelivered: Counter[str] = sum((each.redelivered for each in others), Counter())
    held = {key for key, _ in evidence.killed_held}
    back = sum(key in redelivered for key in held)
    return Check(
        "redelivered", bool(held) and back == len(held),
        f"{counted(redelivered.total(), 'message')}, the killed worker's {back:,} of {len(held):,}"
        " among them",
    )  # fmt: skip


def _fenced(evidence: Evidence) -> Check:
    refused = sum(each.refused for each in evidence.workers.values())
    return Check("stale acks", refused > 0, f"{refused:,} refused (LeaseLost)")


def _empty(evidence: Evidence) -> Check:
    stats = evidence.stats
    left = stats.ready + stats.in_flight + stats.delayed + stats.dead
    detail = f"{stats.ready} ready, {stats.in_flight} in flight, {stats.dead} dead"
    return Check("queue empty", left == 0, detail)


def _sound(evidence: Evidence) -> Check:
    findings = evidence.audit.findings
    detail = "no record that does not belong"
    if findings:
        detail = f"{len(findings)} findings, such as {findings[0].problem}: {findings[0].key!r}"
    return Check("audit", not findings, detail)


def _ended(evidence: Evidence) -> Check:
    detail = "; ".join(evidence.crashes) or "every process ended as it was told to"
    return Check("processes", not evidence.crashes, detail)
