"""Which clients of a server work on lists, and which list commands it processes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

#: List commands, with what each does at which end. Those that name their ends have no entry there.
PUSHES = {"lpush": "left", "lpushx": "left", "rpush": "right", "rpushx": "right"}
TAKES = {"lpop": "left", "blpop": "left", "rpop": "right", "brpop": "right"}
#: Commands that move a message into another list, which careful consumers use.
MOVES = ("rpoplpush", "brpoplpush", "lmove", "blmove", "lrem")
#: Commands whose end is an argument or in a script, which no one else sees.
HIDDEN = ("lmpop", "blmpop", "eval", "evalsha", "fcall", "exec")
COMMANDS = (*PUSHES, *TAKES, *MOVES, *HIDDEN)
#: Most clients that are listed; on a busier server CLIENT LIST would take too long.
MAX_CLIENTS = 2000
#: Most addresses and names that are kept for one command.
SHOWN = 5


@dataclass(slots=True)
class Users:
    """The clients whose latest command was the same one.

    Attributes:
        ids: of their connections.
        blocked: connections that were seen waiting in that command.
        addresses: hosts that they connect from, at most `SHOWN`.
        names: their names, if they have set any, at most `SHOWN`.
    """

    ids: set[str] = field(default_factory=set)
    blocked: set[str] = field(default_factory=set)
    addresses: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)


_CALLS = re.compile(r"cmdstat_(\w+):calls=(\d+)")


def note(users_of: dict[str, Users], reply: bytes, database: int) -> None:
    """Add the clients of a CLIENT LIST reply that work on lists of a database."""
    for line in reply.decode(errors="replace").splitlines():
        fields = dict(word.split("=", 1) for word in line.split(" ") if "=" in word)
        command = fields.get("cmd", "")
        if command not in COMMANDS or fields.get("db") != str(database):
            continue
        users = users_of.setdefault(command, Users())
        users.ids.add(fields["id"])
        if "b" in fields.get("flags", ""):
            users.blocked.add(fields["id"])
        _keep(users.addresses, fields.get("addr", "").rpartition(":")[0])
        _keep(users.names, fields.get("name", ""))


def _keep(known: list[str], value: str) -> None:
    if value and value not in known and len(known) < SHOWN:
        known.append(value)


def calls_of(reply: bytes) -> dict[str, int]:
    """Return the number of calls of each list command, from INFO commandstats."""
    calls_by = {name: int(calls) for name, calls in _CALLS.findall(reply.decode(errors="replace"))}
    return {name: calls_by.get(name, 0) for name in COMMANDS}


def increase(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, int]:
    """Return the commands that were called in between, with how often."""
    return {
        name: after[name] - before.get(name, 0)
        for name in after
        if after[name] > before.get(name, 0)
    }
