"""Survivors, each with the reason: survivors.toml."""

import functools
import re
import tomllib
from pathlib import Path
from typing import Literal

FILE = Path(__file__).with_name("survivors.toml")


def reason_of(mutant: str, kind: Literal["equivalent", "gap"] = "equivalent") -> str | None:
    """Return why no test can notice a mutant, or why none does; None if no reason is given."""
    return next((reason for pattern, reason in _reasons(kind) if pattern.fullmatch(mutant)), None)


@functools.cache
def _reasons(kind: str) -> list[tuple[re.Pattern[str], str]]:
    """Mutants are given exactly, or with ``...`` for any text."""
    given = tomllib.loads(FILE.read_text()).get(kind, {})
    return [(_pattern(mutant), reason) for mutant, reason in given.items()]


def _pattern(mutant: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, mutant.split("..."))))
