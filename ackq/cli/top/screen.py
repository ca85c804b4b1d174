"""What the user of a live view sees of the queues: their order, the selected one, the scroll."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import get_args

from ackq.ops.samples import Key, Row, Sort

SORTS: tuple[Sort, ...] = get_args(Sort)


@dataclass(frozen=True, slots=True)
class Screen:
    """What the screen shows; `press` returns the next one."""

    sort: Sort
    reverse: bool = False
    #: The selected queue, which stays selected when it moves. None: the first.
    selected: Key | None = None
    #: The first row, or the first line of an opened queue, that is shown.
    first: int = 0
    #: Whether the selected queue is shown in full.
    opened: bool = False

    def press(self, key: str, rows: Sequence[Row], height: int) -> Screen:
        """Return the screen after a key was pressed.

        Args:
            key: its name, see `ackq.cli.keyboard`.
            rows: in the order in which they are shown.
            height: how many rows or lines there is room for.
        """
        if self.opened:
            return self._press_opened(key, height)
        match key:
            case "s" | "S":
                step = 1 if key == "s" else -1
                following = SORTS[(SORTS.index(self.sort) + step) % len(SORTS)]
                return replace(self, sort=following, first=0, selected=None)
            case "r":
                return replace(self, reverse=not self.reverse, first=0, selected=None)
            case "enter" if rows:
                return replace(self, opened=True, first=0, selected=rows[self.at(rows)].key)
        at = self.at(rows)
        moved = _moved(key, at, len(rows), height)
        if moved == at or not rows:
            return self
        return replace(self, selected=rows[moved].key, first=_shown(self.first, moved, height))

    def _press_opened(self, key: str, height: int) -> Screen:
        if key in ("enter", "escape"):
            return replace(self, opened=False, first=0)
        if key in ("home", "g"):
            return replace(self, first=0)
        return replace(self, first=max(0, self.first + _step(key, height)))

    def at(self, rows: Sequence[Row]) -> int:
        """Return the position of the selected queue; the first if it is gone."""
        return next((at for at, row in enumerate(rows) if row.key == self.selected), 0)

    def fitted(self, count: int, height: int, at: int = 0) -> Screen:
        """Return this screen with a scroll that leaves no room empty and shows row ``at``."""
        first = self.first if self.opened else _shown(self.first, at, height)
        return replace(self, first=max(0, min(first, count - height)))


def _moved(key: str, at: int, count: int, height: int) -> int:
    if key in ("home", "g"):
        return 0
    if key in ("end", "G"):
        return count - 1
    return max(0, min(count - 1, at + _step(key, height)))


def _step(key: str, height: int) -> int:
    steps = {
        "up": -1,
        "k": -1,
        "down": 1,
        "j": 1,
        "page up": -height,
        "page down": height,
        " ": height,
        "end": 1_000_000,
        "G": 1_000_000,
    }
    return steps.get(key, 0)


def _shown(first: int, at: int, height: int) -> int:
    """Return the first row to show, so that row ``at`` is among ``height`` of them."""
    return min(max(first, at - height + 1), at)
