"""The account: the claims that must hold at the end, checked against the journals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ackq.demo.journal import Delivery, Tally, counted, total
from ackq.queue.messages import AuditReport, QueueStats


class Check(NamedTuple):
    """One claim: its name, whether it holds, and the numbers."""

    name: str
    ok: bool
    detail: str


class Evidence(NamedTuple):
    """The data for the account.

    ``digests`` are the results of a serial pass over the input. ``killed_held`` are the deliveries
    that the killed worker held. ``crashes`` describes processes that ended unexpectedly.
    """

    input: Counter[str]
    digests: Mapping[str, str]
    producers: Sequence[Tally]
    workers: Mapping[str, Tally]
    killed: str
    killed_held: frozenset[Delivery]
    stats: QueueStats
    audit: AuditReport
    crashes: Sequence[str] = ()


def check(evidence: Evidence) -> list[Check]:
    """Check every claim. A demo has passed if all hold."""
    return [
        *_pushed_and_processed(evidence),
        *_acked(evidence),
        *_faults(evidence),
        *_left(evidence),
    ]


def _pushed_and_processed(evidence: Evidence) -> list[Check]:
    pushed = total(producer.pushed for producer in evidence.producers)
    processed = total(worker.processed for worker in evidence.workers.values())
    missing, unknown = evidence.input - processed, set(processed) - set(evidence.input)
    wrong = [key for worker in evidence.workers.values() for key in worker.wrong]
    return [
        Check(
            "pushed",
            pushed == evidence.input,
            f"{pushed.total():,} of"
            f" {counted(evidence.input.total(), 'message')}, each once, by"
            f" {counted(len(evidence.producers), 'producer')}",
        ),
        Check(
            "processed",
            not missing and not unknown,
            f"{counted(missing.total(), 'message')} never, {len(unknown):,} that nobody pushed"
            if missing or unknown
            else f"{processed.total():,} times, every message at least once",
        ),
        Check(
            "digests",
            not wrong,
            f"{len(wrong):,} differ from those of a serial pass, such as {wrong[0]!r}"
            if wrong
            else f"{counted(len(evidence.digests), 'digest')} as in a serial pass",
        ),
    ]


def _acked(evidence: Evidence) -> list[Check]:
    acked = total(worker.acked for worker in evidence.workers.values())
    lost, twice = evidence.input - acked, acked - evidence.input
    unearned = [key for worker in evidence.workers.values() for key in worker.unearned]
    return [
        Check(
            "acked",
            not lost and not twice,
            f"{lost.total():,} never acked, {twice.total():,} acked too often"
            if lost or twice
            else f"{counted(acked.total(), 'message')}, each exactly once: none lost",
        ),
        Check(
            "earned",
            not unearned,
            f"{len(unearned):,} acks without work, such as {unearned[0]!r}"
            if unearned
            else "no message was acked before it was processed",
        ),
    ]


def _faults(evidence: Evidence) -> list[Check]:
    others = [tally for name, tally in evidence.workers.items() if name != evidence.killed]
    redelivered = total(other.redelivered for other in others)
    held = {key for key, _ in evidence.killed_held}
    back = sum(redelivered[key] > 0 for key in held)
    refused = sum(worker.refused for worker in evidence.workers.values())
    return [
        Check(
            "redelivered",
            0 < len(held) == back,
            f"{counted(redelivered.total(), 'message')},"
            f" the killed worker's {back:,} of {len(held):,} among them",
        ),
        Check("stale acks", refused > 0, f"{refused:,} refused (LeaseLost)"),
    ]


def _left(evidence: Evidence) -> list[Check]:
    stats, findings = evidence.stats, evidence.audit.findings
    return [
        Check(
            "queue empty",
            stats.ready + stats.in_flight + stats.delayed + stats.dead == 0,
            f"{stats.ready} ready, {stats.in_flight} in flight, {stats.dead} dead",
        ),
        Check(
            "audit",
            not findings,
            f"{len(findings)} findings, such as {findings[0].problem}: {findings[0].key!r}"
            if findings
            else "every record is consistent",
        ),
        Check(
            "processes",
            not evidence.crashes,
            "; ".join(evidence.crashes) or "every process ended as intended",
        ),
    ]
