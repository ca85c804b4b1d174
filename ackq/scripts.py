"""The Lua scripts: their folder, their text and their SHA1."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path

#: The format of the stored data, see docs/compatibility.md. It grows when a release begins to store
#: something that releases with the number before cannot read.
FORMAT = 1

_PACKAGE = Path(__file__).parent


@cache
def directory() -> Path:
    """Return the folder of the scripts: inside an installed package, beside it in a checkout."""
    installed = _PACKAGE / "lua"
    return installed if installed.is_dir() else _PACKAGE.parent / "lua"


_KEY = re.compile(rb"^-- KEYS\[\d+\] +(\S+) +([A-Z]+)", re.MULTILINE)
_GROUP_KEY = re.compile(rb"^-- With groups: KEYS\[\d+\] +(\S+) +([A-Z]+)", re.MULTILINE)


@dataclass(frozen=True)
class Script:
    """One script of the ``lua`` folder."""

    name: str
    text: bytes = field(repr=False)
    sha: bytes

    @cached_property
    def keys(self) -> tuple[tuple[str, str], ...]:
        """The names and types of its keys, in order, such as ("{name}HELD", "ZSET")."""
        return tuple((name.decode(), kind.decode()) for name, kind in _KEY.findall(self.text))

    @cached_property
    def group_keys(self) -> tuple[tuple[str, str], ...]:
        """As `keys`, the further keys that it gets for a queue with groups."""
        found = _GROUP_KEY.findall(self.text)
        return tuple((name.decode(), kind.decode()) for name, kind in found)

    @cached_property
    def takes_record(self) -> bool:
        """Whether its last key is the record of the left end, for a queue popped from there."""
        return b"\n-- Left end: KEYS" in self.text


@cache
def load(name: str) -> Script:
    """Return the script ``lua/<name>.lua``, such as "pop" or "rsmq/send". It is read once."""
    text = (directory() / f"{name}.lua").read_bytes()
    return Script(name, text, hashlib.sha1(text, usedforsecurity=False).hexdigest().encode())


def names() -> list[str]:
    """Return the names of all scripts, sorted."""
    root = directory()
    paths = (path.relative_to(root).with_suffix("") for path in root.rglob("*.lua"))
    return sorted(path.as_posix() for path in paths if path.parts[0] != "parts")
