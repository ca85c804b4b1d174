"""Judge from a server's facts whether it is set up to keep messages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from ackq.core.server import OLDEST, is_cluster
from ackq.ops.attention.model import KINDS, mebibytes, problems_in
from ackq.ops.facts import Facts
from ackq.ops.trials import TRIALS, Answer

Verdict = Literal["ok", "unknown", "warning", "problem"]

#: Seconds between two clocks that cause a warning.
CLOCKS_APART = 1.0

#: By durability class: what is lost if the process is killed, and if the power fails.
#: Only writes that the server has replied to count.
DURABILITY = {
    "none": ("everything", "everything"),
    "snapshots": ("everything since the last snapshot", "everything since the last snapshot"),
    "system": ("nothing", "what the system had not written to disk, about 30 s"),
    "everysec": (
        "up to about 2 s of writes, if an fsync was running",
        "about the last 2 s, more if the disk is slow",
    ),
    "always": ("nothing", "nothing"),
    "unknown": ("unknown", "unknown"),
}


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check."""

    check: str
    verdict: Verdict
    text: str


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What `ackq.ops.doctor.Doctor` found.

    ``durability`` is a key of `DURABILITY`, for this server alone, without replicas.
    """

    findings: tuple[Finding, ...]
    durability: str
    permissions: Mapping[str, Answer]

    @property
    def sound(self) -> bool:
        """Whether no check found a problem; there may be warnings."""
        return all(finding.verdict != "problem" for finding in self.findings)


def judge(facts: Facts, permissions: Mapping[str, Answer]) -> Diagnosis:
    """Return the diagnosis for these facts."""
    findings = [*judge_server(facts), _clock(facts), *_permissions(facts, permissions)]
    durability = durability_of(facts)
    return Diagnosis((*findings, _durability(facts, durability)), durability, permissions)


def judge_server(facts: Facts) -> list[Finding]:
    """Return the findings about the server itself: its version, settings and replicas."""
    if not facts.info:
        return [Finding("server", "unknown", "this user may not run INFO")]
    return [
        _version(facts),
        *_cluster(facts),
        _eviction(facts),
        _memory(facts),
        _persistence(facts, durability_of(facts)),
        _replicas(facts),
    ]


def durability_of(facts: Facts) -> str:
    """Return the durability class of a server."""
    if facts.number("aof_enabled"):
        classes = {"always": "always", "everysec": "everysec", "no": "system"}
        return classes.get(facts.settings.get("appendfsync", ""), "unknown")
    if not facts.info or "save" not in facts.settings:
        return "unknown"
    return "snapshots" if facts.settings["save"] else "none"


def _version(facts: Facts) -> Finding:
    version = ".".join(map(str, facts.version)) or "of unknown version"
    text = f"{facts.product} {version}, {facts.mode}"
    if facts.version and facts.version[:2] < OLDEST:
        return Finding("server", "problem", f"{text}: ackq needs Redis 6.2 or later")
    return Finding("server", "ok", text)


def _cluster(facts: Facts) -> list[Finding]:
    if not is_cluster(facts.info):
        return []
    state = facts.cluster.get("cluster_state")
    if state is None:
        return [Finding("cluster", "unknown", "this user may not run CLUSTER INFO")]
    text = (
        f"state {state}, {facts.cluster.get('cluster_slots_ok', '?')} of 16384 slots served by"
        f" {facts.cluster.get('cluster_size', '?')} primaries"
    )
    if state != "ok":
        return [Finding("cluster", "problem", f"{text}: pushes and pops may be refused")]
    return [Finding("cluster", "ok", text)]


def _eviction(facts: Facts) -> Finding:
    policy = facts.info.get("maxmemory_policy", "")
    if known := _known(facts, "eviction", "evicting"):
        return known
    if not policy:
        return Finding("eviction", "unknown", "the server does not report its policy")
    if policy.startswith("volatile-"):
        return Finding(
            "eviction",
            "warning",
            f"{policy}: when memory runs out, keys with a time to"
            " live are dropped. A push with dedup= may then be stored twice, topic"
            " messages with max_age end early, and shared rate limits start again."
            " Set maxmemory-policy noeviction with CONFIG SET and in redis.conf",
        )
    return Finding("eviction", "ok", policy)


def _memory(facts: Facts) -> Finding:
    used, limit = facts.number("used_memory"), facts.number("maxmemory")
    if not limit:
        return Finding("memory", "ok", f"{mebibytes(used)} used, no limit")
    text = f"{mebibytes(used)} of {mebibytes(limit)} used"
    return _known(facts, "memory", "full", "nearly_full") or Finding("memory", "ok", text)


def _known(facts: Facts, check: str, *kinds: str) -> Finding | None:
    """Return what is wrong according to the model of troubles; None if that is nothing."""
    for kind, text, _ in problems_in(facts.info):
        if kind in kinds:
            critical = KINDS[kind].severity == "critical"
            return Finding(check, "problem" if critical else "warning", text)
    return None


def _persistence(facts: Facts, durability: str) -> Finding:
    if known := _known(facts, "persistence", "loading", "disk"):
        return known
    if durability == "none":
        return Finding(
            "persistence", "warning", "none: a restart loses every message. Set appendonly yes"
        )
    if durability == "snapshots":
        return Finding(
            "persistence",
            "warning",
            f"snapshots only (save {facts.settings['save']}): set appendonly yes",
        )
    if durability == "unknown":
        return Finding("persistence", "unknown", "this user may not run CONFIG GET")
    if facts.settings.get("no-appendfsync-on-rewrite") == "yes":
        return Finding(
            "persistence",
            "warning",
            f"append-only file, {durability}, but not while"
            " it is rewritten (no-appendfsync-on-rewrite yes)",
        )
    text = f"append-only file, appendfsync {facts.settings['appendfsync']}"
    # Redis leaves half a transaction in the log, and counts what comes after it as a part.
    if (
        durability == "always"
        and facts.product == "redis"
        and facts.settings.get("aof-load-truncated") == "yes"
    ):
        return Finding(
            "persistence",
            "warning",
            f"{text}, but after a power cut Redis may start on"
            " a damaged log and lose later messages. Set aof-load-truncated no, or run"
            " redis-check-aof --fix before each such start",
        )
    return Finding("persistence", "ok", text)


def _replicas(facts: Facts) -> Finding:
    if known := _known(facts, "replicas", "read_only"):
        return known
    count = facts.number("connected_slaves")
    if not count:
        return Finding("replicas", "warning", "none: if this machine is lost, so are the messages")
    text = f"{count} connected"
    least = facts.settings.get("min-replicas-to-write")
    if least is None:
        return Finding(
            "replicas", "unknown", f"{text}; this user may not read min-replicas-to-write"
        )
    if least == "0":
        return Finding(
            "replicas",
            "warning",
            f"{text}, none required (min-replicas-to-write 0): cut off from them, this server"
            " accepts messages that a failover discards",
        )
    lag = facts.settings.get("min-replicas-max-lag", "?")
    return Finding("replicas", "ok", f"{text}, {least} required, at most {lag} s behind")


def _clock(facts: Facts) -> Finding:
    if facts.clock_ahead is None:
        return Finding("clock", "unknown", "this user may not run TIME")
    off, unsure = facts.clock_ahead, facts.clock_uncertainty
    text = f"the server is {abs(off):.3f} s {'ahead' if off > 0 else 'behind'} (± {unsure:.3f} s)"
    if abs(off) > CLOCKS_APART + unsure:
        return Finding(
            "clock", "warning", f"{text}: this affects times given with at=, but no leases"
        )
    return Finding("clock", "ok", text)


def _permissions(facts: Facts, permissions: Mapping[str, Answer]) -> list[Finding]:
    user = f"user {facts.user!r}" if facts.user else "this user"
    return [
        _group(user, group, {name: permissions[name] for name in names})
        for group, names in TRIALS.items()
    ]


def _group(user: str, group: str, answers: Mapping[str, Answer]) -> Finding:
    phrases: dict[Answer, str] = {
        "allowed": f"{user} may: ",
        "denied": f"{user} may not: ",
        "refused": "the server refuses: ",
        "not tried": "not tried: ",
    }
    parts = []
    for answer, phrase in phrases.items():
        if names := [name for name, given in answers.items() if given == answer]:
            parts.append(phrase + ", ".join(names))
    given = set(answers.values())
    verdict: Verdict = "warning" if given & {"denied", "refused"} else "ok"
    if given == {"not tried"}:
        verdict = "unknown"
    return Finding(f"may {group}", verdict, "; ".join(parts))


def _durability(facts: Facts, durability: str) -> Finding:
    killed, power = DURABILITY[durability]
    if facts.number("connected_slaves"):
        failover = "what no replica had received, unless it was pushed with confirm="
    else:
        failover = "everything, since there is no replica"
    verdict: Verdict = "ok"
    if durability in ("none", "unknown"):
        verdict = "warning" if durability == "none" else "unknown"
    return Finding(
        "durability",
        verdict,
        f"class {durability}. Lost if the process is killed:"
        f" {killed}; if the power fails: {power}; if the machine is lost: {failover}",
    )
