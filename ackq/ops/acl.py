"""Least-privilege rules for the users of a queue.

The rules are derived from the scripts. Each script names its keys in its header and calls its
commands by name, and Redis checks both against the caller. So the rules always match the scripts.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from ackq.config import PopFrom, check_integer, check_pop_from
from ackq.core.names import HELD_LEFT, check_name
from ackq.errors import ConfigurationError, QueueNameError
from ackq.membership.operations import MOST_PARTITIONS
from ackq.membership.shards import check_shards
from ackq.ops.acl_access import access_of, slots_of
from ackq.ops.acl_keys import SHARD_RECORD, patterns_of

#: The doctor tries operations on queues of its own. Their names begin with this, in one slot.
SCRATCH = "{ackq:doctor}:"

#: The log of what is done through the page. It belongs to no queue, so the roles name it in full.
_LOG = "=ackq:web:log"

#: Characters that would end a selector, or begin a quotation in it.
_NOT_IN_SELECTORS = re.compile("[()\"']")


@dataclass(frozen=True, slots=True)
class Role:
    """What one kind of user does, and the scripts and commands that this takes."""

    #: A one-line description.
    purpose: str
    #: Scripts that it calls.
    scripts: tuple[str, ...] = ()
    #: Commands that it sends itself, or that a script calls by a computed name, with the suffixes
    #: of the keys that they use. "=" begins the whole name of a key that belongs to no queue.
    commands: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    #: A command of its scripts that they do not reach for what this role does.
    without: str = ""


_TAKE = ("pop", "ack", "ack_id", "nack", "reject", "extend", "held/give_back")
_TAKE_COMMANDS = {"info": (), "blmove": ("", "HANDOFF")}
_CLAIM = (
    "claims/begin",
    "claims/claim",
    "claims/ack",
    "claims/forget",
    "claims/beat",
    "claims/release",
    "held/scan",
    "held/give_back",
)
_CLAIM_COMMANDS = {
    "info": (),
    "hmget": ("CLAIMS:*",),
    "lrange": ("CLAIM:*:*",),
    "llen": ("CLAIM:*:*",),
}
_STAGE = (
    "staging/stage",
    "staging/commit",
    "staging/merge",
    "staging/drop",
    "staging/queue",
    "held/give_back",
)
_STAGE_COMMANDS = {
    "info": (),
    "time": (),
    "lpushx": ("STAGED:*",),
    "zrangebyscore": ("HELD",),
    "srandmember": ("STAGING:*:*",),
    "hget": ("COMMITS",),
    "hdel": ("COMMITS",),
}
_RELEASE = ("claims/release", "held/scan", "held/give_back")
_SCHEDULE = ("schedule", "push_once")
_COUNT_COMMANDS = {
    "info": (),
    "time": (),
    "zcount": ("WORKERS:SEEN",),
    "zrangebyscore": ("WORKERS:SEEN",),
}
_WATCH = ("stats", "held/scan", "watch", "worker/list")
_VIEW_COMMANDS = {
    **_COUNT_COMMANDS,
    "xrange": ("DEAD",),
    "xrevrange": ("DEAD", _LOG),
    "hmget": ("ERRORS",),
}
_OPERATE = (
    "stats",
    "oldest",
    "peek",
    "watch",
    "audit",
    "audit_scan",
    "redrive",
    "run_now",
    "cancel",
    "purge",
    "drain",
    "held/audit",
    "held/drop",
    "drop",
    "worker/list",
    "worker/order",
    *_RELEASE,
)
_OPERATE_COMMANDS = {
    **_VIEW_COMMANDS,
    "xadd": (_LOG,),
    "set": ("PAUSED",),
    "del": ("PAUSED",),
    "zscan": ("BACKUP", "DELAYED"),
    "hscan": ("CONTEXT", "RECEIVES", "EXTENDED", "HELDROWS", "ERRORS"),
}
_PUSH_COMMANDS = {"lpush": ("",), "wait": ()}
#: What each role needs besides if the queue is popped from the left. A producer may do without.
_RECORD = ("pop_from",)
_RECORDING = (
    "scheduler",
    "consumer",
    "claimer",
    "pipeline",
    "writer",
    "worker",
    "operator",
    "doctor",
)

ROLES = {
    "producer": Role("pushes with a bare LPUSH", (), _PUSH_COMMANDS),
    "scheduler": Role(
        "pushes, also with a delay or dedup=",
        _SCHEDULE,
        {"info": (), "type": ("HELD",), **_PUSH_COMMANDS},
    ),
    "consumer": Role("takes and settles", (*_TAKE, "watch"), {"wait": (), **_TAKE_COMMANDS}),
    "claimer": Role("takes claims, as Spark's source does", _CLAIM, _CLAIM_COMMANDS),
    "pipeline": Role(
        "takes claims, and makes rows of them dead letters, as Spark's pipelines do",
        (*_CLAIM, "pipeline/reject"),
        _CLAIM_COMMANDS,
    ),
    "writer": Role("writes staged batches, as Spark's sink does", _STAGE, _STAGE_COMMANDS),
    "worker": Role(
        "runs ackq work: a consumer with rate limits, schedules, a health check, and an"
        " entry in ackq workers",
        (
            *_TAKE,
            "stats",
            "watch",
            "worker/permit",
            "worker/tick",
            "worker/heartbeat",
            "worker/leave",
        ),
        _TAKE_COMMANDS,
    ),
    "monitor": Role(
        "counts messages by state, lists workers; runs ackq exporter --no-totals",
        ("stats", "held/scan", "worker/list"),
        _COUNT_COMMANDS,
    ),
    "watcher": Role(
        "runs ackq top and ackq exporter: counts, and measures rates", _WATCH, _COUNT_COMMANDS
    ),
    "viewer": Role(
        "looks at ackq web: counts, rates, messages, dead letters and workers",
        (*_WATCH, "peek", "oldest"),
        _VIEW_COMMANDS,
    ),
    "operator": Role(
        "inspects, repairs, redrives, runs or cancels delayed messages, pauses,"
        " purges, quiets and stops workers; runs ackq web --operate",
        _OPERATE,
        _OPERATE_COMMANDS,
    ),
    "doctor": Role(
        "runs ackq doctor on temporary queues. It cannot read the server's settings,"
        " since CONFIG GET also shows passwords. To allow it, add +config|get",
        (*_TAKE, *_SCHEDULE, *_OPERATE, *_CLAIM, *_WATCH),
        {
            **_OPERATE_COMMANDS,
            **_CLAIM_COMMANDS,
            **_TAKE_COMMANDS,
            "lpush": (),
            "time": (),
            "role": (),
            "acl|whoami": (),
            "cluster|info": (),
            "cluster|slots": (),
        },
    ),
    "loader": Role(
        "runs ackq scripts load, for users without EVAL",
        (),
        {"script|load": (), "cluster|slots": ()},
    ),
}

_DELAY_VIEW = ("delay/stats", "delay/peek", "delay/watch")
_DELAY_VIEW_COMMANDS = {
    "info": (),
    "time": (),
    "xrange": (":dead",),
    "zrange": (":z",),
    "exists": (":z", ":h"),
    "type": (":z", ":h", ":dead"),
    "hget": (":group",),
    "hmget": (":errors",),
    "xrevrange": (":dead", _LOG),
}
_DELAY_CLAIM = (
    "delay/claim",
    "delay/claim_ack",
    "delay/claim_beat",
    "delay/claim_read",
    "delay/claim_return",
    "delay/stats",
)
#: How claims are listed, and what claims/begin and claims/release call: those scripts are the list
#: queue's, with the keys of a delay queue.
_DELAY_CLAIM_COMMANDS = {
    "info": (),
    "time": (),
    "zrange": (":claims",),
    "llen": (":claim:*:*",),
    "hmget": (":claims:*",),
    "hset": (":claims:*",),
    "hdel": (":claims:*",),
    "hincrby": (":claims:*",),
    "zadd": (":claims",),
    "zcard": (":claims",),
}
#: What consumers of partitions or shards also call, to divide them.
_JOIN = ("members/heartbeat", "members/assign", "members/leave")
_TOPIC_VIEW_COMMANDS = {
    "info": (),
    "time": (),
    "getrange": (":messages:*",),
    "type": (":nextIndex",),
    "mget": (":nextIndex", ":firstIndex", ":consumers:*"),
    "xrevrange": (_LOG,),
}
_TOPIC_PLACES = (":consumers:*", ":leases:*", ":ranges:*")
_RSMQ_VIEW = ("rsmq/attributes", "rsmq/counters")
_RSMQ_VIEW_COMMANDS = {
    "info": (),
    "time": (),
    "zrange": ("",),
    "type": (":Q",),
    "xrange": (":Q.dead",),
    "xrevrange": (":Q.dead", _LOG),
}

#: The roles of other queues than lists. They settle and take with scripts of their own.
OTHER_ROLES: dict[str, dict[str, Role]] = {
    "delay": {
        "producer": Role("pushes", ("delay/push",), {"info": (), "wait": ()}),
        "consumer": Role(
            "takes and settles",
            ("delay/take", "delay/delete", "delay/nack", "delay/reject", "delay/extend"),
            {"info": (), "wait": (), "blpop": (":wake",)},
        ),
        "claimer": Role(
            "takes claims, as Spark's source does", _DELAY_CLAIM, _DELAY_CLAIM_COMMANDS
        ),
        "viewer": Role(
            "looks: ackq stats and peek, ackq exporter, ackq web",
            _DELAY_VIEW,
            _DELAY_VIEW_COMMANDS,
        ),
        "operator": Role(
            "also cancels, reschedules, redrives, drops and purges, and lists and releases claims",
            (
                *_DELAY_VIEW,
                "delay/cancel",
                "delay/reschedule",
                "delay/redrive",
                "delay/drop",
                "delay/purge",
                "delay/claim_return",
            ),
            {
                **_DELAY_CLAIM_COMMANDS,
                **_DELAY_VIEW_COMMANDS,
                "hmget": (":errors", ":claims:*"),
                "zrange": (":z", ":claims"),
                "xlen": (":dead",),
                "xadd": (_LOG,),
            },
        ),
    },
    "topic": {
        "producer": Role(
            "publishes, also with retention",
            ("topic/publish", "topic/probe"),
            {"info": (), "mget": (":nextIndex", ":firstIndex")},
        ),
        "consumer": Role(
            "subscribes, consumes and commits",
            ("topic/consume", "topic/commit", "topic/extend", "topic/seek", "topic/probe"),
            {
                "info": (),
                "mget": (":nextIndex", ":firstIndex", ":consumers:*"),
                "xread": (":wake",),
            },
        ),
        "viewer": Role(
            "looks: ackq topic, ackq exporter, ackq web", ("topic/probe",), _TOPIC_VIEW_COMMANDS
        ),
        "operator": Role(
            "also moves and unsubscribes consumers, and trims",
            ("topic/probe", "topic/seek", "topic/trim"),
            {**_TOPIC_VIEW_COMMANDS, "del": _TOPIC_PLACES, "xadd": (_LOG,)},
        ),
    },
    "rsmq": {
        "producer": Role("sends", ("rsmq/send",), {"info": ()}),
        "consumer": Role(
            "receives, deletes and changes the visibility",
            ("rsmq/receive", "rsmq/delete", "rsmq/visibility"),
            {"info": (), "blpop": (":Q.wake",)},
        ),
        "viewer": Role(
            "looks: ackq stats, ackq exporter, ackq web",
            _RSMQ_VIEW,
            _RSMQ_VIEW_COMMANDS,
            without="hset",
        ),
        "operator": Role(
            "also creates, changes and deletes the queue, redrives and drops",
            (*_RSMQ_VIEW, "rsmq/create_queue", "rsmq/delete_queue", "rsmq/redrive"),
            {**_RSMQ_VIEW_COMMANDS, "xdel": (":Q.dead",), "xlen": (":Q.dead",), "xadd": (_LOG,)},
        ),
    },
}


#: Roles of programs that never look whether a queue is sharded.
_NEVER_LOOK = ("producer", "doctor", "loader")
#: What roles of a sharded queue need besides. Only those that consume close and open shards: a
#: producer to which a shard is closed by mistake gets an error until a consumer opens it.
_RESIZE = ("sharded/change", "sharded/retire", "sharded/revive")
_OF_SHARDS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(ROLES, ("sharded/open",)),
    **dict.fromkeys(("consumer", "worker"), ("sharded/open", "sharded/look", *_JOIN, *_RESIZE)),
    "operator": ("sharded/open", *_RESIZE),
}


def _sharded(name: str) -> Role:
    """Return a role for all shards of a queue."""
    role = ROLES[name]
    scripts = role.scripts + _OF_SHARDS[name]
    return _looking(replace(role, scripts=scripts, commands={**role.commands, "info": ()}))


def _looking(role: Role) -> Role:
    """Return a role that may also read whether the queue is sharded."""
    read = (*role.commands.get("hget", ()), *SHARD_RECORD)
    return replace(role, commands={**role.commands, "hget": read})


OTHER_ROLES["sharded"] = {
    each: _sharded(each) for each in ROLES if each not in ("doctor", "loader")
}


def roles_of(kind: str) -> Mapping[str, Role]:
    """Return the roles of a kind of queue: "list", or one of `OTHER_ROLES`."""
    return ROLES if kind == "list" else OTHER_ROLES[kind]


def rules(
    name: str,
    role: str,
    *,
    eval: bool = True,
    selectors: bool = True,
    pop_from: PopFrom = "right",
    kind: str = "list",
    partitions: int | None = None,
) -> list[str]:
    """Return the words of ``ACL SETUSER`` that give a user ``role`` on queue ``name``.

    Keys are named exactly. Only push markers, claims and staged lists, whose names users choose,
    need a pattern. Patterns stand for the numbers of partitions too, but match no other number.
    The user has no password yet, so nobody can log in as it.

    With selectors, which Redis 7 and Valkey have, each command is granted only on the keys that
    need it. Redis 6.2 grants commands and keys separately: a user may run each of its commands on
    each of its keys. A user that may only count can then also make the queue expire.

    Args:
        name: of the queue; RSMQ's as ``<namespace>:<queue>``. The doctor gets no key of it,
            only `SCRATCH`.
        role: one of the kind's `roles_of`.
        eval: let the user send the text of scripts, as ackq does once after each restart of
            Redis. Without it, a loader must load the scripts. Defaults to True.
        selectors: grant pairs of commands and keys. Use False for Redis 6.2. Defaults to True.
        pop_from: the end of its list from which the queue is popped. Defaults to "right".
        kind: "list", "sharded", "delay", "topic" or "rsmq". Roles of a sharded queue are for all
            shards, however many there will be. Their patterns also match sharded queues whose
            names begin with ``<name>:`` and a digit. Defaults to "list".
        partitions: how many a delay queue has, 1 to 1024; the role is for all of them. Defaults
            to None: it is not partitioned.

    Raises:
        ConfigurationError: the kind has no such role or no partitions, their number is out of
            range, or an RSMQ name has no namespace.
        QueueNameError: the name is invalid, or has a space, which no rule can contain, or a
            parenthesis or quotation mark, which no selector can contain.
    """
    check_name(name)
    if kind == "sharded":
        check_shards(name, None)
    if any(each.isspace() for each in name):
        raise QueueNameError(f"queue name {name!r} has a space, which no ACL rule may contain")
    if selectors and (found := _NOT_IN_SELECTORS.search(name)):
        raise QueueNameError(
            f"queue name {name!r} has {found[0]!r}, which no ACL selector may"
            " contain; rules for Redis 6.2 need no selectors"
        )
    if role not in (roles := roles_of(kind)):
        raise ConfigurationError(f"a role is one of {', '.join(roles)}, not {role!r}")
    if kind == "rsmq" and ":" not in name:
        raise ConfigurationError(f"an RSMQ queue is named <namespace>:<queue>, not {name!r}")
    check_pop_from(pop_from)
    chosen = roles[role]
    if kind == "list" and role not in _NEVER_LOOK:
        chosen = _looking(chosen)
    if kind in ("list", "sharded"):
        chosen = _for_end(role, chosen, pop_from)
    if partitions is not None:
        chosen = _for_partitions(chosen, kind, partitions)
    access = _access(chosen, eval, pop_from)
    if role == "doctor":
        keys, flat = [f"~{SCRATCH}*"], True
    else:
        suffixes = frozenset().union(*access.values())
        keys, flat = patterns_of(name, suffixes, kind, partitions), not selectors
    begin = ["reset", "on", *_channels(name, roles[role])]
    if flat:
        return [*begin, *keys, "-@all", *_commands(access)]
    pairs = _grouped(access)
    keyless = _commands(pairs.pop(frozenset(), ()))
    return [
        *begin,
        "-@all",
        *keyless,
        *(
            f"({' '.join([*patterns_of(name, each, kind, partitions), *_commands(commands)])})"
            for each, commands in sorted(pairs.items(), key=_first)
        ),
    ]


def _channels(name: str, role: Role) -> list[str]:
    """Return the rules for the channel on which RSMQ's ``realtime`` publishes; none for others."""
    if "rsmq/send" not in role.scripts:
        return []
    namespace, _, queue = name.rpartition(":")
    return ["resetchannels", f"&{namespace}:rt:{queue}"]


