"""Choose dead letters: by entry or by cause, in the commands of every kind of queue."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from ackq.ops.causes import L, Read, every

F = TypeVar("F", bound=Callable[..., Any])

#: Form of the entries that are listed.
ENTRY = re.compile(r"[0-9]+-[0-9]+")


def check_entries(
    ctx: click.Context, parameter: click.Parameter, entries: tuple[str, ...]
) -> tuple[str, ...]:
    """Validate the entries of dead letters."""
    for each in entries:
        if not ENTRY.fullmatch(each):
            raise click.BadParameter(f"{each!r} is not an entry such as 17-0")
    return entries


entries_argument = click.argument("entries", nargs=-1, metavar="[ENTRY]...", callback=check_entries)
cause_option = click.option("--cause", metavar="TEXT", help="The dead letters with this cause.")


def with_cause(read: Read[L], cause: str) -> Sequence[str]:
    """Return the entries of the dead letters with this cause, of those that are dead now.

    What dies meanwhile is appended, so reading ends soon.
    """
    return [letter.entry for letter in every(read, None) if letter.cause == cause]
