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
from ackq.config import PopFrom

#: The name of a queue is {name}, {shard}, {queue} or, for RSMQ, {ns}:{q}, whose namespace has a key
#: too. A {group} of consumers has the name of its queue.
_SLOT = re.compile(
    r"^-- KEYS\[(\d+)(?:\+\w+)?(\.\.[^\]]*)?\]"
    r"\s+(?:\{name\}|\{shard\}|\{queue\}|\{group\}|\{ns\}:\{q\}|(\{ns\}))(\S*)\s+([A-Z]+)",
    re.MULTILINE,
)
_BOUND = re.compile(r"\blocal ([\w, ]+) =\s+(.*\bKEYS\[.+\].*)$", re.MULTILINE)
#: Scripts that serve several partitions address the keys of each by their places after its first.
_IN_GROUP = re.compile(r"(?:first|each\[1\])(?: \+ (\d+))?")
#: Begins the suffix of a key that belongs to RSMQ's namespace and not to the queue.
NAMESPACE = "@"
#: Names that get a value anywhere: locals, parameters, loop variables.
_NAMED = re.compile(r"\blocal ([\w, ]+?) =|\bfunction [\w.]*\(([\w, ]*)\)|\bfor ([\w, ]+) (?:=|in)")
#: A command that depends on the end that is popped names that of the left end first. The arguments
#: are not consumed, since there may be another call among them.
_CALL = re.compile(r"redis\.p?call\((?:[\w =']+ and '([A-Z]+)' or )?'([A-Z]+)'(?=(?:, ([^)]*))?)")
_NOTED = re.compile(r"^-- Supervised: KEYS\[(#KEYS)\] \{name\}(\S+) ([A-Z]+)", re.MULTILINE)
_GROUPED = re.compile(r"^-- With groups: KEYS\[(\d+)\] \{name\}(\S*) ([A-Z]+)", re.MULTILINE)
_ROLES = re.compile(r"^-- Roles: (.+)$", re.MULTILINE)
_ANY = re.compile("<[^>]+>")
#: How many arguments of a command are keys (None: all). Other commands have one key.
_KEYS_OF = {
    "TIME": 0,
    "LMOVE": 2,
    "RENAME": 2,
    "EXISTS": None,
    "UNLINK": None,
    "DEL": None,
    "MSET": None,
}
_OF_ANY_TYPE = {"EXISTS", "UNLINK", "DEL", "RENAME", "TYPE", "PERSIST", "PEXPIRE", "PTTL"}
_STRINGS = {"SET", "MSET", "MSETNX", "STRLEN"}
_TYPES = {"Z": "ZSET", "H": "HASH", "L": "LIST", "R": "LIST", "X": "STREAM", "G": "STRING"}


@dataclass(frozen=True, slots=True)
class Slot:
    """A slot of a script's keys, with the suffixes that may follow the queue's name there."""

    suffixes: tuple[str, ...]
    kind: str
    #: Whether it stands for all further keys as well.
    is_last: bool


@cache
def slots_of(script: str, grouped: bool = False) -> Mapping[str, Slot]:
    """Return the slots of a script, for a queue with or without groups, by their numbers."""
    slots = {}
    for each in (_GROUPED, _NOTED) if grouped else (_NOTED,):
        for number, suffix, kind in each.findall(_text(script)):
            slots[number] = Slot((_ANY.sub("*", suffix),), kind, False)
    for number, rest, namespace, suffix, kind in _SLOT.findall(_text(script)):
        suffixes = [NAMESPACE * bool(namespace) + _ANY.sub("*", suffix)]
        if script.startswith("held/") and suffixes == ["CLAIM:*:*"]:
            suffixes.append("STAGED:*")  # a claim's list, or a list that a writer staged
        slots[number] = Slot(tuple(suffixes), kind, bool(rest))
    return slots


@cache
def callers_of(script: str) -> frozenset[str]:
    """Return the roles that call a script, as its header names them: "all" stands for each."""
    matched = _ROLES.search(_text(script))
    return frozenset(matched[1].split(", ")) if matched else frozenset()


@cache
def access_of(
    script: str, pop_from: PopFrom = "right", grouped: bool = False
) -> Mapping[str, frozenset[str]]:
    """Return each command that a script calls, with the suffixes of its keys."""
    text = _text(script)
    optional = {number for number, *_ in _GROUPED.findall(text)}
    bound = dict(_bound(text))
    if not grouped:  # then the parts of groups do not run
        text = scripts.compose(scripts.directory(), script, without="groups/")
    text = re.sub("--.*", "", text)
    slots = slots_of(script, grouped)
    absent = {f"KEYS[{number}]" for number in optional - slots.keys()}
    suffixes_of: defaultdict[str, set[str]] = defaultdict(set)
    for of_left, of_right, arguments in _CALL.findall(text):
        command = of_left if of_left and pop_from == "left" else of_right
        words = [argument.strip() for argument in arguments.split(",")][: _KEYS_OF.get(command, 1)]
        if words and all(bound.get(word) in absent for word in words):
            continue  # these keys are passed with groups only
        suffixes = suffixes_of[command.lower()]
        for word in words:
            suffixes.update(_suffixes(command, bound.get(word, word), slots))
    return {command: frozenset(suffixes) for command, suffixes in suffixes_of.items()}


def _suffixes(command: str, key: str, slots: Mapping[str, Slot]) -> Iterator[str]:
    """Yield a key's possible suffixes: of the slot that it names, else of the command's type."""
    if index := re.fullmatch(r"KEYS\[(.+)\]", key):
        number = _number(index[1], slots)
        named = [slots[number]] if number in slots else [*filter(_is_last, slots.values())]
    else:
        named = []
    kind = None if command in _OF_ANY_TYPE else _type_of(command)
    for slot in named or slots.values():
        if named or kind in (None, slot.kind):
            yield from slot.suffixes


def _number(index: str, slots: Mapping[str, Slot]) -> str:
    """Return the number of the slot that an index names, or the index itself."""
    in_group = _IN_GROUP.fullmatch(index)
    firsts = [number for number, slot in slots.items() if slot.suffixes == (":z",)]
    return str(int(firsts[0]) + int(in_group[1] or 0)) if in_group and firsts else index


def _is_last(slot: Slot) -> bool:
    return slot.is_last


def _type_of(command: str) -> str:
    return "STRING" if command in _STRINGS else _TYPES.get(command[0], "SET")


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