def _for_end(name: str, role: Role, pop_from: PopFrom) -> Role:
    """Return a role for queues with this end."""
    if pop_from == "right":
        return role
    commands = {
        "rpush" if command == "lpush" else command: tuple(
            HELD_LEFT if suffix == "HELD" else suffix for suffix in suffixes
        )
        for command, suffixes in role.commands.items()
    }
    if role.scripts:
        commands["type"] = ("HELD",)
    return replace(role, scripts=role.scripts + _RECORD * (name in _RECORDING), commands=commands)


def _for_partitions(role: Role, kind: str, partitions: int) -> Role:
    """Return a role of a delay queue for all its partitions."""
    if kind != "delay":
        raise ConfigurationError(f"only delay queues have partitions, not kind {kind!r}")
    check_integer(partitions, "partitions", 1, MOST_PARTITIONS)
    return replace(role, scripts=role.scripts + _JOIN * ("delay/take" in role.scripts))


def _access(role: Role, eval: bool, pop_from: PopFrom) -> dict[str, frozenset[str]]:
    """Return each command of a role with the suffixes of the keys that need it."""
    # Only those that may also change the record create it.
    unused = ("sharded/open", "hset") if "sharded/change" not in role.scripts else None
    found: defaultdict[str, set[str]] = defaultdict(set, {"ping": set(), "hello": set()})
    for command, suffixes in role.commands.items():
        found[command].update(suffixes)
    for script in role.scripts:
        for command, named in access_of(script, pop_from).items():
            if command != role.without and (script, command) != unused:
                found[command].update(named)
    if role.scripts:
        # A script is called with all its keys, and after an error the type of each is checked.
        every = {
            suffix
            for script in role.scripts
            for slot in slots_of(script, pop_from).values()
            for suffix in slot.suffixes
        }.union(*found.values())
        for command in ("evalsha", "type", *(["eval"] if eval else [])):
            found[command].update(every)
    return {command: frozenset(suffixes) for command, suffixes in found.items()}


def _grouped(access: Mapping[str, frozenset[str]]) -> dict[frozenset[str], list[str]]:
    """Return the commands for each set of keys. A selector needs all keys of a command."""
    found: defaultdict[frozenset[str], list[str]] = defaultdict(list)
    for command, suffixes in access.items():
        found[suffixes].append(command)
    return dict(found)


def _first(group: tuple[frozenset[str], list[str]]) -> str:
    return min(group[1])


def _commands(commands: Iterable[str]) -> Iterator[str]:
    return (f"+{each}" for each in sorted(commands))
