"""A mutant in a generated blocking client.

`tools.blocking` writes it from the asyncio client, so a mistake in the one is in the other too,
and tests of either may notice it.
"""

import functools
from dataclasses import dataclass
from pathlib import Path

from tools import blocking

from .places import ROOT, statements

_SOURCES = {str((blocking.PACKAGE / each).relative_to(ROOT)) for each in blocking.SOURCES}


@dataclass(frozen=True)
class Twin:
    """The same change in the blocking client."""

    function: str
    code: str
    place: str


def twin_of(function: str, code: str, place: str) -> Twin | None:
    """Return the twin of a mutant, or None if no client is generated from its file."""
    path, _, name = function.partition(": ")
    if path not in _SOURCES:
        return None
    twin = str(blocking.twin_of(Path(path)))
    generated = blocking.blocking(code)
    other = f"{twin}: {blocking.blocking(name)}"
    return Twin(other, generated, _places(path, twin).get(place, f"{other}+?"))


@functools.cache
def _places(source: str, twin: str) -> dict[str, str]:
    """Return the place in ``twin`` of each statement of ``source``: the formatter moves lines."""
    there = statements(ROOT / twin)
    found: dict[str, str] = {}
    for name, here in statements(ROOT / source).items():
        others = there.get(blocking.blocking(name), [])
        if len(here) == len(others):
            other = f"{twin}: {blocking.blocking(name)}"
            found |= {
                f"{source}: {name}+{at}": f"{other}+{to}"
                for at, to in zip(here, others, strict=True)
            }
    return found
