"""How wide the columns of a table are in a terminal of a given width."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

#: Columns whose texts may be cropped or wrapped; the others are shown whole, since half a number
#: or half an entry is worse than none.
NAMES = ("id", "key", "queue", "shard", "reason")
#: Columns of a name or reason, and the part of a wide terminal, before there is room to spare.
USUAL, SHARE = 40, 0.4
#: Fewest columns of each.
FEWEST = 12
#: Fewest columns of a body that say anything.
BODY = 20
#: Columns between two columns.
GAP = 2


def widths(columns: Sequence[str], natural: Sequence[int], room: int) -> Mapping[str, int]:
    """Return the width of each column that is shown, so that a row fits into the room.

    A body gets what the others leave. Where that is too little, names shrink; and where a reason
    says more than a few letters of a body do, the body is left out.

    Args:
        columns: their names.
        natural: the width of each one's widest cell.
        room: columns of the terminal.
    """
    whole = dict(zip(columns, natural, strict=True))
    usual = max(USUAL, int(room * SHARE))
    found = {name: min(width, usual) if name in NAMES else width
             for name, width in whole.items() if name != "body"}  # fmt: skip
    body = whole.get("body", 0)
    if body:
        least = min(body, BODY)
        _shrink(found, _left(found, room) - GAP, least)
        left = _left(found, room) - GAP
        if left >= least or "reason" not in found:
            found["body"] = max(1, min(body, left))
    _shrink(found, _left(found, room), 0)
    for name in NAMES:
        if name in found:
            found[name] = min(whole[name], found[name] + max(0, _left(found, room)))
    return found


def _left(found: Mapping[str, int], room: int) -> int:
    return room - sum(found.values()) - GAP * (len(found) - 1)


def _shrink(found: dict[str, int], left: int, wanted: int) -> None:
    """Take columns from the widest names until so many are left, or all are at their fewest."""
    while left < wanted:
        name = max((name for name in NAMES if found.get(name, 0) > FEWEST), key=found.__getitem__,
                   default="")  # fmt: skip
        if not name:
            return
        found[name] -= 1
        left += 1
