"""Least-privilege rules for the users of a queue.

The rules are derived from the scripts. Each script names in its header its keys and the roles that
call it, and calls its commands by name. Redis checks keys and commands against the caller. So the
rules always match the scripts.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ackq import scripts
from ackq.config import PopFrom, QueueConfig, check_integer
from ackq.core.names import HISTORY, check_name
from ackq.errors import ConfigurationError, QueueNameError
from ackq.membership.operations import MAX_PARTITIONS
from ackq.membership.shards import check_shards
from ackq.ops.acl_access import access_of, callers_of, slots_of
from ackq.ops.acl_keys import SHARD_RECORD, patterns_of
from ackq.setting_types import check_types

#: The doctor tries operations on queues of its own. Their names begin with this, in one slot.
SCRATCH = "{ackq:doctor}:"

#: The log of what is done through the page. It belongs to no queue, so the roles name it in full.
_LOG = "=ackq:web:log"

#: Where queues of each kind keep what happened to them; clients of some roles read and write it.
_HISTORIES = {kind: f"{HISTORY}{kind}" for kind in ("list", "delay", "topic", "rsmq")}
_KEEP_HISTORY = ("worker", "watcher", "viewer", "operator")

#: Characters that would end a selector, or begin a quotation in it.
_NOT_IN_SELECTORS = re.compile("[()\"']")


@dataclass(frozen=True, slots=True)
class Role:
    """What one kind of user does, and the commands that this takes besides scripts.

    Which roles call a script stands in its header.
    """

    #: A one-line description.
    purpose: str
    #: Commands that it sends itself, or that a script calls by a computed name, with the suffixes
    #: of the keys that they use. "=" begins the whole name of a key that belongs to no queue.
    commands: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    #: A command of its scripts that they do not reach for what this role does.
    without: str = ""


_TAKE_COMMANDS = {"info": (), "blmove": ("", "HANDOFF")}
_CLAIM_COMMANDS = {
    "info": (),
    "hmget": ("CLAIMS:*",),
    "lrange": ("CLAIM:*:*",),
    "llen": ("CLAIM:*:*",),
}
_STAGE_COMMANDS = {
    "info": (),
    "time": (),
    "lpushx": ("STAGED:*",),
    "rename": ("STAGED:*",),
    "ltrim": ("STAGED:*",),
    "zrangebyscore": ("HELD",),
    "srandmember": ("STAGING:*:*",),
    "hget": ("COMMITS",),
    "hdel": ("COMMITS",),
}
_COUNT_COMMANDS = {
    "info": (),
    "time": (),
    "zcount": ("WORKERS:SEEN",),
    "zrangebyscore": ("WORKERS:SEEN",),
}
_VIEW_COMMANDS = {
    **_COUNT_COMMANDS,
    "xrange": ("DEAD",),
    "xrevrange": ("DEAD", _LOG),
    "hmget": ("ERRORS", "NOTES"),
}
_OPERATE_COMMANDS = {
    **_VIEW_COMMANDS,
    "xadd": (_LOG,),
    "set": ("PAUSED",),
    "del": ("PAUSED",),
    "zscan": ("BACKUP", "DELAYED"),
    "hscan": ("CONTEXT", "RECEIVES", "EXTENDED", "HELDROWS", "ERRORS", "NOTES"),
}
_PUSH_COMMANDS = {"lpush": ("",), "wait": ()}

ROLES = {
    "producer": Role("pushes with a bare LPUSH", _PUSH_COMMANDS),
    "scheduler": Role(
        "pushes, also with a delay or dedup=",
        {"info": (), **_PUSH_COMMANDS},
    ),
    "consumer": Role("takes and settles", {"wait": (), **_TAKE_COMMANDS}),
    "claimer": Role("takes claims, as Spark's source does", _CLAIM_COMMANDS),
    "pipeline": Role(
        "takes claims, and makes rows of them dead letters, as Spark's pipelines do",
        _CLAIM_COMMANDS,
    ),
    "writer": Role("writes staged batches, as Spark's sink does", _STAGE_COMMANDS),
    "worker": Role(
        "runs ackq work: a consumer with rate limits, schedules, a health check, and an"
        " entry in ackq workers",
        {"get": ("TAKEN:*",), "zrangebyscore": ("BACKUP",), **_TAKE_COMMANDS},
    ),
    "monitor": Role(
        "counts messages by state, lists workers; runs ackq exporter --no-totals",
        _COUNT_COMMANDS,
    ),
    "watcher": Role("runs ackq top and ackq exporter: counts, and measures rates", _COUNT_COMMANDS),
    "viewer": Role(
        "looks at ackq web: counts, rates, messages, dead letters and workers",
        _VIEW_COMMANDS,
    ),
    "operator": Role(
        "inspects, repairs, redrives, runs or cancels delayed messages, pauses,"
        " purges, quiets and stops workers; runs ackq web --operate",
        _OPERATE_COMMANDS,
    ),
    "doctor": Role(
        "runs ackq doctor on temporary queues. It cannot read the server's settings,"
        " since CONFIG GET also shows passwords. To allow it, add +config|get",
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
        {"script|load": (), "cluster|slots": ()},
    ),
}

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
_TOPIC_VIEW_COMMANDS = {
    "info": (),
    "time": (),
    "getrange": (":messages:*",),
    "type": (":nextIndex",),
    "mget": (":nextIndex", ":firstIndex", ":consumers:*"),
    "xrevrange": (_LOG,),
}
_TOPIC_PLACES = (":consumers:*", ":leases:*", ":ranges:*")
_RSMQ_VIEW_COMMANDS = {
    "info": (),
    "time": (),
    "zrange": ("",),
    "zmscore": ("",),
    "zrank": ("",),
    "hmget": (":Q", ":Q.errors"),
    "type": (":Q",),
    "xrange": (":Q.dead",),
    "xrevrange": (":Q.dead", _LOG),
}

#: The roles of other queues than lists. They settle and take with scripts of their own.
OTHER_ROLES: dict[str, dict[str, Role]] = {
    "delay": {
        "producer": Role("pushes", {"info": (), "wait": ()}),
        "consumer": Role(
            "takes and settles",
            {"info": (), "wait": (), "blpop": (":wake",)},
        ),
        "claimer": Role("takes claims, as Spark's source does", _DELAY_CLAIM_COMMANDS),
        "viewer": Role(
            "looks: ackq stats and peek, ackq exporter, ackq web",
            _DELAY_VIEW_COMMANDS,
        ),
        "operator": Role(
            "also cancels, reschedules, redrives, drops and purges, and lists and releases claims",
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
            {"info": (), "mget": (":nextIndex", ":firstIndex")},
        ),
        "consumer": Role(
            "subscribes, consumes and commits",
            {
                "info": (),
                "mget": (":nextIndex", ":firstIndex", ":consumers:*"),
                "xread": (":wake",),
            },
        ),
        "viewer": Role("looks: ackq topic, ackq exporter, ackq web", _TOPIC_VIEW_COMMANDS),
        "operator": Role(
            "also moves and unsubscribes consumers, and trims",
            {**_TOPIC_VIEW_COMMANDS, "del": _TOPIC_PLACES, "xadd": (_LOG,)},
        ),
    },
    "rsmq": {
        "producer": Role("sends", {"info": ()}),
        "consumer": Role(
            "receives, deletes and changes the visibility",
            {"info": (), "blpop": (":Q.wake",)},
        ),
        "viewer": Role(
            "looks: ackq stats, ackq exporter, ackq web",
            _RSMQ_VIEW_COMMANDS,
            without="hset",
        ),
        "operator": Role(
            "also creates, changes and deletes the queue, redrives and drops",
            {**_RSMQ_VIEW_COMMANDS, "xdel": (":Q.dead",), "xlen": (":Q.dead",), "xadd": (_LOG,)},
        ),
    },
}


#: Kinds of queue whose scripts have a folder of their own.
_OWN_FOLDERS = ("delay", "topic", "rsmq")
#: The folders of what consumers also call to divide partitions, and shards.
_SHARING = {"partitions": {"members"}, "shards": {"members", "sharded"}}
#: Roles of programs that never look whether a queue is sharded.
_NEVER_LOOK = ("producer", "doctor", "loader")


def _sharded(role: Role) -> Role:
    """Return a role for all shards of a queue."""
    return _reading_shards(replace(role, commands={**role.commands, "info": ()}))


def _reading_shards(role: Role) -> Role:
    """Return a role that may also read whether the queue is sharded."""
    read = (*role.commands.get("hget", ()), *SHARD_RECORD)
    return replace(role, commands={**role.commands, "hget": read})


def _with_history(role: Role, kind: str) -> Role:
    """Return a role that also keeps the history of a queue, with a script of the list queue.

    A user that may not change RSMQ's attributes only reads it: Redis 6.2 cannot tell them apart.
    """
    commands: tuple[str, ...] = ("hmget",)
    if kind != "list" and role.without != "hset":
        commands += ("hget", "hset", "hdel", "pexpire")
    added = {command: (*role.commands.get(command, ()), _HISTORIES[kind]) for command in commands}
    return replace(role, commands={**role.commands, **added})


for _kind, _roles in (("list", ROLES), *OTHER_ROLES.items()):
    for _name in (*_roles,):
        if _name in _KEEP_HISTORY:
            _roles[_name] = _with_history(_roles[_name], _kind)

OTHER_ROLES["sharded"] = {
    name: _sharded(role) for name, role in ROLES.items() if name not in ("doctor", "loader")
}


def roles_of(kind: str) -> Mapping[str, Role]:
    """Return the roles of a kind of queue: "list", or one of `OTHER_ROLES`."""
    return ROLES if kind == "list" else OTHER_ROLES[kind]


def scripts_of(
    role: str,
    kind: str = "list",
    pop_from: PopFrom = "right",
    partitions: int | None = None,
    grouped: bool = False,
) -> list[str]:
    """Return the scripts that a role calls: those whose header names it.

    Raises:
        ConfigurationError: the kind has no partitions, or their number is out of range.
    """
    folders = {kind} if kind in _OWN_FOLDERS else set()
    if partitions is not None:
        if kind != "delay":
            raise ConfigurationError(f"only delay queues have partitions, not kind {kind!r}")
        check_integer(partitions, "partitions", 1, MAX_PARTITIONS)
        folders |= _SHARING["partitions"]
    elif kind == "sharded":
        folders = _SHARING["shards"]
    called = []
    for script in scripts.names():
        folder = script.rpartition("/")[0]
        is_lists = folder not in (*_OWN_FOLDERS, *_SHARING["shards"])
        if not (folder in folders or (is_lists and kind in ("list", "sharded"))):
            continue
        if script in ("record", "forget") and pop_from == "right" and not grouped:
            continue  # such a queue has no record
        if folder == "groups" and not grouped:
            continue
        if callers_of(script) & {role, "all"}:
            called.append(script)
    return called


def rules(
    name: str,
    role: str,
    *,
    eval: bool = True,
    selectors: bool = True,
    pop_from: PopFrom = "right",
    kind: str = "list",
    partitions: int | None = None,
    grouped: bool = False,
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
        grouped: whether a list queue has groups, or max_in_flight. Defaults to False.

    Raises:
        ConfigurationError: the kind has no such role, no partitions or no groups, the number of
            partitions is out of range, or an RSMQ name has no namespace.
        QueueNameError: the name is invalid, or has a space, which no rule can contain, or a
            parenthesis or quotation mark, which no selector can contain.
    """
    check_name(name)
    if kind == "sharded":
        check_shards(name, None)
    if any(character.isspace() for character in name):
        raise QueueNameError(f"queue name {name!r} has a space, which no ACL rule may contain")
    if selectors and (matched := _NOT_IN_SELECTORS.search(name)):
        raise QueueNameError(
            f"queue name {name!r} has {matched[0]!r}, which no ACL selector may"
            " contain; rules for Redis 6.2 need no selectors"
        )
    if role not in (roles := roles_of(kind)):
        raise ConfigurationError(f"a role is one of {', '.join(roles)}, not {role!r}")
    if kind == "rsmq" and ":" not in name:
        raise ConfigurationError(f"an RSMQ queue is named <namespace>:<queue>, not {name!r}")
    check_types(QueueConfig, {"pop_from": pop_from})
    if grouped and (kind != "list" or pop_from != "right"):
        raise ConfigurationError("only list queues that are popped from the right have groups")
    chosen = roles[role]
    called = scripts_of(role, kind, pop_from, partitions, grouped)
    if kind == "list" and role not in _NEVER_LOOK:
        chosen = _reading_shards(chosen)
    if kind in ("list", "sharded"):
        chosen = _for_end(chosen, bool(called), pop_from, grouped)
    access = _access(chosen, called, eval, pop_from, grouped)
    if role == "doctor":
        keys, flat = [f"~{SCRATCH}*"], True
    else:
        suffixes = frozenset().union(*access.values())
        keys, flat = patterns_of(name, suffixes, kind, partitions), not selectors
    begin = ["reset", "on", *_channels(name, called)]
    if flat:
        return [*begin, *keys, "-@all", *_commands(access)]
    pairs = _grouped(access)
    keyless = _commands(pairs.pop(frozenset(), ()))
    return [
        *begin,
        "-@all",
        *keyless,
        *(
            f"({' '.join([*patterns_of(name, suffix, kind, partitions), *_commands(commands)])})"
            for suffix, commands in sorted(pairs.items(), key=_first)
        ),
    ]


