"""Find which script runs which command on which keys, from its header and its calls.

A call names its key by a local variable bound to a slot of KEYS, which the header describes. If a
call gets its key in another way, such as a parameter, every key of the script with the command's
type counts. So the result may contain too many keys, but never too few.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from ackq import scripts

_SLOT = re.compile(r"^-- KEYS\[(\d+)(\.\.)?\] \{name\}(\S*)\s+([A-Z]+)", re.MULTILINE)
_BOUND = re.compile(r"\blocal ([\w, ]+) = (.*\bKEYS\[.+\].*)$", re.MULTILINE)
#: Names that get a value anywhere: locals, parameters, loop variables.
_NAMED = re.compile(r"\blocal ([\w, ]+?) =|\bfunction [\w.]*\(([\w, ]*)\)|\bfor ([\w, ]+) (?:=|in)")
_CALL = re.compile(r"redis\.call\('([A-Z]+)'(?:, ([^)]*))?")
_ANY = re.compile("<[^>]+>")
#: How many arguments of a command are keys (None: all). Other commands have one key.
_KEYS_OF = {"TIME": 0, "LMOVE": 2, "RENAME": 2, "EXISTS": None, "UNLINK": None, "DEL": None}
_OF_ANY_TYPE = {"EXISTS", "UNLINK", "DEL", "RENAME", "TYPE", "PERSIST", "PEXPIRE", "PTTL"}
_TYPES = {"Z": "ZSET", "H": "HASH", "L": "LIST", "R": "LIST", "X": "STREAM", "G": "STRING"}


@dataclass(frozen=True, slots=True)
class Slot:
    """A slot of a script's keys, with the suffixes that may follow the queue's name there."""

    suffixes: tuple[str, ...]
    kind: str
    #: Whether it stands for all further keys as well.
    is_last: bool


@cache
def slots_of(script: str) -> Mapping[str, Slot]:
    """Return the slots of a script by their numbers."""
    found = {}
    for number, rest, suffix, kind in _SLOT.findall(_text(script)):
        suffixes = [_ANY.sub("*", suffix)]
        if script.startswith("held/") and suffixes == ["CLAIM:*:*"]:
            suffixes.append("STAGED:*")  # a claim's list, or a list that a writer staged
        found[number] = Slot(tuple(suffixes), kind, bool(rest))
    return found


@cache
def access_of(script: str) -> Mapping[str, frozenset[str]]:
    """Return each command that a script calls, with the suffixes of its keys."""
    text = re.sub("--.*", "", _text(script))
    slots = slots_of(script)
    bound = dict(_bound(text))
    found: defaultdict[str, set[str]] = defaultdict(set)
    for command, arguments in _CALL.findall(text):
        suffixes = found[command.lower()]
        words = [each.strip() for each in arguments.split(",")][: _KEYS_OF.get(command, 1)]
        for word in words:
            suffixes.update(_suffixes(command, bound.get(word, word), slots))
    return {command: frozenset(suffixes) for command, suffixes in found.items()}


def _suffixes(command: str, key: str, slots: Mapping[str, Slot]) -> Iterator[str]:
    """Yield a key's possible suffixes: of the slot that it names, else of the command's type."""
    if index := re.fullmatch(r"KEYS\[(.+)\]", key):
        named = [slots[index[1]]] if index[1] in slots else [*filter(_is_last, slots.values())]
    else:
        named = []
    kind = None if command in _OF_ANY_TYPE else _type_of(command)
    for slot in named or slots.values():
        if named or kind in (None, slot.kind):
            yield from slot.suffixes


def _is_last(slot: Slot) -> bool:
    return slot.is_last


def _type_of(command: str) -> str:
    return "STRING" if command in ("SET", "MSET") else _TYPES.get(command[0], "SET")


def _bound(text: str) -> Iterator[tuple[str, str]]:
    """Yield the locals that are bound only to a slot of KEYS."""
    named: defaultdict[str, int] = defaultdict(int)
    for groups in _NAMED.findall(text):
        for name in re.findall(r"\w+", " ".join(groups)):
            named[name] += 1
    for names, values in _BOUND.findall(text):
        for name, value in zip(names.split(", "), values.split(", "), strict=False):
            if named[name] == 1 and re.fullmatch(r"KEYS\[[^\]]+\]", value):
                yield name, value


def _text(script: str) -> str:
    return scripts.load(script).text.decode()
