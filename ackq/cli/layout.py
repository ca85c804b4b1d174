"""Compute the column widths of a table for a terminal of a given width."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

#: Columns that may be cropped or wrapped. The others are never cut, since half a number or half
#: an entry is worse than none.
NAMES = ("id", "queue", "shard", "partition", "name", "queues", "worker", "reason", "cause")
#: Usual maximum width of a name or reason, and its share of a wide terminal.
USUAL, SHARE = 40, 0.4
#: Minimum width of a name or reason.
FEWEST = 12
#: Minimum useful width of a body.
BODY = 20
#: Width of the gap between two columns.
GAP = 2


def widths(columns: Sequence[str], natural: Sequence[int], room: int) -> Mapping[str, int]:
    """Return the width of each shown column, so that a row fits into the terminal.

    The body gets the remaining width. If that is too little, names shrink. If it is still too
    little and there is a reason column, the body is left out.

    Args:
        columns: the column names.
        natural: the width of the widest cell of each column.
        room: the width of the terminal.
    """
    whole = dict(zip(columns, natural, strict=True))
    usual = max(USUAL, int(room * SHARE))
    widest = {
        name: min(width, usual) if name in NAMES else width
        for name, width in whole.items()
        if name != "body"
    }
    body = whole.get("body", 0)
    if body:
        least = min(body, BODY)
        _shrink(widest, _left(widest, room) - GAP, least)
        left = _left(widest, room) - GAP
        if left >= least or "reason" not in widest:
            widest["body"] = max(1, min(body, left))
    _shrink(widest, _left(widest, room), 0)
    for name in NAMES:
        if name in widest:
            widest[name] = min(whole[name], widest[name] + max(0, _left(widest, room)))
    return widest


def _left(columns: Mapping[str, int], room: int) -> int:
    return room - sum(columns.values()) - GAP * (len(columns) - 1)


def _shrink(columns: dict[str, int], left: int, wanted: int) -> None:
    """Shrink the widest names until ``wanted`` columns are left, or all are at their minimum."""
    while left < wanted:
        name = max(
            (name for name in NAMES if columns.get(name, 0) > FEWEST),
            key=columns.__getitem__,
            default="",
        )
        if not name:
            return
        columns[name] -= 1
        left += 1