def _channels(name: str, called: Sequence[str]) -> list[str]:
    """Return the rules for the channel on which RSMQ's ``realtime`` publishes; none for others."""
    if "rsmq/send" not in called:
        return []
    namespace, _, queue = name.rpartition(":")
    return ["resetchannels", f"&{namespace}:rt:{queue}"]


def _for_end(role: Role, calls_scripts: bool, pop_from: PopFrom, grouped: bool) -> Role:
    """Return a role for queues with this end, or with groups."""
    if pop_from == "right" and not grouped:
        return role
    commands = {
        "rpush" if (command, pop_from) == ("lpush", "left") else command: suffixes
        for command, suffixes in role.commands.items()
    }
    if calls_scripts and grouped and "blmove" in commands:
        commands["blpop"] = ("GROUPS:ROOM",)
    return replace(role, commands=commands)


def _access(
    role: Role, called: Sequence[str], eval: bool, pop_from: PopFrom, grouped: bool
) -> dict[str, frozenset[str]]:
    """Return each command of a role with the suffixes of the keys that need it."""
    # Only those that may also change the record create it.
    unused = ("sharded/open", "hset") if "sharded/change" not in called else None
    suffixes_of: defaultdict[str, set[str]] = defaultdict(set, {"ping": set(), "hello": set()})
    for command, suffixes in role.commands.items():
        suffixes_of[command].update(suffixes)
    for script in called:
        for command, named in access_of(script, pop_from, grouped).items():
            if command != role.without and (script, command) != unused:
                suffixes_of[command].update(named)
    if called:
        # A script is called with all its keys, and after an error the type of each is checked.
        every = {
            suffix
            for script in called
            for slot in slots_of(script, grouped).values()
            for suffix in slot.suffixes
        }.union(*suffixes_of.values())
        for command in ("evalsha", "type", *(["eval"] if eval else [])):
            suffixes_of[command].update(every)
        if "RECORD" in every:
            suffixes_of["hgetall"].add("RECORD")
    return {command: frozenset(suffixes) for command, suffixes in suffixes_of.items()}


def _grouped(access: Mapping[str, frozenset[str]]) -> dict[frozenset[str], list[str]]:
    """Return the commands for each set of keys. A selector needs all keys of a command."""
    commands_of: defaultdict[frozenset[str], list[str]] = defaultdict(list)
    for command, suffixes in access.items():
        commands_of[suffixes].append(command)
    return dict(commands_of)


def _first(group: tuple[frozenset[str], list[str]]) -> str:
    return min(group[1])


def _commands(commands: Iterable[str]) -> Iterator[str]:
    return (f"+{command}" for command in sorted(commands))
