"""Take the reasons of rejected rows apart: which field broke which rule."""

from __future__ import annotations

import re

#: The end of a reason with more columns than it names.
_MORE = re.compile(r" and \d+ more$")


def rules(reason: str) -> list[str]:
    """Return the rules that a row broke, such as "size is not INT"; none if no pipeline wrote it.

    Args:
        reason: of a dead letter.
    """
    kind, _, names = reason.partition(": ")
    if kind == "does not parse":
        return _MORE.sub("", names).split(", ") if names else [reason]
    if kind == "null" and names:
        return [f"{name} is null" for name in names.split(", ")]
    if kind == "check" and names:
        return [f"check {name}" for name in names.split(", ")]
    return [names] if kind == "transform" and names else []
