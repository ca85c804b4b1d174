"""What a topic ought to do, in lists: no server, no time, no keys."""

from dataclasses import dataclass, field
from typing import Literal


@dataclass(eq=False)
class Range:
    """Indexes that were given to one reader."""

    start: int
    stop: int
    state: Literal["leased", "ended", "done"]


@dataclass
class Group:
    """One consumer id. ``handled`` are the indexes that may lie below its place."""

    place: int
    ranges: list[Range] = field(default_factory=list)
    handled: set[int] = field(default_factory=set)

    def rejoin(self) -> None:
        """Forget ranges that do not join on to the place any more."""
        if self.ranges and self.ranges[0].start > self.place + 1:
            self.ranges.clear()

    def advance(self) -> None:
        """Move the place over what is done."""
        while self.ranges:
            first = self.ranges[0]
            if first.stop > self.place:
                if first.state != "done":
                    return
                self.place = first.stop
            self.ranges.pop(0)

    def next(self, newest: int) -> tuple[int, int, Range | None]:
        """Return where a read begins, where it ends at the latest, and what it takes over."""
        for held in self.ranges:
            if held.state == "ended":
                return max(held.start, self.place + 1), held.stop, held
        last = self.ranges[-1].stop if self.ranges else 0
        return max(self.place, last) + 1, newest, None

    def give(self, start: int, stop: int, old: Range | None, leased: bool) -> Range:
        """Give a range to a reader, the rest of ``old`` stays."""
        given = Range(start, stop, "leased" if leased else "done")
        if old is None:
            self.ranges.append(given)
        else:
            at = self.ranges.index(old)
            rest = [Range(stop + 1, old.stop, "ended")] if stop < old.stop else []
            self.ranges[at : at + 1] = [given, *rest]
        if not leased:
            self.handled |= set(range(start, stop + 1))
            self.advance()
        return given

    def settle(self, held: Range) -> Literal["ok", "gone", "refused"]:
        """Say what becomes of a commit, an extension or a release."""
        if held in self.ranges:
            return "gone" if held.state == "done" else "ok"
        return "gone" if held.stop <= self.place else "refused"

    def reset(self, place: int) -> None:
        """Begin at another place."""
        self.place = place
        self.ranges.clear()
        self.handled = set(range(1, place + 1))
