"""What a terminal shows, narrow or without colour."""

from __future__ import annotations

import re
from datetime import datetime
from io import StringIO
from pathlib import Path

import click
import pytest
from rich.console import Console, ConsoleDimensions

from ackq import Queue
from ackq.cli import WIDTH
from ackq.cli.connection import short_time
from ackq.cli.layout import BODY, FEWEST, GAP, widths
from ackq.cli.reference import commands, help_of
from ackq.cli.top import _table
from ackq.ops.discovery import QueueCounts
from ackq.ops.monitor import Sample
from ackq.queue.messages import QueueCounters, QueueStats
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
    assert any(line.split()[:3] == [name, "1,233", "1"] for line in lines)
    assert "ends it" not in lines[-1]


def test_a_time_is_as_short_as_it_can_be_understood(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    now = datetime.now().replace(microsecond=0)
    other_day = now.replace(month=1 if now.month > 6 else 12, day=15)
    last_year = now.replace(year=now.year - 1, day=1)
    shown_times = [short_time(each.timestamp()) for each in (now, other_day, last_year)]
    assert shown_times == [f"{now:%H:%M:%S}", f"{other_day:%m-%d %H:%M}", f"{last_year:%Y-%m-%d}"]
    assert short_time(None) is None
    assert short_time(1e300) == "1e+300"


@pytest.mark.parametrize("room", range(20, 240, 7))
def test_no_row_is_wider_than_the_terminal_unless_its_numbers_are(room: int) -> None:
    columns = ("entry", "id", "reason", "receives", "died", "body")
    for natural in ((15, 16, 67, 8, 8, 200), (15, 512, 5, 8, 11, 4), (15, 3, 200, 8, 19, 200)):
        found = widths(columns, natural, room)
        assert all(found[name] == whole for name, whole in zip(columns, natural, strict=True)
                   if name in ("entry", "receives", "died"))  # fmt: skip
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
@pytest.mark.parametrize(("names", "command"), list(commands()), ids=lambda value: str(value))
def test_help_fits_and_lists_commands_in_full(
    names: tuple[str, ...], command: click.Command, columns: int
) -> None:
    for line in help_of(names, command, min(columns, WIDTH)).splitlines():
        assert len(line) <= columns or line.startswith("    ackq "), line
        assert not line.endswith("...") or line.startswith("Usage:"), line


#: The longest of everything that top shows.
BUSY = QueueCounts(
    QueueStats(123_456_789, 123_456, 123_456, 123_456, 0, 0, False, None, -35_900.0),
    QueueCounters(10.0, 2.0, None, *(123_456_789,) * 3),
)
IDLE = QueueCounts(
    QueueStats(0, 0, 0, 0, 0, 0, True, None, None), QueueCounters(9.0, 2.0, None, 0, 0, 0)
)


@pytest.mark.parametrize("columns", [54, 72, 80, 120, 200])
def test_top_cuts_no_number(columns: int) -> None:
    name = "a-queue-with-a-long-name-of-a-team-in-another-building"
    seen, before = (
        Sample(at, 1, {name: each, "paused": IDLE}) for at, each in ((10.0, BUSY), (9.0, IDLE))
    )
    console = Console(file=StringIO(), width=columns, no_color=True)
    console.print(_table(seen, before, "", ConsoleDimensions(columns, 24)))
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert all(len(line) <= columns for line in lines)
    (busy,) = [line for line in lines if line.startswith("a-")]
    words = busy.split()
    assert "…" not in "".join(words[1:])
    assert words[1] == "123.46M"
    assert busy.rstrip().endswith("9 h late")
    assert any(line.rstrip().endswith("paused") for line in lines)


def test_top_shows_the_largest_where_there_is_no_room(name: str) -> None:
    queues = {f"{name}{number}": IDLE for number in range(40)} | {name: BUSY}
    console = Console(file=StringIO(), width=80, no_color=True)
    console.print(_table(Sample(10.0, None, queues), None, "", ConsoleDimensions(80, 24)))
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert len(lines) <= 24
    assert any(line.startswith(name) and "123.46M" in line for line in lines)
    assert "22 smaller ones are not shown; name some" in lines[-1]
