"""The Lua scripts: their folder, their text and their SHA1.

Functions that several scripts share stand once, in ``lua/parts``. A script includes them by name::

    -- include: outside, holds

`load` puts their text in place of the line. A part may begin with such a line for the parts that it
calls. Each part is put into a script once, where the script first needs it. After that line, a part
may name the locals of the script that it reads: ``-- Needs now, in µs.``, and an empty line. A part
of a long script is in a folder named like it, such as ``lua/parts/groups/pop``, and shares its
locals. In a part, ``KEYS[+1]`` (in Lua ``KEYS['+1']``) is the first key after those that the script
numbers.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path

#: The format of the stored data, see docs/compatibility.md. It grows when a release begins to store
#: something that releases with the number before cannot read.
FORMAT = 2

_PACKAGE = Path(__file__).parent


@cache
def directory() -> Path:
    """Return the folder of the scripts: inside an installed package, beside it in a checkout."""
    installed = _PACKAGE / "lua"
    return installed if installed.is_dir() else _PACKAGE.parent / "lua"


_KEY = re.compile(rb"^-- KEYS\[\d+\] +(\S+) +([A-Z]+)", re.MULTILINE)
_GROUP_KEY = re.compile(rb"^-- With groups: KEYS\[\d+\] +(\S+) +([A-Z]+)", re.MULTILINE)

#: A line that stands for parts, with their names.
INCLUDE = re.compile(r"^ *-- include: (.+)\n", re.MULTILINE)
_BEHIND = re.compile(r"KEYS\['?\+(\d+)'?\]")
_NUMBERED = re.compile(r"^-- (?:With groups: )?KEYS\[(\d+)\]", re.MULTILINE)
_HEAD = re.compile(r"(?:-- include: (.+)\n)?(?:-- Needs (?:.+\n)+)?\n?")


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


@cache
def load(name: str) -> Script:
    """Return the script ``lua/<name>.lua``, such as "pop" or "rsmq/send". It is read once."""
    text = compose(directory(), name).encode()
    return Script(name, text, hashlib.sha1(text, usedforsecurity=False).hexdigest().encode())


def compose(root: Path, name: str, *, without: str | None = None) -> str:
    """Return the text of a script of the folder ``root``, with its parts.

    Args:
        root: the folder.
        name: the script, such as "rsmq/send".
        without: leave out the parts whose names begin with this.

    Raises:
        ValueError: a part does not exist, or includes itself.
    """
    is_placed: dict[str, bool] = {}  # False while the parts that it includes are placed

    def parts(names: str, by: str) -> Iterator[str]:
        for part in names.split(", "):
            path = root / "parts" / f"{part}.lua"
            if not path.is_file():
                raise ValueError(f"{by} includes {part}, but there is no lua/parts/{part}.lua")
            if not is_placed.get(part, True):
                raise ValueError(f"{by} includes {part}, which includes it: break the circle")
            if part not in is_placed and not (without and part.startswith(without)):
                is_placed[part] = False
                text = path.read_text(encoding="utf-8")
                head = _HEAD.match(text)
                assert head is not None  # it matches nothing as well
                if head[1]:
                    yield from parts(head[1], f"lua/parts/{part}.lua")
                yield text[head.end() :]
                is_placed[part] = True

    text = (root / f"{name}.lua").read_text(encoding="utf-8")
    text = INCLUDE.sub(lambda found: "\n".join(parts(found[1], f"lua/{name}.lua")), text)
    last = max(map(int, _NUMBERED.findall(text)), default=0)
    return _BEHIND.sub(lambda found: f"KEYS[{last + int(found[1])}]", text)


def names() -> list[str]:
    """Return the names of all scripts, sorted."""
    root = directory()
    paths = (path.relative_to(root).with_suffix("") for path in root.rglob("*.lua"))
    return sorted(path.as_posix() for path in paths if path.parts[0] != "parts")
