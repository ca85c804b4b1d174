"""What a terminal shows, narrow or without colour."""

import re
from datetime import datetime
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from ackq import Queue
from ackq.cli import WIDTH
from ackq.cli.layout import BODY, FEWEST, GAP, widths
from ackq.cli.reference import commands, help_of
from ackq.cli.times import short_time
from ackq.cli.top.detail import Detail, wrapped
from ackq.cli.top.screen import Screen
from ackq.cli.top.table import table
from ackq.ops.dead_letters import Causes
from ackq.ops.overview import Server, Snapshot
from ackq.ops.readings import Reading, Totals
from ackq.ops.samples import COUNTED, Row, Sample
from tests.cli.terminal import plain, shown

REASON = "no such customer in the ledger of this year: KeyError('customer-17')"


def test_a_narrow_terminal_shows_the_whole_reason_and_no_part_of_a_number(
    url: str, name: str
) -> None:
    with Queue.from_url(url, name) as queue:
        queue.push({"id": "sixteen-letters-", "text": "x" * 300})
        queue.reject(*queue.pop_many(1), reason=REASON)
        (letter,) = queue.dead_letters()
    lines = plain(shown("dead", "list", name, "--url", url, columns=80))
    assert all(len(line) <= 80 for line in lines)
    assert lines[1].startswith(f"{letter.entry}  sixteen-letters-  ")
    assert re.search(r" 1  \d\d:\d\d:\d\d", lines[1])  # of today
    start = lines[0].index("reason")
    column = " ".join(line[start:60].split("  ")[0].strip() for line in lines[1:])
    assert column.strip() == REASON
    wide = plain(shown("dead", "list", name, "--url", url, columns=200))[1]
    assert REASON in wide
    assert '{"id":"sixteen-letters-","text":"xxx' in wide
    assert len(wide.rstrip()) <= 200


@pytest.mark.parametrize("columns", [80, 200])
def test_a_body_is_shown_beside_a_long_id_and_a_time(url: str, name: str, columns: int) -> None:
    with Queue.from_url(url, name, visibility_timeout=600) as queue:
        queue.push({"id": "i" * 300, "text": "x" * 300})
        queue.pop()
    command = ("peek", name, "--state", "in_flight", "--url", url)
    lines = plain(shown(*command, columns=columns))
    assert all(len(line) <= columns for line in lines)
    assert '{"id":"iii' in lines[1]
    assert "iii…  " in lines[1]


def test_top_shows_the_names_of_queues_at_80_columns(url: str, name: str) -> None:
    with Queue.from_url(url, name) as queue:
        queue.push_many([{"n": number} for number in range(1234)])
        queue.pop()
    lines = plain(shown("top", name, "--once", "--url", url, columns=80))
    assert all(len(line) <= 80 for line in lines)
    assert any(line.split()[:4] == [name, "list", "1,233", "1"] for line in lines)
    assert "q quit" not in lines[-1]


