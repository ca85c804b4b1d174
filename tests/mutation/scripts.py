"""The mutants of the Lua scripts and of their parts, and the tests that are run on each."""

from __future__ import annotations

import ast
import functools
import itertools
import os
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ackq import scripts

from . import lua
from .mutant import Mutant
from .places import ROOT

KINDS = lua.KINDS
#: The folders of the tests of each folder of scripts; those of the list queue have the others.
TESTS = {
    "delay": ("delay", "queue/scripts/test_budgets.py"),
    "history": ("ops/test_chronicle.py",),
    "members": ("membership", "faults/test_failover.py"),
    "rsmq": ("rsmq", "queue/scripts/test_budgets.py"),
    "schedules": ("worker/test_scripts.py", "worker/test_schedule.py"),
    "sharded": ("sharded",),
    "staging": ("staging", "delay", "topic"),
    "topic": ("topic", "queue/scripts/test_budgets.py"),
    "worker": ("worker",),
}
OF_THE_LIST_QUEUE = ("queue/scripts", "queue/claims", "queue/groups")
#: Rounds of loops in a call of a mutant, far more than any test needs.
ROUNDS = 300_000


def mutants() -> list[Mutant]:
    """Return every mutant of the scripts and of their parts; a change of a part is in its users."""
    users = _users()
    return [
        mutant
        for path in sorted((ROOT / "lua").rglob("*.lua"))
        for mutant in _of_file(path, users.get(path, [path]))
    ]


def _of_file(path: Path, users: list[Path]) -> Iterator[Mutant]:
    text = path.read_text()
    place = ", ".join(str(each.relative_to(ROOT)) for each in users)
    seen: Counter[str] = Counter()
    for change in lua.changes(text):
        where = f"{path.relative_to(ROOT)}: {change.function}"
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
        yield Mutant(change.kind, where, before, after, seen[what], code, place)


def _users() -> dict[Path, list[Path]]:
    """Return the scripts that have each part."""
    found: dict[Path, list[Path]] = {}
    for name in scripts.names():
        script = ROOT / "lua" / f"{name}.lua"
        parts = [script]
        for path in parts:
            for names in scripts.INCLUDE.findall(path.read_text()):
                new = (ROOT / "lua/parts" / f"{part}.lua" for part in names.split(", "))
                parts += [part for part in new if part not in parts]
        for part in parts[1:]:
            found.setdefault(part, []).append(script)
    return found


def tests_of(place: str) -> list[str]:
    """Return the tests of scripts that name them, and then the files of their products."""
    turns = [_tests_of(script) for script in place.split(", ")]
    mixed = itertools.chain.from_iterable(itertools.zip_longest(*(named for named, _ in turns)))
    rest = (file for _, files in turns for file in files)
    return list(dict.fromkeys(filter(None, (*mixed, *rest))))


@functools.cache
def _tests_of(script: str) -> tuple[list[str], list[str]]:
    """Return the tests that name a script, those of its own file first, and all files."""
    _, *folders, file = Path(script).parts
    name = Path(file).stem
    word = re.compile(rf"(?<![a-z]){name}(?![a-z])")
    named: list[tuple[bool, int, str]] = []
    files = []
    for place in TESTS.get(folders[0] if folders else "", OF_THE_LIST_QUEUE):
        where = ROOT / "tests" / place
        for path in [where] if where.is_file() else sorted(where.rglob("test_*.py")):
            files.append(str(path.relative_to(ROOT)))
            for test, text in _tests_in(path):
                if count := len(word.findall(text)):
                    named.append((path.stem != f"test_{name}", -count, f"{files[-1]}::{test}"))
    return [test for *_, test in sorted(named)], files


@functools.cache
def _tests_in(path: Path) -> list[tuple[str, str]]:
    """Return the names and the texts of the tests of a file."""
    text = path.read_text()
    lines = text.splitlines()
    return [
        (node.name, "\n".join(lines[node.lineno - 1 : node.end_lineno]))
        for node in ast.parse(text).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    ]


def planned(mutant: Mutant, budget: float) -> dict[str, Any]:
    """Return how to try a mutant: with the tests of its scripts, for this many seconds."""
    return {
        "key": mutant.key,
        "code": {mutant.function: mutant.code},
        "sound": {mutant.function: ""},
        "tests": tests_of(mutant.place),
        "limit": 60 + 5 * budget,
        "budget": budget,
    }


@functools.cache
def _guarded() -> Path:
    """Return a copy of the scripts whose loops end."""
    made = Path(tempfile.mkdtemp()) / "lua"
    shutil.copytree(ROOT / "lua", made)
    for path in made.rglob("*.lua"):
        path.write_text(lua.guarded(path.read_text(), ROUNDS))
    return made


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
        text = (ROOT / "lua" / changed).read_text()
        text = text[: int(start)] + new + text[int(end) :]
        (directory / changed).unlink()
        (directory / changed).write_text(lua.guarded(text, ROUNDS))
    scripts.directory.cache_clear()
    scripts.load.cache_clear()
    scripts.directory = lambda: directory  # type: ignore[assignment]
