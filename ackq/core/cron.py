"""The fields of cron, and the ticks that they name in a time zone.

Nothing here walks from tick to tick. A day has as many ticks as its hours, minutes and seconds
multiply to, so a search looks at days, and a count multiplies.

A cron of five fields that names minutes and hours follows the clock on the wall, as in Debian's
cron: it ticks once in an hour that comes twice, and at its end for an hour that is left out. Every
other cron ticks whenever the local time matches.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from datetime import UTC, date, datetime, tzinfo
from functools import lru_cache
from typing import NamedTuple

from cronsim import CronSim, CronSimError

DAY = 86_400
#: How far ahead a tick is looked for. February 29 is a Monday every 28 or 40 years.
HORIZON = 50 * 366 * DAY
#: Seconds between two looks at the offset of a zone: no zone changes it and back within them.
STRIDE = 7 * DAY
#: The ordinal of 1970-01-01.
EPOCH = date(1970, 1, 1).toordinal()
NAMED = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
#: The fields, and what each takes.
FIELDS = {
    "second": "0 to 59",
    "minute": "0 to 59",
    "hour": "0 to 23",
    "day-of-month": "1 to 31, L for the last day, or LW for the last weekday",
    "month": "1 to 12, or JAN to DEC",
    "day-of-week": "0 to 7, SUN to SAT, or as in MON#2 or 5L",
}


class Piece(NamedTuple):
    """A stretch of local time, in seconds: local seconds minus the offset are UTC."""

    begin: int
    end: int
    offset: int
    #: Whether the zone leaves it out, all but its last second: ticks in it are one, at its end.
    skipped: bool = False


class Cron:
    """When a cron ticks, in seconds since the epoch. Made by `parse`."""

    def __init__(self, fields: CronSim, follows_wall: bool) -> None:
        self._fields = fields
        self._follows_wall = follows_wall
        self._hours, self._minutes = sorted(fields.hours), sorted(fields.minutes)
        self._seconds = sorted(fields.seconds)
        self._per_day = len(self._hours) * len(self._minutes) * len(self._seconds)

    def first(self, begin: int, zone: tzinfo) -> int | None:
        """Return the first tick at or after ``begin``; None if there is none for 50 years."""
        for piece in self._pieces(begin, begin + HORIZON, zone):
            if (tick := self._tick_in(piece, 1)) is not None:
                return tick
        return None

    def last(self, begin: int, end: int, zone: tzinfo) -> int | None:
        """Return the last tick from ``begin`` to before ``end``, or None."""
        length = DAY
        while begin < end:
            start = max(begin, end - length)
            for piece in reversed([*self._pieces(start, end, zone)]):
                if (tick := self._tick_in(piece, -1)) is not None:
                    return tick
            end, length = start, length * 2
        return None

    def count(self, begin: int, end: int, zone: tzinfo) -> int:
        """Return how many ticks there are from ``begin`` to before ``end``.

        Cost: about a microsecond for each day.
        """
        return sum(map(self._count_in, self._pieces(begin, end, zone)))

    def _pieces(self, begin: int, end: int, zone: tzinfo) -> Iterator[Piece]:
        """Return the local times from ``begin`` to before ``end`` at which there may be ticks."""
        if not self._follows_wall:
            for start, stop, offset in _spans(begin, end, zone):
                yield Piece(start + offset, stop + offset, offset)
            return
        shown = None  # up to where the clock on the wall has been
        for start, stop, offset in _spans(begin - 2 * DAY, end, zone):
            local = start + offset
            if shown is not None and local > shown:
                if start >= begin:
                    yield Piece(shown, local + 1, offset, skipped=True)
                shown = local + 1
            since = max(local, begin + offset, shown or local)
            if since < stop + offset:
                yield Piece(since, stop + offset, offset)
            shown = max(stop + offset, shown or stop + offset)

    def _tick_in(self, piece: Piece, direction: int) -> int | None:
        days = range(piece.begin // DAY, (piece.end - 1) // DAY + 1)[::direction]
        for day in days:
            first, behind = self._ranks(piece, day)
            if first < behind and self._has_day(day):
                local = day * DAY + self._nth(first if direction > 0 else behind - 1)
                return (piece.end - 1 if piece.skipped else local) - piece.offset
        return None

    def _count_in(self, piece: Piece) -> int:
        total = 0
        for day in range(piece.begin // DAY, (piece.end - 1) // DAY + 1):
            first, behind = self._ranks(piece, day)
            if first < behind and self._has_day(day):
                total += behind - first
        return min(1, total) if piece.skipped else total

    def _ranks(self, piece: Piece, day: int) -> tuple[int, int]:
        """Return which of the ticks of a day are in the piece: from a number to before another."""
        begin, end = piece.begin - day * DAY, piece.end - day * DAY
        return (
            0 if begin <= 0 else self._rank(begin),
            self._per_day if end >= DAY else self._rank(end),
        )

    def _rank(self, time: int) -> int:
        """Return how many ticks of a day come before a time of the day, in seconds."""
        rank, behind = 0, self._per_day
        for allowed, value in (
            (self._hours, time // 3600),
            (self._minutes, time // 60 % 60),
            (self._seconds, time % 60),
        ):
            behind //= len(allowed)
            place = bisect_left(allowed, value)
            rank += place * behind
            if place == len(allowed) or allowed[place] != value:
                break
        return rank

    def _nth(self, number: int) -> int:
        """Return the time of the day, in seconds, of the tick with this number, from 0."""
        number, second = divmod(number, len(self._seconds))
        hour, minute = divmod(number, len(self._minutes))
        return self._hours[hour] * 3600 + self._minutes[minute] * 60 + self._seconds[second]

    def _has_day(self, day: int) -> bool:
        one = date.fromordinal(EPOCH + day)
        return one.month in self._fields.months and self._fields.match_day(one)


@lru_cache(maxsize=1024)
def parse(cron: str) -> Cron:
    """Return what a cron means: five fields, six if the first is for seconds, or a name.

    Raises:
        ValueError: there is no such cron; the text names the field, its value, and what it takes.
    """
    given = cron.strip().lower()
    if given.startswith("@") and given not in NAMED:
        why = ": a start of a worker is no tick" if given == "@reboot" else ""
        raise ValueError(f"a named cron is one of {', '.join(NAMED)}, not {cron!r}{why}")
    parts = normal(cron).upper().split()
    if len(parts) not in (5, 6):
        raise ValueError(
            f"cron has five fields, minute to day-of-week, or six, the first for seconds; {cron!r}"
            f" has {len(parts)}"
        )
    names = [*FIELDS][-len(parts) :]
    try:
        fields = CronSim(" ".join(parts), datetime(1970, 1, 1, tzinfo=UTC))
    except CronSimError as error:
        name = str(error).removeprefix("Bad ")
        raise ValueError(
            f"cron {cron!r}: {name} is {FIELDS[name]}, not {parts[names.index(name)]!r}"
        ) from None
    minutes, hours = parts[-5], parts[-4]
    found = Cron(fields, len(parts) == 5 and "*" not in (minutes[0], hours[0]))
    if found.first(0, UTC) is None:
        raise ValueError(f"cron {cron!r} matches no time")
    return found


def normal(cron: str) -> str:
    """Return a cron with its fields: what a name such as ``@daily`` stands for."""
    return NAMED.get(cron.strip().lower(), " ".join(cron.split()))


def _spans(begin: int, end: int, zone: tzinfo) -> Iterator[tuple[int, int, int]]:
    """Return the stretches from ``begin`` to before ``end`` with one offset, with this, in UTC."""
    at, offset = begin, _offset(begin, zone)
    while at < end:
        step = min(at + STRIDE, end)
        if _offset(step, zone) == offset:
            at = step
            continue
        # The first second at which the offset is another one.
        change = bisect_left(
            range(at, step), True, key=lambda second: _offset(second, zone) != offset
        )
        yield begin, at + change, offset
        begin = at = at + change
        offset = _offset(at, zone)
    yield begin, end, offset


def _offset(instant: int, zone: tzinfo) -> int:
    offset = datetime.fromtimestamp(instant, zone).utcoffset()
    return 0 if offset is None else int(offset.total_seconds())