def test_a_time_is_as_short_as_it_can_be_understood(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    now = datetime.now().replace(microsecond=0)
    other_day = now.replace(month=1 if now.month > 6 else 12, day=15)
    last_year = now.replace(year=now.year - 1, day=1)
    shown_times = [short_time(each.timestamp()) for each in (now, other_day, last_year)]
    assert shown_times == [f"{now:%H:%M:%S}", f"{other_day:%m-%d %H:%M}", f"{last_year:%Y-%m-%d}"]
    assert short_time(None) is None
    assert [short_time(each) for each in (1e300, 1e15)] == ["1e+300", "1000000000000000.0"]


@pytest.mark.parametrize("room", range(20, 240, 7))
def test_no_row_is_wider_than_the_terminal_unless_its_numbers_are(room: int) -> None:
    columns = ("entry", "id", "reason", "receives", "died", "body")
    for natural in ((15, 16, 67, 8, 8, 200), (15, 512, 5, 8, 11, 4), (15, 3, 200, 8, 19, 200)):
        found = widths(columns, natural, room)
        assert all(
            found[name] == whole
            for name, whole in zip(columns, natural, strict=True)
            if name in ("entry", "receives", "died")
        )
        least = sum(found[name] for name in ("entry", "receives", "died")) + 2 * FEWEST
        total = sum(found.values()) + GAP * (len(found) - 1)
        assert total <= max(room, least + GAP * (len(found) - 1))
        if room >= 120:
            assert found["body"] >= min(natural[-1], BODY)


def test_no_color_means_no_colour(url: str) -> None:
    assert "\x1b[3" in shown("doctor", "--url", url, columns=80)
    assert "\x1b[3" not in shown("doctor", "--url", url, columns=80, NO_COLOR="1")


def test_numbers_are_aligned_at_the_right_and_entries_are_not(url: str, name: str) -> None:
    with Queue.from_url(url, name) as queue:
        queue.push_many([{"id": number} for number in range(1234)])
        queue.reject(*queue.pop_many(1))
    lines = plain(shown("stats", name, "--url", url, columns=80))
    assert [line.split() for line in lines[1:3]] == [["ready", "1,233"], ["in_flight", "0"]]
    assert len({len(line) for line in lines[1:] if line}) == 1
    assert plain(shown("dead", "list", name, "--url", url, columns=80))[1].startswith("1")


def test_what_went_in_before_an_error_is_printed_below_the_bar(
    url: str, name: str, tmp_path: Path
) -> None:
    (tmp_path / "lines").write_text("".join(f'{{"id":{n}}}\n' for n in range(1500)) + "{\n")
    path = str(tmp_path / "lines")
    parent = shown("push", name, "--file", path, "--url", url, columns=80, code=3)
    last = [line for line in plain(parent) if line.strip()][-2:]
    assert last[0] == "ackq: 1,000 lines pushed; go on with --skip 1000"
    assert last[1].startswith("ackq: line or argument 1501: ")


def test_arguments_give_their_ids_and_no_bar(url: str, name: str) -> None:
    assert plain(shown("push", name, '{"id":"a"}', "--url", url, columns=80)) == ["a"]


@pytest.mark.parametrize("columns", [80, 200])
def test_help_fits_and_lists_commands_in_full(columns: int) -> None:
    for names, command in commands():
        for line in help_of(names, command, min(columns, WIDTH)).splitlines():
            assert len(line) <= columns or line.startswith("    ackq "), (names, line)
            assert not line.endswith("...") or line.startswith("Usage:"), (names, line)


NAME = "a-queue-with-a-long-name-of-a-team-in-another-building"
#: The longest of everything that top shows.
STATES = {"ready": 123_456_789, "in_flight": 123_456, "delayed": 123_456, "dead": 123_456}
BUSY = Row(
    Reading(
        "list",
        NAME,
        123_580_245,
        STATES,
        False,
        overdue=35_900.0,
        oldest_ready=1e6,
        workers=1234,
        totals=Totals(1.0, {"taken": 123_456_789}, {"no such customer in the ledger": 123_456}),
    ),
    dict.fromkeys(COUNTED, 123_456_789.0),
)
IDLE = Row(
    Reading("list", "paused", 0, dict.fromkeys(STATES, 0), True, workers=0),
    dict.fromkeys(COUNTED, 0.0),
)


def screen(rows: list[Row], columns: int, lines: int, view: Screen = Screen("name")) -> list[str]:  # noqa: B008
    """Return the lines of a screen."""
    readings = tuple(row.reading for row in rows)
    sample = Sample(Snapshot((Server("r:1", True),), readings, True, 0), rows, commands=1234.0)
    console = Console(file=StringIO(), width=columns, no_color=True)
    console.print(table(sample, rows, view, columns, lines))
    return console.file.getvalue().splitlines()  # type: ignore[attr-defined, no-any-return]


@pytest.mark.parametrize("columns", [54, 72, 80, 120, 200])
def test_top_cuts_no_number(columns: int) -> None:
    lines = screen([BUSY, IDLE], columns, 20)
    assert all(len(line) <= columns for line in lines)
    (busy,) = [line for line in lines if line.startswith("a-")]
    numbers = re.findall(r"\S*\d\S*", busy)
    assert "…" not in "".join(numbers[:-1])
    assert numbers[0] == "123.46M"
    assert "9 h late" in busy
    assert ("no such customer in the ledger" in busy) == (columns == 200)
    assert any(" paused " in f"{line} " for line in lines[3:])
    assert lines[-1].startswith("q quit")


def test_top_shows_as_many_rows_as_there_is_room_for() -> None:
    rows = [Row(Reading("list", f"q{n:02}", n, STATES), IDLE.rates) for n in range(40)]
    lines = screen(rows, 80, 20, Screen("name", first=7, selected=("list", "q09")))
    assert len(lines) == 24
    assert [line.split()[0] for line in lines[3:-1]] == [f"q{n:02}" for n in range(7, 27)]
    assert "40 queues  8-27 shown" in lines[0]


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_an_opened_queue_fits_and_says_why_messages_died(columns: int) -> None:
    cause = "shop.errors.CardDeclined at /srv/app/shop/payments/cards.py:117 in charge"
    found = Detail(Causes(((cause, 1000),), 1000), (), "")
    lines = [line.plain for line in wrapped(BUSY, found, columns)]
    assert all(len(line) <= columns for line in lines)
    text = " ".join(" ".join(lines).split())
    assert "the 1,000 oldest of 123,456" in text
    assert cause in text.replace("- ", "-") or columns == 40
    assert "Workers none" in text
