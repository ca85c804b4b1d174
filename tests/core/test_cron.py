"""The ticks of cron, compared with a walk through every minute, where zones change most oddly."""

import time
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ackq.core.cron import NAMED, parse
from ackq.core.timetable import MAX_MISSED, Timetable
from ackq.errors import ConfigurationError

MINUTE, DAY = 60, 86_400
#: Zones, and days near their changes: by an hour, by half an hour, by a whole day, at midnight.
CHANGES = {
    "UTC": ("2024-02-29", "1999-12-31"),
    "Europe/Berlin": ("2026-03-29", "2026-10-25"),
    "America/New_York": ("2025-03-09", "2025-11-02"),
    "Australia/Lord_Howe": ("2026-04-05", "2026-10-04"),
    "Pacific/Chatham": ("2026-04-05", "2026-09-27"),
    "Pacific/Apia": ("2011-12-30", "2021-04-04"),
    "America/Santiago": ("2026-04-05", "2026-09-06"),
    "Africa/Cairo": ("2026-04-24", "2026-10-30"),
    "Asia/Gaza": ("2011-08-01", "2011-08-30"),
    "Antarctica/Troll": ("2026-03-29", "2026-10-25"),
    "America/Caracas": ("2007-12-09", "2016-05-01"),
    "Asia/Pyongyang": ("2015-08-15", "2018-05-05"),
}
WEEKDAYS = [*"0123456", "MON", "1-5", "*"]
part = st.integers


def field(low: int, high: int) -> st.SearchStrategy[str]:
    """Return fields of cron: a star, steps, one number, a range or a list."""
    number = part(low, high)
    return st.one_of(
        st.just("*"),
        number.map(str),
        part(1, high).map("*/{}".format),
        st.tuples(number, number).map(lambda two: f"{min(two)}-{max(two)}"),
        st.lists(number, min_size=1, max_size=4).map(lambda some: ",".join(map(str, some))),
    )


days_of_months = st.one_of(st.just("*"), field(1, 31))
crons = st.tuples(
    field(0, 59), field(0, 23), days_of_months, st.just("*"), st.sampled_from(WEEKDAYS)
).map(" ".join)
places = st.sampled_from([(zone, day) for zone, days in CHANGES.items() for day in days])


def numbers(field: str, low: int, high: int) -> set[int]:
    """Return what a field allows, read independently of the code under test."""
    found: set[int] = set()
    for one in field.replace("MON", "1").split(","):
        span, _, step = one.partition("/")
        first, _, last = span.partition("-")
        start, end = (low, high) if first == "*" else (int(first), int(last or first))
        found |= {*range(start, end + 1, int(step or 1))}
    return found


def matches(cron: str, local: datetime) -> bool:
    minutes, hours, days, _, weekdays = cron.split()
    by_day = local.day in numbers(days, 1, 31)
    by_weekday = local.isoweekday() % 7 in numbers(weekdays, 0, 6)
    on = (by_day and by_weekday) if "*" in days[0] + weekdays[0] else (by_day or by_weekday)
    return on and local.minute in numbers(minutes, 0, 59) and local.hour in numbers(hours, 0, 23)


