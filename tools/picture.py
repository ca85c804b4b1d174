"""Draw the picture of the README: what a terminal shows at the end of ``ackq demo``.

Run ``make picture``. It runs the demo in a terminal of its own, for about 15 seconds.
"""

import fcntl
import io
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.text import Text

PICTURE = Path(__file__).parent.parent / "docs" / "_static" / "demo.svg"
#: Columns of the terminal. Lines that are much longer are hard to read on a page.
COLUMNS = 84
#: What a line of the live view does to the lines above it, and what only shows the cursor.
UP, CLEAR, CURSOR = "\x1b[1A", "\x1b[2K", re.compile(r"\x1b\[\?25[lh]")


def written(command: Sequence[str]) -> str:
    """Run a command in a terminal and return what it writes.

    Raises:
        subprocess.CalledProcessError: it fails.
    """
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, COLUMNS, 0, 0))
    settings = os.environ | {"TERM": "xterm-256color"}
    settings.pop("NO_COLOR", None)
    process = subprocess.Popen(command, stdout=theirs, stderr=theirs, env=settings)
    os.close(theirs)
    output = b""
    try:
        while read := os.read(ours, 65536):
            output += read
    except OSError:
        pass  # Linux reports the end of a terminal as an error.
    os.close(ours)
    if process.wait():
        raise subprocess.CalledProcessError(process.returncode, command, output)
    return output.decode()


def screen(output: str) -> str:
    """Return the lines that are on the screen at the end, with their colours."""
    lines, row = [""], 0
    for part in re.split(f"({re.escape(UP)}|{re.escape(CLEAR)}|\r\n|\r)", CURSOR.sub("", output)):
        if part == UP:
            row -= 1
        elif part == CLEAR:
            lines[row] = ""
        elif part == "\r\n":
            row += 1
            lines += [""] * (row + 1 - len(lines))
        else:
            lines[row] += part.rstrip("\r")
    return "\n".join(lines).rstrip()


def drawn(text: str, title: str) -> str:
    """Return the text as an SVG that loads no fonts from elsewhere."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO())
    for line in text.split("\n"):
        console.print(Text.from_ansi(line), no_wrap=True, overflow="crop")
    svg = console.export_svg(title=title, unique_id="terminal")
    svg = re.sub(r"@font-face \{.*?\}", "", svg, flags=re.DOTALL)
    return svg.replace("Fira Code, monospace", "ui-monospace, Menlo, Consolas, monospace")


if __name__ == "__main__":
    demo = [str(Path(sys.executable).parent / "ackq"), "demo", "--seconds", "6"]
    PICTURE.write_text(drawn(screen(written(demo)), "ackq demo") + "\n", encoding="utf-8")
