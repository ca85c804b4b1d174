"""The ticks of a schedule: by a period, or by the fields of cron."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo

from cronsim import CronSim, CronSimError

from ackq.config import check_seconds
from ackq.errors import ConfigurationError

#: Most missed ticks that are counted for one gap.
MAX_MISSED = 100_000


@dataclass(frozen=True, slots=True)
class Timetable:
    """When a schedule ticks: times in µs since the epoch, by the server's clock."""

    #: Names the schedule in errors.
    name: str
    #: Seconds from tick to tick, counted from the epoch. Or give ``cron``.
    every: float | None
    #: Five fields of cron, or six, the first for seconds. Or give ``every``.
    cron: str | None
    #: The time zone of ``cron``.
    tz: tzinfo = UTC

    def __post_init__(self) -> None:
        """Check every setting.

        Raises:
            ConfigurationError: a setting is invalid; the text names it.
        """
        if not self.name or self.name.endswith(":missed"):
            raise ConfigurationError(f"a schedule cannot be named {self.name!r}")
        if (self.every is None) == (self.cron is None):
            raise ConfigurationError(f"schedule {self.name!r} takes every= or cron=")
        if self.every is not None:
            check_seconds(self.every, "every")
        else:
            try:
                self.after(0)
            except (CronSimError, StopIteration) as error:
                raise ConfigurationError(
                    f"schedule {self.name!r}: cron {self.cron!r} matches no time: {error}"
                ) from error

    @property
    def _period(self) -> int:
        assert self.every is not None
        return round(self.every * 1_000_000)

    def after(self, instant: int) -> int:
        """Return the first tick after ``instant``."""
        if self.every is not None:
            return (instant // self._period + 1) * self._period
        assert self.cron is not None
        start = datetime.fromtimestamp(instant / 1_000_000, self.tz)
        tick: datetime = next(CronSim(self.cron, start))
        return round(tick.timestamp()) * 1_000_000

    def newest(self, due: int, now: int) -> int:
        """Return the last tick at or before ``now``, given one such tick."""
        if self.every is not None:
            return max(due, now // self._period * self._period)
        while (next_due := self.after(due)) <= now:
            due = next_due
        return due

    def between(self, first: int, last: int) -> int:
        """Return how many ticks lie between two ticks, at most `MAX_MISSED`."""
        if self.every is not None:
            return max(0, min(MAX_MISSED, (last - first) // self._period - 1))
        count = 0
        while (first := self.after(first)) < last and count < MAX_MISSED:
            count += 1
        return count
