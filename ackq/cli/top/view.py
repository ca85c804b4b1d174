"""What the user of a live view sees of the queues: their order, the selected one, the scroll."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

from ackq.ops.overview import Snapshot
from ackq.ops.rates import Rates, rates
from ackq.ops.readings import Reading

Sort = Literal["name", "kind", "backlog", "dead", "rate", "oldest", "workers"]
SORTS: tuple[Sort, ...] = get_args(Sort)
Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Row:
    """A queue, and its messages per second."""

    reading: Reading
    rates: Rates

    @property
    def key(self) -> Key:
        """Its kind and name."""
        return self.reading.kind, self.reading.name


@dataclass(frozen=True, slots=True)
class Sample:
    """All queues at one time."""

    snapshot: Snapshot
    rows: Sequence[Row]
    #: Commands per second of all servers; None if unknown.
    commands: float | None = None
    #: Why the newest figures could not be read.
    trouble: str = ""


def sample_of(snapshot: Snapshot, before: Snapshot | None, seconds: float) -> Sample:
    """Return a sample with the rates since the snapshot ``before``, ``seconds`` ago."""
    last = {(each.kind, each.name): each for each in before.queues} if before else {}
    rows = [
        Row(each, rates(each, last.get((each.kind, each.name)), seconds))
        for each in snapshot.queues
    ]
    return Sample(snapshot, rows, _commands(snapshot, before, seconds))


def _commands(snapshot: Snapshot, before: Snapshot | None, seconds: float) -> float | None:
    if before is None or len(before.servers) != len(snapshot.servers) or seconds <= 0:
        return None
    passed = 0
    for now, last in zip(snapshot.servers, before.servers, strict=True):
        if now.commands is None or last.commands is None or now.commands < last.commands:
            return None
        passed += now.commands - last.commands
    return passed / seconds


def weight(row: Row, sort: Sort) -> float:
    """Return what to sort a queue by, the largest first."""
    reading = row.reading
    if sort == "backlog":
        return reading.backlog
    if sort == "dead":
        return reading.states.get("dead", 0)
    if sort == "workers":
        return reading.workers or 0
    if sort == "rate":
        return max((each for each in row.rates.values() if each is not None), default=0.0)
    return max(reading.overdue or 0.0, reading.oldest_ready or 0.0, reading.lease_age or 0.0)


def arranged(rows: Sequence[Row], sort: Sort, reverse: bool = False) -> list[Row]:
    """Return the rows in order: names from a to z, or the largest first."""
    if sort in ("name", "kind"):
        order: Callable[[Row], object] = lambda row: row.key if sort == "kind" else row.key[::-1]  # noqa: E731
    else:
        order = lambda row: (-weight(row, sort), row.key[::-1])  # noqa: E731
    return sorted(rows, key=order, reverse=reverse)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class View:
    """The state of the screen; `press` returns the next one."""

    sort: Sort
    reverse: bool = False
    #: The selected queue, which stays selected when it moves. None: the first.
    selected: Key | None = None
    #: The first row, or the first line of an opened queue, that is shown.
    first: int = 0
    #: Whether the selected queue is shown in full.
    opened: bool = False

    def press(self, key: str, rows: Sequence[Row], height: int) -> View:
        """Return the view after a key was pressed.

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

    def _press_opened(self, key: str, height: int) -> View:
        if key in ("enter", "escape"):
            return replace(self, opened=False, first=0)
        if key in ("home", "g"):
            return replace(self, first=0)
        return replace(self, first=max(0, self.first + _step(key, height)))

    def at(self, rows: Sequence[Row]) -> int:
        """Return the position of the selected queue; the first if it is gone."""
        return next((at for at, row in enumerate(rows) if row.key == self.selected), 0)

    def fitted(self, count: int, height: int, at: int = 0) -> View:
        """Return this view with a scroll that leaves no room empty and shows row ``at``."""
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
