"""What a terminal shows, narrow or without colour."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys

from ackq import Queue

CODE = "from ackq.cli import main; main()"


def shown(*args: str, columns: int, **environment: str) -> str:
    """Return what a terminal so wide gets to see."""
    parent, child = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", CODE, *args], stdout=child, stderr=child,
        env={**os.environ, "COLUMNS": str(columns), "TERM": "xterm-256color", **environment},
    )  # fmt: skip
    os.close(child)
    output = b""
    try:
        while read := os.read(parent, 65536):
            output += read
    except OSError:
        pass  # Linux says so when the other end is closed
    os.close(parent)
    assert process.wait(20) == 0
    return output.decode()


def plain(text: str) -> list[str]:
    """Return the lines without what sets their style."""
    return re.sub(r"\x1b\[[\d;]*m", "", text).splitlines()


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
