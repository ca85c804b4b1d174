"""Least-privilege rules for the users of a queue.

They are read off the scripts: each names its keys in its header and calls its commands by name,
and Redis checks both against the caller. So a rule is neither missing nor left over when a script
changes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ackq import scripts
from ackq.errors import ConfigurationError, QueueNameError
from ackq.keys import check_name

#: Where the doctor tries things out: queues of its own, whose names begin so. In one slot.
SCRATCH = "{ackq:doctor}:"

_CALL = re.compile(r"redis\.call\('([A-Z]+)'")
_ANY = re.compile("<[^>]+>")
_KEY = re.compile(r"^-- KEYS\[\d+\] \{name\}(\S*)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Role:
    """What a kind of user does, and with what."""

    #: One line for people.
    purpose: str
    #: Scripts that it calls.
    scripts: tuple[str, ...] = ()
    #: Commands that it sends itself, or that a script calls under a name that it computes.
    commands: tuple[str, ...] = ()
    #: What follows the queue's name in the keys that those commands touch.
    suffixes: tuple[str, ...] = ()


_TAKE = ("pop", "ack", "ack_id", "nack", "reject", "extend", "held/give_back")
_CLAIM = ("claims/begin", "claims/claim", "claims/ack", "claims/forget", "claims/beat",
          "claims/release", "held/scan", "held/give_back")  # fmt: skip
_CLAIM_COMMANDS = ("hmget", "lrange", "llen")
_STAGE = ("staging/stage", "staging/commit", "staging/merge", "staging/drop", "held/give_back")
_STAGE_COMMANDS = ("lpushx", "zrangebyscore", "srandmember", "hget", "hdel", "time")
_RELEASE = ("claims/release", "held/scan", "held/give_back")
_SCHEDULE = ("schedule", "push_once")
_WATCH = ("stats", "held/scan", "watch")
_LOOK_AFTER = ("stats", "peek", "audit", "audit_scan", "redrive", "purge", "drain",
               "held/audit", "held/drop", *_RELEASE)  # fmt: skip
_LOOK_AFTER_COMMANDS = ("info", "xrange", "xdel", "set", "del", "hscan", "zscan")

ROLES = {
    "producer": Role("pushes with a bare LPUSH", (), ("lpush", "wait"), ("",)),
    "scheduler": Role("pushes for now, for later, and once", _SCHEDULE,
                      ("info", "lpush", "wait"), ("",)),
    "consumer": Role("takes and settles", _TAKE, ("info", "blmove", "wait"),
                     ("", "HANDOFF", "STAGED:*")),
    "claimer": Role("takes by the batch, as Spark's source does", _CLAIM,
                    ("info", *_CLAIM_COMMANDS), ("STAGED:*",)),
    "writer": Role("writes whole batches, as Spark's sink does", _STAGE,
                   ("info", *_STAGE_COMMANDS), ("STAGED:*",)),
    "worker": Role("ackq work: a consumer with rate limits, schedules and a health check",
                   (*_TAKE, "stats", "worker/permit", "worker/tick"), ("info", "blmove"),
                   ("", "HANDOFF", "STAGED:*")),
    "monitor": Role("counts", ("stats", "held/scan"), ("info",)),
    "watcher": Role("counts, and sees what is done meanwhile", _WATCH, ("info",)),
    "operator": Role("looks, repairs, redrives, pauses, purges", _LOOK_AFTER,
                     _LOOK_AFTER_COMMANDS, ("DEAD", "PAUSED", "STAGED:*")),
    "doctor": Role("ackq doctor: reads settings, and tries everything on queues of its own",
                   (*_TAKE, *_SCHEDULE, *_LOOK_AFTER, *_CLAIM, *_WATCH),
                   (*_LOOK_AFTER_COMMANDS, *_CLAIM_COMMANDS, "lpush", "blmove", "time", "role",
                    "config|get", "acl|whoami", "cluster|info", "cluster|slots")),
    "loader": Role("ackq scripts load, for users without eval", (),
                   ("script|load", "cluster|slots")),
}  # fmt: skip


def rules(name: str, role: str, *, eval: bool = True) -> list[str]:
    """Return the words of ``ACL SETUSER`` that let a user be ``role`` on queue ``name``.

    They name every key exactly; only push markers, claims and staged lists, whose names others
    choose, need a pattern. They fit Redis 6.2 and later. The user has no password yet, so nobody
    can be it. Redis grants commands and keys, not pairs of them: who may give messages back can
    also store new ones.

    Args:
        name: of the queue. The doctor gets no key of it, only `SCRATCH`.
        role: one of `ROLES`.
        eval: let the user send a script's text, as ackq does once after each restart of Redis;
            without it, a loader has to load the scripts then. Defaults to True.

    Raises:
        ConfigurationError: there is no such role.
        QueueNameError: the name cannot be used, or has a space, which no rule can hold.
    """
    check_name(name)
    if any(each.isspace() for each in name):
        raise QueueNameError(f"queue name {name!r} has a space, which Redis takes in no rule")
    if role not in ROLES:
        raise ConfigurationError(f"a role is one of {', '.join(ROLES)}, not {role!r}")
    wanted = ROLES[role]
    texts = [scripts.load(each).text.decode() for each in wanted.scripts]
    commands = {"ping", "hello", *wanted.commands}
    commands |= {call.lower() for text in texts for call in _CALL.findall(text)}
    if texts:
        commands |= {"evalsha", "type", *(["eval"] if eval else [])}
    suffixes = {*wanted.suffixes, *(key for text in texts for key in _KEY.findall(text))}
    if role == "doctor":
        patterns = [f"~{SCRATCH}*"]
    else:
        patterns = [f"~{name}{_ANY.sub('*', each)}" for each in sorted(suffixes)]
    return ["reset", "on", *patterns, "-@all", *(f"+{each}" for each in sorted(commands))]
