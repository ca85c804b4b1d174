"""What a terminal shows, narrow or without colour."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import click
import pytest
from rich.console import Console, ConsoleDimensions

from ackq import Queue
from ackq.cli import WIDTH
from ackq.cli.reference import commands, help_of
from ackq.cli.top import _table
from ackq.message import QueueCounters, QueueStats
from ackq.protocol.discovery import Watched
from ackq.sync.monitor import Sample
from tests.cli.terminal import plain, shown


def test_a_narrow_terminal_cuts_texts_and_no_entry_or_number(url: str, name: str) -> None:
    with Queue.from_url(url, name) as queue:
        queue.push({"id": "a", "text": "x" * 300})
        queue.reject(*queue.pop_many(1), reason="no such customer in the ledger of this year")
        (letter,) = queue.dead_letters()
    lines = plain(shown("dead", "list", name, "--url", url, columns=80))
    assert all(len(line) <= 80 for line in lines)
    assert lines[1].startswith(letter.entry)
    assert "…" in lines[1]
    assert "no such customer in the ledger of this year" in shown(
        "dead", "list", name, "--url", url, columns=200
    )


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


def test_what_went_in_before_an_error_is_told_below_the_bar(
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
BUSY = Watched(
    QueueStats(123_456_789, 123_456, 123_456, 123_456, 0, 0, False, None, -35_900.0),
    QueueCounters(10.0, 2.0, 123_456_789, 123_456_789, 123_456_789, {}),
)
IDLE = Watched(QueueStats(0, 0, 0, 0, 0, 0, True, None, None), QueueCounters(9.0, 2.0, 0, 0, 0, {}))


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
