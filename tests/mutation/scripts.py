"""The mutants of the Lua scripts and of their parts, and what a process loads in their place."""

from __future__ import annotations

import functools
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from ackq import scripts

from . import lua
from .mutant import Mutant
from .places import ROOT

KINDS = lua.KINDS
#: Rounds of loops in a call of a mutant, far more than any test needs.
ROUNDS = 300_000
_FOLDER = ROOT / "lua"


def mutants() -> list[Mutant]:
    """Return every mutant of the scripts and of their parts."""
    return [mutant for path in sorted(_FOLDER.rglob("*.lua")) for mutant in of_file(path)]


def of_file(path: Path) -> Iterator[Mutant]:
    text = path.read_text()
    file = path.relative_to(ROOT)
    seen: Counter[str] = Counter()
    for change in lua.changes(text):
        where = f"{file}: {change.function}"
        start = text.rfind("\n", 0, change.start) + 1
        end = text.find("\n", change.end)
        before, after = (
            " ".join(each.split())
            for each in (
                text[start:end],
                text[start : change.start] + change.new + text[change.end : end],
            )
        )
        seen[what := f"{where} {before} {after}"] += 1
        code = f"{change.start}:{change.end}:{change.new}"
        place = f"{where}+{change.block}"
        yield Mutant(change.kind, where, before, after, seen[what], code, place)


def places(path: Path) -> dict[int, str]:
    """Return the block of each line, such as "lua/pop.lua: take+2"."""
    text = path.read_text()
    found: dict[int, str] = {}
    for block, (start, end) in lua.blocks(text).items():
        for line in range(text.count("\n", 0, start), text.count("\n", 0, end) + 1):
            found.setdefault(line + 1, f"{path.relative_to(ROOT)}: {block}")
    return found


@functools.cache
def _guarded() -> Path:
    """Return a copy of the scripts whose loops end."""
    return _copied(lambda path: lua.guarded(path.read_text(), ROUNDS))


def _copied(text: Callable[[Path], str]) -> Path:
    """Return a folder with another text of each script and part."""
    made = Path(tempfile.mkdtemp()) / "lua"
    shutil.copytree(_FOLDER, made)
    for path in made.rglob("*.lua"):
        path.write_text(text(_FOLDER / path.relative_to(made)))
    return made


def mark() -> list[str]:
    """Let this process load scripts that log which blocks they run, as ``~`` and a number.

    Return the blocks.
    """
    found: list[str] = []

    def text(path: Path) -> str:
        at = {}
        for block in lua.blocks(path.read_text()):
            at[block] = f"~{len(found)}"
            found.append(f"{path.relative_to(ROOT)}: {block}")
        return lua.marked(path.read_text(), at.__getitem__)

    _load_from(_copied(text))
    return found


def prepare() -> None:
    """Make what all mutants need before the first one is planted."""
    _guarded()


def plant(function: str, code: str) -> None:
    """Let this process load the scripts with a mutant's change, or with none."""
    changed = Path(function.partition(": ")[0]).relative_to("lua")
    directory = Path(tempfile.mkdtemp()) / "lua"
    shutil.copytree(_guarded(), directory, copy_function=os.symlink)
    if code:
        start, end, new = code.split(":", 2)
        text = (_FOLDER / changed).read_text()
        text = text[: int(start)] + new + text[int(end) :]
        (directory / changed).unlink()
        (directory / changed).write_text(lua.guarded(text, ROUNDS))
    _load_from(directory)


def _load_from(directory: Path) -> None:
    scripts.load.cache_clear()
    scripts.directory = lambda: directory  # type: ignore[assignment]
