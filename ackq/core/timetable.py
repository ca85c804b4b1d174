"""The ticks of a schedule: by a period, or by the fields of cron."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, tzinfo

from ackq.config import check_seconds
from ackq.core.cron import parse
from ackq.core.names import is_unicode
from ackq.errors import ConfigurationError

#: One second, in µs.
SECOND = 1_000_000
#: Most missed ticks that are counted for one gap: the most that ``tick.lua`` takes.
MAX_MISSED = 1_000_000_000


def check_schedule_name(name: str) -> None:
    """Raise `ConfigurationError` unless a schedule can have this name."""
    text = isinstance(name, str) and name != "" and is_unicode(name)
    if not text or name.endswith(":missed"):
        raise ConfigurationError(f"a schedule cannot be named {name!r}: its name is text")


@dataclass(frozen=True, slots=True)
class Timetable:
    """When a schedule ticks: times in µs since the epoch, by the server's clock."""

    #: Names the schedule in errors.
    name: str
    #: Seconds from tick to tick, counted from the epoch. Or give ``cron``.
    every: float | None
    #: Five fields of cron, six if the first is for seconds, or a name such as ``@daily``. Or give
    #: ``every``.
    cron: str | None
    #: The time zone of ``cron``.
    tz: tzinfo = UTC

    def __post_init__(self) -> None:
        """Check every setting.

        Raises:
            ConfigurationError: a setting is invalid; the text names it.
        """
        check_schedule_name(self.name)
        if (self.every is None) == (self.cron is None):
            raise ConfigurationError(f"schedule {self.name!r} takes every= or cron=")
        if self.every is not None:
            check_seconds(self.every, "every")
            if str(self.tz) != "UTC":
                raise ConfigurationError(
                    f"schedule {self.name!r}: every= counts from the epoch, so the time zone"
                    f" {self.tz!s} has no effect: leave it out, or give cron="
                )
        elif not isinstance(self.cron, str):
            raise ConfigurationError(f"schedule {self.name!r}: cron is text, not {self.cron!r}")
        else:
            try:
                parse(self.cron)
            except ValueError as error:
                raise ConfigurationError(f"schedule {self.name!r}: {error}") from None

    @property
    def _period(self) -> int:
        assert self.every is not None
        return round(self.every * SECOND)

    def after(self, instant: int) -> int:
        """Return the first tick after ``instant``."""
        if self.cron is None:
            return (instant // self._period + 1) * self._period
        tick = parse(self.cron).first(instant // SECOND + 1, self.tz)
        assert tick is not None
        return tick * SECOND

    def newest(self, due: int, now: int) -> int:
        """Return the last tick at or before ``now``, given one such tick."""
        if self.cron is None:
            return max(due, now // self._period * self._period)
        tick = parse(self.cron).last(due // SECOND + 1, now // SECOND + 1, self.tz)
        return due if tick is None else tick * SECOND

    def between(self, first: int, last: int) -> int:
        """Return how many ticks lie between two instants, without these; at most `MAX_MISSED`."""
        if self.cron is None:
            count = (last - 1) // self._period - first // self._period
        else:
            count = parse(self.cron).count(first // SECOND + 1, -(-last // SECOND), self.tz)
        return max(0, min(MAX_MISSED, count))