def walk(cron: str, zone: ZoneInfo, begin: int, end: int) -> list[int]:
    """Return the ticks from ``begin`` to before ``end``, minute by minute."""
    if cron[0] == "*" or cron.split()[1][0] == "*" or zone.key == "UTC":
        instants = range(begin, end, MINUTE)
        return [t for t in instants if matches(cron, datetime.fromtimestamp(t, zone))]
    found = set()
    shown = datetime.fromtimestamp(begin - 3 * DAY, UTC).replace(tzinfo=None)
    for minute in range((end - begin) // MINUTE + 6 * 1440):
        local = shown + timedelta(minutes=minute)
        if not matches(cron, local):
            continue
        there = local.replace(tzinfo=zone)
        while there != there.astimezone(UTC).astimezone(zone):  # left out
            there += timedelta(minutes=1)
        found.add(round(there.timestamp()))
    return sorted(tick for tick in found if begin <= tick < end)


@given(crons, places, st.integers(-40, 40), st.integers(0, 2500))
@example("30 2 * * *", ("Europe/Berlin", "2026-10-25"), 1, 60)  # the hour's second time
@example("0,20 2,3 * * *", ("Europe/Berlin", "2026-03-29"), -10, 2500)  # three ticks at 3:00
@example("30 2 * * *", ("Australia/Lord_Howe", "2026-10-04"), -40, 2500)
@example("*/10 2 * * *", ("Australia/Lord_Howe", "2026-04-05"), -40, 2500)
@example("45 1,2 * * *", ("Australia/Lord_Howe", "2026-04-05"), 0, 2500)
@example("*/30 0 * * *", ("America/Santiago", "2026-09-06"), -40, 2500)
@example("0 0 30 * *", ("Pacific/Apia", "2011-12-30"), -40, 2500)
@example("0 12 30,31 * *", ("Pacific/Apia", "2011-12-30"), -40, 2500)
@example("45 3 * * *", ("Pacific/Chatham", "2026-04-05"), -40, 2500)
def test_searches_and_counts_find_what_a_walk_finds(
    cron: str, place: tuple[str, str], hours: int, minutes: int
) -> None:
    zone, day = place
    tz = ZoneInfo(zone)
    begin = round(datetime.fromisoformat(f"{day}T00:00+00:00").timestamp()) + hours * 3600
    end = begin + minutes * MINUTE
    ticks, found = walk(cron, tz, begin, end), parse(cron)
    assert found.count(begin, end, tz) == len(ticks)
    assert found.last(begin, end, tz) == (ticks[-1] if ticks else None)
    if ticks:
        assert found.first(begin, tz) == ticks[0]
        assert found.first(ticks[0] + 1, tz) == (ticks[1] if ticks[1:] else found.first(end, tz))


@pytest.mark.parametrize(
    ("cron", "last", "count"),
    [
        ("* * * * * *", "2026-01-01T00:00:00", 315_619_200),
        ("0 0 29 2 *", "2024-02-29T00:00:00", 3),
        ("0 0 L * *", "2025-12-31T00:00:00", 120),
        ("0 0 1 1 *", "2026-01-01T00:00:00", 10),
        ("0 0 * 2 MON#5", "2016-02-29T00:00:00", 1),
    ],
)
def test_ten_years_cost_milliseconds(cron: str, last: str, count: int) -> None:
    """A walk over every second of them takes 50 minutes."""
    begin, end = 1_451_606_400_000_000, 1_767_225_600_000_000  # 2016 to 2026
    table = Timetable("s", None, cron, ZoneInfo("Europe/Berlin"))
    begin, end = begin - 3600_000_000, end - 3600_000_000  # midnight in Berlin
    before = time.process_time()
    newest, between = table.newest(begin, end), table.between(begin, end + 1)
    assert time.process_time() - before < 1
    assert datetime.fromtimestamp(newest / 1e6, table.tz).isoformat()[:19] == last
    assert between == count


@pytest.mark.parametrize(("name", "fields"), NAMED.items())
def test_a_named_cron_is_its_fields(name: str, fields: str) -> None:
    begin = 1_767_000_000
    for written in (name, name.upper(), f" {name} "):
        assert parse(written).first(begin, UTC) == parse(fields).first(begin, UTC)


@pytest.mark.parametrize(
    ("cron", "text"),
    [
        ("61 * * * *", "minute is 0 to 59, not '61'"),
        ("0 61 * * * *", "minute is 0 to 59, not '61'"),
        ("61 0 * * * *", "second is 0 to 59, not '61'"),
        ("0 24 * * *", "hour is 0 to 23, not '24'"),
        ("0 0 32 * *", "day-of-month is 1 to 31, .* not '32'"),
        ("0 0 * foo *", "month is 1 to 12, or JAN to DEC, not 'FOO'"),
        ("0 0 * * MON#6", "day-of-week is .* not 'MON#6'"),
        ("0 0 31 2 *", "day-of-month is .* not '31'"),
        ("* * * *", "has 4"),
        ("", "has 0"),
        ("@reboot", "@hourly, .* not '@reboot': a start of a worker is no tick"),
        ("@dayly", "@daily, .* not '@dayly'"),
        (5, "cron is text, not 5"),
    ],
)
def test_an_error_names_the_field_and_its_value(cron: str, text: str) -> None:
    with pytest.raises(ConfigurationError, match=f"'s'.*{text}"):
        Timetable("s", None, cron)


def test_a_time_zone_beside_a_period_is_refused() -> None:
    Timetable("s", 60.0, None, ZoneInfo("UTC"))
    with pytest.raises(ConfigurationError, match="Europe/Berlin has no effect"):
        Timetable("s", 60.0, None, ZoneInfo("Europe/Berlin"))


def test_missed_ticks_of_a_period_are_counted_from_any_instant() -> None:
    table = Timetable("s", 10.0, None)
    seconds = 1_000_000
    counts = {(99, 140): 4, (100, 140): 3, (100, 110): 0, (100, 141): 4, (100, 100): 0}
    assert {pair: table.between(pair[0] * seconds, pair[1] * seconds) for pair in counts} == counts
    assert Timetable("s", 0.001, None).between(0, 10**15) == MAX_MISSED
