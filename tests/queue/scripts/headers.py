"""What the header of a script declares."""

import re
from dataclasses import dataclass
from pathlib import Path

from ackq.scripts import compose

_NOTED = re.compile(r"^-- Supervised: KEYS\[#KEYS\] (\S+) (.*)$", re.MULTILINE)
_GROUPED = re.compile(r"^-- With groups: KEYS\[(\d+)\] (\S+) (.*)$", re.MULTILINE)
_SLOT = re.compile(r"^-- (KEYS|ARGV)\[(\d+)\] (\S+) +(\S.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Slot:
    """One line such as ``-- KEYS[2] {name}BACKUP  ZSET  lease key -> deadline``."""

    number: int
    name: str
    meaning: str

    @property
    def suffix(self) -> str:
        """What follows the name of the queue: "BACKUP", and "" for the ready list itself."""
        return self.name.partition("}")[2]

    @property
    def type(self) -> str:
        """The type as TYPE says it, such as "zset"."""
        return self.meaning.split()[0].lower()


@dataclass(frozen=True)
class Header:
    """The keys and the arguments of a script, in the order in which they are passed."""

    keys: tuple[Slot, ...]
    arguments: tuple[Slot, ...]
    #: The further keys that it has for queues with groups.
    grouped: tuple[Slot, ...] = ()
    #: The note, if it has a last key for supervised processes. Its number is 0.
    note: Slot | None = None

    def argument(self, name: str) -> int:
        """Return the place of an argument among the arguments, from 0."""
        return next(slot.number - 1 for slot in self.arguments if slot.name == name)


def is_of_the_list_queue(script: str) -> bool:
    """Return whether a script is one of the list queue; others lie in folders of their own."""
    return "/" not in script or script.startswith(("claims/", "groups/", "held/"))


def passed(script: str, header: Header, grouped: bool) -> tuple[Slot, ...]:
    """Return the keys that a script gets, for a queue with groups or without."""
    return (*header.keys, *(header.grouped if grouped or script.startswith("groups/") else ()))


def comment(text: str) -> str:
    """Return the lines at the top of a script that are comments."""
    return re.match(r"(--.*\n)*", text)[0]  # type: ignore[index]


def parse(text: str) -> Header:
    """Return what the header declares."""
    found: dict[str, list[Slot]] = {"KEYS": [], "ARGV": []}
    for kind, number, name, meaning in _SLOT.findall(comment(text)):
        found[kind].append(Slot(int(number), name, meaning))
    grouped = [Slot(int(number), *rest) for number, *rest in _GROUPED.findall(comment(text))]
    noted = _NOTED.search(comment(text))
    note = Slot(0, noted[1], noted[2]) if noted else None
    return Header(tuple(found["KEYS"]), tuple(found["ARGV"]), tuple(grouped), note)


def read(directory: Path, script: str) -> str:
    """Return the text of a script, with its parts."""
    return compose(directory, script)
