"""Survivors that are no missing test, each with the reason: equivalent.toml."""

from __future__ import annotations

import functools
import re
import tomllib
from pathlib import Path

FILE = Path(__file__).with_name("equivalent.toml")


def reason_of(mutant: str) -> str | None:
    """Return why no test can notice a mutant, or None if one could."""
    return next((reason for pattern, reason in _reasons() if pattern.fullmatch(mutant)), None)


@functools.cache
def _reasons() -> list[tuple[re.Pattern[str], str]]:
    """Mutants are given exactly, or with ``...`` for any text."""
    given = tomllib.loads(FILE.read_text())["equivalent"]
    return [(_pattern(each["mutant"]), each["reason"]) for each in given]


def _pattern(mutant: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, mutant.split("..."))))
